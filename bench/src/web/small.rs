//! The smallest server with HTTP and WebSocket: how many packages it is made of,
//! and how large it is as it would be shipped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Small {
    pub(super) name: &'static str,
    /// Its own among them.
    pub(super) packages: usize,
    /// Bytes of the program, stripped, as everybody builds it.
    pub(super) release: u64,
    /// The same as one builds it who cares for size; a quick run does not wait for
    /// that.
    pub(super) smallest: Option<u64>,
}

pub(super) fn run(quick: bool) -> Result<Vec<Small>, String> {
    let servers = [
        ("caudal", "small-caudal"),
        ("hyper", "small-hyper"),
        ("jsonrpsee", "small-jsonrpsee"),
    ];
    servers
        .into_iter()
        .map(|(name, package)| {
            Ok(Small {
                name,
                packages: packages(package)?,
                release: stripped(&build(package, "release")?)?,
                smallest: match quick {
                    true => None,
                    false => Some(size(&build(package, "smallest")?)?),
                },
            })
        })
        .collect()
}

fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    command.args(arguments).current_dir(here);
    command
}

fn packages(package: &str) -> Result<usize, String> {
    let arguments = ["--edges", "normal", "--prefix", "none"];
    let output = cargo(&["tree", "--package", package])
        .args(arguments)
        .output();
    let output = output.map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("`cargo tree` of {package} failed"));
    }
    Ok(names(&String::from_utf8_lossy(&output.stdout)).len())
}

/// Names and versions, each once.
fn names(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?))
        })
        .collect()
}

/// Builds a program with a profile; returns where it is.
fn build(package: &str, profile: &str) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = here.ancestors().nth(2).ok_or("no target folder")?;
    let built = cargo(&["build", "--quiet", "--profile", profile])
        .args(["--package", package, "--target-dir"])
        .arg(target)
        .status();
    match built.map_err(|e| e.to_string())?.success() {
        true => Ok(target.join(profile).join(package)),
        false => Err(format!("`cargo build` of {package} failed")),
    }
}

/// How large a program is without what helps to debug it.
fn stripped(program: &Path) -> Result<u64, String> {
    let copy = program.with_extension("stripped");
    let done = Command::new("strip")
        .arg("-o")
        .args([&copy, program])
        .status();
    match done.map_err(|e| format!("strip: {e}"))?.success() {
        true => size(&copy),
        false => Err(format!("`strip` of {} failed", program.display())),
    }
}

fn size(file: &Path) -> Result<u64, String> {
    let found = std::fs::metadata(file);
    found.map_or_else(
        |e| Err(format!("{}: {e}", file.display())),
        |found| Ok(found.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_package_counts_once() {
        let tree =
            "a v0.1.0 (/somewhere)\nb v1.2.3\nc v1.0.0 (proc-macro)\nb v1.2.3 (*)\nb v2.0.0\n";
        assert_eq!(names(tree).len(), 4);
    }
}

//! The smallest server with HTTP and WebSocket: how many packages it is made of,
//! and how large it is as it would be shipped.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

#[derive(Clone, Debug)]
pub(super) struct Small {
    pub(super) name: &'static str,
    /// Its own among them.
    pub(super) packages: usize,
    /// Bytes of the program, stripped, as everybody builds it.
    pub(super) release: u64,
    /// The same as one builds it who cares for size.
    pub(super) smallest: u64,
}

pub(super) fn run() -> Result<Vec<Small>, String> {
    [("caudal", "small-caudal"), ("jsonrpsee", "small-jsonrpsee")]
        .map(|(name, package)| {
            Ok(Small {
                name,
                packages: packages(package)?,
                release: bytes(package, "stripped")?,
                smallest: bytes(package, "smallest")?,
            })
        })
        .into_iter()
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

fn bytes(package: &str, profile: &str) -> Result<u64, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = here.ancestors().nth(2).ok_or("no target folder")?;
    let built = cargo(&["build", "--quiet", "--profile", profile])
        .args(["--package", package, "--target-dir"])
        .arg(target)
        .status();
    if !built.map_err(|e| e.to_string())?.success() {
        return Err(format!("`cargo build` of {package} failed"));
    }
    let file = target.join(profile).join(package);
    let file = std::fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(file.len())
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

//! The smallest server with HTTP and WebSocket: its packages, its bytes, how long it builds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::Bench;
use crate::process::cargo;
use crate::table::{Bound, Section, Table, number, number_or_na};

const SERVERS: [(&str, &str); 3] = [
    ("caudal", "small-caudal"),
    ("hyper", "small-hyper"),
    ("jsonrpsee", "small-jsonrpsee"),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("A server with HTTP and WebSocket");
    let mut table = Table::new(&[
        "server",
        "packages",
        "bytes",
        "bytes, built for size",
        "seconds to build",
    ]);
    for (name, package) in SERVERS {
        let packages = packages(package)?;
        // A quick run keeps what was built before, and does not build for size.
        let seconds = match bench.quick {
            true => None,
            false => Some(seconds(package)?),
        };
        let release = stripped(&build(package, "release")?)?;
        let smallest = match bench.quick {
            true => None,
            false => Some(size(&build(package, "smallest")?)?),
        };
        table.row(vec![
            name.to_owned(),
            number(packages as f64),
            number(release as f64),
            number_or_na(smallest.map(|bytes| bytes as f64)),
            number_or_na(seconds.map(f64::round)),
        ]);
        if name == "caudal" {
            let subject = "server with HTTP and WebSocket";
            let packages = Some(packages as f64);
            section.counted(subject, "packages", Bound::AtMost(60.0), packages);
            let bytes = smallest.map(|bytes| bytes as f64);
            let most = Bound::AtMost(2_000_000.0);
            section.counted(subject, "bytes, built for size", most, bytes);
        }
    }
    section.table(&table);
    section.note(NOTES);
    Ok(section)
}

fn packages(package: &str) -> Result<usize, String> {
    let output = cargo()
        .args(["tree", "--package", package])
        .args(["--edges", "normal", "--prefix", "none"])
        .output();
    let output = output.map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("`cargo tree` of {package} failed"));
    }
    Ok(names(&String::from_utf8_lossy(&output.stdout)).len())
}

/// Returns names and versions, each once.
fn names(tree: &str) -> BTreeSet<(&str, &str)> {
    let words = tree.lines().map(|line| line.split(' '));
    words
        .filter_map(|mut words| Some((words.next()?, words.next()?)))
        .collect()
}

fn target() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let target = here.ancestors().nth(2).ok_or("no target folder")?;
    Ok(target.to_owned())
}

/// Builds a program with a profile; returns where it is.
fn build(package: &str, profile: &str) -> Result<PathBuf, String> {
    let target = target()?;
    cargo_build(package, profile, &target)?;
    Ok(target.join(profile).join(package))
}

/// Returns how long `cargo build --release` takes with nothing built before.
fn seconds(package: &str) -> Result<f64, String> {
    let folder = target()?.join("from-nothing");
    let start = Instant::now();
    cargo_build(package, "release", &folder)?;
    let seconds = start.elapsed().as_secs_f64();
    std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())?;
    Ok(seconds)
}

fn cargo_build(package: &str, profile: &str, target: &Path) -> Result<(), String> {
    let built = cargo()
        .args(["build", "--quiet", "--profile", profile])
        .args(["--package", package, "--target-dir"])
        .arg(target)
        .status();
    match built.map_err(|e| e.to_string())?.success() {
        true => Ok(()),
        false => Err(format!("`cargo build` of {package} failed")),
    }
}

/// Returns the size of a program without what helps to debug it.
fn stripped(program: &Path) -> Result<u64, String> {
    let copy = program.with_extension("stripped");
    let mut strip = Command::new("strip");
    let done = strip.arg("-o").args([&copy, program]).status();
    match done.map_err(|e| format!("strip: {e}"))?.success() {
        true => size(&copy),
        false => Err(format!("`strip` of {} failed", program.display())),
    }
}

fn size(file: &Path) -> Result<u64, String> {
    let found = std::fs::metadata(file);
    let found = found.map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(found.len())
}

const NOTES: &str = "
The servers are those of `bench/small`. Packages are `cargo tree --edges normal`, the server
itself among them. Bytes are stripped: as `cargo build --release` makes it, and with the
profile `smallest` of bench/Cargo.toml, with LTO. `hyper` serves HTTP/1.1 with upgrades and
HTTP/2, and answers with the same bytes whatever is asked.
";

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

//! The other binaries of this workspace: `cargo run` builds one only.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the binaries `names` of `package` beside this one; returns where they
/// are. One package at a time: what one asks of its dependencies must not
/// change how those of the other are built.
///
/// # Errors
/// They could not be built.
pub fn build<const N: usize>(package: &str, names: [&str; N]) -> Result<[PathBuf; N], String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = here.parent().ok_or("the binary has no folder")?;
    let target = folder.parent().ok_or("the binary has no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet"])
        .args(["--package", package, "--target-dir"])
        .arg(target)
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .status();
    match built.map_err(|e| e.to_string())?.success() {
        true => Ok(names.map(|name| folder.join(name))),
        false => Err(format!("`cargo build` of {} failed", names.join(", "))),
    }
}

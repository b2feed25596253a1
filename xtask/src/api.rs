//! The public API of each crate as text, so that a change of it is seen in a review.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATES: [&str; 2] = ["caudal-core", "caudal"];

/// Writes `docs/api/*.txt`.
pub(crate) fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    for name in CRATES {
        fs::write(file(root, name), text(root, name)?)?;
    }
    Ok(())
}

/// Fails if a public API is not as its file says.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    for name in CRATES {
        let (expected, found) = (fs::read_to_string(file(root, name))?, text(root, name)?);
        if expected != found {
            let mut message = format!("the public API of {name} has changed:\n");
            for (sign, one, other) in [('-', &expected, &found), ('+', &found, &expected)] {
                let other: Vec<_> = other.lines().collect();
                for line in one.lines().filter(|line| !other.contains(line)) {
                    writeln!(message, "{sign} {line}")?;
                }
            }
            message += "if that is meant, run `cargo xtask api` and commit docs/api";
            return Err(message.into());
        }
    }
    Ok(())
}

fn file(root: &Path, name: &str) -> PathBuf {
    root.join(format!("docs/api/{name}.txt"))
}

/// The public API of a crate with all its features, one item in a line.
fn text(root: &Path, name: &str) -> Result<String, Box<dyn Error>> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        // The output of rustdoc as JSON is unstable; the crate that reads it follows.
        .env("RUSTC_BOOTSTRAP", "1")
        .args([
            "rustdoc",
            "--quiet",
            "--lib",
            "--all-features",
            "--package",
            name,
        ])
        .args(["--target-dir", "target/api", "--"])
        .args(["-Z", "unstable-options", "--output-format", "json"])
        .args(["--cap-lints", "allow"])
        .status()?;
    if !status.success() {
        return Err(format!("rustdoc failed for {name}").into());
    }
    let json = root.join(format!("target/api/doc/{}.json", name.replace('-', "_")));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    let mut text = String::new();
    for item in api.items() {
        writeln!(text, "{item}")?;
    }
    Ok(text)
}

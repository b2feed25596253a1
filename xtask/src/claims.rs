//! Which test names which requirement: `/// Proves: C15, J7` above a test.
//!
//! Scripts claim with a comment of their own, and are tests by their path.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A test that says what it proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) ids: Vec<String>,
    /// The function, or for a script the file.
    pub(crate) test: String,
    /// Relative to the workspace's root.
    pub(crate) file: PathBuf,
}

/// Reads the claims of every source and test file.
pub(crate) fn read(root: &Path) -> Result<Vec<Claim>, Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in ["crates", "examples", "tests", "xtask"] {
        list(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut claims = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let file = file.strip_prefix(root)?.to_owned();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => claims.extend(in_rust(&text, &file)?),
            _ => claims.extend(in_script(&text, &file)),
        }
    }
    Ok(claims)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && name != "node_modules" {
            list(&path, files)?;
        } else if [".rs", ".py", ".sh", ".mjs"]
            .iter()
            .any(|end| name.ends_with(end))
        {
            files.push(path);
        }
    }
    Ok(())
}

fn in_rust(text: &str, file: &Path) -> Result<Vec<Claim>, String> {
    let mut claims = Vec::new();
    let mut ids = Vec::new();
    let mut is_test = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if let Some(list) = line.strip_prefix("/// Proves:") {
            ids.extend(split(list));
        } else if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        } else if let Some(function) = function(line) {
            if !ids.is_empty() && !is_test {
                return Err(format!(
                    "{}:{number}: {function} is not a test, and proves nothing",
                    file.display()
                ));
            }
            if !ids.is_empty() {
                claims.push(Claim {
                    ids: std::mem::take(&mut ids),
                    test: function.to_owned(),
                    file: file.to_owned(),
                });
            }
            is_test = false;
        } else if !line.starts_with("//") && !line.is_empty() {
            if !ids.is_empty() {
                return Err(format!(
                    "{}:{number}: `Proves:` must stand above a test",
                    file.display()
                ));
            }
            is_test = false;
        }
    }
    Ok(claims)
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let rest = line
        .strip_prefix("async ")
        .unwrap_or(line)
        .strip_prefix("fn ")?;
    rest.split('(').next()
}

fn in_script(text: &str, file: &Path) -> Option<Claim> {
    let claims = text.lines().filter_map(|line| {
        line.strip_prefix("# Proves:")
            .or(line.strip_prefix("// Proves:"))
    });
    let ids: Vec<_> = claims.flat_map(split).collect();
    (!ids.is_empty()).then(|| Claim {
        ids,
        test: file.display().to_string(),
        file: file.to_owned(),
    })
}

fn split(list: &str) -> impl Iterator<Item = String> {
    list.split([',', ' '])
        .filter(|id| !id.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{Path, in_rust, in_script};

    fn rust(text: &str) -> Result<Vec<(Vec<String>, String)>, String> {
        let claims = in_rust(text, Path::new("a.rs"))?;
        Ok(claims
            .into_iter()
            .map(|claim| (claim.ids, claim.test))
            .collect())
    }

    #[test]
    fn a_claim_belongs_to_the_test_below_it() {
        let text = [
            "/// Says.",
            "///",
            "/// Proves: C1, J2",
            "/// Proves: A3",
            "#[test]",
            "fn one() {}",
            "#[test]",
            "fn two() {}",
            "/// Proves: A4",
            "#[tokio::test(start_paused = true)]",
            "async fn three() {}",
        ]
        .join("\n");
        let claims = rust(&text).unwrap();
        let ids = |ids: &[&str]| ids.iter().map(ToString::to_string).collect();
        assert_eq!(
            claims,
            [
                (ids(&["C1", "J2", "A3"]), "one".to_owned()),
                (ids(&["A4"]), "three".to_owned())
            ]
        );
    }

    #[test]
    fn a_claim_above_anything_else_is_an_error() {
        let error = rust("/// Proves: C1\nfn helper() {}").unwrap_err();
        assert_eq!(error, "a.rs:2: helper is not a test, and proves nothing");
        let error = rust("/// Proves: C1\nstruct S;").unwrap_err();
        assert_eq!(error, "a.rs:2: `Proves:` must stand above a test");
        // The attribute of one function does not make a test of the next.
        assert!(rust("#[test]\nfn a() {}\n/// Proves: C1\nfn b() {}").is_err());
    }

    #[test]
    fn a_script_is_a_test_by_its_path() {
        let claim = in_script("#!/bin/sh\n# Proves: A1\n", Path::new("tests/x.sh")).unwrap();
        assert_eq!(
            (claim.ids, claim.test.as_str()),
            (vec!["A1".to_owned()], "tests/x.sh")
        );
        assert_eq!(in_script("echo", Path::new("tests/x.sh")), None);
    }
}

//! The compliance matrix: every requirement, and the tests that prove it.
//!
//! docs/REQUIREMENTS.md and the tests' claims make docs/COMPLIANCE.md. A
//! requirement without a test must be listed in xtask/open.txt, and one with a
//! test must not, so that the list only shrinks.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::claims::{self, Claim};

const MATRIX: &str = "docs/COMPLIANCE.md";

/// Writes docs/COMPLIANCE.md.
pub(crate) fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(root.join(MATRIX), matrix(root)?)?)
}

/// Fails if docs/COMPLIANCE.md is not what [`write()`] would write.
pub(crate) fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(root.join(MATRIX)).unwrap_or_default() == matrix(root)? {
        return Ok(());
    }
    Err(format!("{MATRIX} is stale: run `cargo xtask compliance` and commit it").into())
}

fn matrix(root: &Path) -> Result<String, Box<dyn Error>> {
    let requirements = fs::read_to_string(root.join("docs/REQUIREMENTS.md"))?;
    let open = fs::read_to_string(root.join("xtask/open.txt"))?;
    let open: BTreeSet<&str> = open.lines().filter(|line| !line.starts_with('#')).collect();
    let claims = claims::read(root)?;
    let tests = listed_tests(root)?;
    for claim in &claims {
        if claim.file.extension().is_some_and(|end| end == "rs") {
            exists(claim, &tests)?;
        }
    }
    render(&requirements, &open, &claims)
}

/// The names of all tests that cargo would run, without their modules.
fn listed_tests(root: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let list = |extra: &[&str]| -> Result<BTreeSet<String>, Box<dyn Error>> {
        let output = Command::new(env!("CARGO"))
            .current_dir(root)
            .args([
                "test",
                "--workspace",
                "--all-features",
                "--lib",
                "--bins",
                "--tests",
            ])
            .args(["--quiet", "--", "--list", "--format", "terse"])
            .args(extra)
            .output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let text = String::from_utf8(output.stdout)?;
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        let name = |path: &str| path.rsplit("::").next().unwrap_or(path).to_owned();
        Ok(names.map(name).collect())
    };
    let ignored = list(&["--ignored"])?;
    Ok(list(&[])?.difference(&ignored).cloned().collect())
}

fn exists(claim: &Claim, tests: &BTreeSet<String>) -> Result<(), String> {
    if tests.contains(&claim.test) {
        return Ok(());
    }
    let (file, test) = (claim.file.display(), &claim.test);
    Err(format!(
        "{file}: cargo runs no test `{test}`: is it ignored, or not compiled?"
    ))
}

fn render(
    requirements: &str,
    open: &BTreeSet<&str>,
    claims: &[Claim],
) -> Result<String, Box<dyn Error>> {
    let mut proofs: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        for id in &claim.ids {
            proofs.entry(id).or_default().push(claim);
        }
    }
    let mut tables = String::new();
    let (mut proved, mut total) = (0, 0);
    for line in requirements.lines() {
        if let Some(section) = line.strip_prefix("## ") {
            write!(
                tables,
                "\n## {section}\n\n| id | requirement | proved by |\n|---|---|---|\n"
            )?;
        }
        let Some((id, text)) = line
            .strip_prefix("- **")
            .and_then(|rest| rest.split_once("** "))
        else {
            continue;
        };
        total += 1;
        let tests = proofs.remove(id);
        let cell = match (&tests, open.contains(id)) {
            (Some(tests), false) => {
                proved += 1;
                let links: Vec<_> = tests.iter().map(|claim| link(claim)).collect();
                links.join(", ")
            }
            (None, true) => "open".to_owned(),
            (Some(_), true) => {
                return Err(format!("{id} has a test: take it out of xtask/open.txt").into());
            }
            (None, false) => {
                return Err(format!("{id} has no test: write `/// Proves: {id}` above one, or list it in xtask/open.txt").into());
            }
        };
        let text = text.replace('|', "\\|").replace('<', "&lt;");
        writeln!(tables, "| {id} | {text} | {cell} |")?;
    }
    if let Some((id, claims)) = proofs.first_key_value() {
        let file = claims.first().map(|claim| claim.file.display().to_string());
        return Err(format!("{}: there is no requirement {id}", file.unwrap_or_default()).into());
    }
    Ok(format!(
        "# Compliance\n\nWritten by `cargo xtask compliance` from [REQUIREMENTS.md](REQUIREMENTS.md) \
         and the `Proves:` lines above the tests; `.ci/run` fails when it is stale.\n\n\
         {proved} of {total} requirements are proved, {} are open.\n{tables}",
        total - proved
    ))
}

fn link(claim: &Claim) -> String {
    format!("[`{}`](../{})", claim.test, claim.file.display())
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Claim, exists, render};

    const REQUIREMENTS: &str = "# R\n\n## C: types\n- **C1** a | b <c>\n- **C2** other\n";

    fn claim(id: &str) -> Claim {
        Claim {
            ids: vec![id.to_owned()],
            test: "a_test".to_owned(),
            file: "crates/x/tests/y.rs".into(),
        }
    }

    fn rendered(open: &[&str], claims: &[Claim]) -> Result<String, String> {
        render(REQUIREMENTS, &open.iter().copied().collect(), claims).map_err(|e| e.to_string())
    }

    #[test]
    fn every_requirement_has_a_row() {
        let matrix = rendered(&["C2"], &[claim("C1")]).unwrap();
        assert!(matrix.contains("1 of 2 requirements are proved, 1 are open."));
        assert!(matrix.contains("| C1 | a \\| b &lt;c> | [`a_test`](../crates/x/tests/y.rs) |"));
        assert!(matrix.contains("| C2 | other | open |"));
    }

    /// The twelve functional requirements are C19 to C30.
    ///
    /// Proves: C35
    #[test]
    fn every_functional_requirement_has_a_test() {
        let open = include_str!("../open.txt");
        let functional: Vec<String> = (19..=30).map(|number| format!("C{number}")).collect();
        assert!(
            !open
                .lines()
                .any(|id| functional.iter().any(|known| known == id))
        );
    }

    /// The components of C36 are `message`, `error` and the root, which has the ids.
    ///
    /// Proves: C36
    #[test]
    fn every_folder_of_the_codec_is_covered() {
        let report = include_str!("../../docs/COVERAGE.md");
        let rows = report.lines().filter_map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let (place, percent) = (cells.next()?, cells.nth(1)?.strip_suffix(" %")?);
            Some((place, percent.parse::<f64>().ok()?))
        });
        let rows: Vec<_> = rows.collect();
        let codec = rows
            .iter()
            .filter(|(place, _)| place.starts_with("caudal-core"));
        let codec: Vec<_> = codec.collect();
        for part in ["", ": (root)", ": decode", ": error", ": message"] {
            let name = format!("caudal-core{part}");
            assert!(codec.iter().any(|(place, _)| *place == name), "{name}");
        }
        assert!(
            codec.iter().all(|(_, percent)| *percent >= 95.0),
            "{codec:?}"
        );
        let library = rows.iter().find(|(place, _)| *place == "caudal");
        assert!(library.is_some_and(|(_, percent)| *percent >= 90.0));
    }

    /// What the bench has written, without a network: a message through a pipe, and
    /// orders of 1 KB on one connection and on two.
    ///
    /// Proves: A60, A61, A62, A63, A64, A65, A66, A67
    #[test]
    fn the_measured_latency_and_throughput_are_what_they_must_be() {
        let report = include_str!("../../docs/PERFORMANCE.md");
        let rows = |title: &str| -> Vec<Vec<&str>> {
            let table = report.split_once(title).expect(title).1;
            let lines = table.lines().skip_while(|line| !line.starts_with('|'));
            let lines = lines.take_while(|line| line.starts_with('|'));
            let cells = |line: &'static str| line.split('|').map(str::trim).skip(1).collect();
            lines.map(cells).collect()
        };
        let number = |title: &str, row: &[&str], column: &str| -> f64 {
            let table = rows(title);
            let column = table[0].iter().position(|name| *name == column).unwrap();
            let mut found = table.iter().filter(|cells| cells.starts_with(row));
            let cell = found.next().unwrap()[column].replace(',', "");
            cell.parse().unwrap_or_else(|_| panic!("{title}: {cell}"))
        };
        let one = "### Pipe, 1 in flight";
        assert!(number(one, &["caudal"], "p99, µs") < 1_000.0);
        let orders = "### A second connection";
        for connections in ["1", "2"] {
            assert!(number(orders, &["caudal", connections], "µs CPU per call") < 1_000.0);
            assert!(number(orders, &["caudal", connections], "calls/s") > 10_000.0);
        }
        let held = |wanted: [&str; 2]| {
            let targets = rows("## Targets");
            let mut targets = targets.into_iter();
            let row = targets.find(|cells| cells.starts_with(&wanted));
            assert_eq!(row.expect("a row of this name")[4], "yes", "{wanted:?}");
        };
        let two = "two connections, two cores";
        held([two, "calls/s, × one connection"]);
        held([two, "server's CPU per call, × one connection"]);
        held(["open loop, TCP", "p99, µs"]);
    }

    #[test]
    fn the_open_list_can_only_shrink() {
        let error = rendered(&[], &[claim("C1")]).unwrap_err();
        assert!(error.starts_with("C2 has no test"), "{error}");
        let error = rendered(&["C1", "C2"], &[claim("C1")]).unwrap_err();
        assert!(error.starts_with("C1 has a test"), "{error}");
    }

    #[test]
    fn an_unknown_requirement_or_test_is_an_error() {
        let error = rendered(&["C1", "C2"], &[claim("C3")]).unwrap_err();
        assert_eq!(error, "crates/x/tests/y.rs: there is no requirement C3");
        let tests = BTreeSet::from(["a_test".to_owned()]);
        assert!(exists(&claim("C1"), &tests).is_ok());
        assert!(exists(&claim("C1"), &BTreeSet::new()).is_err());
    }
}

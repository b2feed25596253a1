//! The regression guard: what caudal's own paths cost, beside a committed baseline.
//!
//! No timing: instructions are callgrind's and may differ by 3 %, in both
//! directions, since a baseline that is too high would hide the next loss;
//! allocations are exact. Instructions are those of one compiler and one libc: with
//! others the failure says so, and the baseline is to be written again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::callgrind::{self, Case};
use crate::count;
use crate::table::{Table, number};

/// By so much of the baseline instructions may differ.
const TOLERANCE: f64 = 0.03;

const ACCEPT: &str = "cargo run --release -- --guard --write";

/// Contestant, message, and about how many bytes callgrind has to follow.
const PATHS: [(&str, &str, usize); 30] = [
    // caudal-core: decoding, dispatch, encoding.
    ("caudal-core", "add", 54),
    ("caudal-core", "typed-1k", 1_000),
    ("caudal-core", "pass-1k", 1_000),
    ("caudal-core", "pass-100k", 100_000),
    ("caudal-core", "batch-100", 5_500),
    // Decoding alone.
    ("caudal-scan", "add", 54),
    ("caudal-scan", "typed-1k", 1_000),
    ("caudal-scan", "pass-100k", 100_000),
    ("caudal-scan", "batch-100", 5_500),
    // Encoding alone.
    ("encode-reply", "nothing", 54),
    ("encode-raw-1k", "nothing", 54),
    ("encode-error", "nothing", 54),
    ("encode-call", "nothing", 54),
    ("encode-notification", "nothing", 54),
    // Framing alone: written, and found again.
    ("frames-line", "add", 54),
    ("frames-header", "add", 54),
    ("frames-header", "typed-1k", 1_000),
    ("frames-concatenated", "add", 54),
    // Outgoing calls: a whole life of many at once, and a steady number.
    ("pending-100", "nothing", 10_000),
    ("pending-10000", "nothing", 1_000_000),
    ("waiting-1000", "nothing", 54),
    // caudal's router. No batch: where it pauses depends on the clock, which runs on under
    // callgrind.
    ("router", "add", 54),
    ("router", "add-async", 54),
    ("router", "notification", 54),
    ("router", "fail", 54),
    ("router", "unknown", 54),
    ("router", "wrong-params", 54),
    ("router", "typed-1k", 1_000),
    ("router", "pass-1k", 1_000),
    ("router", "pass-100k", 100_000),
];

/// Cost of one message on one path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Cost {
    instructions: f64,
    allocations: f64,
}

/// Recorded costs, and the tools that measured them. Maps are in the order of their keys, so that
/// the file changes only where a figure does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Baseline {
    /// Versions that the instructions depend on beside the code.
    with: BTreeMap<String, String>,
    paths: BTreeMap<String, Cost>,
}

/// Measures every path and compares it with the baseline, or makes it the baseline.
/// Returns what was measured.
///
/// # Errors
/// Says which paths differ, and how to accept that; or something could not be
/// measured.
pub fn run(write: bool) -> Result<String, String> {
    let measured = measure()?;
    let file = file();
    if write {
        let mut text = serde_json::to_string_pretty(&measured).map_err(|e| e.to_string())?;
        text.push('\n');
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        return Ok(table(None, &measured));
    }
    let baseline = std::fs::read(&file).map_err(|e| format!("baseline.json: {e}; {ACCEPT}"))?;
    let baseline: Baseline = serde_json::from_slice(&baseline)
        .map_err(|e| format!("baseline.json: {e}; write it again with `{ACCEPT}`"))?;
    let problems = compare(&baseline, &measured);
    match problems.is_empty() {
        true => Ok(table(Some(&baseline), &measured)),
        false => Err(explain(&baseline, &measured, &problems)),
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}

fn measure() -> Result<Baseline, String> {
    let cases = PATHS.map(|(contestant, message, bytes)| Case::new(contestant, message, bytes));
    let counts = count::of_cases(&cases)?;
    let instructions = callgrind::of_cases(&cases)?;
    let costs = instructions.into_iter().zip(counts);
    let costs = costs.map(|(instructions, allocations)| Cost {
        // What is left of a division by the number of messages is noise.
        instructions: instructions.round(),
        allocations,
    });
    let names = cases.iter().map(name);
    Ok(Baseline {
        with: with(),
        paths: names.zip(costs).collect(),
    })
}

fn name(case: &Case) -> String {
    match case.message.as_str() {
        "nothing" => case.contestant.clone(),
        message => format!("{} {message}", case.contestant),
    }
}

/// Compiler, target, libc, valgrind, and what the fastest loops are chosen by.
fn with() -> BTreeMap<String, String> {
    #[cfg(target_arch = "x86_64")]
    let vectors = if is_x86_feature_detected!("avx2") {
        "avx2"
    } else {
        "sse2"
    };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = "?";
    let rustc = said("rustc", &["-vV"]);
    let of_rustc = |key: &str| {
        let mut lines = rustc.lines();
        lines.find_map(|line| line.strip_prefix(key)).unwrap_or("?")
    };
    let release = rustc.lines().next().unwrap_or("?");
    BTreeMap::from([
        ("rustc".to_owned(), release.to_owned()),
        ("target".to_owned(), of_rustc("host: ").to_owned()),
        ("libc".to_owned(), said("getconf", &["GNU_LIBC_VERSION"])),
        ("valgrind".to_owned(), said("valgrind", &["--version"])),
        ("vectors".to_owned(), vectors.to_owned()),
    ])
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "?".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Differences, a line each.
fn compare(baseline: &Baseline, measured: &Baseline) -> Vec<String> {
    let mut problems = Vec::new();
    for (path, is) in &measured.paths {
        let Some(was) = baseline.paths.get(path) else {
            problems.push(format!("{path}: not in the baseline"));
            continue;
        };
        let change = is.instructions / was.instructions - 1.0;
        if (is.instructions - was.instructions).abs() > TOLERANCE * was.instructions {
            problems.push(format!(
                "{path}: {} instructions, {} in the baseline ({:+.1} %, {})",
                number(is.instructions),
                number(was.instructions),
                change * 100.0,
                better_or_worse(change < 0.0),
            ));
        }
        // Both are the same division of two whole numbers, if they are the same.
        if is.allocations != was.allocations {
            problems.push(format!(
                "{path}: {} allocations, {} in the baseline ({})",
                number(is.allocations),
                number(was.allocations),
                better_or_worse(is.allocations < was.allocations),
            ));
        }
    }
    let gone = baseline.paths.keys();
    let gone = gone.filter(|path| !measured.paths.contains_key(*path));
    problems.extend(gone.map(|path| format!("{path}: in the baseline, but not measured")));
    problems
}

const fn better_or_worse(better: bool) -> &'static str {
    match better {
        true => "an improvement",
        false => "worse",
    }
}

fn explain(baseline: &Baseline, measured: &Baseline, problems: &[String]) -> String {
    let mut text = format!(
        "{} costs differ from bench/baseline.json:\n",
        problems.len()
    );
    for problem in problems {
        let _ = writeln!(text, "  {problem}");
    }
    for (what, now) in &measured.with {
        let then = baseline.with.get(what).map_or("nothing", String::as_str);
        if then != now {
            let _ = writeln!(
                text,
                "The baseline was written with another {what}: {then}; this is {now}."
            );
        }
    }
    let all_better = problems
        .iter()
        .all(|problem| problem.contains("an improvement"));
    let _ = match all_better {
        true => write!(
            text,
            "Accept the improvement with --guard --write: in bench/, `{ACCEPT}`, and commit \
             baseline.json with the change that made it."
        ),
        false => write!(
            text,
            "If the change is worth it, accept it with --guard --write: in bench/, `{ACCEPT}`, \
             and say in the commit why."
        ),
    };
    text
}

fn table(baseline: Option<&Baseline>, measured: &Baseline) -> String {
    let mut table = Table::new(&["path", "instructions", "of the baseline", "allocations"]);
    for (path, is) in &measured.paths {
        let was = baseline.and_then(|baseline| baseline.paths.get(path));
        let change = was.map(|was| (is.instructions / was.instructions - 1.0) * 100.0);
        table.row(vec![
            path.clone(),
            number(is.instructions),
            change.map_or_else(|| "n/a".to_owned(), |change| format!("{change:+.2} %")),
            number(is.allocations),
        ]);
    }
    table.to_markdown()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(instructions: f64, allocations: f64) -> Baseline {
        let cost = Cost {
            instructions,
            allocations,
        };
        Baseline {
            with: BTreeMap::from([("rustc".to_owned(), "rustc 1".to_owned())]),
            paths: BTreeMap::from([("router add".to_owned(), cost)]),
        }
    }

    #[test]
    fn three_per_cent_are_allowed_and_no_more() {
        let baseline = measured(10_000.0, 1.0);
        assert!(compare(&baseline, &measured(10_300.0, 1.0)).is_empty());
        assert!(compare(&baseline, &measured(9_700.0, 1.0)).is_empty());
        let problems = compare(&baseline, &measured(10_400.0, 1.0));
        assert_eq!(
            problems,
            ["router add: 10,400 instructions, 10,000 in the baseline (+4.0 %, worse)"]
        );
        assert_eq!(compare(&baseline, &measured(9_600.0, 1.0)).len(), 1);
    }

    #[test]
    fn allocations_are_exact() {
        let baseline = measured(10_000.0, 1.0);
        for allocations in [0.0, 0.975, 1.025, 2.0] {
            let problems = compare(&baseline, &measured(10_000.0, allocations));
            assert_eq!(problems.len(), 1, "{allocations}");
        }
    }

    #[test]
    fn a_path_must_be_on_both_sides() {
        let mut more = measured(10_000.0, 1.0);
        let cost = more.paths["router add"];
        more.paths.insert("router new".to_owned(), cost);
        let one = measured(10_000.0, 1.0);
        assert_eq!(compare(&one, &more), ["router new: not in the baseline"]);
        assert_eq!(
            compare(&more, &one),
            ["router new: in the baseline, but not measured"]
        );
    }

    #[test]
    fn an_improvement_fails_too_and_says_how_to_accept_it() {
        let baseline = measured(10_000.0, 2.0);
        let better = measured(9_000.0, 1.0);
        let text = explain(&baseline, &better, &compare(&baseline, &better));
        assert!(text.contains("Accept the improvement with --guard --write"));
        assert!(!text.contains("another rustc"));
    }

    #[test]
    fn another_compiler_is_named() {
        let baseline = measured(10_000.0, 2.0);
        let mut other = measured(11_000.0, 2.0);
        other.with.insert("rustc".to_owned(), "rustc 2".to_owned());
        let text = explain(&baseline, &other, &compare(&baseline, &other));
        assert!(text.contains("another rustc: rustc 1; this is rustc 2."));
        assert!(text.contains("say in the commit why"));
    }

    #[test]
    fn the_committed_baseline_has_every_path() {
        let text = std::fs::read(file()).unwrap();
        let baseline: Baseline = serde_json::from_slice(&text).unwrap();
        let known: Vec<&String> = baseline.paths.keys().collect();
        let mut names: Vec<String> = PATHS.map(|(c, m, b)| name(&Case::new(c, m, b))).into();
        names.sort();
        assert_eq!(known, names.iter().collect::<Vec<_>>());
    }
}

//! What caudal must reach, and whether it does.

use crate::report::Measures;
use crate::table::{Table, number};

/// One number that must not be passed.
struct Target {
    message: &'static str,
    what: &'static str,
    must: f64,
    aim: Option<f64>,
    measured: Option<f64>,
    /// Whether more is better.
    at_least: bool,
}

/// Every target, with what was measured.
fn all(measures: &Measures) -> Vec<Target> {
    let instructions = |message, must, aim| Target {
        message,
        what: "instructions",
        must,
        aim,
        measured: measures.instructions("caudal", message),
        at_least: false,
    };
    let allocations = |message, must| Target {
        message,
        what: "allocations",
        must,
        aim: None,
        measured: measures.allocations("caudal", message),
        at_least: false,
    };
    let handlers_own = measures.allocations("floor", "typed-1k").unwrap_or(0.0);
    let caudal = measures.instructions("caudal", "add");
    let jsonrpsee = measures.instructions("jsonrpsee-server", "add");
    vec![
        instructions("add", 2_500.0, Some(1_900.0)),
        Target {
            message: "add",
            what: "time, × floor",
            must: 1.0,
            aim: Some(0.6),
            measured: measures.ratio("caudal", "add"),
            at_least: false,
        },
        allocations("add", 0.0),
        Target {
            message: "add",
            what: "jsonrpsee's instructions, × caudal's",
            must: 3.6,
            aim: None,
            measured: jsonrpsee.zip(caudal).map(|(theirs, ours)| theirs / ours),
            at_least: true,
        },
        instructions("typed-1k", 40_000.0, Some(33_000.0)),
        allocations("typed-1k", handlers_own),
        instructions("pass-1k", 18_200.0, Some(12_000.0)),
        allocations("pass-1k", 0.0),
        instructions("pass-100k", 1_900_000.0, Some(1_200_000.0)),
        instructions("batch-100", 270_000.0, Some(190_000.0)),
        allocations("batch-100", 8.0),
    ]
}

impl Target {
    fn holds(&self) -> Option<bool> {
        let measured = self.measured?;
        Some(match self.at_least {
            true => measured >= self.must,
            false => measured <= self.must,
        })
    }
}

/// What was missed of what repeats; a time may be missed on a busy machine.
#[must_use]
pub fn missed(measures: &Measures) -> Vec<String> {
    all(measures)
        .iter()
        .filter(|target| target.holds() == Some(false) && !target.what.starts_with("time"))
        .map(|target| format!("{}: {}", target.message, target.what))
        .collect()
}

/// The table of targets.
#[must_use]
pub fn table(measures: &Measures) -> Table {
    let mut table = Table::new(&["message", "what", "must", "aim", "caudal", "holds"]);
    for target in all(measures) {
        let sign = if target.at_least { "≥" } else { "≤" };
        let holds = match target.holds() {
            None => "not measured",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        table.row(vec![
            target.message.to_owned(),
            target.what.to_owned(),
            format!("{sign} {}", number(target.must)),
            target.aim.map(number).unwrap_or_default(),
            target.measured.map(number).unwrap_or_default(),
            holds.to_owned(),
        ]);
    }
    table
}

//! What must be reached, and whether it is.

use crate::report::Measures;
use crate::table::{Table, number};

/// One number that must not be passed.
#[derive(Clone, Debug)]
pub struct Target {
    subject: &'static str,
    what: String,
    must: Option<f64>,
    aim: Option<f64>,
    measured: Option<f64>,
    /// Whether more is better.
    at_least: bool,
    /// Whether it depends on how busy the machine is.
    timed: bool,
}

impl Target {
    /// Something that may be no more than `must`.
    pub(crate) fn at_most(
        subject: &'static str,
        what: impl Into<String>,
        must: f64,
        measured: Option<f64>,
    ) -> Self {
        Self {
            subject,
            what: what.into(),
            must: Some(must),
            aim: None,
            measured,
            at_least: false,
            timed: false,
        }
    }

    /// Something that may be no less than `must`.
    pub(crate) fn at_least(
        subject: &'static str,
        what: impl Into<String>,
        must: f64,
        measured: Option<f64>,
    ) -> Self {
        Self {
            at_least: true,
            ..Self::at_most(subject, what, must, measured)
        }
    }

    /// What would be better still.
    pub(crate) fn aim(mut self, aim: f64) -> Self {
        self.aim = Some(aim);
        self
    }

    /// Nothing must be, only aimed at.
    pub(crate) fn only_aim(mut self) -> Self {
        self.aim = self.must.take();
        self
    }

    /// A time, or made of times: to miss it fails no run.
    pub(crate) fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    fn reaches(&self, bound: Option<f64>) -> Option<bool> {
        let (measured, bound) = self.measured.zip(bound)?;
        Some(match self.at_least {
            true => measured >= bound,
            false => measured <= bound,
        })
    }
}

/// The targets of caudal-core, with what was measured.
#[must_use]
pub fn of_core(measures: &Measures) -> Vec<Target> {
    let instructions = |message, must| {
        let measured = measures.instructions("caudal", message);
        Target::at_most(message, "instructions", must, measured)
    };
    let allocations = |message, must| {
        let measured = measures.allocations("caudal", message);
        Target::at_most(message, "allocations", must, measured)
    };
    let handlers_own = measures.allocations("floor", "typed-1k").unwrap_or(0.0);
    let time = measures.ratio("caudal", "add");
    let caudal = measures.instructions("caudal", "add");
    let jsonrpsee = measures.instructions("jsonrpsee-server", "add");
    let times_fewer = jsonrpsee.zip(caudal).map(|(theirs, ours)| theirs / ours);
    vec![
        instructions("add", 2_500.0).aim(1_900.0),
        Target::at_most("add", "time, × floor", 1.0, time)
            .aim(0.6)
            .timed(),
        allocations("add", 0.0),
        Target::at_least(
            "add",
            "jsonrpsee's instructions, × caudal's",
            3.6,
            times_fewer,
        ),
        instructions("typed-1k", 40_000.0).aim(33_000.0),
        allocations("typed-1k", handlers_own),
        instructions("pass-1k", 18_200.0).aim(12_000.0),
        allocations("pass-1k", 0.0),
        instructions("pass-100k", 1_900_000.0).aim(1_200_000.0),
        instructions("batch-100", 270_000.0).aim(190_000.0),
        allocations("batch-100", 8.0),
    ]
}

/// What is known to be missed.
const OPEN: &str = include_str!("../open.txt");

/// What is otherwise than it must be, of what repeats: a time may be missed on a busy
/// machine. A target in the list of those that are open must be missed.
#[must_use]
pub fn missed(targets: &[Target]) -> Vec<String> {
    let repeats = targets.iter().filter(|target| !target.timed);
    let judged = repeats.filter_map(|target| {
        let name = format!("{}: {}", target.subject, target.what);
        let open = OPEN.lines().any(|line| line == name);
        match (target.reaches(target.must)?, open) {
            (false, false) => Some(name),
            (true, true) => Some(format!("{name} (holds, but is in open.txt)")),
            _ => None,
        }
    });
    judged.collect()
}

/// The targets as a table; `subject` is the head of its first column.
#[must_use]
pub fn table(subject: &str, targets: &[Target]) -> Table {
    let mut table = Table::new(&[subject, "what", "must", "aim", "caudal", "holds"]);
    for target in targets {
        let sign = if target.at_least { "≥" } else { "≤" };
        let holds = match (target.measured, target.reaches(target.must)) {
            (None, _) => "not measured",
            (_, Some(true)) => "yes",
            (_, Some(false)) => "**no**",
            (_, None) if target.reaches(target.aim) == Some(true) => "aim reached",
            (_, None) => "aim missed",
        };
        let must = target.must.map(|must| format!("{sign} {}", number(must)));
        table.row(vec![
            target.subject.to_owned(),
            target.what.clone(),
            must.unwrap_or_default(),
            target.aim.map(number).unwrap_or_default(),
            target.measured.map(number).unwrap_or_default(),
            holds.to_owned(),
        ]);
    }
    table
}

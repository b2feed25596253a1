//! What must be reached, and whether it is.

use serde::Serialize;

use crate::count::LARGE;
use crate::memory::Measures;
use crate::message;
use crate::table::{Table, number};

/// One number that must not be passed.
#[derive(Clone, Debug, Serialize)]
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
    /// What is known about why it is missed, if it is.
    why: Option<String>,
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
            why: None,
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

    /// What a bare loop reaches, which does nothing that could be left out: more than
    /// that nothing can on this machine.
    pub(crate) fn bare(self, reaches: Option<f64>) -> Self {
        let too_little = reaches.filter(|bare| self.at_least && Some(*bare) < self.must);
        self.why(too_little.map(|bare| format!("nor does the bare loop: {}", number(bare))))
    }

    /// Why it is missed, if it is.
    pub(crate) fn why(mut self, why: Option<String>) -> Self {
        self.why = why;
        self
    }

    fn holds(&self) -> String {
        let no = || match &self.why {
            Some(why) => format!("**no**, {why}"),
            None => "**no**".to_owned(),
        };
        let word = match (self.measured, self.reaches(self.must)) {
            (None, _) => "not measured",
            (_, Some(true)) => "yes",
            (_, Some(false)) => return no(),
            (_, None) if self.reaches(self.aim) == Some(true) => "aim reached",
            (_, None) => "aim missed",
        };
        word.to_owned()
    }

    fn reaches(&self, bound: Option<f64>) -> Option<bool> {
        let (measured, bound) = self.measured.zip(bound)?;
        Some(match self.at_least {
            true => measured >= bound,
            false => measured <= bound,
        })
    }
}

/// The targets of the codec, and that of the whole beside its peer, with what was
/// measured.
#[must_use]
pub fn of_memory(measures: &Measures) -> Vec<Target> {
    const CODEC: &str = "caudal-core";
    let [add, typed, passed, long, batch] = [
        ("add", "caudal-core, `add`"),
        ("typed-1k", "caudal-core, `typed-1k`"),
        ("pass-1k", "caudal-core, `pass-1k`"),
        ("pass-100k", "caudal-core, `pass-100k`"),
        ("batch-100", "caudal-core, `batch-100`"),
    ];
    let instructions = |(message, subject), must| {
        let measured = measures.instructions(CODEC, message);
        Target::at_most(subject, "instructions", must, measured)
    };
    let allocations = |(message, subject), must| {
        let measured = measures.allocations(CODEC, message);
        Target::at_most(subject, "allocations", must, measured)
    };
    let handlers_own = measures.allocations("floor", "typed-1k").unwrap_or(0.0);
    let time = measures.ratio(CODEC, "add");
    // Both find the method in a table, and call what was registered for it.
    let caudal = measures.instructions("caudal", "add");
    let jsonrpsee = measures.instructions("jsonrpsee-server", "add");
    let large = message::zeros(LARGE).len() as f64;
    let times_fewer = jsonrpsee.zip(caudal).map(|(theirs, ours)| theirs / ours);
    vec![
        Target::at_least(
            "caudal, `add`",
            "jsonrpsee's instructions, × caudal's",
            3.6,
            times_fewer,
        ),
        instructions(add, 2_500.0).aim(1_900.0),
        Target::at_most(add.1, "time, × floor", 1.0, time)
            .aim(0.6)
            .timed(),
        allocations(add, 0.0),
        instructions(typed, 40_000.0).aim(33_000.0),
        allocations(typed, handlers_own),
        instructions(passed, 18_200.0).aim(12_000.0),
        allocations(passed, 0.0),
        instructions(long, 1_900_000.0).aim(1_200_000.0),
        instructions(batch, 270_000.0).aim(190_000.0),
        allocations(batch, 8.0),
        Target::at_most(
            "caudal-core, 4 MiB of zeros, echoed",
            "bytes allocated, × the message",
            1.0,
            // The reply's own envelope, some bytes, is no growth.
            measures
                .large()
                .map(|bytes| (bytes / large * 1000.0).round() / 1000.0),
        ),
    ]
}

/// What is missed of what repeats: a time may be missed on a busy machine.
#[must_use]
pub fn missed(targets: &[Target]) -> Vec<String> {
    let is_missed = |target: &&Target| !target.timed && target.reaches(target.must) == Some(false);
    let missed = targets.iter().filter(is_missed);
    missed
        .map(|target| format!("{}: {}", target.subject, target.what))
        .collect()
}

/// The targets as a table; `subject` is the head of its first column.
#[must_use]
pub fn table(subject: &str, targets: &[Target]) -> Table {
    let mut table = Table::new(&[subject, "what", "must", "aim", "caudal", "holds"]);
    for target in targets {
        let sign = if target.at_least { "≥" } else { "≤" };
        let must = target.must.map(|must| format!("{sign} {}", number(must)));
        table.row(vec![
            target.subject.to_owned(),
            target.what.clone(),
            must.unwrap_or_default(),
            target.aim.map(number).unwrap_or_default(),
            target.measured.map(number).unwrap_or_default(),
            target.holds(),
        ]);
    }
    table
}

//! What must be reached, and whether it is.

use serde::Serialize;

use crate::count::LARGE;
use crate::memory::Measures;
use crate::message;
use crate::table::{Table, number};
use crate::time::Spread;
use crate::wire::{Goal, Key};

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
    /// Whether another scene decides for the same work.
    beside: bool,
    /// The quartiles of the rounds, if it is their median.
    rounds: Option<(f64, f64)>,
    /// The most that anybody could measure here, if that is known.
    bound: Option<f64>,
    /// What is known about why it is missed, if it is.
    why: Option<String>,
    /// What must be known whether it is missed or not.
    note: Option<String>,
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
            beside: false,
            rounds: None,
            bound: None,
            why: None,
            note: None,
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

    /// What a race must reach beside whom `goal` names.
    pub(crate) fn raced(
        subject: &'static str,
        key: Key,
        goal: &Goal,
        ratio: Option<Spread>,
    ) -> Self {
        let what = match key {
            Key::Median => "p50",
            Key::Rate(what) => what,
            Key::Tail => "p99",
        };
        let what = format!("{what}, × {}", goal.beside);
        let median = ratio.map(|ratio| ratio.median);
        Self {
            at_least: matches!(key, Key::Rate(_)),
            aim: goal.aim,
            ..Self::at_most(subject, what, goal.must, median).of(ratio)
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

    /// It is the median of these.
    pub(crate) fn of(mut self, rounds: Option<Spread>) -> Self {
        self.rounds = rounds.map(|rounds| (rounds.lower, rounds.upper));
        self.timed()
    }

    /// Another scene decides.
    pub(crate) fn beside(mut self, beside: bool) -> Self {
        self.beside = beside;
        self
    }

    /// Nobody could measure more.
    pub(crate) fn bounded(mut self, bound: Option<f64>) -> Self {
        self.bound = bound;
        self
    }

    /// Why it is missed, if it is.
    pub(crate) fn why(mut self, why: Option<String>) -> Self {
        self.why = why;
        self
    }

    /// What is said of it below the table in any case.
    pub(crate) fn note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// Nobody misses a row in silence.
    fn holds(&self) -> String {
        let missed = |word: &str| match self.cause() {
            Some(_) => format!("{word}, see below"),
            None => format!("{word}, not explained"),
        };
        match (self.measured, self.reaches(self.must)) {
            (None, _) => "not measured".to_owned(),
            (_, Some(true)) => match self.reaches(self.aim) {
                Some(true) => "yes, and the aim".to_owned(),
                Some(false) => "yes, not the aim".to_owned(),
                None => "yes".to_owned(),
            },
            (_, Some(false)) if self.is_out_of_reach() => missed("**out of reach**"),
            (_, Some(false)) if self.beside => missed("**no**, but another scene decides"),
            (_, Some(false)) => missed("**no**"),
            (_, None) if self.is_missed() => missed("aim missed"),
            (_, None) => "aim reached".to_owned(),
        }
    }

    /// Where nothing must be, the aim.
    fn wanted(&self) -> Option<f64> {
        self.must.or(self.aim)
    }

    fn is_missed(&self) -> bool {
        self.reaches(self.wanted()) == Some(false)
    }

    /// Whether what shows how much is possible does not get there either.
    fn is_out_of_reach(&self) -> bool {
        let bounded = Self {
            measured: self.bound,
            ..self.clone()
        };
        bounded.reaches(self.must) == Some(false)
    }

    /// Why it is missed. That the rounds of one run lie on both sides of what they
    /// should reach is a cause of its own.
    fn cause(&self) -> Option<String> {
        let wanted = self.wanted()?;
        let rounds = self.rounds.filter(|(lower, upper)| lower < upper);
        let rounds = rounds.map(|(lower, upper)| {
            let [lower, upper] = [lower, upper].map(number);
            format!("half of the rounds lie between {lower} and {upper}")
        });
        let undecided = self
            .rounds
            .is_some_and(|(lower, upper)| (lower..=upper).contains(&wanted));
        match (&self.why, rounds) {
            (Some(why), Some(rounds)) => Some(format!("{why}; {rounds}")),
            (Some(why), None) => Some(why.clone()),
            (None, rounds) => rounds.filter(|_| undecided),
        }
    }

    /// What is said of it below the table.
    fn remark(&self) -> Option<String> {
        let cause = self.is_missed().then(|| self.cause()).flatten();
        let said: Vec<String> = cause.into_iter().chain(self.note.clone()).collect();
        (!said.is_empty()).then(|| format!("{}, {}: {}", self.subject, self.what, said.join("; ")))
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
        Target::at_most(
            add.1,
            "time, × floor",
            1.0,
            time.map(|time: Spread| time.median),
        )
        .aim(0.6)
        .of(time),
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

/// The targets as a table, and below it why some are missed.
#[must_use]
pub fn write(targets: &[Target]) -> String {
    let mut text = table(targets).to_markdown();
    let remarks: Vec<String> = targets.iter().filter_map(Target::remark).collect();
    if !remarks.is_empty() {
        text.push('\n');
    }
    for remark in remarks {
        text.push_str(&format!("- {remark}.\n"));
    }
    text
}

fn table(targets: &[Target]) -> Table {
    let mut table = Table::new(&["subject", "what", "must", "aim", "caudal", "holds"]);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn target(measured: f64) -> Target {
        Target::at_least("pipe", "calls/s, × bare", 0.6, Some(measured))
    }

    fn rounds(lower: f64, median: f64, upper: f64) -> Option<Spread> {
        Some(Spread {
            lower,
            median,
            upper,
        })
    }

    #[test]
    fn a_row_that_is_missed_says_why_or_that_nobody_knows() {
        let known = target(0.5).why(Some("the cable is cut".to_owned()));
        let text = write(&[target(0.7), target(0.5), known]);
        assert!(text.contains(" **no**, not explained |"), "{text}");
        assert!(text.contains(" **no**, see below |"), "{text}");
        assert!(
            text.ends_with("\n- pipe, calls/s, × bare: the cable is cut.\n"),
            "{text}"
        );
        assert!(target(0.7).remark().is_none());
    }

    #[test]
    fn what_nobody_reaches_is_told_from_what_we_miss() {
        let missed = |bound| target(0.5).bounded(bound).why(Some("so it is".to_owned()));
        assert_eq!(missed(None).holds(), "**no**, see below");
        assert_eq!(missed(Some(0.7)).holds(), "**no**, see below");
        assert_eq!(missed(Some(0.55)).holds(), "**out of reach**, see below");
        assert_eq!(target(0.7).bounded(Some(0.55)).holds(), "yes");
    }

    #[test]
    fn what_does_not_decide_is_missed_all_the_same() {
        let missed = target(0.5).why(Some("so it is".to_owned())).beside(true);
        let held = missed.holds();
        assert_eq!(held, "**no**, but another scene decides, see below");
        assert!(missed.remark().is_some());
        assert_eq!(target(0.7).beside(true).holds(), "yes");
    }

    #[test]
    fn rounds_on_both_sides_are_a_cause() {
        let undecided = target(0.5).of(rounds(0.4, 0.5, 0.7));
        assert!(undecided.holds().ends_with("see below"));
        let clear = target(0.5).of(rounds(0.4, 0.5, 0.55));
        assert!(clear.holds().ends_with("not explained"));
    }

    #[test]
    fn what_is_only_aimed_at_is_explained_too() {
        assert_eq!(target(0.5).only_aim().holds(), "aim missed, not explained");
        assert_eq!(target(0.7).only_aim().holds(), "aim reached");
        assert_eq!(target(0.7).aim(0.7).holds(), "yes, and the aim");
        assert_eq!(target(0.7).aim(0.8).holds(), "yes, not the aim");
        assert_eq!(missed(&[target(0.5).only_aim()]), Vec::<String>::new());
    }
}

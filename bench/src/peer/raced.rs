//! What the peer must reach in the races over pipes and sockets.

use crate::table::number;
use crate::target::Target;
use crate::time::Spread;
use crate::wire::{Due, Figures, Outcome, Race, rows, rows_single, why};

const SINGLE: &str = "pipe, 1 in flight, one core";

/// In microseconds.
const MILLISECOND: f64 = 1_000.0;

/// Every target, with what was measured and what is known of its cause.
pub(super) fn targets(races: &[Race]) -> Vec<Target> {
    let races = Races(races);
    [
        single(&races),
        beside_bare(&races),
        opened(&races),
        beside_peers(&races),
    ]
    .concat()
}

struct Races<'a>(&'a [Race]);

impl<'a> Races<'a> {
    fn named(&self, name: &str) -> Option<&'a Race> {
        self.0.iter().find(|race| race.scene.name == name)
    }

    fn caudal(&self, name: &str) -> Option<&'a Outcome> {
        self.named(name)?.outcome("caudal")
    }

    /// What must be reached in the race `name`, beside the bare loop or beside the others.
    fn rates(&self, subject: &'static str, name: &str, bare: bool) -> Vec<Target> {
        let race = self.named(name);
        let rows = rows(self.0, name, subject).into_iter();
        let rows = rows.filter(|(goal, _)| (goal.beside == "bare") == bare);
        let rows = rows.map(|(goal, target)| {
            let base = goal.beside;
            target
                .bounded(race.and_then(|race| race.bound(base)))
                .why(race.and_then(|race| self.why(race, base, goal.must)))
                .note(race.and_then(|race| faster_pipes(race, base)))
        });
        rows.collect()
    }

    /// What is known, whatever the figures are; where nobody waits to be woken, only
    /// what would reach the target.
    fn why(&self, race: &Race, base: &str, must: f64) -> Option<String> {
        let bare = race.ratio("bare", base).map(|ratio| ratio.median);
        let bare = bare.filter(|bare| *bare < must && base != "bare");
        let bare = bare.map(|bare| format!("the bare loop is at {}", number(bare)));
        let bound = race.bound(base).map(|bound| {
            let bound = number(bound);
            format!(
                "`oracle`, which knows every answer and does not look at the calls, is at {bound}"
            )
        });
        let halts = matches!(race.scene.name, "pipe-64" | "tcp-64");
        let why_halts = "one end always waits for the other, and to wake a processor that has \
                         halted takes longer than to serve 64 calls";
        let reaching = if halts { 0.0 } else { must };
        let elsewhere = |name: &str, how: &str| {
            let ratio = self.named(name)?.ratio("caudal", base)?.median;
            (race.scene.name == "pipe-64").then(|| format!("{how} it is {}", number(ratio)))
        };
        why::all([
            bound,
            bare,
            halts.then(|| why_halts.to_owned()),
            race.worked("caudal", base, reaching),
            elsewhere("pipe-64-awake", "with processors that are kept awake"),
            elsewhere("pipe-64-core", "on one core"),
        ])
    }
}

/// rmcp is judged as its documentation shows it; what it can be told to use beside that is
/// named wherever it is.
fn faster_pipes(race: &Race, base: &str) -> Option<String> {
    let ratio = race
        .ratio("caudal", "rmcp-pipes")
        .filter(|_| base == "rmcp")?;
    Some(format!(
        "on `stdio_pipes`, which rmcp has beside its default since 3.6, it is {}",
        number(ratio.median)
    ))
}

fn single(races: &Races<'_>) -> Vec<Target> {
    let race = races.named("pipe-1");
    let mut targets = rows_single(races.0, "pipe-1", SINGLE);
    let outcomes = race.into_iter().flat_map(|race| &race.outcomes);
    let others =
        outcomes.filter(|outcome| !["bare", "caudal", "caudal-async"].contains(&outcome.name));
    targets.extend(others.map(|other| {
        let ratio = race.and_then(|race| race.ratio(other.name, "caudal"));
        let what = format!("p50 of {}, × caudal's", other.name);
        Target::at_least(SINGLE, what, 1.0, ratio.map(|ratio| ratio.median)).of(ratio)
    }));
    let futexes = races.caudal("pipe-1").and_then(|caudal| {
        let futexes = caudal.cost?.traffic?.futexes;
        Some((futexes * 100.0).round() / 100.0)
    });
    targets.push(Target::at_most(SINGLE, "futex calls per message", 0.0, futexes).only_aim());
    targets
}

fn beside_bare(races: &Races<'_>) -> Vec<Target> {
    let pipe = "pipe, 64 in flight, two cores";
    let tcp = "TCP, 64 in flight";
    let writes = races.caudal("pipe-64").map(Outcome::writes);
    let sends = races
        .caudal("tcp-64")
        .and_then(|caudal| Some(caudal.cost?.traffic?.sends));
    let rate = |subject, name| races.rates(subject, name, true);
    [
        rate("pipe, 64 in flight, one core", "pipe-64-core"),
        rate("pipe, 64 in flight, two cores, awake", "pipe-64-awake"),
        rate(pipe, "pipe-64"),
        vec![Target::at_most(pipe, "writes per reply", 0.05, writes).timed()],
        rate("pipe, 10,000 in flight", "pipe-10000"),
        rate(tcp, "tcp-64"),
        vec![Target::at_most(tcp, "sends per reply", 0.05, sends)],
    ]
    .concat()
}

/// From sending, so network and server alone: how late the generator is, which shares
/// the processors with the server, is said beside it.
fn opened(races: &Races<'_>) -> Vec<Target> {
    let race = races.named("open");
    let micros = |outcome: &Outcome, of: fn(&Figures) -> u64| {
        let micros = |figures: &Figures| of(figures) as f64 / 1000.0;
        Spread::of(outcome.rounds.iter().map(micros).collect())
    };
    let row = |subject, name, what, of: fn(&Figures) -> u64, from_due: fn(Due) -> u64| {
        let outcome = race.and_then(|race| race.outcome(name));
        let measured = outcome.map(|outcome| micros(outcome, of));
        let median = measured.map(|measured| measured.median);
        let note = outcome.map(|outcome| {
            let due = |of: fn(Due) -> u64| {
                let of = |figures: &Figures| of(figures.due.unwrap_or_default()) as f64;
                number((outcome.median(of) / 1000.0).round())
            };
            format!(
                "from sending {} µs, from when a call was due {} µs",
                number(median.unwrap_or(f64::NAN).round()),
                due(from_due),
            )
        });
        let why = race.zip(outcome).and_then(|(race, outcome)| {
            let bare = micros(race.outcome("bare")?, of).median;
            let late = micros(outcome, |f| f.due.unwrap_or_default().late_p99_ns).median;
            let busy = late > MILLISECOND || bare > MILLISECOND;
            busy.then(|| {
                let [bare, late] = [bare, late].map(|it| number(it.round()));
                format!(
                    "no processor was free in time: `load` itself was late by {late} µs (p99), \
                     and the bare loop is at {bare} µs"
                )
            })
        });
        Target::at_most(subject, what, MILLISECOND, median)
            .of(measured)
            .why(why)
            .note(note)
    };
    let rows = |subject, name| {
        [
            row(subject, name, "p99, µs", |f| f.p99_ns, |due| due.p99_ns),
            row(subject, name, "p99.9, µs", |f| f.p999_ns, |due| due.p999_ns).only_aim(),
        ]
    };
    let sync = rows("open loop, TCP", "caudal");
    let ready = rows("open loop, TCP, async handlers", "caudal-async");
    sync.into_iter().chain(ready).collect()
}

fn beside_peers(races: &Races<'_>) -> Vec<Target> {
    let scenes = [
        ("pipe, 64 in flight, one core", "pipe-64-core"),
        ("pipe, 10,000 in flight", "pipe-10000"),
        ("pipe, 64 in flight, two cores, awake", "pipe-64-awake"),
        ("pipe, 64 in flight, two cores", "pipe-64"),
        ("TCP, 64 in flight", "tcp-64"),
    ];
    let rates = |(subject, name)| races.rates(subject, name, false);
    scenes.into_iter().flat_map(rates).collect()
}

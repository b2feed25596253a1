//! The codec in memory: bytes in, reply bytes appended to a buffer that is reused.
//!
//! Times are taken without a counting allocator. Instructions are callgrind's.

use std::time::{Duration, Instant};

use super::Bench;
use crate::callgrind::{self, Case};
use crate::contestant::{self, Contestant, DECODED, DECODERS, SERVERS};
use crate::count;
use crate::message::{self, Message};
use crate::table::{Bound, Section, Table, number};
use crate::turns::{self, median, ratio};

/// Bounds for caudal-core: message, what is counted, most.
const TARGETS: [(&str, &str, f64); 9] = [
    ("add", "instructions", 2_500.0),
    ("add", "allocations", 0.0),
    ("typed-1k", "instructions", 40_000.0),
    ("typed-1k", "allocations", 30.0),
    ("pass-1k", "instructions", 18_200.0),
    ("pass-1k", "allocations", 0.0),
    ("pass-100k", "instructions", 1_900_000.0),
    ("batch-100", "instructions", 270_000.0),
    ("batch-100", "allocations", 8.0),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let messages = message::all();
    contestant::check(&messages)?;
    let mut section = Section::new("Codec in memory");
    let all: Vec<_> = messages
        .iter()
        .map(|message| (message, &SERVERS[..]))
        .collect();
    let table = contest(bench, &all, "floor", &mut section)?;
    section.titled("Decode, add or echo, encode", &table);
    let decoded: Vec<_> = messages
        .iter()
        .filter(|message| DECODED.contains(&message.name))
        .map(|message| (message, &DECODERS[..]))
        .collect();
    let table = contest(bench, &decoded, "sonic-rs", &mut section)?;
    section.titled("Decode alone: no typed params, no reply", &table);
    section.note(NOTES);
    Ok(section)
}

/// Lets contestants take turns on each message; ratios are to the contestant `base`.
fn contest(
    bench: &Bench,
    races: &[(&Message, &[&'static str])],
    base: &str,
    section: &mut Section,
) -> Result<Table, String> {
    let mut runners = Vec::new();
    let mut timed = Vec::new();
    for (message, names) in races {
        let mut all: Vec<Runner<'_>> = names
            .iter()
            .map(|name| Runner::warmed_up(name, message, bench.quick))
            .collect();
        let rounds = bench.rounds() * 2 + 1;
        let turns = turns::take(rounds, &mut all, |runner| Ok(runner.turn()))?;
        let base = all.iter().position(|runner| runner.name == base);
        let base = &turns[base.ok_or("the base takes part")?];
        let figures = |ns: &Vec<f64>| (median(ns, |ns| *ns), ratio(ns, base, |ns| *ns));
        timed.extend(turns.iter().map(figures));
        runners.extend(all);
    }
    let cases = runners.iter();
    let cases = cases.map(|it| Case::new(it.name, it.message.name, it.message.bytes.len()));
    let cases: Vec<_> = cases.collect();
    let counted = callgrind::of_cases(&cases)?.into_iter();
    let counted = counted.zip(count::of_cases(&cases)?);
    let against = format!("× {base} (quartiles)");
    let mut table = Table::new(&[
        "message",
        "contestant",
        "ns/message",
        &against,
        "allocations",
        "instructions",
    ]);
    for ((runner, (ns, over)), (instructions, allocations)) in
        runners.iter().zip(timed).zip(counted)
    {
        table.row(vec![
            format!("`{}`", runner.message.name),
            runner.name.to_owned(),
            number(ns.round()),
            over.to_string(),
            number(allocations),
            number(instructions.round()),
        ]);
        if runner.name == "caudal-core" {
            let counted = [instructions, allocations];
            targets(section, runner.message.name, over.median, counted);
        }
    }
    Ok(table)
}

fn targets(
    section: &mut Section,
    message: &'static str,
    over_floor: f64,
    [instructions, allocations]: [f64; 2],
) {
    if message == "add" {
        let most = Bound::AtMost(1.0);
        section.timed("caudal-core, `add`", "time, × floor", most, over_floor);
    }
    for (_, what, most) in TARGETS.iter().filter(|(name, ..)| *name == message) {
        let figure = match *what {
            "instructions" => instructions,
            _ => allocations,
        };
        let what = format!("`{message}`, {what}");
        section.counted("caudal-core", &what, Bound::AtMost(*most), Some(figure));
    }
}

/// A contestant that takes as many messages in each turn as it took to warm up.
struct Runner<'a> {
    name: &'static str,
    contestant: Box<dyn Contestant>,
    message: &'a Message,
    messages: u32,
    out: Vec<u8>,
}

impl<'a> Runner<'a> {
    fn warmed_up(name: &'static str, message: &'a Message, quick: bool) -> Self {
        let mut runner = Self {
            name,
            contestant: contestant::named(name).expect("a contestant"),
            message,
            messages: 0,
            out: Vec::new(),
        };
        let turn = Duration::from_millis(if quick { 5 } else { 30 });
        let start = Instant::now();
        while start.elapsed() < turn {
            contestant::run(&mut *runner.contestant, message, 4, &mut runner.out);
            runner.messages += 4;
        }
        runner
    }

    /// Returns nanoseconds per message.
    fn turn(&mut self) -> f64 {
        let start = Instant::now();
        let Self {
            contestant, out, ..
        } = self;
        contestant::run(&mut **contestant, self.message, self.messages, out);
        start.elapsed().as_nanos() as f64 / f64::from(self.messages)
    }
}

const NOTES: &str = "
`floor` is a derived serde envelope with raw spans and no rules at all. `caudal` is `Router::handle`, which finds a method in its
table and makes a reply of its own; `caudal-core` is the codec alone around a `match`.
`jsonrpsee` is what its server does with the bytes of a request. Instructions and allocations are per
message; the reply buffer is reused and free. A batch of the router pauses by the clock, which
runs on under callgrind: there it takes more instructions than otherwise.
";

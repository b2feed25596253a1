//! The whole run: check, race, count, callgrind; then everything as Markdown.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::callgrind::Callgrind;
use crate::contestant::{self, DECODED, DECODERS, PENDING, SERVERS};
use crate::count::{self, Count, LARGE_NAME};
use crate::message::{self, Message};
use crate::table::{Table, number, number_or_na};
use crate::time::{self, Plan, Time};
use crate::{machine, peer, quiet, target, web, wire};

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Measures {
    /// By message and group of contestants.
    races: Vec<(&'static str, Vec<Time>)>,
    counts: Vec<Count>,
    instructions: HashMap<(&'static str, &'static str), f64>,
}

impl Measures {
    fn count(&self, contestant: &str, message: &str) -> Option<&Count> {
        let mut counts = self.counts.iter();
        counts.find(|count| count.contestant == contestant && count.message == message)
    }

    #[must_use]
    pub fn allocations(&self, contestant: &str, message: &str) -> Option<f64> {
        self.count(contestant, message)
            .map(|count| count.allocations)
    }

    #[must_use]
    pub fn instructions(&self, contestant: &'static str, message: &'static str) -> Option<f64> {
        self.instructions.get(&(contestant, message)).copied()
    }

    /// The contestant's time over the floor's.
    #[must_use]
    pub fn ratio(&self, contestant: &str, message: &str) -> Option<f64> {
        let races = self.races.iter().filter(|(name, _)| *name == message);
        let mut times = races.flat_map(|(_, times)| times);
        let time = times.find(|time| time.contestant == contestant);
        time.map(|time| time.ratio.median)
    }
}

/// Measures everything and returns it as Markdown, with the targets that were
/// missed.
///
/// # Errors
/// A contestant answers wrongly, or a child could not be run.
pub fn whole(quick: bool) -> Result<(String, Vec<String>), String> {
    let messages = message::all();
    contestant::check(&messages)?;
    let (measures, have_valgrind) = measure(&messages, quick)?;
    let mut text = write(&messages, &measures, have_valgrind, quick);
    let mut missed = target::missed(&target::of_core(&measures));
    let (tables, more) = processes(quick, Parts::ALL)?;
    text.push_str(&tables);
    missed.extend(more);
    Ok((text, missed))
}

/// What runs in processes of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub peer: bool,
    /// The races over pipes and sockets.
    pub wire: bool,
    /// HTTP and WebSocket.
    pub web: bool,
}

impl Parts {
    const ALL: Self = Self {
        peer: true,
        wire: true,
        web: true,
    };

    #[must_use]
    pub const fn any(self) -> bool {
        self.peer || self.wire || self.web
    }
}

/// The same for some of what runs in processes of its own.
///
/// # Errors
/// A program could not be built or run, or answered wrongly.
pub fn processes(quick: bool, parts: Parts) -> Result<(String, Vec<String>), String> {
    let measures = parts.peer.then(|| peer::run(quick)).transpose()?;
    let races = parts.wire.then(|| wire::run(quick)).transpose()?;
    let web = parts.web.then(|| web::run(quick)).transpose()?;
    let of_peer = peer::targets(measures.as_ref(), races.as_deref());
    let of_web = web.as_ref().map(web::targets).unwrap_or_default();
    let mut text = String::new();
    for (title, targets) in [("the peer", &of_peer), ("HTTP and WebSocket", &of_web)] {
        if !targets.is_empty() {
            let _ = write!(text, "\n## Targets of {title}\n\n");
            text.push_str(&target::table("subject", targets).to_markdown());
        }
    }
    text.extend(measures.as_ref().map(peer::write));
    text.extend(races.as_deref().map(wire::write));
    text.extend(web.as_ref().map(web::write));
    text.push_str(&quiet::describe());
    Ok((text, target::missed(&[of_peer, of_web].concat())))
}

fn measure(messages: &[Message], quick: bool) -> Result<(Measures, bool), String> {
    let mut measures = Measures {
        counts: count::run()?,
        ..Measures::default()
    };
    let plan = Plan {
        rounds: if quick { 7 } else { 15 },
        turn: Duration::from_millis(if quick { 15 } else { 30 }),
    };
    let decoded = || {
        messages
            .iter()
            .filter(|message| DECODED.contains(&message.name))
    };
    for message in messages {
        let times = time::race(&SERVERS, "floor", message, plan);
        measures.races.push((message.name, times));
    }
    for message in decoded() {
        let times = time::race(&DECODERS, "serde-spans", message, plan);
        measures.races.push((message.name, times));
    }
    let Some(callgrind) = Callgrind::find() else {
        return Ok((measures, false));
    };
    let servers = messages
        .iter()
        .flat_map(|message| SERVERS.map(|name| (name, message)));
    let decoders = decoded().flat_map(|message| DECODERS.map(|name| (name, message)));
    for (name, message) in servers.chain(decoders) {
        let skipped = quick && !["add", "batch-100"].contains(&message.name);
        if contestant::takes(name, message) && !skipped {
            let taken = callgrind.per_message(name, message)?;
            measures.instructions.insert((name, message.name), taken);
        }
    }
    // It takes no message; a long one makes callgrind run it a few times only.
    for name in PENDING {
        let taken =
            callgrind.per_message(name, &message::named("pass-100k").ok_or("no message")?)?;
        measures.instructions.insert((name, "pending"), taken);
    }
    Ok((measures, true))
}

fn write(messages: &[Message], measures: &Measures, valgrind: bool, quick: bool) -> String {
    let mut text = String::from(TITLE);
    text.push_str(&machine::describe());
    text.push_str(&machine::versions());
    if !valgrind {
        text.push_str("- **valgrind is not installed: no instructions were counted**\n");
    }
    if quick {
        text.push_str("- `--quick`: fewer rounds, instructions for two messages only\n");
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&target::table("message", &target::of_core(measures)).to_markdown());
    for (name, times) in measures.races.iter().take(messages.len()) {
        let message = messages.iter().find(|message| message.name == *name);
        let (what, size) = message.map_or(("", 0), |m| (m.what, m.bytes.len()));
        let size = number(size as f64);
        let _ = write!(text, "\n## `{name}`: {what}, {size} bytes\n\n");
        text.push_str(&contest(measures, name, times, "floor").to_markdown());
    }
    text.push_str("\n## Decoding alone: no typed params, no reply\n");
    for (name, times) in measures.races.iter().skip(messages.len()) {
        let _ = write!(text, "\n`{name}`\n\n");
        text.push_str(&contest(measures, name, times, "serde-spans").to_markdown());
    }
    text.push_str("\n## Outgoing calls: entered, half of them answered, the others expired\n\n");
    let mut table = Table::new(&["calls that wait at once", "instructions per call"]);
    for name in PENDING {
        let calls = name.trim_start_matches("pending-").parse().unwrap_or(1.0);
        let taken = measures.instructions(name, "pending");
        table.row(vec![
            number(calls),
            number_or_na(taken.map(|taken| taken / calls)),
        ]);
    }
    text.push_str(&table.to_markdown());
    text.push_str("\n## One message of 4 MiB, params `[0,0,0,…]`, echoed\n\n");
    text.push_str(&large(measures).to_markdown());
    text.push_str(NOTES);
    text
}

fn contest(
    measures: &Measures,
    message: &'static str,
    times: &[Time],
    base: &'static str,
) -> Table {
    let ratio = format!("× {base} (quartiles)");
    let mut table = Table::new(&[
        "contestant",
        "ns/message",
        &ratio,
        "allocations",
        "bytes allocated",
        "instructions",
        &format!("× {base}"),
    ]);
    let base = measures.instructions(base, message);
    for time in times {
        let count = measures.count(time.contestant, message);
        let instructions = measures.instructions(time.contestant, message);
        let relative = instructions.zip(base).map(|(ours, base)| ours / base);
        table.row(vec![
            time.contestant.to_owned(),
            number(time.ns.round()),
            format!(
                "{:.2} ({:.2}–{:.2})",
                time.ratio.median, time.ratio.lower, time.ratio.upper
            ),
            number_or_na(count.map(|count| count.allocations)),
            number_or_na(count.map(|count| count.bytes)),
            number_or_na(instructions),
            relative.map_or_else(|| "n/a".to_owned(), |relative| format!("{relative:.2}")),
        ]);
    }
    table
}

fn large(measures: &Measures) -> Table {
    let mut table = Table::new(&["contestant", "peak, bytes beyond the input", "× the input"]);
    for (name, bound) in [("caudal", "≤"), ("value", "≥")] {
        let peak = measures.count(name, LARGE_NAME).map(|count| count.bytes);
        let relative = peak.map(|peak| peak / count::LARGE as f64);
        table.row(vec![
            name.to_owned(),
            format!("{bound} {}", number_or_na(peak)),
            format!("{bound} {}", number_or_na(relative)),
        ]);
    }
    table
}

const TITLE: &str = "# Performance

caudal-core beside its peers in memory, then the peer, then servers over pipes and
sockets, then HTTP and WebSocket. Printed by `cargo run --release` in `bench/`: instructions, allocations
and memory repeat; times are for ratios within one run.

";

const NOTES: &str = "
Notes

- Times are medians over rounds in which the contestants take turns; ratios are
  taken within a round. Times are measured without a counting allocator.
- Allocations count `alloc` and `realloc`; the reply buffer is reused and free.
- Instructions are callgrind's, start-up subtracted.
- `jsonrpsee` is `RpcModule::raw_json_request`, which takes no batches;
  `jsonrpsee-server` is what its server does with the bytes of a request.
- All contestants share one build of serde_json, with `raw_value` and, because
  caudal-core asks for it, `float_roundtrip`.
- 4 MiB: the reply, as long as the input, is included. caudal: all bytes it
  ever allocated; `value`: the bytes it holds when the reply is written.
";

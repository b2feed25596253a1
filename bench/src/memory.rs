//! In memory: bytes in, bytes out, no pipe and no socket.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::callgrind::Callgrind;
use crate::contestant::{self, DECODED, DECODERS, PENDING, SERVERS};
use crate::count::{self, Count, LARGE_NAME};
use crate::message::{self, Message};
use crate::table::{Table, number, number_or_na};
use crate::time::{self, Plan, Spread, Time};

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Measures {
    #[serde(skip)]
    messages: Vec<Message>,
    /// By message and group of contestants.
    races: Vec<(&'static str, Vec<Time>)>,
    counts: Vec<Count>,
    #[serde(serialize_with = "by_name")]
    instructions: HashMap<(&'static str, &'static str), f64>,
}

/// JSON has no pairs for keys.
fn by_name<S: Serializer>(
    instructions: &HashMap<(&'static str, &'static str), f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let named = |(&(contestant, message), taken)| (format!("{contestant}, {message}"), taken);
    let named: BTreeMap<_, _> = instructions.iter().map(named).collect();
    named.serialize(serializer)
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

    /// The bytes that caudal-core allocates for a large message that it passes through.
    #[must_use]
    pub fn large(&self) -> Option<f64> {
        self.count("caudal-core", LARGE_NAME)
            .map(|count| count.bytes)
    }

    /// The contestant's time over the floor's.
    #[must_use]
    pub fn ratio(&self, contestant: &str, message: &str) -> Option<Spread> {
        let races = self.races.iter().filter(|(name, _)| *name == message);
        let mut times = races.flat_map(|(_, times)| times);
        let time = times.find(|time| time.contestant == contestant);
        time.map(|time| time.ratio)
    }
}

/// Measures everything.
///
/// # Errors
/// A contestant answers wrongly, or a child could not be run.
pub fn run(quick: bool) -> Result<Measures, String> {
    let messages = message::all();
    contestant::check(&messages)?;
    measure(messages, quick)
}

fn measure(messages: Vec<Message>, quick: bool) -> Result<Measures, String> {
    let mut measures = Measures {
        counts: count::run()?,
        ..Measures::default()
    };
    let plan = Plan {
        rounds: if quick { 3 } else { 15 },
        turn: Duration::from_millis(if quick { 15 } else { 30 }),
    };
    let decoded = || {
        messages
            .iter()
            .filter(|message| DECODED.contains(&message.name))
    };
    for message in &messages {
        let times = time::race(&SERVERS, "floor", message, plan);
        measures.races.push((message.name, times));
    }
    for message in decoded() {
        let times = time::race(&DECODERS, "serde-spans", message, plan);
        measures.races.push((message.name, times));
    }
    if let Some(callgrind) = Callgrind::find() {
        measures.instructions = instructions(&callgrind, &messages, quick)?;
    }
    measures.messages = messages;
    Ok(measures)
}

fn instructions(
    callgrind: &Callgrind,
    messages: &[Message],
    quick: bool,
) -> Result<HashMap<(&'static str, &'static str), f64>, String> {
    let mut all = HashMap::new();
    let servers = messages
        .iter()
        .flat_map(|message| SERVERS.map(|name| (name, message)));
    let is_decoded = |message: &&Message| DECODED.contains(&message.name);
    let decoded = messages.iter().filter(is_decoded);
    let decoders = decoded.flat_map(|message| DECODERS.map(|name| (name, message)));
    for (name, message) in servers.chain(decoders) {
        let asked = ["caudal", "caudal-core", "jsonrpsee-server"].contains(&name);
        let skipped = quick && !(asked && ["add", "batch-100"].contains(&message.name));
        if contestant::takes(name, message) && !skipped {
            let taken = callgrind.per_message(name, message)?;
            all.insert((name, message.name), taken);
        }
    }
    // It takes no message; a long one makes callgrind run it a few times only.
    for name in PENDING.iter().filter(|_| !quick) {
        let taken =
            callgrind.per_message(name, &message::named("pass-100k").ok_or("no message")?)?;
        all.insert((name, "pending"), taken);
    }
    Ok(all)
}

/// Every table, and what must be known to read them.
#[must_use]
pub fn write(measures: &Measures) -> String {
    let messages = &measures.messages;
    let mut text = String::from("\n## In memory\n");
    for (name, times) in measures.races.iter().take(messages.len()) {
        let message = messages.iter().find(|message| message.name == *name);
        let (what, size) = message.map_or(("", 0), |m| (m.what, m.bytes.len()));
        let size = number(size as f64);
        let _ = write!(text, "\n### `{name}`: {what}, {size} bytes\n\n");
        text.push_str(&contest(measures, name, times, "floor").to_markdown());
    }
    text.push_str("\n### Decoding alone: no typed params, no reply\n");
    for (name, times) in measures.races.iter().skip(messages.len()) {
        let _ = write!(text, "\n`{name}`\n\n");
        text.push_str(&contest(measures, name, times, "serde-spans").to_markdown());
    }
    text.push_str("\n### Outgoing calls: entered, half of them answered, the others expired\n\n");
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
    text.push_str("\n### One message of 4 MiB, params `[0,0,0,…]`, echoed\n\n");
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
    for (name, bound) in [("caudal-core", "≤"), ("value", "≥")] {
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

const NOTES: &str = "
Notes on what happens in memory

- Times are medians over rounds in which the contestants take turns; ratios are
  taken within a round. Times are measured without a counting allocator.
- Allocations count `alloc` and `realloc`; the reply buffer is reused and free.
- Instructions are callgrind's, start-up subtracted.
- `caudal` is the product but for the connection: `Router::handle`, which finds a method in
  its table, calls the handler that is registered and makes a reply of its own, which is
  copied. `caudal-core` is the codec alone around handlers known to a `match`, as in `floor`
  and `value`.
- `jsonrpsee` is `RpcModule::raw_json_request`, which takes no batches;
  `jsonrpsee-server` is what its server does with the bytes of a request.
- All contestants share one build of serde_json, with `raw_value` and, because
  caudal-core asks for it, `float_roundtrip`.
- 4 MiB: the reply, as long as the input, is included. caudal-core: all bytes it
  ever allocated; `value`: the bytes it holds when the reply is written.
";

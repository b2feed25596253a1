//! Races as Markdown.

use std::fmt::Write as _;

use super::cost::Traffic;
use super::race::{Outcome, Race};
use super::scene::Key;
use super::{Due, Figures};
use crate::table::{Table, number, number_or_na};
use crate::time::Spread;

/// Every race as a table.
#[must_use]
pub fn write(races: &[Race]) -> String {
    let mut text = String::new();
    for race in races {
        let _ = write!(text, "\n### {}\n\n", race.scene.title);
        text.push_str(&table(race).to_markdown());
    }
    text
}

fn table(race: &Race) -> Table {
    let key = race.scene.key;
    let base = race.outcomes.first().map_or("", |first| first.name);
    let against = match key {
        Key::Median => format!("p50 × {base} (quartiles)"),
        Key::Rate(_) => format!("× {base} (quartiles)"),
        Key::Tail => format!("p99 × {base} (quartiles)"),
    };
    // The kernel does not count what goes to a socket.
    let writes = race.scene.transport == "stdio" && matches!(key, Key::Rate(_));
    let mut heads = vec!["server"];
    let framed = matches!(race.scene.transport, "stdio" | "tcp");
    heads.extend(framed.then_some("framing"));
    match key {
        Key::Median => heads.extend(["p50, µs", "p99, µs", &against]),
        Key::Rate(unit) => heads.extend([unit, &against]),
        Key::Tail => heads.extend([
            "p50, µs",
            "p99, µs",
            "p99.9, µs",
            &against,
            "p99 from due, µs",
            "p99.9 from due, µs",
            "load late, p99, µs",
        ]),
    }
    heads.extend(writes.then_some("writes per reply"));
    if race.scene.counted.is_some() {
        heads.extend(["instructions", "code lines", "data lines"]);
    }
    let traced = race.scene.traced.is_some();
    let sockets = traced && race.scene.transport != "stdio";
    if sockets {
        heads.extend(["receives", "sends"]);
    }
    if traced {
        heads.extend(["futex calls", "system calls"]);
    }
    heads.extend(["server CPU", "load CPU"]);
    let mut table = Table::new(&heads);
    for outcome in &race.outcomes {
        let mut cells = vec![outcome.name.to_owned()];
        cells.extend(framed.then(|| outcome.framing.to_owned()));
        cells.extend(measures(key, outcome));
        cells.extend(writes.then(|| format!("{:.3}", outcome.writes())));
        let cost = outcome.cost.unwrap_or_default();
        if race.scene.counted.is_some() {
            let counted = [cost.instructions, cost.code, cost.data];
            cells.extend(counted.map(|count| number_or_na(count.map(f64::round))));
        }
        let asked = |of: fn(&Traffic) -> f64| times(cost.traffic.as_ref().map(of));
        if sockets {
            cells.extend([asked(|t| t.receives), asked(|t| t.sends)]);
        }
        if traced {
            cells.extend([asked(|t| t.futexes), asked(|t| t.all)]);
        }
        let server = outcome.median(|figures| figures.server_cpu.unwrap_or(f64::NAN));
        cells.push(percent(server));
        cells.push(percent(outcome.median(|figures| figures.load_cpu)));
        table.row(cells);
    }
    table
}

fn measures(key: Key, outcome: &Outcome) -> Vec<String> {
    let ratio = ratio(outcome.ratio);
    let p50 = micros(outcome.median(|figures| figures.p50_ns as f64));
    let p99 = micros(outcome.median(|figures| figures.p99_ns as f64));
    match key {
        Key::Median => vec![p50, p99, ratio],
        Key::Rate(_) => {
            let rate = outcome.median(|figures| figures.per_second);
            vec![number(rate.round()), ratio]
        }
        Key::Tail => {
            let p999 = micros(outcome.median(|figures| figures.p999_ns as f64));
            let due = |of: fn(Due) -> u64| {
                let of = |figures: &Figures| of(figures.due.unwrap_or_default()) as f64;
                micros(outcome.median(of))
            };
            vec![
                p50,
                p99,
                p999,
                ratio,
                due(|due| due.p99_ns),
                due(|due| due.p999_ns),
                due(|due| due.late_p99_ns),
            ]
        }
    }
}

/// Those far below one need another digit to differ at all.
pub(crate) fn ratio(of: Spread) -> String {
    let digits = if of.median < 0.1 { 3 } else { 2 };
    let Spread {
        lower,
        median,
        upper,
    } = of;
    format!("{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
}

fn times(count: Option<f64>) -> String {
    count.map_or_else(|| "n/a".to_owned(), |count| format!("{count:.3}"))
}

fn micros(ns: f64) -> String {
    match ns {
        // A start takes long.
        1_000_000.0.. => number((ns / 1000.0).round()),
        _ => format!("{:.1}", ns / 1000.0),
    }
}

pub(crate) fn percent(share: f64) -> String {
    match share.is_nan() {
        true => "n/a".to_owned(),
        false => format!("{:.0} %", share * 100.0),
    }
}

/// What must be known to read the tables of pipes and sockets.
pub const WIRE_NOTES: &str = "
Notes on pipes and sockets

- Every server is a process that adds two integers; `load` is another, with one
  thread and no runtime. CPU is the share of one core each of them took.
- `bare` is a blocking loop: read, serde, add, one write per read. Each server
  is compared with `bare` in its own framing: lines, or Content-Length headers.
- async-lsp, tower-lsp-server and lsp-server get a custom request `add` after
  `initialize`; rmcp gets `tools/call`, whose messages are longer.
- Waking the other core costs more than all that a server does for 64 calls: over
  two cores the bare loop and caudal sleep about half of the time, and slower
  servers hide their work behind the wait. So servers are compared with each other
  on one core, and with 10,000 in flight, where they never sleep; over two cores
  that halt no server can pass `oracle`, whose figure is below the targets that are missed.
- vscode-jsonrpc runs on Node and is one of two for scale; the other is in Python.
- lsp-server does not set TCP_NODELAY and takes no socket: over TCP its socket threads
  are written again in the bench, line for line, with TCP_NODELAY.
- Slow handlers: with 64 in flight, 6,400 calls a second are possible. tower-lsp-server
  has its default, four calls at once; lsp-server, whose loop has one thread, and
  python-lsp-jsonrpc, which has five threads for such handlers, take no part.
- Writes are all calls of `write` and `writev`: also those by which a runtime
  wakes its own threads. What is sent on a socket is not among them.
- Receives, sends, futex calls and all system calls are strace's, for one call: the
  difference of two runs in lockstep, the next window when the last is answered.
- Instructions and lines are callgrind's, the same way. Code and data lines are those, of
  64 bytes, that a call needs and a cache of 32 KiB for each does not have any more.
- 10,000 calls are more than a pipe holds: the rest of them wait in `load`.
- Open loop: half of the calls are an `echo` of about 1 KB. They are due at fixed
  times, and `load` never waits for a reply before it sends. Latency counts from the
  time at which a call was sent, and beside it from the time at which it was due: the
  difference is how late `load` was, which shares the processors with the server.
";

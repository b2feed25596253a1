//! The races over pipes and sockets as Markdown.

use std::fmt::Write as _;

use super::race::{Key, Outcome, Race};
use crate::table::{Table, number};
use crate::time::Spread;

/// Every race as a table, and what must be known to read them.
#[must_use]
pub fn write(races: &[Race]) -> String {
    let mut text = String::from("\n## Over pipes and sockets\n");
    for race in races {
        let _ = write!(text, "\n### {}\n\n", race.scene.title);
        text.push_str(&table(race).to_markdown());
    }
    text.push_str(NOTES);
    text
}

fn table(race: &Race) -> Table {
    let heads: &[&str] = match race.scene.key {
        Key::Median => &["p50, µs", "p99, µs", "p50 × bare (quartiles)"],
        Key::Rate => &["calls/s", "× bare (quartiles)", "writes per reply"],
        Key::Tail => &[
            "p50, µs",
            "p99, µs",
            "p99.9, µs",
            "p99 × bare (quartiles)",
            "load late, p99, µs",
        ],
    };
    let ends = ["server CPU", "load CPU"];
    let mut table = Table::new(&[&["server", "framing"], heads, &ends].concat());
    for outcome in &race.outcomes {
        let mut cells = vec![outcome.name.to_owned(), outcome.framing.to_owned()];
        cells.extend(measures(race.scene.key, outcome));
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
        Key::Rate => {
            let writes = match outcome.writes() {
                // The kernel does not count what goes to a socket.
                ..0.000_1 => "n/a".to_owned(),
                writes => format!("{writes:.3}"),
            };
            let rate = outcome.median(|figures| figures.per_second);
            vec![number(rate.round()), ratio, writes]
        }
        Key::Tail => {
            let p999 = micros(outcome.median(|figures| figures.p999_ns as f64));
            let late = outcome.median(|figures| figures.late_p99_ns.unwrap_or(0) as f64);
            vec![p50, p99, p999, ratio, micros(late)]
        }
    }
}

/// Those far below one need another digit to differ at all.
fn ratio(of: Spread) -> String {
    let digits = if of.median < 0.1 { 3 } else { 2 };
    let Spread {
        lower,
        median,
        upper,
    } = of;
    format!("{median:.digits$} ({lower:.digits$}–{upper:.digits$})")
}

fn micros(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

const NOTES: &str = "
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
  on one core, and with 10,000 in flight, where they never sleep; over two cores no
  server can pass the bare loop, whose figure is beside a row that is missed.
- Writes are all calls of `write` and `writev`: also those by which a runtime
  wakes its own threads. What is sent on a socket is not counted.
- 10,000 calls are more than a pipe holds: the rest of them wait in `load`.
- Open loop: half of the calls are an `echo` of about 1 KB. They are due at fixed
  times, and `load` never waits for a reply before it sends. Latency counts from
  the time at which a call was sent; how late `load` itself was is beside it.
";

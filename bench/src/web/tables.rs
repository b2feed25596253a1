//! What was measured of HTTP and WebSocket, as Markdown.

use super::Measures;
use super::calls::Calls;
use super::held::IDLE;
use crate::chart::{BarChart, Scale};
use crate::table::{Table, number, number_or_na};
use crate::wire::{self, percent, ratio};

/// Every table, and what must be known to read them.
#[must_use]
pub fn write(measures: &Measures) -> String {
    let mut text = String::from("\n## HTTP and WebSocket\n");
    text.push_str(&wire::write(&measures.races));
    let mut section = |title: &str, table: Table| {
        text.push_str(&format!("\n### {title}\n\n"));
        text.push_str(&table.to_markdown());
    };
    for calls in &measures.calls {
        section(calls.clients.title, called(calls));
    }
    let title = format!("An idle connection, of {}", number(IDLE as f64));
    section(&title, idle(measures));
    section("A server with HTTP and WebSocket", small(measures));
    text.push_str(NOTES);
    text
}

/// What a call costs a server, which is what differs: most of its time is the kernel's.
#[must_use]
pub fn chart(measures: &Measures) -> Option<(&'static str, String)> {
    let group = |name: &str, title: &str| {
        let races = measures.races.iter();
        let outcomes = races.filter(|race| race.scene.name == name);
        let outcomes = outcomes.flat_map(|race| &race.outcomes);
        let bars = outcomes
            .filter_map(|outcome| Some((outcome.name.to_owned(), outcome.cost?.instructions?)));
        (title.to_owned(), bars.collect::<Vec<_>>())
    };
    let groups = vec![group("post", "POST"), group("ws-64", "WebSocket")];
    if groups.iter().any(|(_, bars)| bars.is_empty()) {
        return None;
    }
    let chart = BarChart {
        title: "Instructions of a server per call over HTTP and WebSocket".into(),
        unit: "instructions".into(),
        groups,
        highlight: "caudal".into(),
        scale: Scale::Linear,
    };
    Some(("web", chart.to_svg()))
}

fn called(calls: &Calls) -> Table {
    let base = calls.clients.clients[0].name;
    let against = format!("× {base} (quartiles)");
    let mut table = Table::new(&["client", "calls/s", &against, "instructions", "client CPU"]);
    for client in calls.clients.clients {
        let rate = calls.median(client.name, |called| called.per_second);
        let cpu = calls.median(client.name, |called| called.cpu);
        table.row(vec![
            client.name.to_owned(),
            number_or_na(rate.map(f64::round)),
            calls
                .ratio(client.name, base)
                .map_or_else(String::new, ratio),
            number_or_na(calls.instructions(client.name)),
            percent(cpu.unwrap_or(f64::NAN)),
        ]);
    }
    table
}

fn idle(measures: &Measures) -> Table {
    let mut table = Table::new(&["server", "over", "bytes resident"]);
    for idle in &measures.idle {
        let over = match idle.framing {
            "ws" => "WebSocket",
            _ => "HTTP",
        };
        table.row(vec![
            idle.name.to_owned(),
            over.to_owned(),
            number(idle.bytes.round()),
        ]);
    }
    table
}

fn small(measures: &Measures) -> Table {
    let mut table = Table::new(&["server", "packages", "bytes", "bytes, built for size"]);
    for small in &measures.small {
        table.row(vec![
            small.name.to_owned(),
            number(small.packages as f64),
            number(small.release as f64),
            number_or_na(small.smallest.map(|bytes| bytes as f64)),
        ]);
    }
    table
}

const NOTES: &str = "
Notes on HTTP and WebSocket

- `load` speaks HTTP and WebSocket by hand, one thread, no runtime. Every reply is
  counted, its status is looked at, and the last of every 256th read is parsed.
- `hyper` answers every POST with the same bytes; it reads the body and nothing in
  it. `bare` is a blocking loop around tungstenite: read, serde, add, one write for
  all that one read brought, a thread per connection.
- jsonrpsee has its defaults, but may have more than 100 connections.
- Instructions, sends and receives are the difference of two runs, and `load` goes
  in lockstep: the next window when the last is answered. Under callgrind a runtime
  has one thread. Sends, receives and system calls are strace's, the end of a connection
  not among them; without strace, or where it may not look, they are left out.
- `axum` is a handler that reads and writes its own structs with serde. A batch
  counts as one call.
- An event is sent when everybody has got the last. `bare` writes the same prebuilt
  bytes to one socket after the other. jsonrpsee's event is a little longer, because
  it names the subscription.
- Calls made: 64 tasks on one thread. Over WebSocket they share one connection to
  the bare loop; by POST, the server is a blocking loop with a thread for each
  connection, and `hyper` is 64 connections of its own, one for each task.
- Idle connections: after one call each; user space only.
- Packages: `cargo tree --edges normal` of `bench/small`, the server itself among
  them. Bytes: stripped; as `cargo build --release` makes it, and as one would who
  cares for size: profile `smallest` of bench/Cargo.toml, with LTO. `hyper` serves
  HTTP/1.1 with upgrades, and answers with the same bytes whatever is asked. HTTP/2 is a
  feature of caudal of its own, which is off here.
";

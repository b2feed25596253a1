//! What was measured of HTTP and WebSocket, as Markdown.

use super::calls::Calls;
use super::contestant::Scene;
use super::held::IDLE;
use super::race::Race;
use super::{Measures, cost::Cost};
use crate::table::{Table, number, number_or_na};
use crate::time::Spread;
use crate::wire::Figures;

/// Every table, and what must be known to read them.
#[must_use]
pub fn write(measures: &Measures) -> String {
    let mut text = String::from("\n## HTTP and WebSocket\n");
    let mut section = |title: &str, table: Table| {
        text.push_str(&format!("\n### {title}\n\n"));
        text.push_str(&table.to_markdown());
    };
    for race in &measures.races {
        section(race.scene.title, raced(race, &measures.costs));
    }
    for calls in &measures.calls {
        section(calls.clients.title, called(calls));
    }
    let title = format!("An idle WebSocket, of {}", number(IDLE as f64));
    section(&title, idle(measures));
    section("A server with HTTP and WebSocket", small(measures));
    text.push_str(NOTES);
    text
}

fn raced(race: &Race, costs: &[Cost]) -> Table {
    let Scene {
        latency, servers, ..
    } = race.scene;
    let base = servers[0].name;
    let unit = match race.scene.name {
        "fan" => "events/s",
        "batch" => "batches/s",
        _ => "calls/s",
    };
    let against = match latency {
        true => format!("p50 × {base} (quartiles)"),
        false => format!("× {base} (quartiles)"),
    };
    let mut heads = vec!["server"];
    match latency {
        true => heads.extend(["p50, µs", "p99, µs", &against]),
        false => heads.extend([unit, &against]),
    }
    let counted = race.scene.counted.is_some();
    if counted {
        heads.extend(["instructions", "receives", "sends"]);
    }
    heads.extend(["server CPU", "load CPU"]);
    let mut table = Table::new(&heads);
    for server in servers {
        let median = |of: fn(&Figures) -> f64| {
            let rounds = race.rounds(server.name).unwrap_or_default();
            Spread::of(rounds.iter().map(of).collect()).median
        };
        let ratio = spread(race.ratio(server.name, base));
        let mut cells = vec![server.name.to_owned()];
        match latency {
            true => {
                let micros = |of| format!("{:.1}", median(of) / 1000.0);
                let p50 = micros(|figures| figures.p50_ns as f64);
                let p99 = micros(|figures| figures.p99_ns as f64);
                cells.extend([p50, p99, ratio]);
            }
            false => {
                let rate = median(|figures| figures.per_second);
                cells.extend([number(rate.round()), ratio]);
            }
        }
        if counted {
            let same = |cost: &&Cost| cost.scene == race.scene.name && cost.server == server.name;
            let cost = costs.iter().find(same);
            let traffic = |count: Option<f64>| match count {
                Some(count) => format!("{count:.3}"),
                None => "n/a".to_owned(),
            };
            let measured = cost.and_then(|cost| cost.traffic);
            cells.push(number_or_na(cost.and_then(|cost| cost.instructions)));
            cells.push(traffic(measured.map(|traffic| traffic.receives)));
            cells.push(traffic(measured.map(|traffic| traffic.sends)));
        }
        cells.push(percent(median(|figures| {
            figures.server_cpu.unwrap_or(f64::NAN)
        })));
        cells.push(percent(median(|figures| figures.load_cpu)));
        table.row(cells);
    }
    table
}

fn called(calls: &Calls) -> Table {
    let base = calls.clients.clients[0].name;
    let ratio = format!("× {base} (quartiles)");
    let mut table = Table::new(&["client", "calls/s", &ratio, "instructions", "client CPU"]);
    for client in calls.clients.clients {
        let rate = calls.median(client.name, |called| called.per_second);
        let cpu = calls.median(client.name, |called| called.cpu);
        table.row(vec![
            client.name.to_owned(),
            number_or_na(rate.map(f64::round)),
            spread(calls.ratio(client.name, base)),
            number_or_na(calls.instructions(client.name)),
            percent(cpu.unwrap_or(f64::NAN)),
        ]);
    }
    table
}

fn idle(measures: &Measures) -> Table {
    let mut table = Table::new(&["server", "bytes resident"]);
    for idle in &measures.idle {
        table.row(vec![idle.name.to_owned(), number(idle.bytes.round())]);
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
            number(small.smallest as f64),
        ]);
    }
    table
}

fn spread(of: Option<Spread>) -> String {
    of.map_or_else(
        || "n/a".to_owned(),
        |of| format!("{:.2} ({:.2}–{:.2})", of.median, of.lower, of.upper),
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
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
  has one thread. Sends and receives are strace's, the end of a connection
  not among them; without strace, or where it may not look, they are left out.
- A batch counts as one call.
- An event is sent when everybody has got the last. `bare` writes the same prebuilt
  bytes to one socket after the other. jsonrpsee's event is a little longer, because
  it names the subscription.
- Calls made: 64 tasks on one thread. Over WebSocket they share one connection to
  the bare loop; by POST, the server is a blocking loop with a thread for each
  connection, and `hyper` is 64 connections of its own, one for each task.
- Idle connections: after one call each; user space only.
- Packages: `cargo tree --edges normal` of `bench/small`, the server itself among
  them. Bytes: stripped; as `cargo build --release` makes it, and as one would who
  cares for size: profile `smallest` of bench/Cargo.toml, with LTO.
";

//! What was measured of the peer, as Markdown.

use super::cores::{Scaling, Turn};
use super::idle::Idle;
use super::memory::WAITING;
use super::{Measures, calls, served};
use crate::table::{Table, number, number_or_na};

/// Every table, and what must be known to read them.
#[must_use]
pub fn write(measures: &Measures) -> String {
    let mut text = String::from("\n## The peer\n");
    let mut section = |title: &str, table: Table| {
        text.push_str(&format!("\n### {title}\n\n"));
        text.push_str(&table.to_markdown());
    };
    section(
        "A request served, 64 in flight over a pipe",
        served(&measures.served),
    );
    section("A call made, 64 in flight", called(&measures.calls.clients));
    section("Memory", held(measures));
    section("An idle TCP connection", idle(&measures.memory.idle));
    let scaled = |awake| scaled(measures.cores.iter().filter(move |it| it.awake == awake));
    let orders = "A second connection: orders of 1 KB over TCP, 256 in flight on each";
    section(orders, scaled(false));
    if measures.cores.iter().any(|scaling| scaling.awake) {
        section(
            "A second connection, processors that are kept awake",
            scaled(true),
        );
    }
    text.push_str(NOTES);
    if measures.quick {
        text.push_str("- `--quick`: a tenth of the requests, and a long life of 300,000.\n");
    }
    text
}

fn served(all: &[served::Served]) -> Table {
    let mut table = Table::new(&["server", "instructions", "allocations"]);
    for served in all {
        table.row(vec![
            served.name.to_owned(),
            number_or_na(served.instructions),
            format!("{:.3}", served.allocations),
        ]);
    }
    table
}

fn called(clients: &[calls::Client]) -> Table {
    let mut table = Table::new(&[
        "client",
        "to",
        "calls/s",
        "× bare (quartiles)",
        "instructions",
        "client CPU",
    ]);
    for client in clients {
        let (name, to) = match client.name {
            "memory" => ("caudal", "caudal, in memory, same thread"),
            name => (name, "bare, TCP"),
        };
        let ratio = client.ratio;
        table.row(vec![
            name.to_owned(),
            to.to_owned(),
            number(client.per_second.round()),
            format!(
                "{:.2} ({:.2}–{:.2})",
                ratio.median, ratio.lower, ratio.upper
            ),
            number_or_na(client.instructions),
            percent(client.cpu),
        ]);
    }
    table
}

fn held(measures: &Measures) -> Table {
    let memory = &measures.memory;
    let waiting = &memory.waiting;
    let mut table = Table::new(&["what", "bytes resident", "bytes allocated"]);
    let mut row = |what: String, resident, allocated| {
        table.row(vec![
            what,
            number(f64::round(resident)),
            number_or_na(allocated),
        ]);
    };
    let calls = number(WAITING as f64);
    let what = |side| format!("a call that waits, {side}, of {calls}");
    row(what("caller"), waiting.here, Some(waiting.heap_here));
    row(what("server"), waiting.there, Some(waiting.heap_there));
    for (messages, bytes) in memory.life {
        let what = format!("the server after {} messages", number(messages as f64));
        row(what, bytes as f64, None);
    }
    table
}

fn idle(all: &[Idle]) -> Table {
    let mut table = Table::new(&["server", "framing", "connections", "bytes resident"]);
    for idle in all {
        table.row(vec![
            idle.name.to_owned(),
            idle.framing.to_owned(),
            number(idle.connections as f64),
            number(idle.bytes.round()),
        ]);
    }
    table
}

fn scaled<'a>(all: impl Iterator<Item = &'a Scaling>) -> Table {
    let mut table = Table::new(&[
        "server",
        "connections",
        "calls/s",
        "× one (quartiles)",
        "server CPU",
        "of its 2nd thread",
        "µs CPU per call",
        "× one",
        "load CPU",
        "idle",
    ]);
    let cells = |turn: &Turn, name: &str| {
        // A thread of `bare` ends with its connection, before it is looked at.
        let second = match name {
            "bare" => "n/a".to_owned(),
            _ => percent(turn.second),
        };
        [
            number(turn.per_second.round()),
            percent(turn.server_cpu),
            second,
            number(turn.cost() * 1e6),
            percent(turn.load_cpu),
            percent(turn.idle),
        ]
    };
    for scaling in all {
        let ratio = scaling.ratio;
        let ratio = format!(
            "{:.2} ({:.2}–{:.2})",
            ratio.median, ratio.lower, ratio.upper
        );
        let cost = number(scaling.cost.median);
        let rows = [
            ("1", &scaling.one, "1", "1"),
            ("2", &scaling.two, &ratio, &cost),
        ];
        for (connections, turn, ratio, cost) in rows {
            let [rate, server, second, each, load, idle] = cells(turn, scaling.name);
            let (ratio, cost) = (ratio.to_owned(), cost.to_owned());
            let name = scaling.name.to_owned();
            let connections = connections.to_owned();
            table.row(vec![
                name,
                connections,
                rate,
                ratio,
                server,
                second,
                each,
                cost,
                load,
                idle,
            ]);
        }
    }
    table
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

const NOTES: &str = "
Notes on the peer

- Served: windows of 64 lines, the next when 64 replies have come; callgrind and
  the counting allocator, the difference of two runs.
- Calls: 64 tasks on one peer and one thread, or a blocking loop with 64 in
  flight that parses replies with serde; the server is `bare`. In memory both
  ends are one thread, and the instructions are those of both.
- Waiting calls: a task each at the caller, an async handler each at the server,
  in separate processes. Resident bytes are from /proc/PID/status, which includes
  what the allocator keeps; allocated ones are exact.
- Idle connections: after one call each, user space only; the kernel's socket is not in
  it. lsp-server has four threads for each, and so fewer of them.
- A second connection: one `load` process per connection, both at once, against
  one server. CPU is in shares of one core; idle is what nobody used, and what
  is missing to all cores went to other processes. With two cores the generators
  take their part from the server: what they leave is the most it could reach,
  and `bare`, a thread per connection, shows what the machine gives. It scales
  if CPU per call stays and both threads work. With a single connection each end
  waits until the other's processor wakes, so two may be worth more than twice as
  much; where processors are kept awake, nobody waits for that.
";

//! Fairness: the latency of one caller beside connections that pipeline as fast as they can.
//!
//! ```text
//! load --flood N ─┬→ N connections, each with a window of calls ─┐
//!                 └→ one connection, one `add` after the other ──┴→ serve, peers
//! ```

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::quiet;
use crate::table::{Table, number};
use crate::time::Spread;
use crate::tools::Program::{self, Peers, Serve};
use crate::tools::Tools;

/// Figures of one turn, as `load --flood` prints them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flooded {
    /// Calls of the honest caller, and their latencies, without what `waited_ns` says.
    pub calls: u64,
    pub seconds: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// Replies to the flooding connections.
    pub flood_per_second: f64,
    /// Time for which the thread of the honest caller waited for a processor, mean of a call.
    pub waited_ns: f64,
    /// Part of one processor that the load generator took.
    pub load_cpu: f64,
    pub server_cpu: Option<f64>,
}

/// A server and how it is spoken to.
struct Server {
    name: &'static str,
    program: Program,
    arguments: [&'static str; 2],
    framing: &'static str,
}

const SERVERS: [Server; 3] = [
    Server {
        name: "caudal",
        program: Serve,
        arguments: ["caudal", "ws"],
        framing: "ws",
    },
    Server {
        name: "jsonrpsee",
        program: Peers,
        arguments: ["jsonrpsee", "ws"],
        framing: "ws",
    },
    Server {
        name: "caudal, TCP",
        program: Serve,
        arguments: ["caudal", "tcp"],
        framing: "line",
    },
];

/// Methods that the flooding connections call: a cheap one, and one of 100 µs.
const CALLS: [&str; 2] = ["add", "spin"];
const CONNECTIONS: [usize; 3] = [2, 4, 16];
/// Calls under way on each flooding connection: more than its sockets take.
const WINDOW: &str = "16384";
const ROUNDS: usize = 3;

/// A row of the table: every server under the same flood.
#[derive(Clone, Debug, Serialize)]
pub struct Flood {
    call: &'static str,
    connections: usize,
    /// Servers that took part, with their rounds.
    servers: Vec<(&'static str, Vec<Flooded>)>,
}

/// Measures everything; servers take turns.
///
/// # Errors
/// A server failed, or answered wrongly.
pub fn run(tools: &Tools, quick: bool) -> Result<Vec<Flood>, String> {
    let (rounds, seconds) = if quick { (1, "0.3") } else { (ROUNDS, "1.5") };
    let there = SERVERS
        .iter()
        .filter(|server| tools.command(server.program).is_some());
    let mut all = Vec::new();
    for call in CALLS {
        for connections in CONNECTIONS {
            let mut servers: Vec<_> = there.clone().map(|server| (server, Vec::new())).collect();
            for _ in 0..rounds {
                for (server, turns) in &mut servers {
                    let turn = || turn(tools, server, call, connections, seconds);
                    turns.push(quiet::turn(turn)?);
                }
            }
            let servers = servers.into_iter();
            all.push(Flood {
                call,
                connections,
                servers: servers
                    .map(|(server, turns)| (server.name, turns))
                    .collect(),
            });
        }
    }
    Ok(all)
}

fn turn(
    tools: &Tools,
    server: &Server,
    call: &str,
    connections: usize,
    seconds: &str,
) -> Result<Flooded, String> {
    let program = tools.command(server.program).ok_or("it is not there")?;
    let output = Command::new(&tools.load)
        // Of the server, which is started by `load`, on any machine.
        .env("TOKIO_WORKER_THREADS", "2")
        .args(["--flood", &connections.to_string(), "--window", WINDOW])
        .args(["--call", call, "--seconds", seconds])
        .args(["--framing", server.framing, "--"])
        .arg(program.get_program())
        .args(server.arguments)
        .output()
        .map_err(|e| format!("load: {e}"))?;
    let failed = |why: String| format!("{}, {connections} that flood it: {why}", server.name);
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string())),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The table, and what must be known to read it.
#[must_use]
pub fn write(floods: &[Flood]) -> String {
    let mut heads = vec!["flooding connections".to_owned(), "their calls".to_owned()];
    for (name, _) in floods.first().map_or(&[][..], |flood| &flood.servers) {
        heads.extend(
            ["calls", "p50, ms", "p99, ms", "flood, calls/s"].map(|what| format!("{name}: {what}")),
        );
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads);
    for flood in floods {
        let mut row = vec![flood.connections.to_string(), format!("`{}`", flood.call)];
        for (_, turns) in &flood.servers {
            row.extend([
                number(median(turns, |turn| turn.calls as f64).round()),
                number(median(turns, |turn| turn.p50_ns as f64 / 1e6)),
                number(median(turns, |turn| turn.p99_ns as f64 / 1e6)),
                number(median(turns, |turn| turn.flood_per_second).round()),
            ]);
        }
        table.row(row);
    }
    let title = "\n## One honest caller beside connections that flood\n\n";
    format!("{title}{}{NOTES}{}", table.to_markdown(), shares(floods))
}

fn median(turns: &[Flooded], of: impl Fn(&Flooded) -> f64) -> f64 {
    Spread::of(turns.iter().map(of).collect()).median
}

/// Share of the processors that the generator took, as a Markdown list item.
fn shares(floods: &[Flood]) -> String {
    let most = |call: &str, of: fn(&Flooded) -> f64| {
        let floods = floods.iter().filter(|flood| flood.call == call);
        let servers = floods.flat_map(|flood| &flood.servers);
        servers
            .map(|(_, turns)| median(turns, of))
            .fold(0.0, f64::max)
    };
    let share = |call: &str| {
        format!(
            "{:.0} % of one processor with `{call}`, where {:.0} µs were left out of a call",
            most(call, |turn| turn.load_cpu) * 100.0,
            most(call, |turn| turn.waited_ns) / 1e3,
        )
    };
    let shares = CALLS.map(share).join(", and ");
    format!("  At most, `load` took {shares}.\n")
}

const NOTES: &str = "
Notes on the flood

- A server with two worker threads; `load` beside it has one thread for all connections that
  flood, each with as many calls under way as its sockets take, and one for the honest caller,
  which makes one call of `add` after the other: so many in 1.5 s (with `--quick` in 0.3 s), or
  until the last of them is answered. Medians over rounds.
- `add` is cheap; `spin` takes 100 µs of processor time in the server's handler, so that two
  processors answer less than 20,000 a second.
- p50 about 1 ms and p99 about 5 ms are wanted of caudal.
- Connections that flood pay for this. With turns that no clock ended, they had 1.2 to 1.3 times
  the calls of `add` a second, measured by hand in turns over TCP, and the honest caller a p99 of
  35 to 65 ms. A look at the clock after each message takes about 6 %; the rest is a look for
  I/O every 200 µs. A clock that is read less often was tried, and does not bound a turn
  whose requests are expensive.
- Left out is the time for which the thread of the honest caller itself waited for a processor,
  as the kernel counts it: a caller on another machine would not wait for one.
";

//! Fairness: latency of one caller beside connections that pipeline as fast as they can.

use std::process::Command;

use super::Bench;
use crate::process;
use crate::race::{Contestant, Figures};
use crate::table::{Bound, Section, Table, number};
use crate::turns::{self, median};

const SERVERS: [Contestant; 3] = [
    Contestant::ours("caudal ws", "ws"),
    Contestant::peer("jsonrpsee ws", "ws", "plain"),
    Contestant::ours("caudal tcp", "line"),
];

/// Methods that the flooding connections call: a cheap one, and one of 100 µs.
const CALLS: [&str; 2] = ["add", "spin"];
const CONNECTIONS: [usize; 2] = [2, 16];
/// Calls under way on each flooding connection: more than its sockets take.
const WINDOW: &str = "16384";
/// jsonrpsee keeps the caller waiting for seconds.
const ROUNDS: usize = 3;

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut heads = vec!["flooding connections".to_owned(), "their calls".to_owned()];
    for server in SERVERS {
        let columns = ["p50, ms", "p99, ms", "flood, calls/s"];
        heads.extend(columns.map(|column| format!("{}: {column}", server.arguments)));
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads);
    let mut section = Section::new("One caller beside connections that flood");
    for call in CALLS {
        for connections in CONNECTIONS {
            let rounds = ROUNDS.min(bench.rounds());
            let all = turns::take(rounds, &mut SERVERS.clone(), |server| {
                turn(bench, server, call, connections)
            })?;
            let mut row = vec![connections.to_string(), format!("`{call}`")];
            for turns in &all {
                row.extend([
                    number(median(turns, |turn| turn.p50_ns as f64 / 1e6)),
                    number(median(turns, |turn| turn.p99_ns as f64 / 1e6)),
                    number(median(turns, |turn| turn.flood_per_second.unwrap_or(0.0)).round()),
                ]);
            }
            table.row(row);
            let p99 = median(&all[0], |turn| turn.p99_ns as f64 / 1e6);
            let what = format!("p99 in ms, {connections} flood with `{call}`");
            section.timed("caller beside a flood", what, Bound::AtMost(5.0), p99);
        }
    }
    section.table(&table);
    section.note(NOTES);
    Ok(section)
}

fn turn(
    bench: &Bench,
    server: &Contestant,
    call: &str,
    connections: usize,
) -> Result<Figures, String> {
    let mut load = Command::new(&bench.programs.load);
    // Of the server, which `load` starts, on any machine.
    load.env("TOKIO_WORKER_THREADS", "2")
        .args(["--flood", &connections.to_string(), "--window", WINDOW])
        .args(["--seconds", if bench.quick { "0.3" } else { "1.5" }])
        .args(["--call", call, "--framing", server.framing, "--"]);
    server.append_to(&mut load, &bench.programs);
    process::run(&mut load)
}

const NOTES: &str = "
A server with two worker threads. `load` has one thread for all connections that flood, each
with as many calls under way as its sockets take, and one for the caller, which makes one
call of `add` after the other. `spin` takes 100 µs of processor time in the handler, so that
two processors answer less than 20,000 a second. The time for which the caller's own thread
waited for a processor is left out: a caller on another machine would not wait for one.
";

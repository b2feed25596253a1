//! Calls made, 64 in flight: clients take turns against the same blocking server.

use std::process::Command;

use serde::Deserialize;

use super::Bench;
use crate::process::Placement::CoreEach;
use crate::process::{self, Server};
use crate::race::Program;
use crate::table::{Bound, Section, Table, number, percent};
use crate::turns::{self, median, ratio};

/// Figures that a client prints.
#[derive(Debug, Deserialize)]
struct Called {
    per_second: f64,
    /// Processor time of the client, in processors.
    cpu: f64,
}

/// A client: its name, its program, and what that calls it.
type Client = (&'static str, Program, &'static str);

const TCP: &[Client] = &[
    ("bare", Program::Serve, "bare"),
    ("caudal", Program::Serve, "caudal"),
    // Both ends on one thread, over `Peer::pair`; the server has nothing to do.
    ("caudal, in memory", Program::Serve, "memory"),
];
const WEBSOCKET: &[Client] = &[
    ("jsonrpsee", Program::Peers, "jsonrpsee-ws"),
    ("caudal", Program::Serve, "caudal-ws"),
];
const POST: &[Client] = &[
    ("hyper", Program::Serve, "hyper"),
    ("caudal", Program::Serve, "caudal-http"),
    ("jsonrpsee", Program::Peers, "jsonrpsee-http"),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("Calls made, 64 in flight, a core each");
    for (title, transport, clients, must) in [
        ("Client over TCP", "tcp", TCP, 0.5),
        ("Client over WebSocket", "ws", WEBSOCKET, 4.0),
        ("Client by POST", "http", POST, 0.5),
    ] {
        let all = turns::take(bench.rounds(), &mut clients.to_vec(), |client| {
            turn(bench, transport, client)
        })?;
        let base = clients[0].0;
        let against = format!("× {base} (quartiles)");
        let mut table = Table::new(&["client", "calls/s", &against, "client CPU"]);
        for ((name, ..), turns) in clients.iter().zip(&all) {
            let over = ratio(turns, &all[0], |turn| turn.per_second);
            table.row(vec![
                (*name).to_owned(),
                number(median(turns, |turn| turn.per_second).round()),
                over.to_string(),
                percent(median(turns, |turn| turn.cpu)),
            ]);
            if *name == "caudal" {
                let what = format!("calls/s, × {base}");
                section.timed(title, what, Bound::AtLeast(must), over.median);
            }
        }
        section.titled(title, &table);
    }
    section.note(NOTES);
    Ok(section)
}

fn turn(bench: &Bench, transport: &str, client: &Client) -> Result<Called, String> {
    let (_, program, argument) = *client;
    let programs = &bench.programs;
    let mut serve = Command::new("env");
    serve.args(CoreEach.of_server()).arg(&programs.serve);
    let (_server, port) = Server::listen(serve.args(["bare", transport]))?;
    let program = match program {
        Program::Serve => &programs.client,
        Program::Peers => &programs.peers,
    };
    let seconds = if bench.quick { "0.1s" } else { "0.7s" };
    process::run(
        CoreEach
            .load(program)
            .args([argument, seconds, &port.to_string()]),
    )
}

const NOTES: &str = "
64 tasks on one thread; over TCP and WebSocket they share one connection. `bare` is a blocking
loop that parses replies with serde; `hyper` is 64 connections of its own, one for each task.
The server is a blocking loop with a thread for each connection.
";

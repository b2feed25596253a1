//! Memory of an idle connection in a server: user space only, not the kernel's socket.

use std::process::Command;

use super::Bench;
use crate::process;
use crate::race::Contestant;
use crate::table::{Bound, Section, Table, number};

/// Connections that a server holds, and the server.
const SERVERS: [(usize, Contestant); 12] = [
    (2000, Contestant::ours("caudal tcp line", "line")),
    (2000, Contestant::peer("karyon tcp", "json", "dotted")),
    (
        2000,
        Contestant::peer("async-lsp tcp header", "header", "lsp"),
    ),
    (
        2000,
        Contestant::peer("tower-lsp-server tcp header", "header", "lsp"),
    ),
    // It has four threads for each connection.
    (
        250,
        Contestant::peer("lsp-server tcp header", "header", "lsp"),
    ),
    // Fewer over HTTP than caudal lets one address have.
    (1000, Contestant::ours("hyper http", "post")),
    (1000, Contestant::ours("caudal http", "post")),
    (1000, Contestant::peer("axum http", "post", "plain")),
    (1000, Contestant::peer("jsonrpsee http", "post", "plain")),
    (1000, Contestant::ours("caudal ws", "ws")),
    (1000, Contestant::peer("jsonrpsee ws", "ws", "plain")),
    (1000, Contestant::peer("karyon ws", "ws", "dotted")),
];

/// Bounds for caudal by framing: bytes.
const TARGETS: [(&str, &str, f64); 2] = [
    ("line", "TCP, bytes resident", 8_192.0),
    ("ws", "WebSocket, bytes resident", 12_288.0),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("Memory of an idle connection");
    let mut table = Table::new(&["server", "framing", "connections", "bytes resident"]);
    for (connections, server) in SERVERS {
        let connections = if bench.quick {
            connections / 10
        } else {
            connections
        };
        let mut load = Command::new(&bench.programs.load);
        load.args(["--idle", &connections.to_string()])
            .args(["--framing", server.framing, "--dialect", server.dialect])
            .args(["--tcp", "--"]);
        server.append_to(&mut load, &bench.programs);
        let bytes: f64 = process::run(&mut load)?;
        table.row(vec![
            server.name().to_owned(),
            server.framing.to_owned(),
            number(connections as f64),
            number(bytes.round()),
        ]);
        let mut targets = TARGETS.iter();
        let target = targets.find(|row| (server.name(), server.framing) == ("caudal", row.0));
        if let Some((_, what, most)) = target {
            section.counted("idle connection", what, Bound::AtMost(*most), Some(bytes));
        }
    }
    section.table(&table);
    section.note("Each connection has made one call. Bytes are those of `VmRSS`.");
    Ok(section)
}

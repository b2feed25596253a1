//! What an idle WebSocket holds in a server's memory; user space only.

use serde::Serialize;

use crate::peer::{self, Held};
use crate::tools::Tools;
use crate::wire::{Contestant, WEB};

/// How many are idle: fewer than caudal lets one address have.
pub(super) const IDLE: usize = 1_000;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Idle {
    pub(super) name: &'static str,
    /// Resident, for each connection.
    pub(super) bytes: f64,
}

pub(super) fn run(tools: &Tools) -> Result<Vec<Idle>, String> {
    let scene = WEB.iter().find(|scene| scene.name == "ws-64");
    let scene = scene.ok_or("no WebSocket")?;
    let servers = scene.servers.iter();
    // A thread for each connection is not what anybody would do.
    let servers = servers.filter(|server| server.name != "bare");
    // The client that holds them calls plain methods.
    let servers = servers.filter(|server| server.dialect == "plain");
    let servers = servers.filter(|server| tools.command(server.program).is_some());
    let idle = |server: &Contestant| {
        let program = tools.command(server.program).ok_or("it is not there")?;
        let program = program.get_program().to_str();
        let program = program.ok_or("a path that is not Unicode")?;
        let count = IDLE.to_string();
        let words = ["idle-ws", &count, program].into_iter();
        let words = words.chain(server.arguments(scene.transport));
        let arguments: Vec<String> = words.map(str::to_owned).collect();
        let held: Held = peer::client(&tools.client, &arguments)?;
        Ok(Idle {
            name: server.name,
            bytes: held.there,
        })
    };
    servers.map(idle).collect()
}

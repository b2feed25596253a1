//! What an idle WebSocket holds in a server's memory; user space only.

use super::Tools;
use super::contestant::{Contestant, SCENES};
use crate::peer::{self, Held};

/// How many are idle: fewer than caudal lets one address have.
pub(super) const IDLE: usize = 1_000;

#[derive(Clone, Debug)]
pub(super) struct Idle {
    pub(super) name: &'static str,
    /// Resident, for each connection.
    pub(super) bytes: f64,
}

pub(super) fn run(tools: &Tools) -> Result<Vec<Idle>, String> {
    let scene = SCENES.iter().find(|scene| scene.name == "ws-64");
    let servers = scene.ok_or("no WebSocket")?.servers.iter();
    // A thread for each connection is not what anybody would do.
    let servers = servers.filter(|server| server.name != "bare");
    let idle = |server: &Contestant| {
        let program = tools.path(server.program);
        let program = program.to_str().ok_or("a path that is not Unicode")?;
        let count = IDLE.to_string();
        let arguments: Vec<String> = [&["idle-ws", &count, program], server.arguments]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let held: Held = peer::client(&tools.client, &arguments)?;
        Ok(Idle {
            name: server.name,
            bytes: held.there,
        })
    };
    servers.map(idle).collect()
}

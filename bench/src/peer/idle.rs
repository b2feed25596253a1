//! What an idle connection holds in a server's memory; user space only.

use serde::Serialize;

use super::{Held, client};
use crate::tools::Tools;
use crate::wire::{Contestant, Scene};

/// So many threads a server may have for connections that are idle.
const THREADS: usize = 1_000;

/// How one server did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) name: &'static str,
    pub(crate) framing: &'static str,
    pub(crate) connections: usize,
    /// Resident, for each connection.
    pub(crate) bytes: f64,
}

/// Looks at the servers of a scene that hold `count` connections, each idle after one
/// call; at caudal alone if `quick`.
pub(crate) fn run(
    tools: &Tools,
    scene: &Scene,
    count: usize,
    quick: bool,
) -> Result<Vec<Idle>, String> {
    let servers = scene.servers.iter().filter(|server| match server.name {
        // A thread for each connection is not what anybody would do.
        "bare" => false,
        // It differs in a handler, and none is at work.
        "caudal-async" => false,
        "caudal" => true,
        _ => !quick,
    });
    let servers = servers.filter(|server| tools.command(server.program).is_some());
    let one = |server: &Contestant| {
        let connections = match server.name {
            // It has four for each connection.
            "lsp-server" => count.min(THREADS / 4),
            _ => count,
        };
        let program = tools.command(server.program).ok_or("it is not there")?;
        let program = program.get_program().to_str();
        let program = program.ok_or("a path that is not Unicode")?;
        let what = format!("idle-{}-{}", server.framing, server.dialect);
        let words = [what.as_str(), &connections.to_string(), program].map(str::to_owned);
        let arguments = server.arguments(scene.transport);
        let arguments = arguments.into_iter().map(str::to_owned);
        let arguments: Vec<String> = words.into_iter().chain(arguments).collect();
        let held: Held = client(&tools.client, &arguments)?;
        Ok(Idle {
            name: server.name,
            framing: server.framing,
            connections,
            bytes: held.there,
        })
    };
    servers.map(one).collect()
}

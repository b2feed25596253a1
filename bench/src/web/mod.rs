//! HTTP and WebSocket: servers and clients as processes of their own.
//!
//! ```text
//! race ── for each turn ──→ load ⇄ serve, peers       calls a second, latency
//! cost ── callgrind, strace ─→ serve, peers ⇄ load    instructions, sends, receives
//! calls ─→ client, peers ⇄ serve bare                 outgoing calls
//! held ─→ client ⇄ serve, peers                       idle connections
//! small ─→ cargo                                      packages and bytes of a server
//!   └→ tables, targets
//! ```

mod calls;
mod contestant;
mod cost;
mod held;
mod race;
mod small;
mod tables;
mod targets;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::callgrind::Callgrind;
use crate::neighbour;
use contestant::{Contestant, Program};

pub use tables::write;
pub use targets::all as targets;

/// The text in an event, which has 200 bytes in all.
pub const EVENT: &str = concat!(
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
);

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Measures {
    races: Vec<race::Race>,
    costs: Vec<cost::Cost>,
    calls: Vec<calls::Calls>,
    idle: Vec<held::Idle>,
    small: Vec<small::Small>,
}

/// The programs that take part.
#[derive(Debug)]
struct Tools {
    load: PathBuf,
    serve: PathBuf,
    client: PathBuf,
    peers: PathBuf,
    callgrind: Option<Callgrind>,
}

impl Tools {
    fn path(&self, program: Program) -> &Path {
        match program {
            Program::Serve => &self.serve,
            Program::Client => &self.client,
            Program::Peers => &self.peers,
        }
    }

    /// The command that starts a contestant.
    fn command(&self, contestant: &Contestant) -> Command {
        let mut command = Command::new(self.path(contestant.program));
        command.args(contestant.arguments);
        command
    }
}

/// Measures everything.
///
/// # Errors
/// A program could not be built, failed, or answered wrongly.
pub fn run(quick: bool) -> Result<Measures, String> {
    let [load, serve, client] = neighbour::build("caudal-bench", ["load", "serve", "client"])?;
    let [peers] = neighbour::build("caudal-bench-peers", ["peers"])?;
    let tools = Tools {
        load,
        serve,
        client,
        peers,
        callgrind: Callgrind::find(),
    };
    // First, because it builds: nothing else should run meanwhile.
    let small = small::run()?;
    Ok(Measures {
        races: race::run(&tools, quick)?,
        costs: cost::run(&tools, quick)?,
        calls: calls::run(&tools, quick)?,
        idle: held::run(&tools)?,
        small,
    })
}

//! HTTP and WebSocket: servers and clients as processes of their own.
//!
//! ```text
//! wire ─→ load ⇄ serve, peers                         the servers' races
//! calls ─→ client, peers ⇄ serve bare                 outgoing calls
//! held ─→ client ⇄ serve, peers                       idle connections
//! small ─→ cargo                                      packages and bytes of a server
//!   └→ tables, targets
//! ```

mod calls;
mod held;
mod small;
mod tables;
mod targets;

use serde::Serialize;

use crate::peer::idle::Idle;
use crate::tools::Tools;
use crate::wire;

pub use tables::{chart, write};
pub use targets::all as targets;

/// The text in an event, which has 200 bytes in all.
pub const EVENT: &str = concat!(
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
);

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measures {
    pub races: Vec<wire::Race>,
    calls: Vec<calls::Calls>,
    idle: Vec<Idle>,
    small: Vec<small::Small>,
}

/// Measures everything.
///
/// # Errors
/// A program could not be built, failed, or answered wrongly.
pub fn run(tools: &Tools, quick: bool) -> Result<Measures, String> {
    // First, because it builds: nothing else should run meanwhile.
    let small = small::run(quick)?;
    Ok(Measures {
        races: wire::run(tools, wire::WEB, quick)?,
        calls: calls::run(tools, quick)?,
        idle: held::run(tools, quick)?,
        small,
    })
}

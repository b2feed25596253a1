//! Servers as processes of their own: pipes, sockets, and the kernel between.
//!
//! ```text
//! contestant ─┐
//!             ├→ race ── for each turn ──→ load ⇄ serve, peers, foreign
//! scene ──────┘    ├→ cost ── callgrind, strace ──→ the same
//!                  └→ goals, tables, why
//! ```

mod contestant;
mod cost;
mod goals;
mod race;
mod scene;
mod tables;
pub(crate) mod why;

use serde::{Deserialize, Serialize};

pub use contestant::Contestant;
pub use cost::{Cost, Traffic};
pub(crate) use goals::{rows, rows_single};
pub use race::{Outcome, Race, describe, run};
pub use scene::{Goal, Key, PIPES, Scene, WEB};
pub use tables::{WIRE_NOTES, write};
pub(crate) use tables::{percent, ratio};

/// What `load` prints about one turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub requests: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// The part of one processor that the load generator took.
    pub load_cpu: f64,
    /// The same for the server, if it was the generator's own child.
    pub server_cpu: Option<f64>,
    /// Calls of `write` and `writev`; sending on a socket is not one of them.
    pub server_writes: Option<u64>,
    /// Open loop only.
    pub due: Option<Due>,
    /// How much of the time the two threads of the server that worked most were on one
    /// processor, if somebody looked.
    pub together: Option<f64>,
}

/// Latencies from the time at which a call was due: those from sending, and what the
/// generator itself was late.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Due {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// How late the generator was.
    pub late_p99_ns: u64,
}

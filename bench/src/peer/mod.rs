//! The peer as a whole: what a request served, a call made and a connection held
//! cost.
//!
//! ```text
//! drive ⇄ serve            instructions, allocations, memory over time
//! client ⇄ serve           outgoing calls, waiting calls, idle connections
//! load, load ⇄ serve       two connections on two cores
//!   └→ tables, targets
//! ```
//!
//! `serve-counted` and `client-counted` are the same programs with the counting
//! allocator.

mod calls;
mod cores;
mod drive;
pub(crate) mod idle;
mod memory;
mod raced;
mod served;
mod tables;
mod targets;

use serde::{Deserialize, Serialize};
use stats_alloc::INSTRUMENTED_SYSTEM;

use crate::tools::Tools;

pub(crate) use calls::client;
pub use tables::write;
pub use targets::all as targets;

/// How many calls may wait on one connection where that is measured.
pub const ROOM: usize = 20_000;

/// What `client` prints about calls.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Called {
    pub calls: u64,
    pub per_second: f64,
    /// The part of one processor that the client took.
    pub cpu: f64,
}

/// What `client` prints about memory: bytes for each of what was held.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// Resident, in the client and in the server.
    pub here: f64,
    pub there: f64,
    /// Allocated, in the same; only the counted programs know.
    pub heap_here: f64,
    pub heap_there: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measures {
    served: Vec<served::Served>,
    calls: calls::Calls,
    memory: memory::Memory,
    cores: Vec<cores::Scaling>,
    quick: bool,
}

/// Measures everything.
///
/// # Errors
/// A program failed, or answered wrongly.
pub fn run(tools: &Tools, quick: bool) -> Result<Measures, String> {
    Ok(Measures {
        served: served::run(tools, quick)?,
        calls: calls::run(tools, quick)?,
        memory: memory::run(tools, quick)?,
        cores: cores::run(tools, quick)?,
        quick,
    })
}

/// The two numbers of requests whose difference is measured.
fn twice(quick: bool) -> (u64, u64) {
    if quick {
        (2_560, 7_680)
    } else {
        (20_000, 60_000)
    }
}

/// What one of the second number took more than one of the first.
pub(crate) fn difference(
    (few, many): (u64, u64),
    mut total: impl FnMut(u64) -> Result<f64, String>,
) -> Result<f64, String> {
    let less = total(few)?;
    let more = total(many)?;
    Ok((more - less) / (many - few) as f64)
}

/// How often this process has allocated, if it counts.
#[must_use]
pub fn allocations() -> usize {
    let stats = INSTRUMENTED_SYSTEM.stats();
    stats.allocations + stats.reallocations
}

/// How many bytes this process has allocated and not freed, if it counts.
#[must_use]
pub fn heap() -> i64 {
    let stats = INSTRUMENTED_SYSTEM.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

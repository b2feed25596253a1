//! Measures caudal beside its peers: same work, same run.
//!
//! ```text
//! memory    codec and dispatch, no pipe: message × contestant → time, count, callgrind
//! peer      what a request served, a call made, a connection held cost
//! wire      servers as processes: scene × contestant → race
//! web       HTTP and WebSocket: races, instructions, clients, sizes
//! flood     latency of one caller beside connections that pipeline as fast as they can
//! growth    how cost grows
//!   └→ report: tables, targets, charts; JSON, Markdown, SVG
//! guard     what may not grow from one change to the next
//! ```
//!
//! Several binaries share this library. `caudal-bench` keeps the clock, starts
//! callgrind and prints; `count` carries the counting allocator, whose atomics
//! would otherwise slow down exactly the contestants that allocate. `load` sends
//! calls to `serve`, to the `peers` and to programs in other languages; `client`
//! makes calls.

pub mod awake;
pub mod callgrind;
pub mod chart;
pub mod child;
pub mod contestant;
pub mod count;
pub mod flood;
pub mod foreign;
pub mod growth;
pub mod guard;
pub mod machine;
pub mod memory;
pub mod message;
pub mod neighbour;
pub mod order;
pub mod peer;
pub mod process;
pub mod quiet;
pub mod report;
pub mod spin;
pub mod table;
pub mod target;
pub mod time;
pub mod tools;
pub mod web;
pub mod wire;

//! Measures caudal-core and caudal beside their peers: same work, same run.
//!
//! ```text
//! message ─┐
//!          ├→ time, count, callgrind → report
//! contestant ─┘
//! ```
//!
//! Several binaries share this library. `caudal-bench` keeps the clock, starts
//! callgrind and prints; `count` carries the counting allocator, whose atomics
//! would otherwise slow down exactly the contestants that allocate. Over pipes
//! and sockets (`wire`), `load` sends calls to `serve` and to the `peers`; what a
//! peer of caudal costs (`peer`) is measured with `serve`, `client` and `load`, and so
//! are HTTP and WebSocket (`web`).

pub mod callgrind;
pub mod child;
pub mod contestant;
pub mod count;
pub mod machine;
pub mod message;
pub mod neighbour;
pub mod order;
pub mod peer;
pub mod process;
pub mod quiet;
pub mod report;
pub mod table;
pub mod target;
pub mod time;
pub mod web;
pub mod wire;

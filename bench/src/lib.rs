//! Measures caudal-core beside its peers: same work, same run, in memory.
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
//! and sockets (`wire`), `load` sends calls to `serve` and to the `peers`.

pub mod callgrind;
pub mod contestant;
pub mod count;
pub mod machine;
pub mod message;
pub mod neighbour;
pub mod order;
pub mod report;
pub mod table;
pub mod target;
pub mod time;
pub mod wire;

//! Measures caudal-core beside its peers: same work, same run, in memory.
//!
//! ```text
//! message ─┐
//!          ├→ time, count, callgrind → report
//! contestant ─┘
//! ```
//!
//! Two binaries share this library. `caudal-bench` keeps the clock, starts
//! callgrind and prints; `count` carries the counting allocator, whose atomics
//! would otherwise slow down exactly the contestants that allocate.

pub mod callgrind;
pub mod contestant;
pub mod count;
pub mod machine;
pub mod message;
pub mod order;
pub mod report;
pub mod table;
pub mod target;
pub mod time;

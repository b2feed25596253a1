//! Measures caudal beside other libraries: the same work, in the same run, in turns.
//!
//! ```text
//! scene/*    one file for each table: its contestants, its load, its rows, its targets
//!   turns    takes turns in rounds; median and quartiles
//!   process  builds and starts the programs, and asks the kernel about them
//!   table    Markdown, and the targets
//!   race     servers under the program `load`, which many scenes share
//! guard      instructions and allocations beside baseline.json
//! ```
//!
//! `caudal-bench` keeps the clock and prints. `load` sends calls to `serve` and to `peers`;
//! `client` makes calls. `count` and `serve-counted` carry an allocator that counts, which
//! would slow down exactly the contestants that allocate.

pub mod callgrind;
pub mod contestant;
pub mod count;
pub mod guard;
pub mod message;
pub mod order;
pub mod process;
pub mod race;
pub mod record;
pub mod scene;
pub mod spin;
pub mod table;
pub mod turns;

/// Text in an event, which has 200 bytes in all.
pub const EVENT: &str = concat!(
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
    "caudal tells many. caudal tells many. caudal tells many. caudal tells many. ",
);

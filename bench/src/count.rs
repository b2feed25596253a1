//! Allocations: counted by a child of its own, `count`, and read from its lines.
//!
//! The reply buffer is the caller's and is reused, so a contestant that only
//! writes into it allocates nothing.

use std::alloc::System;
use std::process::Command;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::callgrind::Case;
use crate::{contestant, message, process};

/// Number of messages that are counted, after a few that are not.
const MESSAGES: u32 = 40;

/// Returns the allocations of some cases for each message, in their order.
///
/// # Errors
/// `count` could not be built or run, or printed something else.
pub fn of_cases(cases: &[Case]) -> Result<Vec<f64>, String> {
    let [program] = process::build("caudal-bench", ["count"])?;
    let words = cases.iter();
    let words = words.flat_map(|case| [&case.contestant, &case.message]);
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|e| format!("count: {e}"))?.stdout;
    let lines = String::from_utf8_lossy(&output);
    let counts: Vec<f64> = lines.lines().filter_map(|it| it.parse().ok()).collect();
    match counts.len() == cases.len() {
        true => Ok(counts),
        false => Err(format!("count printed {} of {}", counts.len(), cases.len())),
    }
}

/// The counting binary: prints a line for each `CONTESTANT MESSAGE`.
///
/// # Panics
/// There is no such contestant or message.
pub fn child(allocator: &StatsAlloc<System>) {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for pair in asked.chunks_exact(2) {
        let mut contestant = contestant::named(&pair[0]).expect("a contestant");
        let message = message::named(&pair[1]).expect("a message");
        let mut out = Vec::new();
        contestant::run(&mut *contestant, &message, 10, &mut out);
        let region = Region::new(allocator);
        contestant::run(&mut *contestant, &message, MESSAGES, &mut out);
        let change = region.change();
        let count = change.allocations + change.reallocations;
        println!("{}", count as f64 / f64::from(MESSAGES));
    }
}

/// Returns how often this process has allocated, if its allocator counts.
#[must_use]
pub fn allocations() -> usize {
    let stats = INSTRUMENTED_SYSTEM.stats();
    stats.allocations + stats.reallocations
}

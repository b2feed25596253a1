//! `client` with the counting allocator in it; at its end it writes to standard
//! error how often it allocated.

use std::alloc::System;
use std::process::ExitCode;

use caudal_bench::peer;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "../client/main.rs"]
mod client;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let ended = client::main();
    eprintln!("{}", peer::allocations());
    ended
}

//! `serve` with an allocator that counts; at its end it writes to standard error how often
//! it allocated.

use std::alloc::System;
use std::process::ExitCode;

use caudal_bench::count;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[path = "../serve/main.rs"]
mod serve;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let ended = serve::main();
    eprintln!("{}", count::allocations());
    ended
}

//! Counts allocations: the only binary with the counting allocator in it.

use std::alloc::System;

use caudal_bench::count;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    count::child(ALLOCATOR);
}

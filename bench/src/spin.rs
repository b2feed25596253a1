//! The work of the method `spin`: processor time, and no waiting.
//!
//! The package `peers` includes this file, so that both servers do the same.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of one call.
const WORK: Duration = Duration::from_micros(100);

/// Uses 100 µs of processor time.
///
/// The clock is that of the thread: it stands while another thread has the processor, so
/// that a busy machine makes no call cheaper.
pub fn spin() {
    let end = used() + WORK;
    let mut turns = 0_u64;
    while used() < end {
        // Less than a microsecond.
        for _ in 0..500 {
            turns = black_box(turns.wrapping_add(1));
        }
    }
}

/// Processor time that this thread has used so far.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

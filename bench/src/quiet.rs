//! Turns that other guests of the machine disturbed are taken again.
//!
//! Whether one was is told by the hypervisor alone (`steal` in /proc/stat), so no
//! contestant can make its own bad turn look disturbed.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::process;

/// A turn may lose so much of all processors' time.
const STOLEN: f64 = 0.01;
/// And so many ticks: a short turn has few, and one of them is more than that part.
const TICKS: u64 = 1;
/// So often one is taken again, unless the run is a quick one.
const REPEATS: usize = 2;
/// And so much of the time of all turns may be that of repeats, lest a run on a busy host
/// takes longer than it says.
const SHARE: f64 = 0.1;

static ALLOWED: AtomicUsize = AtomicUsize::new(REPEATS);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static REPEATED: AtomicUsize = AtomicUsize::new(0);
static KEPT: AtomicUsize = AtomicUsize::new(0);
/// In microseconds.
static TIME: AtomicU64 = AtomicU64::new(0);
static TIME_REPEATED: AtomicU64 = AtomicU64::new(0);

/// From now on every turn is taken once.
pub fn hurry() {
    ALLOWED.store(0, Relaxed);
}

/// Takes a turn, and takes it again while it is disturbed.
///
/// # Errors
/// Those of the turn, or /proc/stat was not understood.
pub fn turn<T>(mut take: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    TAKEN.fetch_add(1, Relaxed);
    for repeat in 0.. {
        let (before, start) = (ticks()?, Instant::now());
        let taken = take()?;
        let time = start.elapsed().as_micros() as u64;
        TIME.fetch_add(time, Relaxed);
        if repeat > 0 {
            TIME_REPEATED.fetch_add(time, Relaxed);
        }
        if !is_disturbed(before, ticks()?) {
            return Ok(taken);
        }
        let repeated = TIME_REPEATED.load(Relaxed) as f64 / TIME.load(Relaxed).max(1) as f64;
        if repeat == ALLOWED.load(Relaxed) || repeated > SHARE {
            KEPT.fetch_add(1, Relaxed);
            return Ok(taken);
        }
        REPEATED.fetch_add(1, Relaxed);
    }
    unreachable!("the loop has no end of its own")
}

/// What the rule did in this run, as a Markdown list item.
#[must_use]
pub fn describe() -> String {
    format!(
        "- A turn in which the hypervisor gave more than {:.0} % of the processors' time, and more
  than one tick, to somebody else (`steal` in /proc/stat) is taken again, {} times at most
  and for {:.0} % of the time. Of {} turns, {} were taken again and {} stayed disturbed.\n",
        STOLEN * 100.0,
        ALLOWED.load(Relaxed),
        SHARE * 100.0,
        TAKEN.load(Relaxed),
        REPEATED.load(Relaxed),
        KEPT.load(Relaxed)
    )
}

fn ticks() -> Result<process::Ticks, String> {
    process::ticks().map_err(|e| e.to_string())
}

fn is_disturbed(before: process::Ticks, after: process::Ticks) -> bool {
    let all = (after.all - before.all).max(1) as f64;
    let stolen = after.stolen - before.stolen;
    stolen > TICKS && stolen as f64 / all > STOLEN
}

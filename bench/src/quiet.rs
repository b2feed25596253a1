//! Turns that other guests of the machine disturbed are taken again.
//!
//! Whether one was is told by the hypervisor alone (`steal` in /proc/stat), so no
//! contestant can make its own bad turn look disturbed. Of those that were, the one is
//! kept that was disturbed the least.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::process;

/// A turn may lose so many ticks: a short one has few, and one of them is much of it.
const TICKS: u64 = 1;

/// When a turn is taken again.
struct Rule {
    /// It has lost more than this part of all processors' time.
    stolen: f64,
    /// So often, unless the run is a quick one,
    repeats: usize,
    /// and while repeats have taken no more than this part of the time of all turns, lest
    /// a run on a busy host takes longer than it says.
    share: f64,
    taken: AtomicUsize,
    repeated: AtomicUsize,
    /// Those that were kept though they were disturbed.
    kept: AtomicUsize,
    /// What repeats have taken, in microseconds.
    time: AtomicU64,
}

static TURNS: Rule = Rule::new(0.01, 2, 0.1);
/// The slowest hundredth of all calls are those that met somebody else, if anybody was
/// there for a hundredth of the time.
static TAILS: Rule = Rule::new(0.0025, 6, 0.1);

static HURRY: AtomicBool = AtomicBool::new(false);
/// What all turns have taken, in microseconds.
static TIME: AtomicU64 = AtomicU64::new(0);

/// From now on every turn is taken once.
pub fn hurry() {
    HURRY.store(true, Relaxed);
}

/// Takes a turn, and takes it again while it is disturbed.
///
/// # Errors
/// Those of the turn, or /proc/stat was not understood.
pub fn turn<T>(take: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    TURNS.take(take)
}

/// The same for one of which the slowest calls matter.
///
/// # Errors
/// Those of the turn, or /proc/stat was not understood.
pub fn tail<T>(take: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    TAILS.take(take)
}

/// What the rules did in this run, as Markdown list items.
#[must_use]
pub fn describe() -> String {
    let (turns, tails) = (TURNS.describe(), TAILS.describe());
    format!(
        "- A turn in which the hypervisor gave more than {:.0} % of the processors' time, and more
  than one tick, to somebody else (`steal` in /proc/stat) is taken again, {turns}
- A turn of the open loop with a bound for its slowest calls is taken again after
  {:.2} %, {tails}
- Of the turns that stayed disturbed, the one is kept that lost the least.\n",
        TURNS.stolen * 100.0,
        TAILS.stolen * 100.0,
    )
}

impl Rule {
    const fn new(stolen: f64, repeats: usize, share: f64) -> Self {
        Self {
            stolen,
            repeats,
            share,
            taken: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            time: AtomicU64::new(0),
        }
    }

    fn take<T>(&self, mut take: impl FnMut() -> Result<T, String>) -> Result<T, String> {
        self.taken.fetch_add(1, Relaxed);
        let (mut best, mut least) = once(&mut take)?;
        for _ in 0..self.repeats {
            if least <= self.stolen || HURRY.load(Relaxed) || self.is_spent() {
                break;
            }
            self.repeated.fetch_add(1, Relaxed);
            let start = Instant::now();
            let (again, stolen) = once(&mut take)?;
            self.time
                .fetch_add(start.elapsed().as_micros() as u64, Relaxed);
            if stolen < least {
                (best, least) = (again, stolen);
            }
        }
        if least > self.stolen {
            self.kept.fetch_add(1, Relaxed);
        }
        Ok(best)
    }

    /// Whether there is no time for more repeats.
    fn is_spent(&self) -> bool {
        let all = TIME.load(Relaxed).max(1) as f64;
        self.time.load(Relaxed) as f64 / all > self.share
    }

    fn describe(&self) -> String {
        format!(
            "{} times at most
  and for {:.0} % of the time. Of {} such turns, {} were taken again and {} stayed disturbed.",
            if HURRY.load(Relaxed) { 0 } else { self.repeats },
            self.share * 100.0,
            self.taken.load(Relaxed),
            self.repeated.load(Relaxed),
            self.kept.load(Relaxed)
        )
    }
}

/// Takes a turn, and says what part of all processors' time was stolen meanwhile.
fn once<T>(take: &mut impl FnMut() -> Result<T, String>) -> Result<(T, f64), String> {
    let (before, start) = (ticks()?, Instant::now());
    let taken = take()?;
    TIME.fetch_add(start.elapsed().as_micros() as u64, Relaxed);
    Ok((taken, stolen(before, ticks()?)))
}

fn ticks() -> Result<process::Ticks, String> {
    process::ticks().map_err(|e| e.to_string())
}

fn stolen(before: process::Ticks, after: process::Ticks) -> f64 {
    let all = (after.all - before.all).max(1) as f64;
    match after.stolen - before.stolen {
        ..=TICKS => 0.0,
        stolen => stolen as f64 / all,
    }
}

#[cfg(test)]
mod tests {
    use super::{Rule, stolen};
    use crate::process::Ticks;

    #[test]
    fn a_tick_is_nothing_and_more_are_their_part_of_the_time() {
        let at = |all, stolen| Ticks {
            all,
            idle: 0,
            stolen,
        };
        for (all, lost, part) in [(100, 0, 0.0), (100, 1, 0.0), (100, 2, 0.02), (0, 0, 0.0)] {
            assert_eq!(
                stolen(at(50, 7), at(50 + all, 7 + lost)),
                part,
                "{lost} of {all}"
            );
        }
    }

    #[test]
    fn what_is_never_quiet_is_taken_so_often_and_no_more() {
        // Whatever happens, more than this is lost.
        let rule = Rule::new(-1.0, 3, 1.0);
        let mut turns = 0;
        let first = rule.take(|| {
            turns += 1;
            Ok(turns)
        });
        assert_eq!(turns, 4);
        assert!((1..=4).contains(&first.unwrap()));
        assert!(
            rule.describe()
                .contains("Of 1 such turns, 3 were taken again and 1 stayed")
        );
    }
}

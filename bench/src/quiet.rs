//! Turns that other guests of the machine disturbed are taken again.
//!
//! Whether one was is told by the hypervisor alone (`steal` in /proc/stat), so no
//! contestant can make its own bad turn look disturbed. Of those that were, the one is
//! kept that was disturbed the least.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::process;

/// When a turn is taken again.
struct Rule {
    /// It has lost more than this part of all processors' time,
    stolen: f64,
    /// and more ticks than so many: a short one has few, and one of them is much of it.
    ticks: u64,
    /// So often at most, unless the run is a quick one.
    repeats: usize,
    taken: AtomicUsize,
    repeated: AtomicUsize,
    /// Those that were kept though they were disturbed.
    kept: AtomicUsize,
    /// What repeats have taken, in microseconds.
    time: AtomicU64,
}

static TURNS: Rule = Rule::new(0.01, 1, 2);
/// The slowest hundredth of all calls are those that met somebody else, if anybody was
/// there for a hundredth of the time.
static TAILS: Rule = Rule::new(0.0, 0, 8);

/// Repeats may take this part of the time of all turns, lest a run on a busy host takes
/// longer than it says.
const SHARE: f64 = 0.1;

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
- Where there is a bound for the slowest calls of an open loop, one tick is enough for a turn
  to be taken again, {tails}
- Of the turns that stayed disturbed, the one is kept that lost the least.\n",
        TURNS.stolen * 100.0,
    )
}

impl Rule {
    const fn new(stolen: f64, ticks: u64, repeats: usize) -> Self {
        Self {
            stolen,
            ticks,
            repeats,
            taken: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            time: AtomicU64::new(0),
        }
    }

    fn take<T>(&self, mut take: impl FnMut() -> Result<T, String>) -> Result<T, String> {
        self.least_disturbed(|| self.once(&mut take))
    }

    fn least_disturbed<T>(
        &self,
        mut once: impl FnMut() -> Result<Turn<T>, String>,
    ) -> Result<T, String> {
        self.taken.fetch_add(1, Relaxed);
        let Turn {
            taken: mut best,
            stolen: mut least,
            ..
        } = once()?;
        for _ in 0..self.repeats {
            if least <= self.stolen || HURRY.load(Relaxed) || self.is_spent() {
                break;
            }
            self.repeated.fetch_add(1, Relaxed);
            let again = once()?;
            self.time.fetch_add(again.time, Relaxed);
            if again.stolen < least {
                (best, least) = (again.taken, again.stolen);
            }
        }
        if least > self.stolen {
            self.kept.fetch_add(1, Relaxed);
        }
        Ok(best)
    }

    fn once<T>(&self, take: &mut impl FnMut() -> Result<T, String>) -> Result<Turn<T>, String> {
        let (before, start) = (ticks()?, Instant::now());
        let taken = take()?;
        let time = start.elapsed().as_micros() as u64;
        TIME.fetch_add(time, Relaxed);
        let stolen = self.lost(before, ticks()?);
        Ok(Turn {
            taken,
            time,
            stolen,
        })
    }

    /// What part of all processors' time was stolen, if it matters.
    fn lost(&self, before: process::Ticks, after: process::Ticks) -> f64 {
        let all = (after.all - before.all).max(1) as f64;
        match after.stolen - before.stolen {
            ticks if ticks <= self.ticks => 0.0,
            ticks => ticks as f64 / all,
        }
    }

    /// Whether there is no time for more repeats.
    fn is_spent(&self) -> bool {
        let all = TIME.load(Relaxed).max(1) as f64;
        self.time.load(Relaxed) as f64 / all > SHARE
    }

    fn describe(&self) -> String {
        format!(
            "{} times at most
  and for {:.0} % of the time. Of {} such turns, {} were taken again and {} stayed disturbed.",
            if HURRY.load(Relaxed) { 0 } else { self.repeats },
            SHARE * 100.0,
            self.taken.load(Relaxed),
            self.repeated.load(Relaxed),
            self.kept.load(Relaxed)
        )
    }
}

struct Turn<T> {
    taken: T,
    /// In microseconds.
    time: u64,
    /// What part of all processors' time was stolen meanwhile.
    stolen: f64,
}

fn ticks() -> Result<process::Ticks, String> {
    process::ticks().map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Rule, Turn};
    use crate::process::Ticks;

    #[test]
    fn few_ticks_are_nothing_and_more_are_their_part_of_the_time() {
        let at = |all, stolen| Ticks {
            all,
            idle: 0,
            stolen,
        };
        for (ticks, all, lost, part) in [
            (1, 100, 0, 0.0),
            (1, 100, 1, 0.0),
            (1, 100, 2, 0.02),
            (0, 100, 1, 0.01),
            (0, 0, 0, 0.0),
        ] {
            let rule = Rule::new(0.0, ticks, 0);
            let found = rule.lost(at(50, 7), at(50 + all, 7 + lost));
            assert_eq!(found, part, "{lost} of {all}, {ticks} allowed");
        }
    }

    #[test]
    fn a_turn_is_taken_again_until_it_is_quiet_and_the_least_disturbed_is_kept() {
        for (stolen, repeats, kept) in [
            (&[0.01, 0.9][..], 0, 0),
            (&[0.5, 0.01, 0.9], 1, 1),
            (&[0.5, 0.2, 0.4, 0.3, 0.9], 3, 1),
            (&[0.2, 0.5, 0.4, 0.3, 0.9], 3, 0),
        ] {
            let rule = Rule::new(0.01, 0, 3);
            let mut turns = stolen.iter().enumerate();
            let found = rule.least_disturbed(|| {
                let (taken, stolen) = turns.next().ok_or("too many turns")?;
                Ok(Turn {
                    taken,
                    time: 0,
                    stolen: *stolen,
                })
            });
            assert_eq!(found, Ok(kept), "{stolen:?}");
            assert_eq!(rule.repeated.into_inner(), repeats, "{stolen:?}");
            let stayed = usize::from(stolen[kept] > 0.01);
            assert_eq!(rule.kept.into_inner(), stayed, "{stolen:?}");
        }
    }
}

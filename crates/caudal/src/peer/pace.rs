//! Whether the first answers of a burst go out before the rest of it is served.
//!
//! One send for a whole burst costs least, and is right while serving is what takes
//! the time. Where the other side takes longer than that to come back, because it is
//! far away, slow, or had to be woken, the first answers let it begin: it then works
//! at its next messages while we still serve these.

use tokio::time::{Duration, Instant};

/// After so many frames the first answers go out. A burst that is not longer has no
/// first ones, and is not timed.
pub(super) const EARLY: usize = 32;

/// How long the last bursts took, and the waits between them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// In the burst that runs.
    frames: usize,
    /// When it began, and how long we had waited then, if the one before was long.
    began: Option<(Instant, Duration)>,
    /// When the last one was done, if it was long.
    rested: Option<Instant>,
    early: bool,
}

impl Pace {
    /// There is something to do again.
    #[inline]
    pub(super) fn begin(&mut self) {
        if let Some(rested) = self.rested.take() {
            let now = Instant::now();
            self.began = Some((now, now - rested));
        }
    }

    #[inline]
    pub(super) fn served(&mut self, frames: usize) {
        self.frames += frames;
    }

    /// All that there was is done.
    #[inline]
    pub(super) fn rest(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        if frames <= EARLY {
            *self = Self::default();
            return;
        }
        let now = Instant::now();
        if let Some((began, waited)) = self.began.take() {
            self.early = waited > now - began;
        }
        self.rested = Some(now);
    }

    /// Whether the first answers of the next burst go out early.
    pub(super) fn is_early(&self) -> bool {
        self.early
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{EARLY, Pace};

    /// Bursts of so many frames, so many milliseconds of waiting and of work each;
    /// whether the next one is answered early, after each.
    async fn run(bursts: &[(usize, u64, u64)]) -> Vec<bool> {
        let mut pace = Pace::default();
        let mut early = Vec::new();
        for (frames, waited, worked) in bursts {
            advance(Duration::from_millis(*waited)).await;
            pace.begin();
            pace.served(*frames);
            advance(Duration::from_millis(*worked)).await;
            pace.rest();
            early.push(pace.is_early());
        }
        early
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_keeps_us_waiting_is_answered_early() {
        // Nobody knows how long the first wait was: it may be a pause.
        let slow = [(64, 9, 1), (64, 2, 1), (64, 2, 1)];
        assert_eq!(run(&slow).await, [false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_keeps_us_busy_is_answered_at_once() {
        let fast = [(64, 1, 2), (64, 1, 2), (64, 2, 2), (64, 0, 2)];
        assert_eq!(run(&fast).await, [false; 4]);
        let turns = [(64, 1, 2), (64, 2, 1), (64, 1, 2), (64, 2, 1)];
        assert_eq!(run(&turns).await, [false, true, false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_burst_starts_it_afresh() {
        let short = [(64, 2, 1), (64, 2, 1), (EARLY, 2, 1), (64, 2, 1)];
        assert_eq!(run(&short).await, [false, true, false, false]);
    }
}

//! Whether the first messages of a burst go out before the rest of it is dealt with.
//!
//! One send for a whole burst costs least, and is right while our own work is what
//! takes the time. Where the other side takes longer than that to come back, because
//! it is far away, slow, or had to be woken, the first messages let it begin: it then
//! works at its next ones while we still work at these.

use tokio::time::Instant;

/// After so many frames the first messages go out. A burst that is not longer has no
/// first ones, and is not timed.
pub(super) const EARLY: usize = 32;

/// How long the last burst took, and the wait for the next.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Pace {
    early: bool,
    /// In the burst that runs.
    frames: usize,
    /// When the last one ended, if it was long.
    ended: Option<Instant>,
    /// When this one began, if the last one was long.
    woken: Option<Instant>,
    /// When the last one began, if it and the one before were long.
    began: Option<Instant>,
}

impl Pace {
    /// There is something to do again.
    #[inline]
    pub(super) fn begin(&mut self) {
        if self.ended.is_some() && self.frames == 0 {
            self.woken = Some(Instant::now());
        }
    }

    #[inline]
    pub(super) fn received(&mut self, frames: usize) {
        self.frames += frames;
    }

    /// All that there was is done.
    #[inline]
    pub(super) fn rest(&mut self) {
        match std::mem::take(&mut self.frames) {
            // What callers wanted sent belongs to the burst that had their answers.
            0 => {
                if let Some(ended) = &mut self.ended {
                    *ended = Instant::now();
                }
            }
            1..=EARLY => (self.woken, self.began, self.ended) = (None, None, None),
            _ => {
                if let (Some(began), Some(ended), Some(woken)) =
                    (self.began, self.ended, self.woken)
                {
                    self.early = woken - ended > ended - began;
                }
                self.began = self.woken.take();
                self.ended = Some(Instant::now());
            }
        }
    }

    /// Whether the first messages of a burst go out early.
    pub(super) fn is_early(&self) -> bool {
        self.early
    }

    /// Whether nothing of the burst was received yet.
    pub(super) fn is_first(&self) -> bool {
        self.frames == 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{EARLY, Pace};

    /// Bursts of so many frames, so many milliseconds of waiting and of work each;
    /// whether the next one is early, after each.
    async fn run(bursts: &[(usize, u64, u64)]) -> Vec<bool> {
        let mut pace = Pace::default();
        let mut early = Vec::new();
        for (frames, waited, worked) in bursts {
            advance(Duration::from_millis(*waited)).await;
            pace.begin();
            pace.received(*frames);
            advance(Duration::from_millis(*worked)).await;
            pace.rest();
            early.push(pace.is_early());
        }
        early
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_keeps_us_waiting_has_the_first_messages_early() {
        let slow = [(64, 9, 1), (64, 9, 1), (64, 2, 1), (64, 2, 1)];
        assert_eq!(run(&slow).await, [false, false, true, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_keeps_us_busy_has_all_in_one() {
        let fast = [(64, 9, 2), (64, 9, 2), (64, 1, 2), (64, 2, 2), (64, 0, 2)];
        assert_eq!(run(&fast).await, [false; 5]);
        let faster = [(64, 9, 2), (64, 9, 2), (64, 3, 2), (64, 1, 2)];
        assert_eq!(run(&faster).await, [false, false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn short_bursts_are_not_timed() {
        let short = [
            (64, 2, 1),
            (EARLY, 2, 1),
            (64, 2, 1),
            (64, 2, 1),
            (64, 2, 1),
        ];
        assert_eq!(run(&short).await, [false, false, false, false, true]);
        // What was found before still holds, and the time of the short one is nobody's.
        let mut again = [(64, 2, 1); 6];
        again[3] = (EARLY, 2, 1);
        assert_eq!(run(&again).await, [false, false, true, true, true, true]);
    }

    /// The answers that come to callers take 1 ms, what they then want sent another 4.
    #[tokio::test(start_paused = true)]
    async fn what_callers_send_is_work_of_the_burst_that_had_their_answers() {
        for (waited, early) in [(4, false), (6, true)] {
            let called = [(64, waited, 1), (0, 0, 4)].repeat(3);
            assert_eq!(run(&called).await.last(), Some(&early), "{waited}");
        }
    }
}

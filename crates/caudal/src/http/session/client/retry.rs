//! Pauses between attempts to go on with a session.

use std::time::Duration;

use tokio::time::Instant;

/// Time after which attempts end.
const LIMIT: Duration = Duration::from_secs(30);
/// The same while connections are refused: a server that was started again does not know the
/// session.
const REFUSED: Duration = Duration::from_secs(5);
/// Shortest pause.
const FIRST: Duration = Duration::from_millis(100);
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest pause while connections are refused.
const REFUSED_LONGEST: Duration = Duration::from_secs(1);

/// Pauses between attempts, ever longer, until they end.
#[derive(Debug)]
pub(crate) struct Retry {
    first: Duration,
    failing: Option<(Instant, Duration)>,
    /// Time since which every connection is refused.
    refused: Option<Instant>,
}

impl Retry {
    pub(crate) fn new() -> Self {
        Self {
            first: FIRST,
            failing: None,
            refused: None,
        }
    }

    /// Sets the first pause, as the server wants it.
    pub(crate) fn begin_with(&mut self, milliseconds: u64) {
        self.first = Duration::from_millis(milliseconds).min(LONGEST);
    }

    /// Notes that an attempt has succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.failing = None;
        self.refused = None;
    }

    /// Notes an attempt, and whether the connection was refused.
    pub(crate) fn tried(&mut self, is_refused: bool) {
        self.refused = match is_refused {
            true => Some(self.refused.unwrap_or_else(Instant::now)),
            false => None,
        };
    }

    /// Waits before the next attempt; returns false if there should be none.
    pub(crate) async fn wait(&mut self) -> bool {
        let now = Instant::now();
        let (since, pause) = self.failing.unwrap_or((now, self.first));
        let past = |since, limit| now.duration_since(since) >= limit;
        if past(since, LIMIT) || self.refused.is_some_and(|since| past(since, REFUSED)) {
            return false;
        }
        let pause = match self.refused {
            Some(_) => pause.min(REFUSED_LONGEST),
            None => pause,
        };
        self.failing = Some((since, (pause * 2).clamp(FIRST, LONGEST)));
        tokio::time::sleep(pause).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_end_after_half_a_minute_and_begin_anew_after_a_success() {
        let mut retry = Retry::new();
        for _ in 0..2 {
            let (begun, mut count) = (Instant::now(), 0);
            while retry.wait().await {
                count += 1;
            }
            let lasted = begun.elapsed();
            assert!(lasted >= LIMIT && lasted < LIMIT + LONGEST, "{lasted:?}");
            assert!((8..16).contains(&count), "{count}");
            assert!(!retry.wait().await);
            retry.succeeded();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_gives_up_sooner() {
        let mut retry = Retry::new();
        let begun = Instant::now();
        retry.tried(true);
        while retry.wait().await {
            retry.tried(true);
        }
        let lasted = begun.elapsed();
        assert!(lasted >= REFUSED && lasted <= REFUSED + REFUSED_LONGEST);
        // One that got through, whatever came of it, is a new beginning.
        retry.tried(false);
        assert!(retry.wait().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_cannot_make_a_client_ask_without_a_pause() {
        let mut retry = Retry::new();
        retry.begin_with(0);
        let mut count = 0;
        while retry.wait().await {
            count += 1;
        }
        assert!(count < 20, "{count}");
        retry.begin_with(u64::MAX);
        assert_eq!(retry.first, LONGEST);
    }
}

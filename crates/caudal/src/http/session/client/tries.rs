//! How often and how long a session tries to go on.

use std::time::Duration;

use tokio::time::Instant;

/// So long it is tried.
const LIMIT: Duration = Duration::from_secs(30);
/// So long it is tried while nobody listens at the other end: a server that starts
/// again has no more to say about a session of the old one.
const REFUSED: Duration = Duration::from_secs(5);
/// The first pause,
const FIRST: Duration = Duration::from_millis(100);
/// and the longest.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest one while nobody listens.
const REFUSED_LONGEST: Duration = Duration::from_secs(1);

/// Pauses between tries, ever longer, until it makes no sense any more.
#[derive(Debug)]
pub(crate) struct Tries {
    first: Duration,
    failing: Option<(Instant, Duration)>,
    /// Since when every connection is refused.
    refused: Option<Instant>,
}

impl Tries {
    pub(crate) fn new() -> Self {
        Self {
            first: FIRST,
            failing: None,
            refused: None,
        }
    }

    /// The server has said how long the first pause should be.
    #[cfg_attr(
        not(any(feature = "sse", test)),
        expect(dead_code, reason = "only events say it")
    )]
    pub(crate) fn begin_with(&mut self, milliseconds: u64) {
        self.first = Duration::from_millis(milliseconds).min(LONGEST);
    }

    /// It works again.
    pub(crate) fn succeeded(&mut self) {
        self.failing = None;
        self.refused = None;
    }

    /// It was tried: whether the connection was refused outright.
    pub(crate) fn tried(&mut self, refused: bool) {
        self.refused = match refused {
            true => Some(self.refused.unwrap_or_else(Instant::now)),
            false => None,
        };
    }

    /// Waits before the next try; `false` if there should be none.
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
    async fn tries_end_after_half_a_minute_and_begin_anew_after_a_success() {
        let mut tries = Tries::new();
        for _ in 0..2 {
            let (begun, mut count) = (Instant::now(), 0);
            while tries.wait().await {
                count += 1;
            }
            let lasted = begun.elapsed();
            assert!(lasted >= LIMIT && lasted < LIMIT + LONGEST, "{lasted:?}");
            assert!((8..16).contains(&count), "{count}");
            assert!(!tries.wait().await);
            tries.succeeded();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_gives_up_sooner() {
        let mut tries = Tries::new();
        let begun = Instant::now();
        tries.tried(true);
        while tries.wait().await {
            tries.tried(true);
        }
        let lasted = begun.elapsed();
        assert!(lasted >= REFUSED && lasted <= REFUSED + REFUSED_LONGEST);
        // One that got through, whatever came of it, is a new beginning.
        tries.tried(false);
        assert!(tries.wait().await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_cannot_make_a_client_ask_without_a_pause() {
        let mut tries = Tries::new();
        tries.begin_with(0);
        let mut count = 0;
        while tries.wait().await {
            count += 1;
        }
        assert!(count < 20, "{count}");
        tries.begin_with(u64::MAX);
        assert_eq!(tries.first, LONGEST);
    }
}

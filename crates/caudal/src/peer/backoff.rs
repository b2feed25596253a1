//! How a lost connection is made again.

use std::time::Duration;

/// How long to wait between tries: longer each time, up to a limit, and never
/// quite the same, so that many clients do not come back at once.
///
/// ```
/// use caudal::Backoff;
/// use std::time::Duration;
///
/// let mut backoff = Backoff::default();
/// backoff.first = Duration::from_millis(50);
/// backoff.tries = Some(10);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backoff {
    /// The delay before the first try: 100 ms.
    pub first: Duration,
    /// By how much each delay is longer than the one before: 2.
    pub factor: f64,
    /// The longest delay: 30 s.
    pub longest: Duration,
    /// How many tries there are until something is heard of the other side again;
    /// `None`, the default, is without end.
    pub tries: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            factor: 2.0,
            longest: Duration::from_secs(30),
            tries: None,
        }
    }
}

impl Backoff {
    /// The delays, each between half of its full length and all of it.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Duration> + use<> {
        let Self {
            first,
            factor,
            longest,
            tries,
        } = *self;
        let mut full = first.min(longest);
        let count = tries.map_or(usize::MAX, |tries| tries as usize);
        std::iter::repeat_with(move || {
            let delay = full.mul_f64(0.5 + 0.5 * random());
            let longer = full.as_secs_f64() * factor.max(1.0);
            full = Duration::try_from_secs_f64(longer).map_or(longest, |full| full.min(longest));
            delay
        })
        .take(count)
    }
}

/// A number from 0 to 1.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// What a connection that was lost and made again has missed.
///
/// Notifications of the other side may be lost, and so are those of ours that
/// were not sent yet: ask again for whatever was subscribed to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// How long there was no connection.
    pub lasted: Duration,
    /// How many tries it took.
    pub attempts: u32,
    /// How many calls failed, because they had been sent and may have run.
    pub failed: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: A85
    #[test]
    fn delays_grow_to_a_limit_and_differ() {
        let backoff = Backoff::default();
        let delays: Vec<_> = backoff.delays().take(20).collect();
        for (n, delay) in delays.iter().enumerate() {
            let full = Duration::from_millis(100)
                .mul_f64(2_f64.powi(i32::try_from(n).unwrap()))
                .min(Duration::from_secs(30));
            assert!(*delay >= full / 2 && *delay <= full, "{n}: {delay:?}");
        }
        assert_ne!(delays, backoff.delays().take(20).collect::<Vec<_>>());
        let three = Backoff {
            tries: Some(3),
            ..backoff
        };
        assert_eq!(three.delays().count(), 3);
    }
}

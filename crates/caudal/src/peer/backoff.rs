//! Delays between attempts to reconnect.

use std::time::Duration;

use caudal_core::setters;

/// Delays between attempts to reconnect. Each delay is longer than the one before, up to
/// a limit. Delays are partly random, so that many clients do not reconnect at once.
///
/// ```
/// use caudal::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::default()
///     .first(Duration::from_millis(50))
///     .tries(10);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backoff {
    /// The delay before the first attempt. The default is 100 ms.
    pub first: Duration,
    /// The factor by which each delay is longer than the one before. The default is 2.
    pub factor: f64,
    /// The longest delay. The default is 30 s.
    pub longest: Duration,
    /// Maximum attempts until something is received from the other side again. `None`, the
    /// default, means no limit.
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
    setters! {
        first: Duration,
        factor: f64,
        longest: Duration,
        tries: impl Into<Option<u32>>,
    }

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

/// A period without a connection, reported after the connection was made again.
///
/// Notifications of the other side may be lost. Own notifications that were not sent yet
/// are lost, too. Renew all subscriptions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gap {
    /// Duration without a connection.
    pub lasted: Duration,
    /// Number of attempts until the connection was made again.
    pub attempts: u32,
    /// Number of calls that failed because they had been sent and may have run.
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

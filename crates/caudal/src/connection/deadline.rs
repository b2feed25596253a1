//! Deadlines that cannot overflow.

use std::time::Duration;

use tokio::time::Instant;

/// `duration` after `instant`, limited to 30 years.
pub(crate) fn after(instant: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);
    instant.checked_add(duration.min(FAR)).unwrap_or(instant)
}

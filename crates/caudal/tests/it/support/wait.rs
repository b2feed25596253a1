//! Waiting for what must come. Tests wait for real time here and nowhere else, and fail
//! only if it never comes.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

/// Longest wait for anything, also on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Output of `work`, which must end.
pub(crate) async fn within<F: IntoFuture>(work: F) -> F::Output {
    let limited = tokio::time::timeout(LIMIT, work).await;
    limited.unwrap_or_else(|_| panic!("it took longer than {LIMIT:?}"))
}

/// Waits until `is_so`.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until `is_so`, without a runtime.
pub(crate) fn eventually_blocking(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(PAUSE);
    }
}

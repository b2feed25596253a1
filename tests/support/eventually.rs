//! Waiting for real time, which the tests of all crates do here.

use std::time::{Duration, Instant};

/// Longest wait for anything; the machine may be busy, and interpreters are slow to start.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// What `look` finds, which it must do in the end.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(PAUSE);
    }
}

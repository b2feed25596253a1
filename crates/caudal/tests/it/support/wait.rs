//! Waiting. A test fails if something never comes, or if something comes that must not,
//! and never because the machine is slow.

use std::future::IntoFuture;
use std::time::{Duration, Instant};

use blocking::{LIMIT, PAUSE};

#[path = "../../../../../tests/support/eventually.rs"]
mod blocking;

/// How long is looked for what must not come.
const LOOK: Duration = Duration::from_millis(100);

/// A number of milliseconds.
pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Output of `work`, which must end.
pub(crate) async fn within<F: IntoFuture>(work: F) -> F::Output {
    let limited = tokio::time::timeout(LIMIT, work).await;
    limited.unwrap_or_else(|_| panic!("it took longer than {LIMIT:?}"))
}

/// Looks for a while whether `work` ends, which it must not do. A machine that is slow can
/// make this miss a fault, and cannot make it fail.
pub(crate) async fn stays_pending<F: IntoFuture>(what: &str, work: F) {
    let ended = tokio::time::timeout(LOOK, work).await;
    assert!(ended.is_err(), "unexpected: {what}");
}

/// Waits until `is_so`.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "never: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until `is_so`, while a clock that is paused stands still.
pub(crate) async fn eventually_now(
    what: &'static str,
    is_so: impl FnMut() -> bool + Send + 'static,
) {
    let waiting = tokio::task::spawn_blocking(move || eventually_blocking(what, is_so));
    waiting.await.unwrap();
}

/// Waits until `is_so`, without a runtime.
pub(crate) fn eventually_blocking(what: &str, mut is_so: impl FnMut() -> bool) {
    blocking::eventually(what, || is_so().then_some(()));
}

/// Output of `work`, while half a second after the other passes on a clock that is paused.
/// Sockets have a little real time for each.
pub(crate) async fn while_time_passes<F: IntoFuture>(work: F) -> F::Output {
    let mut work = std::pin::pin!(work.into_future());
    for _ in 0..4_000 {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = pass_time() => {}
        }
    }
    panic!("it does not come in half an hour of a paused clock");
}

/// Half a second of a clock that is paused. A blocking task keeps it from moving by itself.
pub(crate) async fn pass_time() {
    let pause = || std::thread::sleep(PAUSE);
    tokio::task::spawn_blocking(pause).await.unwrap();
    tokio::time::advance(ms(500)).await;
}

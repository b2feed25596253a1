//! Handlers that block: they run on the blocking pool, and count until they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::IntoResult;
use crate::peer::Link;

/// Runs a plain function where it may block.
pub(super) async fn on_blocking_pool<R: IntoResult>(
    link: Arc<Link>,
    holds: bool,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
    let job = Job::new(link, holds);
    // Dropped with the work, also if that never begins.
    let done = Done(Arc::clone(&job));
    let mut handle = Abandoned(
        job,
        tokio::task::spawn_blocking(move || {
            let _done = done;
            work()
        }),
    );
    match (&mut handle.1).await {
        Ok(result) => result,
        // The panic goes on here, and is caught where any other is.
        Err(error) => match error.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            // The runtime is shutting down; nobody hears an answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Work on the blocking pool, which cannot be stopped: as long as it runs it counts
/// as in flight, and holds up what may not start beside it, also when nobody waits for it
/// any more.
struct Job {
    link: Arc<Link>,
    holds: bool,
    state: AtomicU8,
}

const RUNS: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

impl Job {
    fn new(link: Arc<Link>, holds: bool) -> Arc<Self> {
        let state = AtomicU8::new(RUNS);
        Arc::new(Self { link, holds, state })
    }
}

struct Done(Arc<Job>);

impl Drop for Done {
    fn drop(&mut self) {
        if self.0.state.swap(DONE, Ordering::AcqRel) == ABANDONED {
            self.0.link.leave_late(self.0.holds);
        }
    }
}

/// Dropped with the call; work that has not begun never does.
struct Abandoned<R>(Arc<Job>, tokio::task::JoinHandle<R>);

impl<R> Drop for Abandoned<R> {
    fn drop(&mut self) {
        let Job { link, holds, state } = &*self.0;
        link.count_in_flight(true);
        if *holds {
            link.hold();
        }
        let order = Ordering::AcqRel;
        if state
            .compare_exchange(RUNS, ABANDONED, order, Ordering::Acquire)
            .is_err()
        {
            // It has ended with its call, which says so itself.
            link.leave_late(*holds);
        }
        self.1.abort();
    }
}

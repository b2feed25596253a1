//! Handlers that block: they run on the blocking pool, and count until they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::IntoResult;
use crate::context::Maker;
use crate::incident;
use crate::peer::Link;

/// Runs a plain function where it may block.
pub(super) async fn on_blocking_pool<R: IntoResult>(
    job: Arc<Job>,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
    // Dropped with the work, also if that never begins.
    let done = Done(Arc::clone(&job));
    let kind = incident::running();
    let mut handle = Abandoned(
        job,
        tokio::task::spawn_blocking(move || {
            let _done = done;
            incident::within(kind, work)
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
/// any more. Then it also counts among those of the server that do, for its connection may
/// be gone before it.
pub(super) struct Job {
    link: Arc<Link>,
    outliving: Arc<AtomicUsize>,
    holds: bool,
    state: AtomicU8,
}

const RUNS: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

impl Job {
    pub(super) fn of(maker: &Maker<'_, '_>) -> Arc<Self> {
        Arc::new(Self {
            link: Arc::clone(maker.link),
            outliving: Arc::clone(maker.outliving),
            holds: maker.holds(),
            state: AtomicU8::new(RUNS),
        })
    }

    /// Counts what nobody waits for any more.
    fn enter(&self) {
        self.outliving.fetch_add(1, Ordering::Relaxed);
        self.link.count_in_flight(true);
        if self.holds {
            self.link.hold();
        }
    }

    fn leave(&self) {
        self.outliving.fetch_sub(1, Ordering::Relaxed);
        self.link.leave_late(self.holds);
    }
}

struct Done(Arc<Job>);

impl Drop for Done {
    fn drop(&mut self) {
        if self.0.state.swap(DONE, Ordering::AcqRel) == ABANDONED {
            self.0.leave();
        }
    }
}

/// Dropped with the call; work that has not begun never does.
struct Abandoned<R>(Arc<Job>, tokio::task::JoinHandle<R>);

impl<R> Drop for Abandoned<R> {
    fn drop(&mut self) {
        if self.0.state.load(Ordering::Acquire) == DONE {
            return;
        }
        self.0.enter();
        let order = Ordering::AcqRel;
        let state = &self.0.state;
        if state
            .compare_exchange(RUNS, ABANDONED, order, Ordering::Acquire)
            .is_err()
        {
            // It has ended with its call, which says so itself.
            self.0.leave();
        }
        self.1.abort();
    }
}

//! Handlers that block: they run on the blocking pool, and count until they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use super::context::ContextBuilder;
use crate::call::Caller;

/// Runs a plain function where it may block.
pub(super) async fn on_blocking_pool<R: Send + 'static>(
    job: Arc<Job>,
    work: impl FnOnce() -> R + Send + 'static,
) -> R {
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
            // The runtime is shutting down, so no reply can be sent.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Work on the blocking pool, which cannot be stopped. While it runs, it counts as in flight
/// and delays messages that must wait for it, also when its call has ended. Then it also
/// counts towards the server's limit, because it may outlive its connection.
pub(super) struct Job {
    caller: Caller,
    detached: Arc<AtomicUsize>,
    is_barrier: bool,
    state: AtomicU8,
}

const RUNS: u8 = 0;
const DONE: u8 = 1;
const ABANDONED: u8 = 2;

impl Job {
    pub(super) fn of(call: &ContextBuilder<'_>) -> Arc<Self> {
        Arc::new(Self {
            caller: call.caller.clone(),
            detached: Arc::clone(call.detached),
            is_barrier: call.is_barrier(),
            state: AtomicU8::new(RUNS),
        })
    }

    /// Counts work that goes on without its call.
    fn detach(&self) {
        self.detached.fetch_add(1, Ordering::Relaxed);
        let incoming = self.caller.incoming();
        incoming.count_request();
        if self.is_barrier {
            incoming.add_barrier();
        }
    }

    /// Notes that such work has ended.
    fn end_detached(&self) {
        self.detached.fetch_sub(1, Ordering::Relaxed);
        let incoming = self.caller.incoming();
        incoming.uncount_request();
        if self.is_barrier {
            incoming.remove_barrier();
        }
        if let Caller::Connection(connection) = &self.caller {
            connection.notify_task();
        }
    }
}

struct Done(Arc<Job>);

impl Drop for Done {
    fn drop(&mut self) {
        if self.0.state.swap(DONE, Ordering::AcqRel) == ABANDONED {
            self.0.end_detached();
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
        self.0.detach();
        let order = Ordering::AcqRel;
        let state = &self.0.state;
        if state
            .compare_exchange(RUNS, ABANDONED, order, Ordering::Acquire)
            .is_err()
        {
            // It has ended before its call, and the call notes the end itself.
            self.0.end_detached();
        }
        self.1.abort();
    }
}

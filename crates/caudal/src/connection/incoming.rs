//! Calls of the other side that run outside of the connection's task: how many there are,
//! what they hold up, and how they are cancelled.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

use slab::Slab;
use tokio_util::sync::CancellationToken;

use super::id_index::{IdIndex, IdKey};
use crate::config::Config;
use crate::observe::stats::Counters;
use crate::sync::lock;

/// Messages in a row that are no JSON and are answered.
const UNREADABLE: usize = 1000;

/// The calls of one connection, or of all lone messages of one origin.
#[derive(Debug)]
pub(crate) struct IncomingCalls {
    /// Maximum number of requests in flight.
    limit: usize,
    /// Maximum bytes of replies that are retained.
    retained_limit: usize,
    /// Requests that run outside of the connection's task, or wait to run.
    in_flight: AtomicUsize,
    /// Calls that must finish before the next message starts.
    barriers: AtomicUsize,
    /// Bytes of replies that wait for room in the output.
    undelivered: AtomicUsize,
    /// Bytes of replies that wait for the rest of their batch, or on an HTTP/2 stream of
    /// their own for the client to take them.
    retained: AtomicUsize,
    running: Mutex<RunningCalls>,
    /// Messages in a row that were no JSON.
    unreadable: AtomicUsize,
    /// Number of messages that had been served before them.
    served_before: AtomicU64,
}

#[derive(Debug, Default)]
struct RunningCalls {
    calls: Slab<RunningCall>,
    by_id: IdIndex,
    /// Cancelled when the connection is lost, and with it every call.
    all: CancellationToken,
}

#[derive(Debug)]
struct RunningCall {
    is_request: bool,
    is_barrier: bool,
    /// The id by which it can be cancelled.
    id: Option<IdKey>,
    token: CancellationToken,
}

impl IncomingCalls {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            limit: config.in_flight,
            retained_limit: config.output,
            in_flight: AtomicUsize::new(0),
            barriers: AtomicUsize::new(0),
            undelivered: AtomicUsize::new(0),
            retained: AtomicUsize::new(0),
            running: Mutex::default(),
            unreadable: AtomicUsize::new(0),
            served_before: AtomicU64::new(0),
        }
    }

    /// Returns true if no further request may start beside `more` that are about to.
    #[inline]
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.in_flight() + more >= self.limit
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Acquire)
    }

    pub(crate) fn count_request(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(crate) fn uncount_request(&self) {
        self.in_flight.fetch_sub(1, Release);
    }

    /// Returns true if a call must finish before the next message starts.
    #[inline]
    pub(crate) fn has_barrier(&self) -> bool {
        self.barriers.load(Acquire) > 0
    }

    /// Lets no message start until [`remove_barrier`](Self::remove_barrier).
    pub(crate) fn add_barrier(&self) {
        self.barriers.fetch_add(1, AcqRel);
    }

    pub(crate) fn remove_barrier(&self) {
        self.barriers.fetch_sub(1, AcqRel);
    }

    /// Returns true if calls run outside of the connection's task.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_barrier() || self.in_flight() > 0
    }

    /// Counts a call that runs outside of the connection's task.
    pub(super) fn add(
        &self,
        id: Option<IdKey>,
        is_request: bool,
        is_barrier: bool,
        token: CancellationToken,
    ) -> usize {
        if is_request {
            self.count_request();
        }
        if is_barrier {
            self.add_barrier();
        }
        let mut running = lock(&self.running);
        let index = running.calls.insert(RunningCall {
            is_request,
            is_barrier,
            id: id.clone(),
            token,
        });
        if let Some(id) = id {
            running.by_id.insert(id, index);
        }
        index
    }

    /// Notes that a call has ended.
    pub(super) fn remove(&self, index: usize) {
        let mut running = lock(&self.running);
        let call = running.calls.remove(index);
        if let Some(id) = call.id {
            running.by_id.remove(id, index);
        }
        if call.is_request {
            self.uncount_request();
        }
        if call.is_barrier {
            self.remove_barrier();
        }
    }

    /// Cancels the calls with this id.
    pub(super) fn cancel(&self, id: &IdKey) {
        let running = lock(&self.running);
        let calls = running.by_id.find(id);
        let tokens: Vec<_> = calls
            .filter_map(|index| running.calls.get(index))
            .map(|call| call.token.clone())
            .collect();
        drop(running);
        tokens.iter().for_each(CancellationToken::cancel);
    }

    /// Cancels all calls; later ones have a new token.
    pub(super) fn cancel_all(&self) {
        let all = std::mem::take(&mut lock(&self.running).all);
        all.cancel();
    }

    /// The token that is cancelled when the connection is lost.
    pub(crate) fn shared_token(&self) -> CancellationToken {
        lock(&self.running).all.clone()
    }

    /// A token of one call, which is cancelled with all others.
    pub(crate) fn new_token(&self) -> CancellationToken {
        lock(&self.running).all.child_token()
    }

    /// Counts a reply that waits for room in the output.
    pub(super) fn count_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_add(bytes, AcqRel);
    }

    pub(super) fn uncount_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_sub(bytes, AcqRel);
    }

    pub(super) fn undelivered(&self) -> usize {
        self.undelivered.load(Relaxed)
    }

    /// Counts a reply that waits for the rest of its batch, or on a stream of its own.
    pub(crate) fn count_retained(&self, bytes: usize) {
        self.retained.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn uncount_retained(&self, bytes: usize) {
        self.retained.fetch_sub(bytes, Relaxed);
    }

    /// Returns true if no further request may start because too many bytes are retained,
    /// `more` included.
    pub(crate) fn retains_too_much(&self, more: usize) -> bool {
        let retained = self.retained.load(Relaxed) + more;
        retained > 0 && retained >= self.retained_limit
    }

    /// Returns true if a message that is no JSON is answered. If nothing else comes, the
    /// other side may not understand the replies either, and answer them for ever.
    #[cold]
    pub(crate) fn answers_unreadable(&self, stats: &Counters) -> bool {
        let served = stats.served_total();
        if self.served_before.swap(served, Relaxed) != served {
            self.note_readable();
        }
        let before = self.unreadable.fetch_add(1, Relaxed);
        if before == UNREADABLE {
            tracing::warn!(
                target: "caudal",
                "{UNREADABLE} messages in a row are no JSON, and further ones are not answered: \
                 does the other side use another framing?",
            );
        }
        before < UNREADABLE
    }

    /// Notes that a message came which is JSON.
    pub(crate) fn note_readable(&self) {
        self.unreadable.store(0, Relaxed);
    }
}

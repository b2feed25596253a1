//! What the outboxes of all sessions hold together.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

/// Counts the bytes of all sessions, and lets their drivers wait for room.
#[derive(Debug, Default)]
pub(crate) struct Budget(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    held: Held,
    outboxes: u64,
    /// Who waits for room, by the number of its outbox.
    waiting: HashMap<u64, Waker>,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Of messages that the client has still to get.
    pub(super) owed: usize,
    /// Of those that are only kept for it to come back.
    pub(super) kept: usize,
}

impl Budget {
    /// A number for a new outbox.
    pub(super) fn register(&self) -> u64 {
        let mut count = self.lock();
        count.outboxes += 1;
        count.outboxes
    }

    /// Takes up `bytes`, or wakes `waker` when it is worth trying again. One
    /// message may pass the limit, so that none is too large; and what `fits` into
    /// the share of its own session may too, so that clients that do not read stop
    /// nobody else.
    pub(super) fn admit(
        &self,
        outbox: u64,
        (bytes, fits): (usize, bool),
        limit: usize,
        waker: &Waker,
    ) -> bool {
        let mut count = self.lock();
        let full = !fits && count.held.owed > 0 && count.held.owed >= limit;
        match full {
            true => drop(count.waiting.insert(outbox, waker.clone())),
            false => count.held.owed += bytes,
        }
        !full
    }

    /// Bytes that all sessions keep.
    pub(super) fn kept(&self) -> usize {
        self.lock().held.kept
    }

    #[cfg(test)]
    pub(super) fn owed(&self) -> usize {
        self.lock().held.owed
    }

    /// Notes what an outbox holds now instead of `before`; who waited is to be
    /// woken.
    pub(super) fn change(&self, before: Held, now: Held, limit: usize) -> Vec<Waker> {
        if before == now {
            return Vec::new();
        }
        let mut count = self.lock();
        count.held.owed = count.held.owed + now.owed - before.owed;
        count.held.kept = count.held.kept + now.kept - before.kept;
        let full = count.held.owed > 0 && count.held.owed >= limit;
        match full {
            true => Vec::new(),
            false => count.waiting.drain().map(|(_, waker)| waker).collect(),
        }
    }

    /// An outbox is no more.
    pub(super) fn forget(&self, outbox: u64, before: Held, limit: usize) {
        self.lock().waiting.remove(&outbox);
        let wakers = self.change(before, Held::default(), limit);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

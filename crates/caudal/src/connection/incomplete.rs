//! Memory of messages that are not whole yet, counted for all connections of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::buffers;

/// Maximum bytes of a buffer that is not counted: every connection may have one.
pub(crate) const UNCOUNTED: usize = 2 * buffers::SIZE;

/// The counter of one server.
#[derive(Debug)]
pub(crate) struct Incomplete {
    held: AtomicUsize,
    limit: usize,
}

impl Incomplete {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        Arc::new(Self { held, limit })
    }

    /// Counts `now` bytes instead of `before`. One message alone may pass the limit, so
    /// that none is too large.
    fn change(&self, before: usize, now: usize) -> bool {
        let changed = self.held.fetch_update(Relaxed, Relaxed, |held| {
            let others = held - before;
            let fits = now <= before || others == 0 || others.saturating_add(now) <= self.limit;
            fits.then_some(others.saturating_add(now))
        });
        changed.is_ok()
    }
}

/// Bytes that one message counts. They are given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// The counter; none where there is no server.
    of: Option<Arc<Incomplete>>,
    uncounted: usize,
    counted: usize,
}

impl Share {
    /// Of a message that has a buffer of its connection: up to [`UNCOUNTED`] bytes do not
    /// count.
    pub(crate) fn of_connection(counter: &Arc<Incomplete>) -> Self {
        Self::with(counter, UNCOUNTED)
    }

    /// Of one of any number of messages: all of its bytes count.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "of HTTP/2"))]
    pub(crate) fn of(counter: &Arc<Incomplete>) -> Self {
        Self::with(counter, 0)
    }

    fn with(counter: &Arc<Incomplete>, uncounted: usize) -> Self {
        Self {
            of: Some(Arc::clone(counter)),
            uncounted,
            counted: 0,
        }
    }

    /// Sets the memory that the message takes now, in bytes. Returns false if that exceeds
    /// the limit; the message must then be given up.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let now = if bytes > self.uncounted { bytes } else { 0 };
        // Nearly all messages are small, and touch nothing that others use.
        if now == self.counted {
            return true;
        }
        let fits = self
            .of
            .as_ref()
            .is_none_or(|counter| counter.change(self.counted, now));
        if fits {
            self.counted = now;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::{Incomplete, Share, UNCOUNTED};

    #[test]
    fn what_messages_take_is_bounded_together_and_given_back_once() {
        let counter = Incomplete::new(100);
        let mut one = Share::of(&counter);
        let mut two = Share::of(&counter);
        assert!(one.set(60) && two.set(40));
        assert!(!two.set(41) && two.set(30) && one.set(70));
        assert_eq!(counter.held.load(Relaxed), 100);
        drop(one);
        assert_eq!(counter.held.load(Relaxed), 30);
        assert!(two.set(101), "one alone may pass the limit");
        assert!(!Share::of(&counter).set(1));
        drop(two);
        assert_eq!(counter.held.load(Relaxed), 0);
    }

    #[test]
    fn the_small_buffer_of_a_connection_does_not_count() {
        let counter = Incomplete::new(100);
        let mut other = Share::of(&counter);
        assert!(other.set(100));
        let mut own = Share::of_connection(&counter);
        assert!(own.set(UNCOUNTED));
        assert!(!own.set(UNCOUNTED + 1), "and then all of it does");
        drop(other);
        assert!(own.set(UNCOUNTED + 1));
        assert_eq!(counter.held.load(Relaxed), UNCOUNTED + 1);
    }
}

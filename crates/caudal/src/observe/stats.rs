//! Statistics of a connection.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Statistics of a connection, or of a server with all its connections.
///
/// ```
/// assert_eq!(caudal::Stats::default().requests_served, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests of the other side that were answered. Requests that timed out are among them,
    /// and cancelled requests if they are answered.
    pub requests_served: u64,
    /// Notifications of the other side that were run.
    pub notifications_served: u64,
    /// Requests and notifications of the other side that ended in an error.
    pub errors: u64,
    /// Requests that were refused because too many were in flight, and messages for which
    /// [`ServerLimits::incomplete`](crate::ServerLimits::incomplete) left no room.
    pub overloaded: u64,
    /// Messages and frames that were not valid.
    pub invalid: u64,
    /// Notifications that were dropped, since there was no room for them, messages of
    /// a session's server that were too large and no answers, and messages of ours that
    /// were lost with a connection before they were sent.
    pub dropped: u64,
    /// Calls that we made.
    pub calls: u64,
    /// Calls that failed, for any reason. Calls that never began, because the connection was
    /// closed or too many waited, count neither here nor in [`calls`](Self::calls).
    pub calls_failed: u64,
    /// Notifications that we sent.
    pub notifications: u64,
    /// Replies for which no call waited.
    pub late_replies: u64,
    /// Bytes that came in.
    pub bytes_received: u64,
    /// Bytes that went out.
    pub bytes_sent: u64,
    /// Requests of the other side that run or wait to run now.
    pub in_flight: u64,
    /// Calls of ours that wait for an answer now.
    pub pending: u64,
}

macro_rules! counters {
    ($($field:ident),*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $($field: AtomicU64,)* }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($field: self.$field.load(Relaxed),)* in_flight: 0, pending: 0 }
            }
        }

        impl Stats {
            /// Adds what another connection has done.
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
                self.in_flight += other.in_flight;
                self.pending += other.pending;
            }
        }
    };
}
counters!(
    bytes_sent,
    notifications,
    bytes_received,
    requests_served,
    calls,
    notifications_served,
    errors,
    overloaded,
    invalid,
    dropped,
    calls_failed,
    late_replies
);

impl Counters {
    #[inline]
    pub(crate) fn served(&self, request: bool, failed: bool) {
        let counter = match request {
            true => &self.requests_served,
            false => &self.notifications_served,
        };
        counter.fetch_add(1, Relaxed);
        if failed {
            self.errors.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn overloaded(&self) {
        self.overloaded.fetch_add(1, Relaxed);
    }

    pub(crate) fn invalid(&self) {
        self.invalid.fetch_add(1, Relaxed);
    }

    pub(crate) fn dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Relaxed);
    }

    pub(crate) fn called(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn call_failed(&self) {
        self.calls_failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn notified(&self, messages: u64) {
        self.notifications.fetch_add(messages, Relaxed);
    }

    /// Number of messages of the other side that were served.
    pub(crate) fn served_total(&self) -> u64 {
        self.requests_served.load(Relaxed) + self.notifications_served.load(Relaxed)
    }

    pub(crate) fn late_reply(&self) {
        self.late_replies.fetch_add(1, Relaxed);
    }

    pub(crate) fn received(&self, bytes: u64) {
        self.bytes_received.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Relaxed);
    }
}

//! Wakes the task of a connection, and tells it who did.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::sync::lock;

/// Wakes the task of a connection.
///
/// Handles ask it to look at what they want. The transport, whose waker this is, asks it
/// to receive. The two are kept apart: a task that was woken to send does not ask its
/// transport for input.
#[derive(Debug)]
pub(crate) struct TaskSignal {
    /// True if a handle has asked since the task looked last.
    requested: AtomicBool,
    /// True if the transport has asked since it was polled last.
    transport: AtomicBool,
    task: Mutex<Waker>,
}

impl Default for TaskSignal {
    fn default() -> Self {
        Self {
            requested: AtomicBool::new(false),
            transport: AtomicBool::new(false),
            task: Mutex::new(Waker::noop().clone()),
        }
    }
}

impl TaskSignal {
    /// Makes the task look at what handles want.
    pub(crate) fn request(&self) {
        if !self.requested.swap(true, AcqRel) {
            lock(&self.task).wake_by_ref();
        }
    }

    /// Makes the task look when it is polled next, without waking it.
    pub(super) fn request_quietly(&self) {
        self.requested.swap(true, AcqRel);
    }

    /// Returns true if a handle has asked since the task looked last.
    #[inline]
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Acquire)
    }

    /// Notes that the task looks now.
    pub(super) fn clear_request(&self) {
        // A swap, so that the task sees what was changed before any request that it clears.
        self.requested.swap(false, AcqRel);
    }

    /// Returns true if the transport has woken the task since this was called last.
    #[inline]
    pub(super) fn take_transport(&self) -> bool {
        self.transport.load(Relaxed) && self.transport.swap(false, Acquire)
    }

    pub(super) fn set_task(&self, waker: &Waker) {
        lock(&self.task).clone_from(waker);
    }
}

/// The transport's waker.
impl Wake for TaskSignal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.transport.store(true, Release);
        lock(&self.task).wake_by_ref();
    }
}

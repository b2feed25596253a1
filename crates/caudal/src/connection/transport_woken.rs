//! Whether the transport has anything new.
//!
//! Most often it is a handle that wakes the task of a connection, to have something sent.
//! Then the transport is not asked for input: it has said that there is none, and it wakes
//! the task by this when that has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::task::Wake;

use super::link::Link;

impl Link {
    /// Whether the transport has woken the task since it was asked this last.
    #[inline]
    pub(crate) fn take_news(&self) -> bool {
        self.news.load(Relaxed) && self.news.swap(false, Acquire)
    }
}

/// What the transport wakes.
impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.news.store(true, Release);
        self.lock().driver.wake_by_ref();
    }
}

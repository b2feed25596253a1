//! Whether the transport has anything new.
//!
//! Most often it is a handle that wakes the task of a connection, to have something sent.
//! Then the transport is not asked for input: it has said that there is none, and it wakes
//! the task by this when that has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Wake, Waker};

/// What the transport wakes.
pub(super) struct News {
    bell: Arc<Bell>,
    /// The same.
    pub(super) waker: Waker,
}

struct Bell {
    rung: AtomicBool,
    task: Waker,
}

impl News {
    pub(super) fn of(task: &Waker) -> Self {
        let bell = Arc::new(Bell {
            rung: AtomicBool::new(false),
            task: task.clone(),
        });
        Self {
            waker: Arc::clone(&bell).into(),
            bell,
        }
    }

    /// Whether the transport has woken the task since it was asked this last.
    #[inline]
    pub(super) fn take(&self) -> bool {
        let rung = &self.bell.rung;
        rung.load(Relaxed) && rung.swap(false, Acquire)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Release);
        self.task.wake_by_ref();
    }
}

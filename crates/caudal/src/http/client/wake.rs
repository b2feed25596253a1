//! Which lanes are worth a look.
//!
//! Each lane has a waker of its own, so that an answer on one connection does not
//! make the transport ask all others too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

/// The lanes that were woken, and the task that looks after them.
pub(super) struct Ready(Mutex<Woken>);

struct Woken {
    lanes: VecDeque<usize>,
    task: Waker,
}

impl Ready {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Woken {
            lanes: VecDeque::new(),
            task: Waker::noop().clone(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes all that were woken into `lanes`, which is empty, and lets `task` know
    /// of those that follow.
    pub(super) fn take(&self, task: &Waker, lanes: &mut VecDeque<usize>) {
        let mut woken = self.lock();
        if !woken.task.will_wake(task) {
            woken.task.clone_from(task);
        }
        std::mem::swap(&mut woken.lanes, lanes);
    }
}

/// Wakes one lane.
pub(super) struct Signal {
    lane: usize,
    listed: AtomicBool,
    ready: Arc<Ready>,
}

impl Signal {
    pub(super) fn new(lane: usize, ready: &Arc<Ready>) -> Arc<Self> {
        Arc::new(Self {
            lane,
            listed: AtomicBool::new(false),
            ready: Arc::clone(ready),
        })
    }

    /// It is looked at now: what happens from here on is new.
    pub(super) fn looked_at(&self) {
        self.listed.store(false, Release);
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.listed.swap(true, AcqRel) {
            return;
        }
        let mut woken = self.ready.lock();
        let first = woken.lanes.is_empty();
        woken.lanes.push_back(self.lane);
        // Whoever came first has woken the task already.
        if first {
            let task = woken.task.clone();
            drop(woken);
            task.wake();
        }
    }
}

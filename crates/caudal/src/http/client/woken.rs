//! Wakers of requests that one task polls.
//!
//! Each slot has a waker of its own, so that a response on one connection does not make the
//! task poll all other requests too.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

/// Slots that were woken, and the task that polls them.
pub(super) struct WokenSlots(Mutex<Woken>);

struct Woken {
    slots: VecDeque<usize>,
    task: Waker,
}

impl WokenSlots {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Woken {
            slots: VecDeque::new(),
            task: Waker::noop().clone(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Moves all slots that were woken to `slots`, which is empty; the next one that is
    /// woken wakes `task`.
    pub(super) fn take(&self, task: &Waker, slots: &mut VecDeque<usize>) {
        let mut woken = self.lock();
        if !woken.task.will_wake(task) {
            woken.task.clone_from(task);
        }
        std::mem::swap(&mut woken.slots, slots);
    }
}

/// Wakes one slot.
pub(super) struct SlotWaker {
    slot: usize,
    /// True if the slot is among those that were woken.
    is_woken: AtomicBool,
    woken: Arc<WokenSlots>,
}

impl SlotWaker {
    pub(super) fn new(slot: usize, woken: &Arc<WokenSlots>) -> Arc<Self> {
        Arc::new(Self {
            slot,
            is_woken: AtomicBool::new(false),
            woken: Arc::clone(woken),
        })
    }

    /// Returns the waker for a poll of the slot that begins now.
    pub(super) fn begin_poll(self: &Arc<Self>) -> Waker {
        self.is_woken.store(false, Release);
        Waker::from(Arc::clone(self))
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, AcqRel) {
            return;
        }
        let mut woken = self.woken.lock();
        let is_first = woken.slots.is_empty();
        woken.slots.push_back(self.slot);
        // The first slot has woken the task already.
        if is_first {
            let task = woken.task.clone();
            drop(woken);
            task.wake();
        }
    }
}

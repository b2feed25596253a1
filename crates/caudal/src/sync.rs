//! Locks that outlive a panic.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, also if a thread has panicked while it held the lock: nothing that this
/// crate does under a lock leaves its data half-changed.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

//! Calls of a session whose requests are not done.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use caudal_core::RequestId;
use tokio::task::AbortHandle;

use crate::http::client::answer::Calls;

/// Calls whose messages were not accepted yet, or whose responses are still read.
#[derive(Default)]
pub(super) struct OpenCalls(Mutex<CallTasks>);

#[derive(Default)]
struct CallTasks {
    /// Calls in messages that are not accepted yet.
    queued: HashSet<RequestId>,
    /// Calls that were given up before that.
    gone: HashSet<RequestId>,
    /// Tasks, each with the calls that wait for it.
    tasks: Vec<(Vec<RequestId>, AbortHandle)>,
}

impl OpenCalls {
    fn lock(&self) -> MutexGuard<'_, CallTasks> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn queue(&self, calls: &Calls) {
        self.lock().queued.extend(calls.ids().cloned());
    }

    /// Forgets calls that were given up and are in no message.
    pub(super) fn all_queued(&self) {
        let open = &mut *self.lock();
        open.gone.retain(|id| open.queued.contains(id));
    }

    /// Drops calls that were given up from a message that is about to be sent.
    pub(super) fn drop_gone(&self, calls: &mut Calls) {
        calls.forget_gone(&mut self.lock().gone);
    }

    /// Notes that a message with these calls was accepted, or never will be.
    pub(super) fn sent(&self, ids: &[RequestId]) {
        let open = &mut *self.lock();
        for id in ids {
            open.queued.remove(id);
            open.gone.remove(id);
        }
    }

    /// Adds a task for which these calls wait; they may have been given up meanwhile.
    pub(super) fn add(&self, mut ids: Vec<RequestId>, task: AbortHandle) {
        if ids.is_empty() {
            return;
        }
        let open = &mut *self.lock();
        ids.retain(|id| !open.gone.remove(id));
        if ids.is_empty() {
            return task.abort();
        }
        open.tasks.retain(|(_, task)| !task.is_finished());
        open.tasks.push((ids, task));
    }

    /// Gives up a call, and a task that no other call waits for.
    pub(super) fn forget(&self, id: &RequestId) {
        let open = &mut *self.lock();
        for (place, (ids, task)) in open.tasks.iter_mut().enumerate() {
            let Some(own) = ids.iter().position(|own| own == id) else {
                continue;
            };
            ids.swap_remove(own);
            if ids.is_empty() {
                task.abort();
                open.tasks.swap_remove(place);
            }
            return;
        }
        open.gone.insert(id.clone());
    }
}

//! The calls that a session still has to do with.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use caudal_core::RequestId;
use tokio::task::AbortHandle;

use crate::http::client::answer::Calls;

/// The calls whose messages have not been sent, or whose responses are still read.
#[derive(Default)]
pub(super) struct Open(Mutex<OpenCalls>);

#[derive(Default)]
struct OpenCalls {
    /// Those in messages that are not accepted yet.
    queued: HashSet<RequestId>,
    /// Those that were given up before that.
    gone: HashSet<RequestId>,
    /// Requests, each with the calls that wait for it.
    tasks: Vec<(Vec<RequestId>, AbortHandle)>,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, OpenCalls> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn queue(&self, calls: &Calls) {
        self.lock().queued.extend(calls.ids().cloned());
    }

    /// Nothing waits but what is queued.
    pub(super) fn all_queued(&self) {
        let open = &mut *self.lock();
        open.gone.retain(|id| open.queued.contains(id));
    }

    /// A message is about to be sent: drops those calls that were given up.
    pub(super) fn drop_gone(&self, calls: &mut Calls) {
        calls.forget_gone(&mut self.lock().gone);
    }

    /// A message was accepted, or never will be.
    pub(super) fn sent(&self, ids: &[RequestId]) {
        let open = &mut *self.lock();
        for id in ids {
            open.queued.remove(id);
            open.gone.remove(id);
        }
    }

    /// A task does what these calls wait for; they may have been given up meanwhile.
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

    /// A call was given up; a request that no other waits for is, too.
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

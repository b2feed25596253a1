//! Calls that this side has made: begun, answered, timed out or given up.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use caudal_core::{CallError, CallId, CloseReason, Id, Pending};
use slab::Slab;
use tokio::time::Instant;

use super::deadline::after;
use super::id_index::{IdIndex, IdKey};

/// Settings of one outgoing call.
#[derive(Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Option<Instant>,
    pub(crate) idempotent: bool,
    pub(crate) extension: Option<Box<Extension>>,
}

/// Lets progress reports move the deadline of a call.
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    pub(crate) token: IdKey,
    /// Time that each report adds.
    pub(crate) by: Duration,
    /// Latest deadline.
    pub(crate) ceiling: Instant,
}

/// An outgoing call that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallKey {
    pub(super) index: usize,
    pub(crate) id: CallId,
}

/// Text of the result, or why there is none.
pub(super) type Outcome = Result<Box<str>, CallError>;

/// A call whose caller waits for the outcome, or has not fetched it yet.
pub(super) struct WaitingCall {
    pub(super) id: CallId,
    state: CallState,
    /// Number among all calls of the connection.
    pub(super) number: u64,
    /// Number of its message in the output; `None` until its batch is sent.
    pub(super) message: Option<u64>,
    /// True if its message carries other calls too.
    pub(super) in_batch: bool,
    /// The frame, if the call may be sent again.
    pub(super) frame: Option<Box<[u8]>>,
    /// True if an earlier connection may have sent it.
    pub(super) sent_before: bool,
    extension: Option<Box<Extension>>,
}

enum CallState {
    Waiting(Option<Waker>),
    Settled(Result<Box<str>, Box<CallError>>),
}

impl WaitingCall {
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.state, CallState::Settled(_))
    }
}

/// The outgoing calls of a connection.
pub(super) struct OutgoingCalls {
    pending: Pending<usize>,
    calls: Slab<WaitingCall>,
    by_token: IdIndex,
    made: u64,
    /// Calls that were given up after they were sent; kept only for transports that ask
    /// for them.
    given_up: Vec<CallId>,
}

impl OutgoingCalls {
    pub(super) fn new(pending: Pending<usize>) -> Self {
        Self {
            pending,
            calls: Slab::new(),
            by_token: IdIndex::default(),
            made: 0,
            given_up: Vec::new(),
        }
    }

    /// Begins a call, which gets its id.
    pub(super) fn begin(&mut self, options: &mut CallOptions) -> Result<CallKey, CallError> {
        let entry = self.calls.vacant_entry();
        let index = entry.key();
        let deadline = options.deadline.map(Instant::into_std);
        let id = self.pending.insert(index, deadline)?;
        if let Some(extension) = &options.extension {
            self.by_token.insert(extension.token.clone(), index);
        }
        entry.insert(WaitingCall {
            id,
            state: CallState::Waiting(None),
            number: self.made,
            message: None,
            in_batch: false,
            frame: None,
            sent_before: false,
            extension: options.extension.take(),
        });
        self.made += 1;
        Ok(CallKey { index, id })
    }

    /// The call with this key, unless its caller has gone.
    pub(super) fn get_mut(&mut self, key: CallKey) -> Option<&mut WaitingCall> {
        let call = self.calls.get_mut(key.index);
        call.filter(|call| call.id == key.id)
    }

    pub(super) fn at(&self, index: usize) -> Option<&WaitingCall> {
        self.calls.get(index)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<&mut WaitingCall> {
        self.calls.get_mut(index)
    }

    /// All calls that have no outcome, with their indices.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (usize, &WaitingCall)> {
        self.calls.iter().filter(|(_, call)| !call.is_settled())
    }

    /// Returns the outcome and removes the call, or has `cx` woken when there is one.
    /// `replaced` gets a waker to drop without a lock.
    pub(super) fn poll_outcome(
        &mut self,
        key: CallKey,
        cx: &mut Context<'_>,
        replaced: &mut Option<Waker>,
    ) -> Poll<Outcome> {
        if let Some(call) = self.get_mut(key)
            && let CallState::Waiting(waker) = &mut call.state
        {
            match waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                waker => *replaced = waker.replace(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match self.remove(key).map(|call| call.state) {
            Some(CallState::Settled(outcome)) => Poll::Ready(outcome.map_err(|error| *error)),
            Some(CallState::Waiting(_)) => unreachable!("it was settled above"),
            None => Poll::Ready(Err(CallError::Cancelled)),
        }
    }

    /// Removes a call whose caller has gone.
    pub(super) fn remove(&mut self, key: CallKey) -> Option<WaitingCall> {
        self.get_mut(key)?;
        let mut call = self.calls.try_remove(key.index)?;
        if let Some(extension) = call.extension.take() {
            self.by_token.remove(extension.token, key.index);
        }
        Some(call)
    }

    /// Index of the call that a response answers, which is then no longer pending.
    pub(super) fn take(&mut self, id: Id<'_>) -> Option<usize> {
        self.pending.take(id)
    }

    /// Index of the call with this id, which is then no longer pending.
    pub(super) fn cancel(&mut self, id: CallId) -> Option<usize> {
        self.pending.cancel(id)
    }

    /// Takes out the calls whose deadlines have passed.
    pub(super) fn expire(&mut self) -> Vec<(CallId, usize)> {
        self.pending.expire(Instant::now().into_std()).collect()
    }

    /// Accepts no further call, and takes out those that are pending.
    pub(super) fn close(&mut self, reason: CloseReason) -> Vec<usize> {
        self.pending.close(reason).map(|(index, _)| index).collect()
    }

    /// Sets the outcome of a call; returns the waker of its caller.
    pub(super) fn settle(&mut self, index: usize, outcome: Outcome) -> Option<Waker> {
        let call = self.calls.get_mut(index)?;
        let settled = CallState::Settled(outcome.map_err(Box::new));
        match std::mem::replace(&mut call.state, settled) {
            CallState::Waiting(waker) => waker,
            CallState::Settled(_) => unreachable!("a call leaves the pending table once"),
        }
    }

    /// Moves the deadlines of the calls that report progress under this token.
    pub(super) fn extend(&mut self, token: &IdKey) {
        let now = Instant::now();
        for index in self.by_token.find(token) {
            if let Some(call) = self.calls.get(index)
                && let Some(extension) = &call.extension
            {
                let deadline = after(now, extension.by).min(extension.ceiling);
                self.pending
                    .set_deadline(call.id, Some(deadline.into_std()));
            }
        }
    }

    /// Remembers a call that was sent and given up.
    pub(super) fn give_up(&mut self, id: CallId) {
        self.given_up.push(id);
    }

    pub(super) fn take_given_up(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.given_up)
    }

    /// Number of calls that wait for a response.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Why no further call is accepted, if that is so.
    pub(super) fn closed(&self) -> Option<&CloseReason> {
        self.pending.closed()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.pending.next_deadline().map(Instant::from_std)
    }
}

//! Outgoing calls: written, answered, dropped, timed out.

use std::sync::atomic::Ordering::*;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use caudal_core::decode::truncated_responses;
use caudal_core::{CallError, CallId, FrameError, Id, Invalid, RequestId, Response, encode};

use super::{CallKey, CallOptions, Sender, State};
use crate::connection::id_index::IdKey;
use crate::connection::outgoing::Outcome;

impl Sender {
    /// Writes a call; `write` appends it with its id. `None` if there is no room for it.
    pub(crate) fn try_call(
        &self,
        options: &mut CallOptions,
        write: impl FnOnce(&mut BytesMut, CallId),
    ) -> Result<Option<CallKey>, CallError> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.calls.closed().is_none() && !self.has_room(state) {
            return Ok(None);
        }
        let key = state.calls.begin(options)?;
        self.stats.called();
        let (number, frame) = state.output.push(|out| {
            let written: Result<(), std::convert::Infallible> = self.framing.write(out, |out| {
                write(out, key.id);
                Ok(())
            });
            let Ok(()) = written;
        });
        if let Some(call) = state.calls.get_mut(key) {
            call.message = Some(number);
            call.frame = (options.idempotent && self.reconnects).then(|| frame.into());
        }
        self.request_send();
        Ok(Some(key))
    }

    /// Begins a call of a batch, which is written later. Also returns the epoch.
    pub(crate) fn begin_call(
        &self,
        options: &mut CallOptions,
    ) -> Result<(CallKey, u64), CallError> {
        let mut state = self.lock();
        let key = state.calls.begin(options)?;
        self.stats.called();
        if let Some(call) = state.calls.get_mut(key) {
            call.in_batch = true;
        }
        // The task sets its timer.
        self.signal.request();
        Ok((key, self.epoch()))
    }

    /// Writes a batch with calls that were begun before, when there is room for it.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was written.
    pub(crate) async fn send_batch(
        &self,
        epoch: Option<u64>,
        frame: &[u8],
        calls: &[CallKey],
    ) -> Result<(), CallError> {
        while !self.try_send_batch(epoch, frame, calls)? {
            self.wait_for_room(!calls.is_empty()).await;
        }
        Ok(())
    }

    fn try_send_batch(
        &self,
        epoch: Option<u64>,
        frame: &[u8],
        calls: &[CallKey],
    ) -> Result<bool, CallError> {
        let mut state = self.lock();
        if let (Some(reason), false) = (state.calls.closed(), calls.is_empty()) {
            // They have ended, and no response can come any more.
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        let written = self.try_write(&mut state, epoch, |out| out.extend_from_slice(frame))?;
        if written.is_some() {
            for key in calls {
                if let Some(call) = state.calls.get_mut(*key) {
                    call.message = written;
                }
            }
        }
        Ok(written.is_some())
    }

    /// Returns the outcome of a call, which is then removed.
    pub(crate) fn poll_outcome(&self, cx: &mut Context<'_>, key: CallKey) -> Poll<Outcome> {
        // Dropped after the lock, since dropping a waker may run foreign code.
        let mut replaced = None;
        self.lock().calls.poll_outcome(key, cx, &mut replaced)
    }

    /// Removes a call whose caller has gone, and tells the other side if the dialect has a
    /// way to.
    pub(crate) fn forget(&self, key: CallKey) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(call) = state.calls.remove(key) else {
            return;
        };
        if state.calls.cancel(call.id).is_some() {
            self.stats.call_failed();
            match state.is_unsent(call.message) {
                true if call.in_batch && call.message.is_some() => {
                    self.give_up(state, call.id);
                }
                true => state.withdraw(call.message),
                false => self.give_up(state, call.id),
            }
        }
        self.offer_room(guard);
        // Dropping its waker may run foreign code.
        drop(call);
    }

    /// Ends a call that was begun and whose message was never written.
    pub(crate) fn abandon(&self, key: CallKey, why: CallError) {
        let mut state = self.lock();
        if let Some(index) = state.calls.cancel(key.id) {
            let waker = self.settle_at(&mut state, index, Err(why));
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// Notifies the transport and the other side that a call was given up.
    pub(super) fn give_up(&self, state: &mut State, id: CallId) {
        if self.reports_given_up.load(Relaxed) {
            state.calls.give_up(id);
            self.signal.request();
        }
        let Some(cancel) = &self.config.dialect.cancel else {
            return;
        };
        let params = std::collections::BTreeMap::from([(&*cancel.member, id.to_request_id())]);
        state.output.push(|out| {
            let written = self.framing.write(out, |out| {
                encode::notification(out, &cancel.method, &params)
            });
            debug_assert!(written.is_ok(), "the dialect names a method");
        });
        self.request_send();
    }

    /// Hands a response to its caller.
    pub(in crate::connection) fn settle(&self, response: &Response<'_>) {
        self.settle_id(
            response.id,
            match &response.outcome {
                Ok(result) => Ok(result.as_str().into()),
                Err(error) => Err(CallError::Remote(error.clone().into())),
            },
        );
    }

    /// Fails the call that an invalid response answers.
    pub(in crate::connection) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        let error = CallError::Response(invalid.cause.clone());
        self.settle_id(invalid.id, Err(error));
    }

    /// Fails one call for a reason of its transport. An id that no call waits for is
    /// ignored, like that of a late response.
    #[cold]
    pub(in crate::connection) fn fail_call(&self, id: &RequestId, error: CallError) {
        if let Ok(id) = Id::parse(&id.to_string()) {
            self.settle_id(id, Err(error));
        }
    }

    /// Fails the calls that an oversized frame answers, as far as its first bytes tell;
    /// returns false if it is no response.
    #[cold]
    pub(in crate::connection) fn settle_oversized(&self, error: &FrameError, head: &[u8]) -> bool {
        let fail = || match *error {
            FrameError::TooLarge { limit } => CallError::TooLarge { limit },
            _ => CallError::NoRoom,
        };
        if !matches!(error, FrameError::TooLarge { .. } | FrameError::Overloaded) {
            return false;
        }
        let is_response = truncated_responses(head, &self.config.policy, |id| {
            self.settle_id(id, Err(fail()));
        });
        if is_response {
            self.stats.invalid();
            tracing::debug!(target: "caudal", %error, "a response was skipped");
        }
        is_response
    }

    fn settle_id(&self, id: Id<'_>, outcome: Outcome) {
        let mut state = self.lock();
        match state.calls.take(id) {
            Some(index) => {
                let waker = self.settle_at(&mut state, index, outcome);
                drop(state);
                waker.into_iter().for_each(Waker::wake);
            }
            None => {
                drop(state);
                self.stats.late_reply();
                tracing::debug!(target: "caudal", %id, "a response that no call waits for");
            }
        }
    }

    /// Sets the outcome of a call, and counts it if it has failed: its caller may look when
    /// the connection is gone.
    pub(super) fn settle_at(
        &self,
        state: &mut State,
        index: usize,
        outcome: Outcome,
    ) -> Option<Waker> {
        if outcome.is_err() {
            self.stats.call_failed();
        }
        state.calls.settle(index, outcome)
    }

    /// Moves the deadlines of the calls that report progress under this token.
    pub(in crate::connection) fn extend(&self, token: &IdKey) {
        self.lock().calls.extend(token);
        self.signal.request();
    }

    /// Returns true if calls wait for a response.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Number of calls that wait for a response.
    pub(in crate::connection) fn pending(&self) -> usize {
        self.lock().calls.pending()
    }

    /// Returns true if a call that was sent waits for its response. Looks at all calls.
    pub(in crate::connection) fn has_sent_calls(&self) -> bool {
        let state = self.lock();
        let mut calls = state.calls.waiting();
        calls.any(|(_, call)| !state.is_unsent(call.message))
    }

    /// Fails every call whose deadline has passed.
    pub(in crate::connection) fn expire(&self) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut wakers = Vec::new();
        let expired = state.calls.expire();
        for (id, index) in &expired {
            wakers.extend(self.settle_at(state, *index, Err(CallError::Timeout)));
            let call = state.calls.at(*index);
            let (message, in_batch) =
                call.map_or((None, false), |call| (call.message, call.in_batch));
            if state.is_unsent(message) && !(in_batch && message.is_some()) {
                state.withdraw(message);
            } else {
                self.give_up(state, *id);
            }
        }
        // The next deadline is another, also if none has passed.
        self.signal.request_quietly();
        self.offer_room(guard);
        wakers.into_iter().for_each(Waker::wake);
        for (id, _) in expired {
            tracing::info!(target: "caudal", %id, "no response came in time");
        }
    }
}

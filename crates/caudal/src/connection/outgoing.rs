//! Calls of ours: written, waited for, settled once.

use std::ops::Range;
use std::sync::atomic::Ordering::*;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::decode::answers_in;
use caudal_core::{CallError, CallId, CloseReason, FrameError, Id, Invalid, RequestId, Response};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::close::closed;
use super::id_key::SameId;
use super::link::{Link, Shared};
use crate::observe::stats::Counters;

/// A call of ours.
pub(super) struct Waiting {
    pub(super) id: CallId,
    pub(super) outcome: Outcome,
    /// Its number among all calls of the connection.
    pub(super) number: u64,
    /// `Output::taken` when it was written; none if it is in a batch that is not sent.
    pub(super) written: Option<u64>,
    /// Where in `out` it stands; nowhere by itself if it is in a batch.
    pub(super) place: Range<usize>,
    /// Its frame, if it may be sent again.
    pub(super) again: Option<Box<[u8]>>,
    pub(super) extend: Option<Box<Extension>>,
    /// Whether an earlier connection has taken it over.
    pub(super) repeated: bool,
}

pub(super) enum Outcome {
    Open(Option<Waker>),
    Settled(Result<Box<str>, Box<CallError>>),
}

/// Lets progress move a deadline.
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    pub(crate) token: SameId,
    pub(crate) by: Duration,
    pub(crate) ceiling: Instant,
}

/// A call that is written later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) key: usize,
    pub(crate) id: CallId,
}

/// How one call of ours is made.
#[derive(Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Option<Instant>,
    pub(crate) idempotent: bool,
    pub(crate) extend: Option<Box<Extension>>,
}

impl Link {
    /// Writes a call and lets its caller wait; `frame` appends it with its id.
    /// `None` if there is no room for it.
    pub(crate) fn try_call(
        &self,
        options: &mut CallOptions,
        frame: impl FnOnce(&mut BytesMut, CallId),
    ) -> Result<Option<usize>, CallError> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if shared.pending.closed().is_none() && !self.has_room(shared) {
            return Ok(None);
        }
        let key = self.insert_call(shared, options)?;
        let start = shared.out.text().len();
        let Some(waiting) = shared.calls.get_mut(key) else {
            unreachable!("it was just inserted");
        };
        let written: Result<(), std::convert::Infallible> =
            self.framing.write(shared.out.text(), |out| {
                frame(out, waiting.id);
                Ok(())
            });
        let Ok(()) = written;
        waiting.written = Some(shared.out.taken());
        waiting.place = start..shared.out.text().len();
        if options.idempotent && self.reconnects {
            waiting.again = shared.out.text().get(start..).map(Into::into);
        }
        self.output_waits(shared);
        Ok(Some(key))
    }

    /// Lets a caller wait for an answer to a call that is written later.
    pub(crate) fn begin_call(&self, options: &mut CallOptions) -> Result<(Begun, u64), CallError> {
        let mut shared = self.lock();
        let key = self.insert_call(&mut shared, options)?;
        // Its time runs.
        self.call_driver(&mut shared);
        match shared.calls.get(key) {
            Some(waiting) => Ok((
                Begun {
                    key,
                    id: waiting.id,
                },
                shared.session,
            )),
            None => unreachable!("it was just inserted"),
        }
    }

    /// Appends a frame with calls that were begun before, when there is room for it.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was appended.
    pub(crate) async fn append_calls(
        &self,
        session: Option<u64>,
        frame: &[u8],
        calls: &[Begun],
    ) -> Result<(), CallError> {
        while !self.try_append_calls(session, frame, calls)? {
            self.wait_for_room(!calls.is_empty()).await;
        }
        Ok(())
    }

    fn try_append_calls(
        &self,
        session: Option<u64>,
        frame: &[u8],
        calls: &[Begun],
    ) -> Result<bool, CallError> {
        let mut shared = self.lock();
        if let (Some(reason), false) = (shared.pending.closed(), calls.is_empty()) {
            // They have ended, and no answer can come any more.
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        let appended = self.try_append(&mut shared, session, frame)?;
        if appended {
            let taken = shared.out.taken();
            for begun in calls {
                // Whose caller has gone, its place may be another's.
                let waiting = shared.calls.get_mut(begun.key);
                if let Some(waiting) = waiting.filter(|waiting| waiting.id == begun.id) {
                    waiting.written = Some(taken);
                }
            }
        }
        Ok(appended)
    }

    fn insert_call(
        &self,
        shared: &mut Shared,
        options: &mut CallOptions,
    ) -> Result<usize, CallError> {
        let entry = shared.calls.vacant_entry();
        let key = entry.key();
        let deadline = options.deadline.map(Instant::into_std);
        let id = shared.pending.insert(key, deadline)?;
        if let Some(extend) = &options.extend {
            shared.by_token.insert(extend.token.clone(), key);
        }
        entry.insert(Waiting {
            id,
            outcome: Outcome::Open(None),
            number: shared.made,
            written: None,
            place: 0..0,
            again: None,
            extend: options.extend.take(),
            repeated: false,
        });
        shared.made += 1;
        self.stats.called();
        Ok(key)
    }

    /// The outcome of a call, once there is one. Then it is gone.
    pub(crate) fn poll_outcome(
        &self,
        cx: &mut Context<'_>,
        key: usize,
    ) -> Poll<Result<Box<str>, CallError>> {
        // Dropped after the lock: a waker is somebody else's.
        let _old;
        let mut shared = self.lock();
        if let Some(waiting) = shared.calls.get_mut(key)
            && let Outcome::Open(waker) = &mut waiting.outcome
        {
            match waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                waker => _old = waker.replace(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match shared.remove_call(key).map(|waiting| waiting.outcome) {
            Some(Outcome::Settled(outcome)) => Poll::Ready(outcome.map_err(|error| *error)),
            Some(Outcome::Open(_)) => unreachable!("it was settled above"),
            None => Poll::Ready(Err(CallError::Cancelled)),
        }
    }

    /// Reads the result of a call, which has failed if it is not what its caller wants.
    pub(crate) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, CallError> {
        serde_json::from_str(text).map_err(|error| {
            self.stats.call_failed();
            CallError::Result(error)
        })
    }

    /// Forgets a call whose caller has gone, and tells the other side if there
    /// is a way to.
    pub(crate) fn forget(&self, key: usize) {
        let mut shared = self.lock();
        let Some(waiting) = shared.remove_call(key) else {
            return;
        };
        if shared.pending.cancel(waiting.id).is_some() {
            self.stats.call_failed();
            match shared.own_piece(&waiting) {
                Some(piece) => shared.cut(piece),
                None => self.give_up(&mut shared, waiting.id),
            }
        }
        self.let_in(shared);
        // Its waker is somebody else's.
        drop(waiting);
    }

    /// Gives up a call that was begun and never written.
    pub(crate) fn abandon(&self, id: CallId, why: CallError) {
        let mut shared = self.lock();
        if let Some(key) = shared.pending.cancel(id) {
            let waker = shared.settle(&self.stats, key, Err(why));
            drop(shared);
            wake(waker);
        }
    }

    /// Lets everybody know that nobody waits for the answer to a call any more.
    fn give_up(&self, shared: &mut Shared, id: CallId) {
        if self.keeps_calls.load(Relaxed) {
            shared.forgotten.push(id);
            self.call_driver(shared);
        }
        self.tell_cancelled(shared, id);
    }

    fn tell_cancelled(&self, shared: &mut Shared, id: CallId) {
        let Some(cancel) = &self.config.dialect.cancel else {
            return;
        };
        let params = std::collections::BTreeMap::from([(&*cancel.member, id.to_request_id())]);
        let written = self.framing.write(shared.out.text(), |out| {
            caudal_core::encode::notification(out, &cancel.method, &params)
        });
        debug_assert!(written.is_ok(), "the scheme names a method");
        self.output_waits(shared);
    }

    /// Hands an answer to whoever waits for it.
    pub(crate) fn settle(&self, response: &Response<'_>) {
        let outcome = match &response.outcome {
            Ok(result) => Ok(result.as_str().into()),
            Err(error) => Err(CallError::Remote(error.clone().into())),
        };
        self.settle_with(response.id, outcome);
    }

    /// Fails the call that an invalid answer was meant for.
    pub(crate) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        let error = CallError::Response(invalid.cause.clone());
        self.settle_with(invalid.id, Err(error));
    }

    /// Fails one call, as its transport has found out. An id that no call waits for is
    /// ignored, as a late answer is.
    #[cold]
    pub(crate) fn fail_call(&self, id: &RequestId, error: CallError) {
        let text = id.to_string();
        if let Ok(id) = Id::parse(&text) {
            self.settle_with(id, Err(error));
        }
    }

    /// Fails the calls that a frame was to answer which could not be read, as far as
    /// its first bytes tell; `false` if it is no answer.
    #[cold]
    pub(crate) fn settle_skipped(&self, error: &FrameError, head: &[u8]) -> bool {
        let FrameError::TooLarge { limit } = *error else {
            return false;
        };
        let answers = answers_in(head, &self.config.policy, |id| {
            self.settle_with(id, Err(CallError::TooLarge { limit }));
        });
        if answers {
            self.stats.invalid();
            tracing::debug!(target: "caudal", %error, "an answer is too large");
        }
        answers
    }

    fn settle_with(&self, id: Id<'_>, outcome: Result<Box<str>, CallError>) {
        self.understands();
        let mut shared = self.lock();
        match shared.pending.take(id) {
            Some(key) => {
                let waker = shared.settle(&self.stats, key, outcome);
                drop(shared);
                wake(waker);
            }
            None => {
                drop(shared);
                self.stats.late_reply();
                tracing::debug!(target: "caudal", %id, "an answer that nobody waits for");
            }
        }
    }

    /// Whether a call that was sent waits for its answer. All calls are looked at.
    pub(crate) fn has_asked(&self) -> bool {
        let shared = self.lock();
        let mut calls = shared.calls.iter();
        calls.any(|(_, call)| matches!(call.outcome, Outcome::Open(_)) && !shared.is_unsent(call))
    }

    /// Fails every call whose time is up.
    pub(crate) fn expire(&self) {
        let mut shared = self.lock();
        let due: Vec<_> = shared.pending.expire(Instant::now().into_std()).collect();
        let (mut sent, mut wakers) = (Vec::new(), Vec::new());
        for (id, key) in &due {
            wakers.extend(shared.settle(&self.stats, *key, Err(CallError::Timeout)));
            let call = shared.calls.get(*key);
            match call.and_then(|call| shared.own_piece(call)) {
                Some(piece) => shared.cut(piece),
                None => sent.push(*id),
            }
        }
        for id in sent {
            self.give_up(&mut shared, id);
        }
        // Whether or not anything was due, the next deadline is another.
        self.called.store(true, Release);
        self.let_in(shared);
        wakers.into_iter().for_each(Waker::wake);
        for (id, _) in due {
            tracing::info!(target: "caudal", %id, "no answer came in time");
        }
    }
}

impl Shared {
    /// Takes a call out that nobody waits for any more.
    fn remove_call(&mut self, key: usize) -> Option<Waiting> {
        let mut waiting = self.calls.try_remove(key)?;
        if let Some(extend) = waiting.extend.take() {
            self.by_token.remove(extend.token, key);
        }
        Some(waiting)
    }

    /// Fails every call. Those that were not sent never are, though what else was
    /// written may still be.
    pub(super) fn fail_calls(&mut self, stats: &Counters, reason: &CloseReason) -> Vec<Waker> {
        let failed: Vec<_> = self.pending.close(reason.clone()).collect();
        let mut wakers = Vec::new();
        for (key, _) in failed {
            let piece = self.calls.get(key).and_then(|call| self.own_piece(call));
            let repeated = self.calls.get(key).is_some_and(|call| call.repeated);
            let unsent = piece.is_some() && !repeated;
            wakers.extend(self.settle(stats, key, Err(closed(reason, unsent))));
            piece.into_iter().for_each(|piece| self.cut(piece));
        }
        wakers
    }

    /// Whether nothing of a call has been taken over to be sent.
    fn is_unsent(&self, call: &Waiting) -> bool {
        call.written
            .is_none_or(|written| written == self.out.taken())
    }

    /// What is to be cut out of the output so that a call is never sent; `None` if it
    /// has been, or will be with others.
    fn own_piece(&self, call: &Waiting) -> Option<Range<usize>> {
        let alone = call.written.is_none() || !call.place.is_empty();
        (alone && self.is_unsent(call)).then(|| call.place.clone())
    }

    /// Cuts this piece out of the output.
    fn cut(&mut self, piece: Range<usize>) {
        self.out.cut(piece);
        if self.out.is_mostly_gone(self.calls.len()) {
            self.close_holes();
        }
    }

    /// Removes what was cut out, and says of the calls behind it where they are now.
    pub(super) fn close_holes(&mut self) {
        let closed = self.out.close();
        if closed.is_empty() {
            return;
        }
        for (_, call) in &mut self.calls {
            if call.written == Some(self.out.taken()) {
                call.place = closed.moved(&call.place);
            }
        }
    }

    /// Settles a call, unless it has gone; its caller is to be woken. One that has failed
    /// is counted here: its caller may look later, when the connection is gone.
    pub(super) fn settle(
        &mut self,
        stats: &Counters,
        key: usize,
        outcome: Result<Box<str>, CallError>,
    ) -> Option<Waker> {
        let waiting = self.calls.get_mut(key)?;
        if outcome.is_err() {
            stats.call_failed();
        }
        let settled = Outcome::Settled(outcome.map_err(Box::new));
        match std::mem::replace(&mut waiting.outcome, settled) {
            Outcome::Open(waker) => waker,
            Outcome::Settled(_) => unreachable!("a call leaves the table once"),
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

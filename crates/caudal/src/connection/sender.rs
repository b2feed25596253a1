//! Sending side: outgoing calls, and the messages that wait for the connection's task.
//!
//! One lock guards both, since a call gets its id and its place in the output at once. It
//! is held for the length of a memory copy, never across an await, and never while code of
//! the application runs.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use caudal_core::decode::truncated_responses;
use caudal_core::{
    CallError, CallId, CloseReason, FrameError, Framing, Id, Invalid, Pending, RequestId, Response,
    encode,
};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::id_index::IdKey;
pub(crate) use super::outgoing::{CallKey, CallOptions, Extension};
use super::outgoing::{Outcome, OutgoingCalls};
use super::output::OutputQueue;
use super::signal::TaskSignal;
use crate::config::Config;
use crate::observe::stats::Counters;
use crate::observe::tap;
use crate::sync::lock;

/// Sending side of a connection.
pub(crate) struct Sender {
    config: Arc<Config>,
    stats: Arc<Counters>,
    signal: Arc<TaskSignal>,
    framing: Framing,
    /// True if a lost connection is made again.
    reconnects: bool,
    /// True if the transport must hear of calls that are given up.
    reports_given_up: AtomicBool,
    /// Maximum bytes that may wait to be sent.
    limit: AtomicUsize,
    /// True if `State::output` has messages.
    has_output: AtomicBool,
    /// Number of tasks that wait for room.
    waiting_for_room: AtomicUsize,
    /// Wakes the tasks that wait for room, one after the other.
    room: Notify,
    /// Number of times that the connection was lost and made again.
    epoch: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Why nothing new is accepted.
    closed: Option<CloseReason>,
    output: OutputQueue,
    calls: OutgoingCalls,
    /// Bytes that the task has taken and could not send yet.
    in_task: usize,
    /// True if the task cannot send and takes nothing more.
    is_blocked: bool,
    command: Option<Command>,
    /// Why the connection was lost the last time.
    lost: Option<CloseReason>,
}

/// Command from a handle to the connection's task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Close now.
    Close,
    /// Start nothing new, and close when all is done, or at this time.
    Drain(Instant),
}

/// State that the task reads from the sender.
#[derive(Debug, Default)]
pub(super) struct TaskInput {
    pub(super) command: Option<Command>,
    pub(super) next_deadline: Option<Instant>,
    /// Calls that were sent and given up since.
    pub(super) given_up: Vec<CallId>,
    /// True if the sender has a buffer that it may not need.
    pub(super) has_buffer: bool,
}

/// Callers to wake when the lock is free.
#[must_use]
#[derive(Default)]
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(super) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl Sender {
    pub(super) fn new(
        config: &Arc<Config>,
        stats: &Arc<Counters>,
        signal: &Arc<TaskSignal>,
        framing: Framing,
        reconnects: bool,
    ) -> Self {
        let pending = Pending::new(config.limits.pending, config.id_format)
            .with_old_responses(config.policy.old_responses);
        Self {
            limit: AtomicUsize::new(config.limits.output),
            config: Arc::clone(config),
            stats: Arc::clone(stats),
            signal: Arc::clone(signal),
            framing,
            reconnects,
            reports_given_up: AtomicBool::new(false),
            has_output: AtomicBool::new(false),
            waiting_for_room: AtomicUsize::new(0),
            room: Notify::new(),
            epoch: AtomicU64::new(0),
            state: Mutex::new(State {
                closed: None,
                output: OutputQueue::default(),
                calls: OutgoingCalls::new(pending),
                in_task: 0,
                is_blocked: false,
                command: None,
                lost: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn reconnects(&self) -> bool {
        self.reconnects
    }

    /// Number of times that the connection was lost and made again.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Acquire)
    }

    /// Lowers the limit of bytes that may wait to be sent.
    pub(super) fn lower_limit(&self, bytes: usize) {
        self.limit.fetch_min(bytes, Relaxed);
    }

    /// Maximum bytes that may wait to be sent.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    pub(super) fn report_given_up(&self, reports: bool) {
        self.reports_given_up.store(reports, Relaxed);
    }
}

/// Writing messages.
impl Sender {
    /// Writes one framed message if there is room. `None` if there is none.
    ///
    /// With an `epoch`, only to the connection of that epoch: a reply belongs to the
    /// connection that has asked.
    fn try_write(
        &self,
        state: &mut State,
        epoch: Option<u64>,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<Option<u64>, CallError> {
        if let Some(reason) = &state.closed {
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        if epoch.is_some_and(|epoch| epoch != self.epoch()) {
            let lost = state.lost.clone().unwrap_or_else(CloseReason::remote);
            return Err(CallError::AlreadyClosed(lost));
        }
        if !self.has_room(state) {
            return Ok(None);
        }
        let (number, _) = state.output.push(write);
        self.request_send();
        Ok(Some(number))
    }

    /// Writes one framed message if there is room; returns false if there is none.
    pub(crate) fn try_send(&self, frame: &[u8]) -> Result<bool, CallError> {
        let written = self.try_write(&mut self.lock(), None, |out| out.extend_from_slice(frame));
        Ok(written?.is_some())
    }

    /// Writes one framed message when there is room for it.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was written.
    pub(crate) async fn send(&self, frame: &[u8]) -> Result<(), CallError> {
        while !self.try_send(frame)? {
            self.wait_for_room(false).await;
        }
        Ok(())
    }

    /// Writes the reply to a call of the other side when there is room for it. `finish`
    /// runs with the reply in its place, before the task can send it.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was written.
    pub(super) async fn send_reply(
        &self,
        epoch: u64,
        frame: &[u8],
        mut finish: impl FnMut(),
    ) -> Result<(), CallError> {
        loop {
            {
                let mut state = self.lock();
                let write = |out: &mut BytesMut| out.extend_from_slice(frame);
                if self.try_write(&mut state, Some(epoch), write)?.is_some() {
                    finish();
                    return Ok(());
                }
            }
            self.wait_for_room(false).await;
        }
    }

    /// Returns true if more may be written. One message may always be.
    fn has_room(&self, state: &State) -> bool {
        let waits = state.output.bytes() + state.in_task;
        waits == 0 || waits < self.limit()
    }

    /// Returns when there may be room, or the connection is closed; for a call also when
    /// no response can come any more.
    pub(crate) async fn wait_for_room(&self, is_call: bool) {
        /// Lets the next one look, for whatever reason this one stops waiting.
        struct Waiter<'a>(&'a Sender);
        impl Drop for Waiter<'_> {
            fn drop(&mut self) {
                if self.0.waiting_for_room.fetch_sub(1, AcqRel) > 1 {
                    self.0.room.notify_one();
                }
            }
        }
        self.waiting_for_room.fetch_add(1, AcqRel);
        let _waiter = Waiter(self);
        loop {
            let mut notified = pin!(self.room.notified());
            notified.as_mut().enable();
            {
                let state = self.lock();
                let ended = state.closed.is_some() || is_call && state.calls.closed().is_some();
                if ended || self.has_room(&state) {
                    return;
                }
            }
            notified.await;
        }
    }

    #[inline]
    pub(super) fn is_room_wanted(&self) -> bool {
        self.waiting_for_room.load(Acquire) > 0
    }

    fn offer_room(&self, state: MutexGuard<'_, State>) {
        let has_room = self.has_room(&state);
        drop(state);
        if has_room && self.is_room_wanted() {
            self.room.notify_one();
        }
    }

    fn request_send(&self) {
        self.has_output.store(true, Release);
        self.signal.request();
    }
}

/// Outgoing calls.
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

    /// Begins a call whose message is written later, with others. Returns the epoch too.
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
        // Dropped after the lock: a waker is somebody else's.
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
        // Its waker is somebody else's.
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
    fn give_up(&self, state: &mut State, id: CallId) {
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
    pub(super) fn settle(&self, response: &Response<'_>) {
        self.settle_id(
            response.id,
            match &response.outcome {
                Ok(result) => Ok(result.as_str().into()),
                Err(error) => Err(CallError::Remote(error.clone().into())),
            },
        );
    }

    /// Fails the call that an invalid response answers.
    pub(super) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        let error = CallError::Response(invalid.cause.clone());
        self.settle_id(invalid.id, Err(error));
    }

    /// Fails one call, as its transport has found out. An id that no call waits for is
    /// ignored, like that of a late response.
    #[cold]
    pub(super) fn fail_call(&self, id: &RequestId, error: CallError) {
        if let Ok(id) = Id::parse(&id.to_string()) {
            self.settle_id(id, Err(error));
        }
    }

    /// Fails the calls that an oversized frame answers, as far as its first bytes tell;
    /// returns false if it is no response.
    #[cold]
    pub(super) fn settle_oversized(&self, error: &FrameError, head: &[u8]) -> bool {
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
    fn settle_at(&self, state: &mut State, index: usize, outcome: Outcome) -> Option<Waker> {
        if outcome.is_err() {
            self.stats.call_failed();
        }
        state.calls.settle(index, outcome)
    }

    /// Moves the deadlines of the calls that report progress under this token.
    pub(super) fn extend(&self, token: &IdKey) {
        self.lock().calls.extend(token);
        self.signal.request();
    }

    /// Returns true if calls wait for a response.
    pub(crate) fn has_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Number of calls that wait for a response.
    pub(super) fn pending(&self) -> usize {
        self.lock().calls.pending()
    }

    /// Returns true if a call that was sent waits for its response. Looks at all calls.
    pub(super) fn has_sent_calls(&self) -> bool {
        let state = self.lock();
        let mut calls = state.calls.waiting();
        calls.any(|(_, call)| !state.is_unsent(call.message))
    }

    /// Fails every call whose deadline has passed.
    pub(super) fn expire(&self) {
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

/// The connection's task.
impl Sender {
    /// Moves what handles have written behind what is in `out`.
    #[inline]
    pub(crate) fn take_output(&self, out: &mut BytesMut) {
        if self.has_output.load(Acquire) {
            let before = out.len();
            self.take_from(&mut self.lock(), out);
            self.show_sent(out, before);
        }
    }

    /// Takes all that there is for the task.
    pub(super) fn take_all(&self, out: &mut BytesMut) -> TaskInput {
        let before = out.len();
        let mut state = self.lock();
        self.signal.clear_request();
        self.take_from(&mut state, out);
        let input = state.task_input();
        drop(state);
        self.show_sent(out, before);
        input
    }

    /// Returns the task's input while there is no connection; queued messages stay.
    pub(super) fn look(&self) -> TaskInput {
        let mut state = self.lock();
        self.signal.clear_request();
        state.task_input()
    }

    fn take_from(&self, state: &mut State, out: &mut BytesMut) {
        self.has_output.store(false, Release);
        if !state.is_blocked {
            state.output.take(out);
        }
    }

    fn show_sent(&self, out: &BytesMut, before: usize) {
        if let Some(tap) = &self.config.tap {
            let frames = out.get(before..).unwrap_or_default();
            tap::show_frames(tap, self.framing, frames);
        }
    }

    /// Keeps what is written from now on for the next connection.
    pub(super) fn block(&self) {
        self.lock().is_blocked = true;
    }

    /// Notes how many bytes the task holds, and wakes those that wait for room.
    pub(super) fn set_in_task(&self, bytes: usize) {
        let mut state = self.lock();
        state.in_task = bytes;
        self.offer_room(state);
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn go_idle(&self) {
        self.lock().output.go_idle();
    }

    /// Gives the task a command; returns true if it closes the connection now, and the
    /// callers to wake.
    pub(super) fn command(&self, command: Command) -> Option<Wakers> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let command = match (state.command, command) {
            (Some(Command::Close), _) | (_, Command::Close) => Command::Close,
            (Some(Command::Drain(one)), Command::Drain(other)) => Command::Drain(one.min(other)),
            (None, command) => command,
        };
        state.command = Some(command);
        let closes = matches!(command, Command::Close) && state.closed.is_none();
        let wakers = closes.then(|| {
            let reason = CloseReason::local();
            let wakers = self.fail_all(state, &reason);
            state.closed = Some(reason);
            wakers
        });
        drop(guard);
        self.signal.request();
        if closes {
            self.room.notify_waiters();
        }
        wakers
    }

    /// Fails every call: no response can come any more.
    pub(super) fn fail_calls(&self, reason: &CloseReason) {
        let wakers = self.fail_all(&mut self.lock(), reason);
        // Those that wait to be sent need not wait any more.
        self.room.notify_waiters();
        wakers.wake();
    }

    /// Ends the connection for good: every call fails, and so does every new one. Returns
    /// true if messages were written that are never sent.
    pub(super) fn close(&self, reason: CloseReason) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let reason = state.closed.get_or_insert(reason).clone();
        let wakers = self.fail_all(state, &reason);
        let lost = state.output.len();
        self.stats.dropped(lost as u64);
        state.output.clear();
        state.in_task = 0;
        self.has_output.store(false, Release);
        drop(guard);
        self.room.notify_waiters();
        wakers.wake();
        lost > 0
    }

    /// Replaces the reason by a better one, if there is one; returns the reason.
    pub(super) fn set_reason(&self, better: Option<CloseReason>) -> Option<CloseReason> {
        let mut state = self.lock();
        if better.is_some() {
            state.closed = better;
        }
        state.closed.clone()
    }

    /// Fails every call. Calls that were not sent are withdrawn; other messages stay.
    fn fail_all(&self, state: &mut State, reason: &CloseReason) -> Wakers {
        let mut wakers = Wakers::default();
        for index in state.calls.close(reason.clone()) {
            let Some(call) = state.calls.at(index) else {
                continue;
            };
            let (message, in_batch) = (call.message, call.in_batch && call.message.is_some());
            let withdraws = state.is_unsent(message) && !in_batch;
            let unsent = withdraws && !call.sent_before;
            wakers
                .0
                .extend(self.settle_at(state, index, Err(closed(reason, unsent))));
            if withdraws {
                state.withdraw(message);
            }
        }
        wakers
    }

    /// Ends a connection that will be made again. Calls that were not sent stay, and so do
    /// sent ones that may be repeated; all others fail. Returns how many calls failed that
    /// may have run.
    pub(super) fn interrupt(&self, reason: &CloseReason) -> usize {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut messages = state.output.drain();
        let waits = messages.len();
        let (mut keep, mut lose) = (Vec::new(), Vec::new());
        for (index, call) in state.calls.waiting() {
            let queued = messages
                .binary_search_by_key(&call.message, |(number, _)| Some(*number))
                .ok();
            let unsent = call.message.is_none() || queued.is_some();
            let frame = match queued {
                Some(place) if !call.in_batch => {
                    messages.get_mut(place).map(|(_, frame)| frame.clone())
                }
                Some(_) => None,
                None => call.frame.clone(),
            };
            match frame {
                Some(frame) => keep.push((call.number, index, frame, unsent)),
                None => lose.push((call.id, index, unsent)),
            }
        }
        let failed = lose.iter().filter(|(_, _, unsent)| !unsent).count();
        let kept = keep.iter().filter(|(_, _, _, unsent)| *unsent).count();
        self.stats.dropped((waits - kept) as u64);
        let mut wakers = Vec::new();
        for (id, index, unsent) in lose {
            state.calls.cancel(id);
            wakers.extend(self.settle_at(state, index, Err(closed(reason, unsent))));
        }
        keep.sort_unstable_by_key(|(number, ..)| *number);
        for (_, index, frame, unsent) in keep {
            let (number, _) = state.output.push(|out| out.extend_from_slice(&frame));
            if let Some(call) = state.calls.at_mut(index) {
                call.message = Some(number);
                call.sent_before |= !unsent;
            }
        }
        state.in_task = 0;
        state.is_blocked = false;
        self.epoch.fetch_add(1, AcqRel);
        state.lost = Some(reason.clone());
        self.has_output.store(!state.output.is_empty(), Release);
        self.signal.request_quietly();
        drop(guard);
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
        failed
    }
}

impl State {
    fn task_input(&mut self) -> TaskInput {
        TaskInput {
            command: self.command,
            next_deadline: self.calls.next_deadline(),
            given_up: self.calls.take_given_up(),
            has_buffer: self.output.has_buffer(),
        }
    }

    /// Returns true if the task has not taken this message, or it was not written yet.
    fn is_unsent(&self, message: Option<u64>) -> bool {
        message.is_none_or(|number| self.output.has(number))
    }

    fn withdraw(&mut self, message: Option<u64>) {
        if let Some(number) = message {
            self.output.withdraw(number);
        }
    }
}

/// Returns the error of a call that ends with its connection.
fn closed(reason: &CloseReason, unsent: bool) -> CallError {
    match unsent {
        true => CallError::AlreadyClosed(reason.clone()),
        false => CallError::Closed(reason.clone()),
    }
}

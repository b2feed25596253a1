//! Sending side: outgoing calls, and the messages that wait for the connection's task.
//!
//! One lock guards both, because a call gets its id and its place in the queue together.
//! It is held for the length of a memory copy, never across an await, and never while code of
//! the application runs.

mod calls;
mod closing;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use bytes::BytesMut;
use caudal_core::{CallError, CallId, CloseReason, Framing, Pending};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outgoing::OutgoingCalls;
pub(crate) use super::outgoing::{CallKey, CallOptions, Extension};
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
    /// True if the connection is configured to reconnect.
    reconnects: bool,
    /// True if the transport must be told of calls that were dropped.
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
    /// Reason why no new message is accepted.
    closed: Option<CloseReason>,
    output: OutputQueue,
    calls: OutgoingCalls,
    /// Bytes that the task has taken and could not send yet.
    in_task: usize,
    /// True if the task cannot send and takes nothing more.
    is_blocked: bool,
    command: Option<Command>,
    /// Reason of the last loss of the connection.
    lost: Option<CloseReason>,
}

/// Command from a handle to the connection's task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Close now.
    Close,
    /// Start no new call; close when all calls have ended, or at this time.
    Drain(Instant),
}

/// State that the task reads from the sender.
#[derive(Debug, Default)]
pub(super) struct TaskInput {
    pub(super) command: Option<Command>,
    pub(super) next_deadline: Option<Instant>,
    /// Sent calls that were dropped since the last look.
    pub(super) given_up: Vec<CallId>,
    /// True if the sender may have a buffer that it can free.
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
        let pending = Pending::new(config.pending, config.id_format)
            .with_old_responses(config.policy.old_responses);
        Self {
            limit: AtomicUsize::new(config.output),
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
    /// With an `epoch`, it is written only for the connection of that epoch: a reply belongs
    /// to the connection that its request came from.
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

    /// Returns true if there is room for a message. An empty queue has room for any message.
    fn has_room(&self, state: &State) -> bool {
        let waits = state.output.bytes() + state.in_task;
        waits == 0 || waits < self.limit()
    }

    /// Returns when there may be room, or the connection is closed; for a call also when
    /// no response can come any more.
    pub(crate) async fn wait_for_room(&self, is_call: bool) {
        /// Wakes the next waiting task when this one stops waiting, also if it is dropped.
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

/// The connection's task.
impl Sender {
    /// Appends the messages that handles have written to `out`.
    #[inline]
    pub(crate) fn take_output(&self, out: &mut BytesMut) {
        if self.has_output.load(Acquire) {
            let before = out.len();
            self.take_from(&mut self.lock(), out);
            self.show_sent(out, before);
        }
    }

    /// Takes commands, deadlines and messages for the task.
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

    /// Keeps messages that are written from now on for the next connection.
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

//! The end of a connection, before a reconnection or for good, and the fate of its calls.

use std::sync::atomic::Ordering::*;
use std::task::Waker;

use caudal_core::{CallError, CloseReason};

use super::{Command, Sender, State, Wakers};

impl Sender {
    /// Gives the task a command; returns true if it closes the connection now, and the
    /// callers to wake.
    pub(in crate::connection) fn command(&self, command: Command) -> Option<Wakers> {
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
    pub(in crate::connection) fn fail_calls(&self, reason: &CloseReason) {
        let wakers = self.fail_all(&mut self.lock(), reason);
        // Those that wait to be sent need not wait any more.
        self.room.notify_waiters();
        wakers.wake();
    }

    /// Ends the connection for good: every call fails, and so does every new one. Returns
    /// true if messages were written that are never sent.
    pub(in crate::connection) fn close(&self, reason: CloseReason) -> bool {
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
    pub(in crate::connection) fn set_reason(
        &self,
        better: Option<CloseReason>,
    ) -> Option<CloseReason> {
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
    pub(in crate::connection) fn interrupt(&self, reason: &CloseReason) -> usize {
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

/// Returns the error of a call that ends with its connection.
fn closed(reason: &CloseReason, unsent: bool) -> CallError {
    match unsent {
        true => CallError::AlreadyClosed(reason.clone()),
        false => CallError::Closed(reason.clone()),
    }
}

//! How a connection ends, for now or for good, and what becomes of the calls that wait.

use std::sync::atomic::Ordering::Release;
use std::task::Waker;

use caudal_core::{CallError, CloseReason};

use super::link::{Link, Order, frames};
use super::outgoing::Outcome;
use crate::peer::State;

impl Link {
    pub(crate) fn order(&self, order: Order) {
        let mut shared = self.lock();
        shared.order = match (shared.order, order) {
            (Some(Order::Close), _) | (_, Order::Close) => Some(Order::Close),
            (Some(Order::Drain(one)), Order::Drain(other)) => Some(Order::Drain(one.min(other))),
            (None, order) => Some(order),
        };
        let closes = matches!(shared.order, Some(Order::Close)) && shared.closed.is_none();
        let mut wakers = Vec::new();
        if closes {
            let reason = CloseReason::local();
            wakers = shared.fail_calls(&self.stats, &reason);
            shared.closed = Some(reason);
        }
        self.call_driver(&mut shared);
        drop(shared);
        if closes {
            self.set_state(State::Draining);
            self.room.notify_waiters();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends a connection that will be made again. Calls that were not sent yet
    /// stay, and so do those that may be repeated; all others fail, and are
    /// counted.
    pub(crate) fn interrupt(&self, reason: &CloseReason) -> usize {
        let mut guard = self.lock();
        let shared = &mut *guard;
        shared.close_holes();
        let (taken, old) = (shared.out.taken(), std::mem::take(shared.out.text()));
        let (mut lose, mut keep) = (Vec::new(), Vec::new());
        for (key, waiting) in &mut shared.calls {
            if !matches!(waiting.outcome, Outcome::Open(_)) {
                continue;
            }
            let unsent = waiting.written.is_none_or(|written| written == taken);
            let frame = match (unsent, &waiting.again) {
                (true, _) => old
                    .get(waiting.place.clone())
                    .filter(|frame| !frame.is_empty()),
                (false, again) => again.as_deref(),
            };
            match frame {
                Some(frame) => keep.push((waiting.number, key, frame.to_vec(), unsent)),
                None => lose.push((waiting.id, key, unsent)),
            }
        }
        let failed = lose.iter().filter(|(_, _, unsent)| !unsent).count();
        let kept = keep.iter().filter(|(_, _, _, unsent)| *unsent).count();
        let lost = frames(self.framing, &old).saturating_sub(kept);
        self.stats.dropped(lost as u64);
        let mut wakers = Vec::new();
        for (id, key, unsent) in lose {
            shared.pending.cancel(id);
            wakers.extend(shared.settle(&self.stats, key, Err(closed(reason, unsent))));
        }
        keep.sort_unstable();
        for (_, key, frame, unsent) in keep {
            let out = shared.out.text();
            let start = out.len();
            out.extend_from_slice(&frame);
            if let Some(waiting) = shared.calls.get_mut(key) {
                waiting.place = start..out.len();
                waiting.written = Some(taken);
                waiting.repeated |= !unsent;
            }
        }
        shared.unsent = 0;
        shared.muted = false;
        shared.session += 1;
        shared.lost = Some(reason.clone());
        self.has_output
            .store(!shared.out.text().is_empty(), Release);
        self.called.store(true, Release);
        let token = std::mem::take(&mut shared.token);
        drop(guard);
        self.set_state(State::Connecting);
        token.cancel();
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
        failed
    }

    /// Fails every call that waits: no answer can come any more.
    pub(crate) fn fail_calls(&self, reason: &CloseReason) {
        let mut guard = self.lock();
        let wakers = guard.fail_calls(&self.stats, reason);
        drop(guard);
        // Those that wait to be sent need not wait any more.
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends it for good: every call that waits fails, and so does every new one. Says
    /// whether messages were written that are never sent.
    pub(crate) fn close(&self, reason: CloseReason) -> bool {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let reason = &*shared.closed.get_or_insert(reason);
        let reason = reason.clone();
        let wakers = shared.fail_calls(&self.stats, &reason);
        let token = shared.token.clone();
        shared.close_holes();
        let lost = frames(self.framing, shared.out.text());
        self.stats.dropped(lost as u64);
        shared.out.clear();
        shared.unsent = 0;
        self.has_output.store(false, Release);
        drop(guard);
        token.cancel();
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
        lost > 0
    }

    /// Tells everybody who watches that it has ended; all else is done.
    ///
    /// `more` may say more about the end than was known before.
    pub(crate) fn announce_closed(&self, more: Option<CloseReason>) {
        let mut shared = self.lock();
        if let Some(more) = more {
            shared.closed = Some(more);
        }
        let reason = shared.closed.clone();
        drop(shared);
        if let Some(reason) = reason {
            self.set_state(State::Closed(reason));
        }
    }
}

/// How a call ends with its connection.
pub(super) fn closed(reason: &CloseReason, unsent: bool) -> CallError {
    match unsent {
        true => CallError::AlreadyClosed(reason.clone()),
        false => CallError::Closed(reason.clone()),
    }
}

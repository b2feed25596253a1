//! What may not take too long, and the timer that wakes the connection when it does.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use caudal_core::CloseReason;
use tokio::time::{Instant, Sleep, sleep_until};

use super::deadline::after;

/// The clocks of one connection.
#[derive(Default)]
pub(super) struct Timers {
    timer: Option<Pin<Box<Sleep>>>,
    /// When something was sent or received last, if it may not be idle for ever,
    last_active: Option<Instant>,
    /// and whether something was under way when it looked last.
    was_busy: bool,
    /// By when the message that is coming in must be whole.
    whole_by: Option<Instant>,
    /// By when the other side must read, if we do not read before it does,
    read_by: Option<Instant>,
    /// and what had gone out when that was set.
    gone: Option<u64>,
}

impl Timers {
    /// For a connection that may be idle for so long; zero is for ever.
    pub(super) fn new(idle: Duration) -> Self {
        Self {
            last_active: (!idle.is_zero()).then(Instant::now),
            ..Self::default()
        }
    }

    /// Something was sent or received.
    pub(super) fn touch(&mut self) {
        if let Some(last) = &mut self.last_active {
            *last = Instant::now();
        }
    }

    /// Whether somebody wants to know how long nothing has happened.
    pub(super) const fn counts_idleness(&self) -> bool {
        self.last_active.is_some()
    }

    /// Whether something is under way: what has just ended was no idleness.
    pub(super) fn set_busy(&mut self, is_busy: bool) {
        if std::mem::replace(&mut self.was_busy, is_busy) {
            self.touch();
        }
    }

    /// When it will have been idle for too long, if nothing happens.
    pub(super) fn idle_by(&self, idle: Duration) -> Option<Instant> {
        self.last_active.map(|last| after(last, idle))
    }

    /// A message is coming in, and has so long if it had no limit yet; zero is for ever.
    pub(super) fn begin_message(&mut self, limit: Duration) {
        if !limit.is_zero() && self.whole_by.is_none() {
            self.whole_by = Some(after(Instant::now(), limit));
        }
    }

    /// None is, or nobody looks whether the rest of it has come.
    pub(super) const fn end_message(&mut self) {
        self.whole_by = None;
    }

    /// Whether each side may be waiting for the other to read.
    pub(super) const fn awaits_reader(&self) -> bool {
        self.read_by.is_some()
    }

    /// So much was given to the transport, and so much of all that has gone out.
    pub(super) fn has_sent(&mut self, count: usize, gone: Option<u64>) {
        // What the transport holds back itself may have gone out.
        if count > 0 || gone != self.gone {
            self.read_by = None;
            self.gone = gone;
        }
    }

    /// Each side waits for the other to read, or does not; that may last so long.
    pub(super) fn set_stuck(&mut self, is_stuck: bool, limit: Duration) {
        let begin = || after(Instant::now(), limit);
        self.read_by = is_stuck.then(|| self.read_by.unwrap_or_else(begin));
    }

    /// Why the connection must end now, if it must.
    pub(super) fn overdue(&self, idle_by: Option<Instant>) -> Option<CloseReason> {
        let is_over = |by: Option<Instant>| by.is_some_and(|by| by <= Instant::now());
        if is_over(self.whole_by) {
            Some(CloseReason::failed(Slow))
        } else if is_over(self.read_by) {
            Some(CloseReason::failed(Stuck))
        } else if is_over(idle_by) {
            Some(CloseReason::local_with(Idle))
        } else {
            None
        }
    }

    /// When that will be.
    pub(super) fn next(&self, idle_by: Option<Instant>) -> Option<Instant> {
        let all = [idle_by, self.whole_by, self.read_by];
        all.into_iter().flatten().min()
    }

    /// Whether the timer has gone off since it was set.
    pub(super) fn take_elapsed(&mut self) -> bool {
        let elapsed = self.timer.as_ref().is_some_and(|timer| timer.is_elapsed());
        if elapsed {
            self.timer = None;
        }
        elapsed
    }

    /// Sets the timer.
    pub(super) fn wake_at(&mut self, next: Instant, cx: &mut Context<'_>) {
        match &mut self.timer {
            // It fires early at worst, and is then set again.
            Some(timer) if timer.deadline() <= next => {}
            Some(timer) => timer.as_mut().reset(next),
            None => self.timer = Some(Box::pin(sleep_until(next))),
        }
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
    }
}

/// A message took too long.
#[derive(Debug, thiserror::Error)]
#[error("a message began and did not come to its end in time")]
struct Slow;

/// Each side waits for the other to read.
#[derive(Debug, thiserror::Error)]
#[error("too much waits in both directions, and the other side did not read for too long")]
struct Stuck;

/// Nothing happened for too long.
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent or received for too long")]
struct Idle;

//! Timeouts of a connection, and the timer that wakes it when one expires.

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
    /// Time of the last activity, if there is an idle timeout.
    last_active: Option<Instant>,
    /// True if something was in progress at the last check.
    was_busy: bool,
    /// Deadline for the message that is being received.
    whole_by: Option<Instant>,
    /// Deadline for the other side to read, if this side waits for that before it reads.
    read_by: Option<Instant>,
    /// Total bytes sent, as recorded last.
    gone: Option<u64>,
}

impl Timers {
    /// Timers of a connection, which may have an idle timeout.
    pub(super) fn new(idle: Option<Duration>) -> Self {
        Self {
            last_active: idle.map(|_| Instant::now()),
            ..Self::default()
        }
    }

    /// Records that something was sent or received.
    pub(super) fn touch(&mut self) {
        if let Some(last) = &mut self.last_active {
            *last = Instant::now();
        }
    }

    /// Returns true if there is an idle timeout.
    pub(super) const fn counts_idleness(&self) -> bool {
        self.last_active.is_some()
    }

    /// Sets whether something is in progress. The end of work counts as activity.
    pub(super) fn set_busy(&mut self, is_busy: bool) {
        if std::mem::replace(&mut self.was_busy, is_busy) {
            self.touch();
        }
    }

    /// Deadline of the idle timeout if nothing happens before.
    pub(super) fn idle_by(&self, idle: Option<Duration>) -> Option<Instant> {
        Some(after(self.last_active?, idle?))
    }

    /// Starts the timeout of a message, if there is one, unless it runs already.
    pub(super) fn begin_message(&mut self, limit: Option<Duration>) {
        if self.whole_by.is_none() {
            self.whole_by = limit.map(|limit| after(Instant::now(), limit));
        }
    }

    /// Stops the timeout of a message: none is being received, or its input is not being read.
    pub(super) const fn end_message(&mut self) {
        self.whole_by = None;
    }

    /// Returns true if each side may be waiting for the other to read.
    pub(super) const fn awaits_reader(&self) -> bool {
        self.read_by.is_some()
    }

    /// Records that `count` bytes were given to the transport, and `gone` bytes sent in total.
    pub(super) fn has_sent(&mut self, count: usize, gone: Option<u64>) {
        // What the transport holds back itself may have gone out.
        if count > 0 || gone != self.gone {
            self.read_by = None;
            self.gone = gone;
        }
    }

    /// Sets whether each side waits for the other to read, and the limit for that state.
    pub(super) fn set_stuck(&mut self, is_stuck: bool, limit: Option<Duration>) {
        let begin = || limit.map(|limit| after(Instant::now(), limit));
        self.read_by = self.read_by.or_else(begin).filter(|_| is_stuck);
    }

    /// Returns the reason to close the connection if a timeout has expired.
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

    /// Returns the earliest deadline.
    pub(super) fn next(&self, idle_by: Option<Instant>) -> Option<Instant> {
        let all = [idle_by, self.whole_by, self.read_by];
        all.into_iter().flatten().min()
    }

    /// Returns true if the timer has elapsed since it was set.
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

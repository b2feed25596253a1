//! The time that one task works before it lets others run.

use std::future::Future;
use std::pin::pin;
use std::task::Context;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

/// Length of a time slice. Ten busy connections on a worker delay an eleventh by two
/// milliseconds; a switch every 200 µs costs them less than a hundredth of their time.
const LENGTH: Duration = Duration::from_micros(200);

/// A stretch of work in one poll of a task.
///
/// A handler that has begun cannot be interrupted: a slice ends after the message, or
/// after the entry of a batch, that passes its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeSlice {
    end: Instant,
}

impl TimeSlice {
    pub(crate) fn begin() -> Self {
        Self {
            end: Instant::now() + LENGTH,
        }
    }

    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.end
    }
}

/// Schedules the task of `cx` again, behind all tasks that are ready and behind the I/O
/// that has become ready meanwhile.
///
/// To wake the task is not enough: tokio then polls it again before it looks for I/O,
/// up to 60 times.
pub(crate) fn yield_to_others(cx: &mut Context<'_>) {
    let _pending = pin!(yield_now()).poll(cx);
}

//! Who takes messages out of an outbox, one at a time.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::Outbox;
use super::state::State;

/// Takes messages out of an [`Outbox`], until another one does.
#[derive(Debug)]
pub(crate) struct Reader {
    outbox: Arc<Outbox>,
    token: u64,
    /// Whether it reads for a POST: what it takes is not kept.
    is_lent: bool,
}

impl Reader {
    /// One that takes what was never sent; the one before it ends.
    pub(super) fn begin(outbox: &Arc<Outbox>, state: &mut State, is_lent: bool) -> Self {
        Self {
            outbox: Arc::clone(outbox),
            token: state.begin_reader(),
            is_lent,
        }
    }

    /// Goes back to what comes after `number`, as far as it is still there; says
    /// how many messages are not.
    pub(crate) fn resume_after(&self, number: u64) -> u64 {
        self.outbox.change(|state, _| {
            if state.reader != Some(self.token) {
                return 0;
            }
            let number = number.min(state.fresh - 1);
            let next = state.first.max(number + 1);
            state.next = next;
            state.skip_gap();
            next - number - 1
        })
    }

    /// The next message and its number; `None` when there is another reader, or
    /// when the outbox is closed and empty.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Bytes)>> {
        self.poll_next_to(cx, u64::MAX)
    }

    /// The same for messages up to the number `limit`: others wait.
    pub(crate) fn poll_next_to(
        &mut self,
        cx: &mut Context<'_>,
        limit: u64,
    ) -> Poll<Option<(u64, Bytes)>> {
        self.outbox.change(|state, _| {
            if state.reader != Some(self.token) {
                return Poll::Ready(None);
            }
            if let Some(message) = state.take(limit, self.is_lent) {
                return Poll::Ready(Some(message));
            }
            if state.closed && state.next > state.last() {
                return Poll::Ready(None);
            }
            state.taker = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Whether it has come to the end of a session, and not of its own turn.
    pub(crate) fn is_last(&self) -> bool {
        let state = self.outbox.lock();
        state.closed && state.reader == Some(self.token)
    }
}

#[cfg(feature = "webhook")]
impl Reader {
    /// What tells when there is a newer one.
    pub(in crate::transport::session) fn turn(&self) -> Turn {
        Turn {
            outbox: Arc::clone(&self.outbox),
            token: self.token,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.outbox.change(|state, wakers| {
            if state.reader == Some(self.token) {
                state.reader = None;
                state.taker = None;
                wakers.extend(state.others());
            }
        });
    }
}

/// The time from one [`Reader`] to the next, also if the first is gone before.
#[cfg(feature = "webhook")]
#[derive(Debug)]
pub(in crate::transport::session) struct Turn {
    outbox: Arc<Outbox>,
    token: u64,
}

#[cfg(feature = "webhook")]
impl Turn {
    /// Ready when another reader has begun.
    pub(in crate::transport::session) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.outbox.lock();
        if state.readers != self.token {
            return Poll::Ready(());
        }
        state.watcher = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(in crate::transport::session) fn is_over(&self) -> bool {
        self.outbox.lock().readers != self.token
    }
}

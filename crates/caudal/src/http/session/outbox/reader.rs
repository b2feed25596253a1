//! Who takes messages out of an outbox, one at a time.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::state::State;
use super::{Outbox, Verb};

/// Takes messages out of an [`Outbox`], until another one does.
#[derive(Debug)]
pub(crate) struct Reader {
    outbox: Arc<Outbox>,
    token: u64,
    /// Whether it reads for a POST: what it takes is not kept.
    is_lent: bool,
    /// The message of which it has got a part, and how much.
    begun: Option<(u64, usize)>,
}

/// A part of a message, or all of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) number: u64,
    pub(crate) text: Bytes,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

impl Reader {
    /// One that takes what was never sent; the one before it ends.
    pub(super) fn begin(outbox: &Arc<Outbox>, state: &mut State, is_lent: bool) -> Self {
        Self {
            outbox: Arc::clone(outbox),
            token: state.begin_reader(),
            is_lent,
            begun: None,
        }
    }

    /// Goes back to what comes after `number`, as far as it is still there; says
    /// how many messages are not.
    pub(crate) fn resume_after(&mut self, number: u64) -> u64 {
        self.begun = None;
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
        let part = self.poll_part(cx, u64::MAX, usize::MAX);
        part.map(|part| part.map(|part| (part.number, part.text)))
    }

    /// At most `size` bytes of the next message, unless its number is above `limit`: such
    /// a one waits. Until all of it is taken it was not sent, and the next reader begins
    /// it anew; but one for a POST takes it whole, since nobody can come back for it.
    pub(crate) fn poll_part(
        &mut self,
        cx: &mut Context<'_>,
        limit: u64,
        size: usize,
    ) -> Poll<Option<Part>> {
        let (begun, is_lent) = (&mut self.begun, self.is_lent);
        self.outbox.change(|state, _| {
            if state.reader != Some(self.token) {
                return Poll::Ready(None);
            }
            let message = state.peek().filter(|(number, _)| *number <= limit);
            let Some((number, text)) = message else {
                if begun.is_some() || (state.closed && state.next > state.last()) {
                    return Poll::Ready(None);
                }
                state.taker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let from = match *begun {
                Some((other, _)) if other != number => return Poll::Ready(None),
                Some((_, from)) => from,
                None => 0,
            };
            let end = match is_lent {
                true => text.len(),
                false => text.len().min(from.saturating_add(size)),
            };
            let part = Part {
                number,
                text: text.slice(from..end),
                is_first: from == 0,
                is_last: end == text.len(),
            };
            *begun = (!part.is_last).then_some((number, end));
            if part.is_last {
                state.pass(is_lent);
            }
            Poll::Ready(Some(part))
        })
    }

    /// What it has taken, which counts until HTTP has sent it.
    pub(crate) fn on_its_way(&self, piece: Bytes) -> Bytes {
        self.outbox.on_its_way(Verb::Get, piece)
    }

    /// Whether it has come to the end of a session, and not of its own turn.
    pub(crate) fn is_last(&self) -> bool {
        let state = self.outbox.lock();
        state.closed && state.reader == Some(self.token) && self.begun.is_none()
    }
}

#[cfg(feature = "webhook")]
impl Reader {
    /// What tells when there is a newer one.
    pub(in crate::http::session) fn turn(&self) -> Turn {
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
pub(in crate::http::session) struct Turn {
    outbox: Arc<Outbox>,
    token: u64,
}

#[cfg(feature = "webhook")]
impl Turn {
    /// Ready when another reader has begun.
    pub(in crate::http::session) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.outbox.lock();
        if state.readers != self.token {
            return Poll::Ready(());
        }
        state.watcher = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(in crate::http::session) fn is_over(&self) -> bool {
        self.outbox.lock().readers != self.token
    }
}

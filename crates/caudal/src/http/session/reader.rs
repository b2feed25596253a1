//! Reader of an outbox, which takes messages part by part.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::byte_limit::Reservation;
use super::outbox::{Outbox, OutboxState};

/// Takes messages out of an [`Outbox`] until another reader does.
#[derive(Debug)]
pub(crate) struct Reader {
    outbox: Arc<Outbox>,
    token: u64,
    /// True if it reads for a POST: messages that it takes are not kept.
    is_lent: bool,
    /// Number of a message that was taken in part, and the bytes taken.
    begun: Option<(u64, usize)>,
}

/// Part of a message, or all of it.
#[derive(Debug)]
pub(crate) struct MessagePart {
    pub(crate) number: u64,
    pub(crate) text: Bytes,
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
    /// Reservation of the message, if it is not kept.
    pub(super) reservation: Option<Reservation>,
}

/// Messages that go out in one response.
#[derive(Debug, Default)]
pub(crate) struct PageSize {
    /// Number of the last one.
    pub(crate) last: u64,
    pub(crate) count: usize,
    pub(crate) bytes: usize,
}

/// Maximum number of messages in a response.
const MAX_MESSAGES: usize = 100;
/// Size of a response after which no further message is added, in bytes.
const FULL: usize = 1 << 20;

impl PageSize {
    fn is_full(&self) -> bool {
        self.count >= MAX_MESSAGES || self.bytes >= FULL
    }
}

impl Reader {
    pub(super) fn new(outbox: &Arc<Outbox>, token: u64, is_lent: bool) -> Self {
        Self {
            outbox: Arc::clone(outbox),
            token,
            is_lent,
            begun: None,
        }
    }

    /// Goes back to the first kept message after `number`; returns how many messages are
    /// missing.
    pub(crate) fn resume_after(&mut self, number: u64) -> u64 {
        let token = self.token;
        self.outbox.change(|state| match state.reader {
            Some(reader) if reader == token => state.resume_after(number),
            _ => 0,
        })
    }

    /// At most `size` bytes of the next message, unless its number is above `limit`.
    /// `None` when there is another reader, or when the outbox is closed and empty.
    ///
    /// A message counts as sent when its last part is taken. A POST takes messages whole,
    /// since a client cannot resume its stream.
    pub(crate) fn try_part(&mut self, limit: u64, size: usize) -> Poll<Option<MessagePart>> {
        let outbox = Arc::clone(&self.outbox);
        // Nothing changes for others before the last part.
        let mut state = outbox.lock();
        let part = self.take(&mut state, limit, size);
        drop(state);
        if let Poll::Ready(Some(MessagePart { is_last: true, .. })) = part {
            outbox.change(|_| {});
        }
        part
    }

    /// The same when there is something.
    pub(crate) async fn part(&mut self, limit: u64, size: usize) -> Option<MessagePart> {
        let outbox = Arc::clone(&self.outbox);
        let part = outbox.wait_for(|state| match self.take(state, limit, size) {
            Poll::Ready(part) => Some(part),
            Poll::Pending => None,
        });
        let part = part.await;
        outbox.change(|_| {});
        part
    }

    fn take(
        &mut self,
        state: &mut OutboxState,
        limit: u64,
        size: usize,
    ) -> Poll<Option<MessagePart>> {
        if state.reader != Some(self.token) {
            return Poll::Ready(None);
        }
        let Some(message) = state.peek().filter(|next| next.number <= limit) else {
            let is_over = state.closed && state.peek().is_none();
            return match is_over || self.begun.is_some() {
                true => Poll::Ready(None),
                false => Poll::Pending,
            };
        };
        let from = match self.begun {
            Some((number, _)) if number != message.number => return Poll::Ready(None),
            Some((_, from)) => from,
            None => 0,
        };
        let end = match self.is_lent {
            true => message.text.len(),
            false => message.text.len().min(from.saturating_add(size)),
        };
        let mut part = MessagePart {
            number: message.number,
            text: message.text.slice(from..end),
            is_first: from == 0,
            is_last: end == message.text.len(),
            reservation: None,
        };
        self.begun = (!part.is_last).then_some((part.number, end));
        if part.is_last {
            part.reservation = self.outbox.advance(state, self.is_lent);
        }
        Poll::Ready(Some(part))
    }

    /// Returns true if this reader has come to the end of the session, and was not
    /// replaced.
    pub(crate) fn is_last(&self) -> bool {
        let state = self.outbox.lock();
        state.closed && state.reader == Some(self.token) && self.begun.is_none()
    }
}

impl Reader {
    /// Messages that are next and fit a response.
    pub(crate) fn page(&self) -> PageSize {
        self.page_of(&self.outbox.lock())
    }

    /// Waits until `is_enough` of the page, or until nothing can follow it.
    pub(crate) async fn page_until(&self, is_enough: impl Fn(&PageSize) -> bool) {
        let is_done = |state: &mut OutboxState| {
            let page = self.page_of(state);
            let is_last = state.closed || state.reader != Some(self.token);
            (is_last || page.is_full() || is_enough(&page)).then_some(())
        };
        self.outbox.wait_for(is_done).await;
    }

    fn page_of(&self, state: &OutboxState) -> PageSize {
        let mut page = PageSize::default();
        let is_attached = state.reader == Some(self.token);
        for message in state.following().filter(|_| is_attached) {
            if page.is_full() {
                break;
            }
            page.last = message.number;
            page.count += 1;
            page.bytes += message.text.len();
        }
        page
    }
}

#[cfg(feature = "webhook")]
impl Reader {
    /// Returns the future that ends when another reader begins.
    pub(crate) fn replaced(&self) -> impl Future<Output = ()> + Send + use<> {
        let (outbox, token) = (Arc::clone(&self.outbox), Some(self.token));
        async move {
            let replaced = |state: &mut OutboxState| (state.reader != token).then_some(());
            outbox.wait_for(replaced).await;
        }
    }

    /// Returns true if another reader has begun.
    pub(crate) fn is_replaced(&self) -> bool {
        self.outbox.lock().reader != Some(self.token)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.outbox.change(|state| {
            if state.reader == Some(self.token) {
                state.reader = None;
            }
        });
    }
}

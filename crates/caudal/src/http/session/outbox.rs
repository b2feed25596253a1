//! The server's messages of one session: numbered from 1, in order.
//!
//! ```text
//! forgotten │ sent: kept for replay,     │ queue: never sent
//!           │ or until it is acknowledged │
//! ```
//!
//! Messages that were sent over a POST are not kept, because a client cannot resume the
//! stream of a POST.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::byte_limit::{ByteLimit, Reservation};
use super::reader::Reader;
use crate::sync::lock;

/// Time that a message is kept after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// While there is room, to send it again to a client that reconnects.
    Replay,
    /// Until the client acknowledges it. Until then it counts as not delivered.
    UntilAcknowledged,
}

/// State of a client that has not received all messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// True if everything was sent and only an acknowledgement is missing.
    pub(super) is_sent: bool,
    /// True if the client reads now.
    pub(super) is_read: bool,
    /// True if the client has listened before, or was promised a message.
    pub(super) has_listened: bool,
    /// Number of readers so far.
    readers: u64,
}

/// The server's messages of one session.
///
/// The session's connection pushes; one [`Reader`] at a time takes. A message that was
/// never sent, or has to be acknowledged and was not, is never dropped.
#[derive(Debug)]
pub(crate) struct Outbox {
    replay: ByteLimit,
    pub(super) in_transit: ByteLimit,
    state: Mutex<OutboxState>,
    /// Notified of every change.
    changed: Notify,
    /// Notified of changes while there is no reader, for POSTs that could read.
    unread: Notify,
}

#[derive(Debug)]
pub(super) struct OutboxState {
    pub(super) sent: VecDeque<Message>,
    pub(super) queue: VecDeque<Message>,
    /// Number of the newest message.
    last: u64,
    /// Number up to which no message is kept.
    forgotten: u64,
    /// Number of the message that the reader takes next.
    next: u64,
    retention: Retention,
    has_listened: bool,
    /// Token of the reader that may take.
    pub(super) reader: Option<u64>,
    readers: u64,
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) text: Bytes,
    reservation: Option<Reservation>,
}

impl Outbox {
    pub(super) fn new(replay: ByteLimit, in_transit: ByteLimit) -> Arc<Self> {
        Arc::new(Self {
            replay,
            in_transit,
            state: Mutex::new(OutboxState {
                sent: VecDeque::new(),
                queue: VecDeque::new(),
                last: 0,
                forgotten: 0,
                next: 1,
                retention: Retention::Replay,
                has_listened: false,
                reader: None,
                readers: 0,
                closed: false,
            }),
            changed: Notify::new(),
            unread: Notify::new(),
        })
    }

    /// Appends a message, unless the outbox is closed.
    pub(super) fn push(&self, text: Bytes, reservation: Option<Reservation>) {
        self.change(|state| {
            if !state.closed {
                state.last += 1;
                state.queue.push_back(Message {
                    number: state.last,
                    text,
                    reservation,
                });
            }
        });
    }

    /// Begins to read at the first message that was never sent; the reader before this one
    /// ends. If messages had to be acknowledged until now and need not be any more, those
    /// after `received` count as never sent.
    pub(crate) fn attach(self: &Arc<Self>, retention: Retention, received: Option<u64>) -> Reader {
        self.change(|state| {
            if state.retention == Retention::UntilAcknowledged && retention == Retention::Replay {
                state.acknowledge(received.unwrap_or(0));
                state.unsend();
            }
            (state.retention, state.has_listened) = (retention, true);
            Reader::new(self, state.begin_reader(), false)
        })
    }

    /// Begins to read at the first message that is not acknowledged, and returns the
    /// number before it. What was sent as a stream counts as acknowledged.
    #[cfg(feature = "webhook")]
    pub(super) fn attach_unacknowledged(self: &Arc<Self>) -> (Reader, u64) {
        self.change(|state| {
            let cursor = match state.retention {
                Retention::Replay => state.last_sent(),
                Retention::UntilAcknowledged => state.before_unbroken_tail(),
            };
            (state.retention, state.has_listened) = (Retention::UntilAcknowledged, true);
            state.acknowledge(cursor);
            let reader = Reader::new(self, state.begin_reader(), false);
            state.next = cursor + 1;
            (reader, cursor)
        })
    }

    /// Begins to read for a POST, if there is no other reader and nothing must be acknowledged.
    pub(super) fn lend(self: &Arc<Self>) -> Option<Reader> {
        self.change(|state| {
            let is_lent = state.is_free() && !(state.closed && state.is_sent());
            is_lent.then(|| Reader::new(self, state.begin_reader(), true))
        })
    }

    /// Returns true if there is a message that [`lend`](Self::lend) would give.
    pub(super) fn has_unread(&self) -> bool {
        let state = self.lock();
        state.is_free() && !state.queue.is_empty()
    }

    /// Drops the sent messages up to `number`, because the client has received them.
    pub(crate) fn acknowledge(&self, number: u64) {
        self.change(|state| state.acknowledge(number));
    }

    /// Number of the newest message; 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Accepts no further messages. A reader gets the remaining messages, and then the end.
    pub(super) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Closes the outbox and drops its messages, because no client will read them.
    pub(super) fn discard(&self) {
        self.change(|state| {
            state.closed = true;
            state.forgotten = state.last;
            state.next = state.last + 1;
            state.sent.clear();
            state.queue.clear();
        });
    }

    /// State of the client, if it has not received all messages.
    pub(super) fn due(&self) -> Option<Due> {
        self.lock().due()
    }

    /// Waits until [`due`](Self::due) is not `due` any more.
    pub(super) async fn due_changed(&self, due: Due) {
        let changed = |state: &mut OutboxState| (state.due() != Some(due)).then_some(());
        self.wait_for(changed).await;
    }

    /// Notes that the client was promised a message.
    pub(super) fn promise(&self) {
        self.lock().has_listened = true;
    }

    /// Returns true if the client reads, has read, or was promised a message.
    pub(super) fn is_expected(&self) -> bool {
        let state = self.lock();
        state.has_listened || state.reader.is_some()
    }

    /// Waits until `check` returns something.
    pub(super) async fn wait_for<R>(
        &self,
        mut check: impl FnMut(&mut OutboxState) -> Option<R>,
    ) -> R {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = check(&mut self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Futures that end with the next change, and with the next one while there is no reader.
    pub(super) fn notified(&self) -> (Notified<'_>, Notified<'_>) {
        (self.changed.notified(), self.unread.notified())
    }

    /// Changes the state, and wakes the tasks that wait for a change.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut OutboxState) -> R) -> R {
        let mut state = self.lock();
        let result = change(&mut state);
        let is_free = state.is_free();
        drop(state);
        self.changed.notify_waiters();
        if is_free {
            self.unread.notify_waiters();
        }
        result
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, OutboxState> {
        lock(&self.state)
    }

    /// Counts the message that is next as sent. If the reader `is_lent`, the message is not
    /// kept, and its reservation is returned.
    pub(super) fn advance(&self, state: &mut OutboxState, is_lent: bool) -> Option<Reservation> {
        let is_replayed = state.replayed().is_some();
        state.next = state.peek()?.number + 1;
        if is_replayed {
            return None;
        }
        let message = state.queue.pop_front()?;
        if is_lent {
            return message.reservation;
        }
        self.keep(state, message);
        None
    }

    /// Keeps a message that was sent; the oldest make room for it. The newest is kept even
    /// if it is larger than the limit: the larger a message is, the more often it is cut.
    fn keep(&self, state: &mut OutboxState, mut message: Message) {
        if state.retention == Retention::Replay {
            message.reservation = loop {
                let reservation = self.replay.try_reserve(message.text.len());
                if reservation.is_some() || !state.forget_first() {
                    break reservation;
                }
            };
            if message.reservation.is_none() {
                state.forgotten = message.number;
                return;
            }
        }
        state.sent.push_back(message);
    }
}

impl OutboxState {
    /// Number of the newest message that was sent.
    fn last_sent(&self) -> u64 {
        let unsent = self.queue.front();
        unsent.map_or(self.last, |message| message.number - 1)
    }

    /// Returns true if a POST may read.
    fn is_free(&self) -> bool {
        self.reader.is_none() && self.retention == Retention::Replay
    }

    /// Returns true if everything was sent and nothing is about to be sent again.
    fn is_sent(&self) -> bool {
        let is_read = self.reader.is_some() || self.retention == Retention::UntilAcknowledged;
        self.queue.is_empty() && !(is_read && self.replayed().is_some())
    }

    fn due(&self) -> Option<Due> {
        let is_unacknowledged =
            self.retention == Retention::UntilAcknowledged && !self.sent.is_empty();
        (is_unacknowledged || !self.is_sent()).then_some(Due {
            is_sent: self.is_sent(),
            is_read: self.reader.is_some(),
            has_listened: self.has_listened,
            readers: self.readers,
        })
    }

    fn begin_reader(&mut self) -> u64 {
        self.readers += 1;
        self.reader = Some(self.readers);
        self.next = self.last_sent() + 1;
        self.readers
    }

    fn acknowledge(&mut self, number: u64) {
        while self
            .sent
            .front()
            .is_some_and(|first| first.number <= number)
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) -> bool {
        let Some(first) = self.sent.pop_front() else {
            return false;
        };
        self.forgotten = first.number;
        true
    }

    /// Counts everything that is kept as never sent.
    fn unsend(&mut self) {
        while let Some(message) = self.sent.pop_back() {
            self.queue.push_front(message);
        }
    }

    /// Number before those messages that are kept and follow one another without a gap to
    /// the newest that was sent. Messages that a POST has taken leave gaps.
    #[cfg(feature = "webhook")]
    fn before_unbroken_tail(&self) -> u64 {
        let mut before = self.last_sent();
        for message in self.sent.iter().rev() {
            if message.number != before {
                break;
            }
            before -= 1;
        }
        before
    }

    /// Goes on after `number`, as far as messages are kept; returns how many are missing.
    pub(super) fn resume_after(&mut self, number: u64) -> u64 {
        let number = number.min(self.last_sent());
        self.next = number.max(self.forgotten) + 1;
        self.forgotten.saturating_sub(number)
    }

    /// Messages from the next one on.
    pub(super) fn following(&self) -> impl Iterator<Item = &Message> {
        let place = self.sent.partition_point(|sent| sent.number < self.next);
        self.sent.range(place..).chain(&self.queue)
    }

    /// Message that is next, and that was sent before.
    fn replayed(&self) -> Option<&Message> {
        self.sent.back().filter(|newest| newest.number >= self.next)
    }

    pub(super) fn peek(&self) -> Option<&Message> {
        self.following().next()
    }
}

//! What an outbox holds: which messages were sent, and how much of what there is.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;

use bytes::Bytes;

use super::way::Given;
use super::{Due, Keep, Verb};
use crate::http::session::budget::Held;

/// What is held of one session's messages, and who waits for what of it.
#[derive(Debug)]
pub(super) struct State {
    /// In the order of their numbers. Only those that were sent have gaps.
    pub(super) messages: VecDeque<Message>,
    /// All before this number are forgotten.
    pub(super) first: u64,
    /// The number of the message that came last.
    last: u64,
    /// The number that the reader takes next.
    pub(super) next: u64,
    /// The first number that was never sent.
    pub(super) fresh: u64,
    /// Bytes that were never sent, and bytes that were.
    pub(super) unsent: Size,
    pub(super) sent: Size,
    /// Bytes of answers and reports that POSTs have still to take.
    pub(super) aside: usize,
    /// Bytes that HTTP was given and has not sent.
    pub(super) on_its_way: Given,
    /// Bytes that wait before it, in the driver.
    pub(super) before: usize,
    pub(super) keep: Keep,
    /// Whether the client has listened before, or was told that it should.
    pub(super) listens: bool,
    /// The reader that may take.
    pub(super) reader: Option<u64>,
    pub(super) readers: u64,
    pub(super) closed: bool,
    /// What the budget has been told.
    pub(super) charged: Held,
    /// Who pushes, or waits for the end.
    pub(super) writer: Option<Waker>,
    /// Who reads.
    pub(super) taker: Option<Waker>,
    /// Who is to know when there is another reader.
    pub(super) watcher: Option<Waker>,
    /// Who would read if nobody else did, by a number of its own.
    pub(super) others: BTreeMap<u64, Waker>,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    number: u64,
    text: Bytes,
    /// Whether it had a way of its own to the client.
    is_back: bool,
}

/// Bytes of messages.
#[derive(Debug, Default)]
pub(super) struct Size {
    pub(super) all: usize,
    /// Of those that had a way of their own.
    back: usize,
}

impl Size {
    fn add(&mut self, message: &Message) {
        self.all += message.text.len();
        self.back += message.back();
    }

    fn take(&mut self, message: &Message) {
        self.all -= message.text.len();
        self.back -= message.back();
    }
}

impl Message {
    fn back(&self) -> usize {
        match self.is_back {
            true => self.text.len(),
            false => 0,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            messages: VecDeque::new(),
            first: 1,
            last: 0,
            next: 1,
            fresh: 1,
            unsent: Size::default(),
            sent: Size::default(),
            aside: 0,
            on_its_way: Given::default(),
            before: 0,
            keep: Keep::Replay,
            listens: false,
            reader: None,
            readers: 0,
            closed: false,
            charged: Held::default(),
            writer: None,
            taker: None,
            watcher: None,
            others: BTreeMap::new(),
        }
    }
}

impl State {
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of the message in front, or that of the next one to come.
    pub(super) fn front(&self) -> u64 {
        self.messages
            .front()
            .map_or(self.last + 1, |message| message.number)
    }

    /// Bytes that had a way of their own, and that the client has still to get.
    pub(super) fn back(&self) -> usize {
        match self.keep {
            Keep::Replay => self.unsent.back,
            Keep::Acknowledged => self.unsent.back + self.sent.back,
        }
    }

    /// Bytes that the client has still to come for.
    pub(super) fn waiting(&self) -> usize {
        match self.keep {
            Keep::Replay => self.unsent.all + self.aside,
            Keep::Acknowledged => self.unsent.all + self.sent.all + self.aside,
        }
    }

    pub(super) fn held(&self) -> Held {
        Held {
            owed: self.waiting() + self.on_its_way.all(),
            kept: match self.keep {
                Keep::Replay => self.sent.all,
                Keep::Acknowledged => 0,
            },
            unsent: self.before,
            given: self.on_its_way.before(Verb::Get),
        }
    }

    /// Whether one message at most is kept of those that were sent.
    pub(super) fn keeps_one(&self) -> bool {
        let second = self.messages.get(1);
        second.is_none_or(|message| message.number >= self.fresh)
    }

    /// Whether everything was sent, and nothing is about to be sent again; nor was about
    /// to be when its reader was cut, where it has to be acknowledged.
    pub(super) fn is_sent(&self) -> bool {
        let is_wanted = self.reader.is_some() || self.keep == Keep::Acknowledged;
        let again = is_wanted && self.next < self.fresh;
        self.fresh > self.last() && !again
    }

    /// What the client has still to do before it is owed nothing; `None` if nothing.
    pub(super) fn due(&self) -> Option<Due> {
        let is_owed = match self.keep {
            Keep::Replay => false,
            Keep::Acknowledged => !self.messages.is_empty(),
        };
        (is_owed || !self.is_sent()).then_some(Due {
            is_sent: self.is_sent(),
            is_read: self.reader.is_some(),
            listens: self.listens,
            readers: self.readers,
        })
    }

    pub(super) fn push(&mut self, text: Bytes, is_back: bool) {
        self.last += 1;
        let message = Message {
            number: self.last,
            text,
            is_back,
        };
        self.unsent.add(&message);
        self.messages.push_back(message);
    }

    pub(super) fn drop_first(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.sent.take(&message);
            self.first = message.number + 1;
            self.next = self.next.max(self.first);
        }
    }

    /// Counts the message in front as sent, and drops it.
    pub(super) fn skip_first(&mut self) {
        self.mark_sent(0);
        self.drop_first();
    }

    /// Counts the message at this place as sent, if it is the next that was not.
    fn mark_sent(&mut self, place: usize) {
        if let Some(message) = self.messages.get(place)
            && message.number == self.fresh
        {
            self.fresh += 1;
            self.unsent.take(message);
            self.sent.add(message);
        }
    }

    /// Counts what comes after a number as never sent, as far as nothing is missing.
    pub(super) fn unsend_after(&mut self, number: u64) {
        let from = self.owed().max(number.saturating_add(1));
        for message in self.messages.iter() {
            if (from..self.fresh).contains(&message.number) {
                self.sent.take(message);
                self.unsent.add(message);
            }
        }
        self.fresh = self.fresh.min(from);
    }

    /// Lets a new reader take what was never sent, and says what it is known by.
    pub(super) fn begin_reader(&mut self) -> u64 {
        self.readers += 1;
        self.reader = Some(self.readers);
        self.next = self.fresh;
        self.readers
    }

    /// The number from which on no message is missing.
    pub(super) fn owed(&self) -> u64 {
        let mut first = self.last + 1;
        for message in self.messages.iter().rev() {
            if message.number + 1 != first {
                break;
            }
            first = message.number;
        }
        first
    }

    /// Where the message is that is next.
    fn place(&self) -> usize {
        let next = self.next;
        self.messages
            .partition_point(|message| message.number < next)
    }

    /// Goes to the next message that there is, or will be.
    pub(super) fn skip_gap(&mut self) {
        let next = self.messages.get(self.place());
        self.next = next.map_or(self.last + 1, |message| message.number);
    }

    /// The message that is next.
    pub(super) fn peek(&self) -> Option<(u64, &Bytes)> {
        let message = self.messages.get(self.place())?;
        Some((message.number, &message.text))
    }

    /// Counts it as sent; it is kept unless it `is_lent`.
    pub(super) fn pass(&mut self, is_lent: bool) {
        let place = self.place();
        let Some(message) = self.messages.get(place) else {
            return;
        };
        self.next = message.number + 1;
        self.mark_sent(place);
        if is_lent && let Some(message) = self.messages.remove(place) {
            self.sent.take(&message);
        }
        self.skip_gap();
    }

    pub(super) fn others(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.others).into_values()
    }

    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<_> = self.others().collect();
        wakers.extend(self.writer.take());
        wakers.extend(self.taker.take());
        wakers
    }
}

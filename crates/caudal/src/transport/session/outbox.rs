//! The server's messages of one session: numbered, in order, and bounded.
//!
//! ```text
//! acknowledged or evicted │ sent, kept │ never sent
//!                         first        fresh        last
//! ```
//!
//! What was sent over a POST is not kept: its stream is no part of the one that a
//! client comes back to.

mod way;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::budget::{Budget, Held};

/// What one outbox may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that the client of this session has still to get.
    pub(crate) output: usize,
    /// The same of all sessions; and bytes that all sessions keep.
    pub(crate) all: usize,
    /// What fits into this has room whatever the others hold.
    pub(crate) share: usize,
    /// Bytes of sent messages that are kept for a client that comes back.
    pub(crate) replay: usize,
}

/// What becomes of a message that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is kept within [`Bounds::replay`].
    Replay,
    /// It is kept until [`Outbox::acknowledge`], and counts as owed so long.
    Acknowledged,
}

/// The server's messages of one session.
///
/// One task pushes; one [`Reader`] at a time takes. A message that was never sent,
/// or not acknowledged where that is asked for, is never dropped: whoever pushes
/// waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    bounds: Bounds,
    budget: Arc<Budget>,
    number: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// In the order of their numbers. Only those that were sent have gaps.
    messages: VecDeque<Message>,
    /// All before this number are forgotten.
    first: u64,
    /// The number of the message that came last.
    last: u64,
    /// The number that the reader takes next.
    next: u64,
    /// The first number that was never sent.
    fresh: u64,
    /// Bytes that were never sent, and bytes that were.
    unsent: Size,
    sent: Size,
    /// Bytes of answers and reports that POSTs have still to take.
    aside: usize,
    /// Bytes that HTTP was given and has not sent.
    on_its_way: usize,
    keep: Keep,
    /// The reader that may take.
    reader: Option<u64>,
    readers: u64,
    closed: bool,
    /// What the budget has been told.
    charged: Held,
    /// Who pushes, or waits for the end.
    writer: Option<Waker>,
    /// Who reads.
    taker: Option<Waker>,
    /// Who is to know when there is another reader.
    watcher: Option<Waker>,
    /// Who would read if nobody else did, by a number of its own.
    others: BTreeMap<u64, Waker>,
}

#[derive(Clone, Debug)]
struct Message {
    number: u64,
    text: Bytes,
    /// Whether it had a way of its own to the client.
    is_back: bool,
}

/// Bytes of messages.
#[derive(Debug, Default)]
struct Size {
    all: usize,
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

impl Outbox {
    pub(crate) fn new(bounds: Bounds, budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            number: budget.register(),
            budget: Arc::clone(budget),
            state: Mutex::new(State {
                messages: VecDeque::new(),
                first: 1,
                last: 0,
                next: 1,
                fresh: 1,
                unsent: Size::default(),
                sent: Size::default(),
                aside: 0,
                on_its_way: 0,
                keep: Keep::Replay,
                reader: None,
                readers: 0,
                closed: false,
                charged: Held::default(),
                writer: None,
                taker: None,
                watcher: None,
                others: BTreeMap::new(),
            }),
        })
    }

    /// Appends a message when there is room for it; nothing, once it is closed.
    pub(crate) fn poll_push(&self, cx: &mut Context<'_>, text: &[u8]) -> Poll<()> {
        self.change(|state, _| {
            if state.closed {
                return Poll::Ready(());
            }
            let waiting = state.waiting();
            if waiting > 0 && waiting >= self.bounds.output {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if !self.admit(state, text.len(), cx.waker()) {
                // Its own share may be free before the others' is.
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            state.push(Bytes::copy_from_slice(text), false);
            Poll::Ready(())
        })
    }

    /// Appends a message whether or not there is room: one that had a way to the
    /// client, which is gone.
    pub(super) fn push_back(&self, text: Bytes) {
        self.change(|state, _| {
            if !state.closed {
                state.push(text, true);
            }
        });
    }

    /// Counts bytes that are not in here, until [`release`](Self::release): those of
    /// an answer or a report that has a way of its own.
    pub(super) fn set_aside(&self, bytes: usize) {
        self.change(|state, _| state.aside += bytes);
    }

    pub(super) fn release(&self, bytes: usize) {
        self.change(|state, _| state.aside = state.aside.saturating_sub(bytes));
    }

    /// The same when there is room for it. Those that were [pushed back](Self::push_back)
    /// count too, so that nobody has more of them who leaves them behind.
    pub(super) fn poll_set_aside(&self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        self.change(|state, _| {
            let aside = state.aside + state.back();
            let is_full = aside > 0 && aside >= self.bounds.output;
            if !state.closed && (is_full || !self.admit(state, bytes, cx.waker())) {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            state.aside += bytes;
            Poll::Ready(())
        })
    }

    /// Whether there is room for so much in what all hold; then it is counted.
    fn admit(&self, state: &mut State, bytes: usize, waker: &Waker) -> bool {
        let fits = state.held().owed.saturating_add(bytes) <= self.bounds.share;
        let (all, number) = (self.bounds.all, self.number);
        let admitted = self.budget.admit(number, (bytes, fits), all, waker);
        if admitted {
            state.charged.owed += bytes;
        }
        admitted
    }

    /// Lets a new reader take what was never sent; the one before it ends.
    pub(crate) fn attach(self: &Arc<Self>, keep: Keep) -> Reader {
        self.change(|state, wakers| {
            state.keep = keep;
            wakers.extend(state.taker.take());
            wakers.extend(state.watcher.take());
            state.reader(self, false)
        })
    }

    /// Lets a new reader take everything that is not acknowledged, if that was asked
    /// for before, and else what was never sent; with the number before the first of
    /// these.
    #[cfg(feature = "webhook")]
    pub(super) fn attach_owed(self: &Arc<Self>) -> (Reader, u64) {
        self.change(|state, wakers| {
            let before = std::mem::replace(&mut state.keep, Keep::Acknowledged);
            wakers.extend(state.taker.take());
            wakers.extend(state.watcher.take());
            let reader = state.reader(self, false);
            if before == Keep::Acknowledged {
                state.next = state.owed();
            }
            (reader, state.next - 1)
        })
    }

    /// The same if there is no other, and if messages do not have to be
    /// acknowledged; else the task of `cx` is woken when that may have changed,
    /// until [`leave`](Self::leave).
    pub(super) fn lend(self: &Arc<Self>, cx: &mut Context<'_>, other: u64) -> Option<Reader> {
        self.change(|state, _| {
            let free = state.reader.is_none() && state.keep == Keep::Replay;
            if free && !(state.closed && state.is_drained()) {
                return Some(state.reader(self, true));
            }
            state.others.insert(other, cx.waker().clone());
            None
        })
    }

    /// Ready when there is a message that [`lend`](Self::lend) would give.
    pub(super) fn poll_unread(&self, cx: &mut Context<'_>, other: u64) -> Poll<()> {
        self.change(|state, _| {
            let free = state.reader.is_none() && state.keep == Keep::Replay;
            if free && state.unsent.all > 0 {
                return Poll::Ready(());
            }
            state.others.insert(other, cx.waker().clone());
            Poll::Pending
        })
    }

    /// Does not wait to read any more.
    pub(super) fn leave(&self, other: u64) {
        self.lock().others.remove(&other);
    }

    /// Drops what the client has got: everything up to `number` that was sent.
    pub(crate) fn acknowledge(&self, number: u64) {
        self.change(|state, _| {
            while state.front() <= number && state.front() < state.fresh {
                state.drop_first();
            }
        });
    }

    /// The number of the last message; 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.lock().last()
    }

    /// Nothing is pushed any more. A reader gets what there is, and then its end.
    pub(crate) fn close(&self) {
        self.change(|state, wakers| {
            state.closed = true;
            wakers.extend(state.wakers());
        });
    }

    /// Closes it, and drops what there is: nobody will come for it.
    pub(super) fn discard(&self) {
        self.change(|state, wakers| {
            state.closed = true;
            while !state.messages.is_empty() {
                state.skip_first();
            }
            wakers.extend(state.wakers());
        });
    }

    /// Ready when everything was sent.
    pub(super) fn poll_drained(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.change(|state, _| {
            if state.is_drained() {
                return Poll::Ready(());
            }
            state.writer = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Whether somebody reads.
    pub(super) fn has_reader(&self) -> bool {
        self.lock().reader.is_some()
    }

    /// Changes it, keeps it within its bounds, and wakes whoever that concerns.
    fn change<R>(&self, change: impl FnOnce(&mut State, &mut Vec<Waker>) -> R) -> R {
        let mut wakers = Vec::new();
        let mut guard = self.lock();
        let state = &mut *guard;
        let (last, owed, drained) = (state.last(), state.held().owed, state.is_drained());
        let result = change(state, &mut wakers);
        self.evict(state);
        if state.last() > last {
            match state.reader {
                Some(_) => wakers.extend(state.taker.take()),
                None => wakers.extend(state.others()),
            }
        }
        if state.held().owed < owed || (!drained && state.is_drained()) {
            wakers.extend(state.writer.take());
        }
        let now = state.held();
        let before = std::mem::replace(&mut state.charged, now);
        wakers.extend(self.budget.change(before, now, self.bounds.all));
        drop(guard);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Forgets what is kept past the bounds.
    fn evict(&self, state: &mut State) {
        if state.keep != Keep::Replay || state.sent.all == 0 {
            return;
        }
        let others = self.budget.kept().saturating_sub(state.charged.kept);
        let room = self.bounds.all.saturating_sub(others);
        let room = room.min(self.bounds.replay);
        // What the reader is about to get again is not forgotten meanwhile.
        while state.sent.all > room && state.front() < state.next.min(state.fresh) {
            state.drop_first();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let charged = self.lock().charged;
        self.budget.forget(self.number, charged, self.bounds.all);
    }
}

impl State {
    fn last(&self) -> u64 {
        self.last
    }

    /// The number of the message in front, or that of the next one to come.
    fn front(&self) -> u64 {
        self.messages
            .front()
            .map_or(self.last + 1, |message| message.number)
    }

    /// Bytes that had a way of their own, and that the client has still to get.
    fn back(&self) -> usize {
        match self.keep {
            Keep::Replay => self.unsent.back,
            Keep::Acknowledged => self.unsent.back + self.sent.back,
        }
    }

    /// Bytes that the client has still to come for.
    fn waiting(&self) -> usize {
        match self.keep {
            Keep::Replay => self.unsent.all + self.aside,
            Keep::Acknowledged => self.unsent.all + self.sent.all + self.aside,
        }
    }

    fn held(&self) -> Held {
        Held {
            owed: self.waiting() + self.on_its_way,
            kept: match self.keep {
                Keep::Replay => self.sent.all,
                Keep::Acknowledged => 0,
            },
        }
    }

    fn is_drained(&self) -> bool {
        let again = self.reader.is_some() && self.next < self.fresh;
        self.fresh > self.last() && !again
    }

    fn push(&mut self, text: Bytes, is_back: bool) {
        self.last += 1;
        let message = Message {
            number: self.last,
            text,
            is_back,
        };
        self.unsent.add(&message);
        self.messages.push_back(message);
    }

    fn drop_first(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.sent.take(&message);
            self.first = message.number + 1;
            self.next = self.next.max(self.first);
        }
    }

    /// Counts the message in front as sent, and drops it.
    fn skip_first(&mut self) {
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

    fn reader(&mut self, outbox: &Arc<Outbox>, is_lent: bool) -> Reader {
        self.readers += 1;
        self.reader = Some(self.readers);
        self.next = self.fresh;
        Reader {
            outbox: Arc::clone(outbox),
            token: self.readers,
            is_lent,
        }
    }

    /// The number from which on no message is missing.
    #[cfg(feature = "webhook")]
    fn owed(&self) -> u64 {
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
    fn skip_gap(&mut self) {
        let next = self.messages.get(self.place());
        self.next = next.map_or(self.last + 1, |message| message.number);
    }

    /// The message that is next, if its number is at most `limit`.
    fn take(&mut self, limit: u64, is_lent: bool) -> Option<(u64, Bytes)> {
        let place = self.place();
        let message = self.messages.get(place)?.clone();
        if message.number > limit {
            return None;
        }
        self.next = message.number + 1;
        self.mark_sent(place);
        if is_lent {
            self.messages.remove(place);
            self.sent.take(&message);
        }
        self.skip_gap();
        Some((message.number, message.text))
    }

    fn others(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.others).into_values()
    }

    fn wakers(&mut self) -> Vec<Waker> {
        let mut wakers: Vec<_> = self.others().collect();
        wakers.extend(self.writer.take());
        wakers.extend(self.taker.take());
        wakers
    }
}

/// Takes messages out of an [`Outbox`], until another one does.
#[derive(Debug)]
pub(crate) struct Reader {
    outbox: Arc<Outbox>,
    token: u64,
    /// Whether it reads for a POST: what it takes is not kept.
    is_lent: bool,
}

impl Reader {
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
}

#[cfg(feature = "webhook")]
impl Reader {
    /// What tells when there is a newer one.
    pub(super) fn turn(&self) -> Turn {
        Turn {
            outbox: Arc::clone(&self.outbox),
            token: self.token,
        }
    }
}

/// The time from one [`Reader`] to the next, also if the first is gone before.
#[cfg(feature = "webhook")]
#[derive(Debug)]
pub(super) struct Turn {
    outbox: Arc<Outbox>,
    token: u64,
}

#[cfg(feature = "webhook")]
impl Turn {
    /// Ready when another reader has begun.
    pub(super) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.outbox.lock();
        if state.readers != self.token {
            return Poll::Ready(());
        }
        state.watcher = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn is_over(&self) -> bool {
        self.outbox.lock().readers != self.token
    }
}

impl Reader {
    /// Whether it has come to the end of a session, and not of its own turn.
    pub(crate) fn is_last(&self) -> bool {
        let state = self.outbox.lock();
        state.closed && state.reader == Some(self.token)
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

#[cfg(test)]
mod tests;

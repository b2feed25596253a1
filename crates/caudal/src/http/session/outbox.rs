//! The server's messages of one session: numbered, in order, and bounded.
//!
//! ```text
//! acknowledged or evicted │ sent, kept │ never sent
//!                         first        fresh        last
//! ```
//!
//! What was sent over a POST is not kept: its stream is no part of the one that a
//! client comes back to.

mod reader;
mod state;
mod way;

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use self::state::State;
use super::budget::{Account, Budget, Held};
use super::table::Opener;

use self::way::is_much;

pub(crate) use self::reader::Reader;
pub(crate) use self::way::Verb;

/// What one outbox may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Bytes that the client of this session has still to get.
    pub(crate) output: usize,
    /// The same of all sessions; and bytes that all sessions keep.
    pub(crate) all: usize,
    /// The same of the sessions that one has opened.
    pub(crate) each: usize,
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

/// What a client has still to do before it is owed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Whether it was sent everything, and has only to say that it has got it.
    pub(super) is_sent: bool,
    /// Whether it reads.
    pub(super) is_read: bool,
    /// Whether it has read before, or was told that there is something to read.
    pub(super) listens: bool,
    /// How often it has come.
    readers: u64,
}

/// The server's messages of one session.
///
/// One task pushes; one [`Reader`] at a time takes. A message that was never sent,
/// or not acknowledged where that is asked for, is never dropped: whoever pushes
/// waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    bounds: Bounds,
    account: Account,
    state: Mutex<State>,
}

impl Outbox {
    pub(super) fn new(bounds: Bounds, budget: &Arc<Budget>, opener: Option<&Opener>) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            account: Account::open(budget, opener, bounds),
            state: Mutex::default(),
        })
    }

    /// Appends a message when there is room for it; nothing, once it is closed.
    pub(crate) fn poll_push(&self, cx: &mut Context<'_>, text: &[u8]) -> Poll<()> {
        self.change(|state, _| {
            if state.closed {
                return Poll::Ready(());
            }
            let waiting = state.waiting();
            if is_much(waiting, self.bounds.output) {
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
            let output = self.bounds.output;
            let is_full = is_much(aside, output) || is_much(state.on_its_way.all(), output);
            if !state.closed && (is_full || !self.admit(state, bytes, cx.waker())) {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            state.aside += bytes;
            Poll::Ready(())
        })
    }

    /// So much could not be pushed, and waits in the driver.
    pub(super) fn set_before(&self, bytes: usize) {
        self.change(|state, _| state.before = bytes);
    }

    /// Whether requests may begin, whose answers will come here; else the task of `cx`
    /// is woken when they may.
    pub(super) fn may_begin(&self, cx: &mut Context<'_>) -> bool {
        self.account.may_begin(cx.waker())
    }

    /// Whether there is room for so much in what all hold; then it is counted.
    fn admit(&self, state: &mut State, bytes: usize, waker: &Waker) -> bool {
        let fits = state.held().owed.saturating_add(bytes) <= self.bounds.share;
        let admitted = self.account.admit((bytes, fits), waker);
        if admitted {
            state.charged.owed += bytes;
        }
        admitted
    }

    /// Lets a new reader take what was never sent; the one before it ends. What had to be
    /// acknowledged until now, and was not, counts as never sent, but for what the client
    /// says that it `got`.
    pub(crate) fn attach(self: &Arc<Self>, keep: Keep, got: Option<u64>) -> Reader {
        self.change(|state, wakers| {
            if state.keep == Keep::Acknowledged && keep == Keep::Replay {
                state.unsend_after(got.unwrap_or(0));
            }
            (state.keep, state.listens) = (keep, true);
            wakers.extend(state.taker.take());
            wakers.extend(state.watcher.take());
            Reader::begin(self, state, false)
        })
    }

    /// Lets a new reader take everything that is not acknowledged, if that was asked
    /// for before, and else what was never sent; with the number before the first of
    /// these.
    #[cfg(feature = "webhook")]
    pub(super) fn attach_owed(self: &Arc<Self>) -> (Reader, u64) {
        self.change(|state, wakers| {
            let before = std::mem::replace(&mut state.keep, Keep::Acknowledged);
            state.listens = true;
            wakers.extend(state.taker.take());
            wakers.extend(state.watcher.take());
            let reader = Reader::begin(self, state, false);
            if before == Keep::Acknowledged {
                state.next = state.owed();
            }
            // Nobody will acknowledge what was sent on another way.
            while state.front() < state.next && state.front() < state.fresh {
                state.drop_first();
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
            if free && !(state.closed && state.is_sent()) {
                return Some(Reader::begin(self, state, true));
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

    /// What the client has still to do; `None` if nothing. Once it is closed, the task
    /// of `cx` is woken when that has changed.
    pub(super) fn due(&self, cx: &mut Context<'_>) -> Option<Due> {
        let mut state = self.lock();
        let due = state.due()?;
        state.writer = Some(cx.waker().clone());
        Some(due)
    }

    /// The client was told that something comes this way.
    pub(super) fn promise(&self) {
        self.lock().listens = true;
    }

    /// Whether the client may come: it has before, or was told that it should.
    pub(super) fn listens(&self) -> bool {
        self.lock().listens
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
        let (last, owed, due) = (state.last(), state.held().owed, state.due());
        let result = change(state, &mut wakers);
        self.evict(state);
        if state.last() > last {
            match state.reader {
                Some(_) => wakers.extend(state.taker.take()),
                None => wakers.extend(state.others()),
            }
        }
        if state.held().owed < owed || (state.closed && state.due() != due) {
            wakers.extend(state.writer.take());
        }
        let now = state.held();
        let before = std::mem::replace(&mut state.charged, now);
        wakers.extend(self.account.change(before, now));
        drop(guard);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Forgets what is kept past the bounds.
    fn evict(&self, state: &mut State) {
        if state.keep != Keep::Replay || state.sent.all == 0 {
            return;
        }
        let room = self.account.room_to_keep(state.charged.kept);
        let replay = self.bounds.replay;
        // One message may pass the limit of its session: the larger it is, the more often
        // it is cut on its way, and nobody could get it a second time.
        let is_over = |state: &State| {
            let kept = state.sent.all;
            kept > room || kept > replay && !(replay > 0 && state.keeps_one())
        };
        // What the reader is about to get again is not forgotten meanwhile.
        while is_over(state) && state.front() < state.next.min(state.fresh) {
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
        let wakers = self.account.change(charged, Held::default());
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;

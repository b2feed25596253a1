//! The client's messages of one session, until its driver is done with them.

use std::collections::VecDeque;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::budget::{Account, Budget, Held};
use super::outbox::Bounds;
use super::table::Opener;

/// So much of POSTs may wait in any case,
const WAITING: usize = 64 << 10;
/// and each counts as so much at least.
const LEAST: usize = 1 << 10;

/// The client's messages of one session.
#[derive(Debug)]
pub(super) struct Inbox {
    /// What it may hold. One message may pass it, so that none is too large.
    bounds: Bounds,
    state: Mutex<State>,
    lane: Lane,
    /// Answers never wait in the driver, which may wait for just them: they overtake.
    answers: Lane,
}

/// Those who put messages in, one after the other.
#[derive(Debug)]
struct Lane {
    /// By which the budget knows it.
    account: Account,
    /// Held by the one whose message is next.
    turn: tokio::sync::Mutex<()>,
    /// It waits for room.
    waker: Mutex<Option<Waker>>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    /// How many of them are answers.
    answers: usize,
    /// Those of `messages`,
    bytes: usize,
    /// of the one that the driver looks at,
    lent: usize,
    /// and of those that wait there for their turn.
    queued: usize,
    /// Of those that wait to be put in.
    waiting: usize,
    driver: Option<Waker>,
    closed: bool,
}

#[derive(Debug)]
struct Message {
    text: Bytes,
    is_answer: bool,
}

impl State {
    /// The next message; the next answer, if nothing else may begin.
    fn pop(&mut self, may_begin: bool) -> Option<Bytes> {
        let message = match may_begin {
            true => self.messages.pop_front(),
            false if self.answers == 0 => None,
            false => {
                let place = self.messages.iter().position(|message| message.is_answer);
                place.and_then(|place| self.messages.remove(place))
            }
        }?;
        self.answers -= usize::from(message.is_answer);
        Some(message.text)
    }

    fn held(&self) -> usize {
        self.bytes + self.lent + self.queued
    }
}

/// Why a message was not put in.
#[derive(Debug)]
pub(super) enum Refused {
    /// The session has ended.
    Ended,
    /// Too much waits before it.
    Full,
}

/// A message that waits to be put in.
struct Waiting<'i> {
    inbox: &'i Inbox,
    size: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inbox.lock().waiting -= self.size;
        let before = Held {
            kept: self.size,
            ..Held::default()
        };
        let wakers = self.inbox.lane.account.change(before, Held::default());
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Inbox {
    pub(super) fn new(bounds: Bounds, budget: &Arc<Budget>, opener: Option<&Opener>) -> Self {
        let lane = || Lane {
            account: Account::open(budget, opener, bounds),
            turn: tokio::sync::Mutex::default(),
            waker: Mutex::default(),
        };
        Self {
            bounds,
            state: Mutex::default(),
            lane: lane(),
            answers: lane(),
        }
    }

    /// Puts a message in when there is room, after those that came before; an answer
    /// only after other answers.
    ///
    /// # Cancel safety
    /// If it is dropped, the message was not put in.
    pub(super) async fn push(&self, text: &[u8], is_answer: bool) -> Result<(), Refused> {
        let lane = match is_answer {
            true => &self.answers,
            false => &self.lane,
        };
        let mut put = pin!(async {
            let _turn = lane.turn.lock().await;
            poll_fn(|cx| self.poll_push(cx, lane, text, is_answer)).await
        });
        // Most find room at once.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(put.as_mut().poll(cx))).await {
            return done;
        }
        let _waiting = self.wait(text.len())?;
        put.await
    }

    /// Counts a message that waits; a client may send any number of them at once.
    fn wait(&self, size: usize) -> Result<Waiting<'_>, Refused> {
        let size = size.max(LEAST);
        let most = self.bounds.output.max(WAITING);
        let mut state = self.lock();
        let is_full = state.waiting > 0 && state.waiting.saturating_add(size) > most;
        if is_full || !self.lane.account.keep(size) {
            return Err(Refused::Full);
        }
        state.waiting += size;
        drop(state);
        Ok(Waiting { inbox: self, size })
    }

    fn poll_push(
        &self,
        cx: &mut Context<'_>,
        lane: &Lane,
        text: &[u8],
        is_answer: bool,
    ) -> Poll<Result<(), Refused>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Err(Refused::Ended));
        }
        let size = text.len();
        let held = state.bytes.saturating_add(size);
        let has_room = state.bytes == 0 || held <= self.bounds.output;
        // What waits in the driver may wait for just this answer.
        let held = match is_answer {
            true => held,
            false => held.saturating_add(state.lent + state.queued),
        };
        let fits = held <= self.bounds.share;
        if !has_room || !lane.account.admit((size, fits), cx.waker()) {
            *lock(&lane.waker) = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.bytes += text.len();
        // A copy: the body may be a small piece of a large buffer.
        let text = Bytes::copy_from_slice(text);
        state.messages.push_back(Message { text, is_answer });
        state.answers += usize::from(is_answer);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// The next message; the driver is done with the one before it, unless it has
    /// [queued](Self::set_queued) it. While nothing `may_begin`, it is the next answer.
    pub(super) fn poll_pop(&self, cx: &mut Context<'_>, may_begin: bool) -> Poll<Bytes> {
        let mut popped = None;
        self.change(|state| {
            popped = state.pop(may_begin);
            state.lent = popped.as_ref().map_or(0, Bytes::len);
            state.bytes -= state.lent;
            if popped.is_none() {
                state.driver = Some(cx.waker().clone());
            }
        });
        popped.map_or(Poll::Pending, Poll::Ready)
    }

    /// So much of what was popped waits in the driver for its turn.
    pub(super) fn set_queued(&self, bytes: usize) {
        self.change(|state| (state.lent, state.queued) = (0, bytes));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing in any more; returns what nobody has taken. The driver is gone.
    pub(super) fn close(&self) -> impl Iterator<Item = Bytes> + use<> {
        let mut left = VecDeque::new();
        self.change(|state| {
            state.closed = true;
            left = std::mem::take(&mut state.messages);
            (state.bytes, state.lent, state.queued, state.answers) = (0, 0, 0, 0);
        });
        left.into_iter().map(|message| message.text)
    }

    /// Changes it, and wakes whoever waits for room.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let owed = |bytes| Held {
            owed: bytes,
            ..Held::default()
        };
        let mut state = self.lock();
        let before = owed(state.held());
        change(&mut state);
        let now = owed(state.held());
        let lanes = [&self.lane, &self.answers].into_iter();
        let mut wakers: Vec<_> = lanes.filter_map(|lane| lock(&lane.waker).take()).collect();
        drop(state);
        wakers.extend(self.lane.account.change(before, now));
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Drop for Inbox {
    fn drop(&mut self) {
        drop(self.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox(output: usize) -> Inbox {
        let (all, each, share, replay) = (10_000, 10_000, 0, 0);
        let bounds = Bounds {
            output,
            all,
            each,
            share,
            replay,
        };
        Inbox::new(bounds, &Arc::default(), None)
    }

    #[tokio::test]
    async fn all_inboxes_share_one_limit() {
        let budget = Arc::default();
        let bounds = Bounds {
            output: 10,
            all: 12,
            each: 12,
            share: 2,
            replay: 0,
        };
        let one = Inbox::new(bounds, &budget, None);
        let other = Inbox::new(bounds, &budget, None);
        let cx = &mut Context::from_waker(Waker::noop());
        one.push(b"0123456789", false).await.unwrap();
        other.push(b"01", false).await.unwrap();
        assert!(pin!(other.push(b"2", false)).poll(cx).is_pending());
        assert!(other.poll_pop(cx, true).is_ready());
        assert!(pin!(other.push(b"2", false)).poll(cx).is_pending());
        other.set_queued(2);
        assert!(pin!(other.push(b"2", false)).poll(cx).is_pending());
        assert!(
            pin!(other.push(b"2", true)).poll(cx).is_ready(),
            "an answer"
        );
        assert!(other.poll_pop(cx, true).is_ready() && other.poll_pop(cx, true).is_pending());
        other.set_queued(0);
        assert!(
            pin!(other.push(b"012", false)).poll(cx).is_ready(),
            "there is room"
        );
        assert!(pin!(other.push(b"3", false)).poll(cx).is_pending());
        let third = Inbox::new(bounds, &budget, None);
        third.push(b"01", false).await.unwrap();
        assert!(pin!(third.push(b"2", false)).poll(cx).is_pending());
        let late = third.push(b"2", false);
        let room = async {
            tokio::task::yield_now().await;
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(one.poll_pop(cx, true).is_ready() && one.poll_pop(cx, true).is_pending());
        };
        tokio::join!(late, room).0.unwrap();
        drop((one, other, third));
        let last = Inbox::new(Bounds { all: 1, ..bounds }, &budget, None);
        last.push(b"since nothing else is there", false)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn what_came_first_goes_in_first() {
        let inbox = inbox(1000);
        let cx = &mut Context::from_waker(Waker::noop());
        inbox.push(&[b'x'; 500], false).await.unwrap();
        inbox.push(&[b'x'; 500], false).await.unwrap();
        let mut large = pin!(inbox.push(&[b'y'; 600], false));
        assert!(large.as_mut().poll(cx).is_pending());
        let mut small = pin!(inbox.push(b"z", false));
        assert!(small.as_mut().poll(cx).is_pending());
        assert!(inbox.poll_pop(cx, true).is_ready());
        assert!(small.as_mut().poll(cx).is_pending(), "it has come later");
        assert!(inbox.poll_pop(cx, true).is_ready());
        large.await.unwrap();
        small.await.unwrap();
        let Poll::Ready(first) = inbox.poll_pop(cx, true) else {
            panic!("there is nothing");
        };
        assert_eq!(first.len(), 600);
    }

    #[tokio::test]
    async fn while_nothing_may_begin_there_are_answers() {
        let inbox = inbox(1000);
        let cx = &mut Context::from_waker(Waker::noop());
        for (text, is_answer) in [("a", false), ("1", true), ("b", false), ("2", true)] {
            inbox.push(text.as_bytes(), is_answer).await.unwrap();
        }
        let mut pop = |may_begin| match inbox.poll_pop(cx, may_begin) {
            Poll::Ready(text) => String::from_utf8(text.to_vec()).unwrap(),
            Poll::Pending => String::new(),
        };
        assert_eq!([pop(false), pop(true)], ["1", "a"]);
        assert_eq!([pop(false), pop(false)], ["2", ""]);
        assert_eq!([pop(true), pop(true)], ["b", ""]);
        assert_eq!(inbox.lock().answers, 0);
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_the_end() {
        let inbox = inbox(1);
        inbox.push(b"x", false).await.unwrap();
        let late = async { tokio::join!(inbox.push(b"y", false), inbox.push(b"z", false)) };
        let close = async {
            tokio::task::yield_now().await;
            inbox.close()
        };
        let (late, left) = tokio::join!(late, close);
        assert!(late.0.is_err() && late.1.is_err());
        assert_eq!(left.count(), 1);
    }
}

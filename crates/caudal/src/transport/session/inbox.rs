//! The client's messages of one session, until its driver takes them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::budget::{Budget, Held};
use super::outbox::Bounds;

/// The client's messages of one session.
#[derive(Debug)]
pub(super) struct Inbox {
    /// What it may hold. One message may pass it, so that none is too large.
    bounds: Bounds,
    /// What all hold.
    budget: Arc<Budget>,
    number: u64,
    state: Mutex<State>,
    /// Held by the one whose message is next.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    driver: Option<Waker>,
    /// Who waits for room.
    pusher: Option<Waker>,
    closed: bool,
}

/// The session has ended.
#[derive(Debug)]
pub(super) struct Ended;

impl Inbox {
    pub(super) fn new(bounds: Bounds, budget: &Arc<Budget>) -> Self {
        Self {
            bounds,
            number: budget.register(),
            budget: Arc::clone(budget),
            state: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// Puts a message in when there is room, after those that came before.
    ///
    /// # Cancel safety
    /// If it is dropped, the message was not put in.
    pub(super) async fn push(&self, text: &[u8]) -> Result<(), Ended> {
        let _turn = self.turn.lock().await;
        poll_fn(|cx| self.poll_push(cx, text)).await
    }

    fn poll_push(&self, cx: &mut Context<'_>, text: &[u8]) -> Poll<Result<(), Ended>> {
        let mut state = self.lock();
        if state.closed {
            return Poll::Ready(Err(Ended));
        }
        let (size, all) = (text.len(), self.bounds.all);
        let held = state.bytes.saturating_add(size);
        let has_room = state.bytes == 0 || held <= self.bounds.output;
        let fits = held <= self.bounds.share;
        if !has_room
            || !self
                .budget
                .admit(self.number, (size, fits), all, cx.waker())
        {
            state.pusher = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.bytes += text.len();
        // A copy: the body may be a small piece of a large buffer.
        state.messages.push_back(Bytes::copy_from_slice(text));
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// The next message.
    pub(super) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut state = self.lock();
        let Some(text) = state.messages.pop_front() else {
            state.driver = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.bytes -= text.len();
        self.release(state, text.len());
        Poll::Ready(text)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing in any more; returns what nobody has taken.
    pub(super) fn close(&self) -> VecDeque<Bytes> {
        let mut state = self.lock();
        state.closed = true;
        let bytes = std::mem::take(&mut state.bytes);
        let left = std::mem::take(&mut state.messages);
        self.release(state, bytes);
        left
    }

    /// So many bytes are gone: whoever waits for room is woken.
    fn release(&self, mut state: MutexGuard<'_, State>, bytes: usize) {
        let mut wakers: Vec<_> = state.pusher.take().into_iter().collect();
        drop(state);
        let before = Held {
            owed: bytes,
            kept: 0,
        };
        wakers.extend(self.budget.change(before, Held::default(), self.bounds.all));
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let held = Held {
            owed: self.lock().bytes,
            kept: 0,
        };
        self.budget.forget(self.number, held, self.bounds.all);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;

    use super::*;

    fn inbox(output: usize) -> Inbox {
        let (all, share, replay) = (10_000, 0, 0);
        let bounds = Bounds {
            output,
            all,
            share,
            replay,
        };
        Inbox::new(bounds, &Arc::default())
    }

    #[tokio::test]
    async fn all_inboxes_share_one_limit() {
        let budget = Arc::default();
        let bounds = Bounds {
            output: 10,
            all: 12,
            share: 2,
            replay: 0,
        };
        let one = Inbox::new(bounds, &budget);
        let other = Inbox::new(bounds, &budget);
        let cx = &mut Context::from_waker(Waker::noop());
        one.push(b"0123456789").await.unwrap();
        other.push(b"01").await.unwrap();
        assert!(pin!(other.push(b"2")).poll(cx).is_pending());
        assert!(other.poll_pop(cx).is_ready());
        assert!(
            pin!(other.push(b"012")).poll(cx).is_ready(),
            "there is room"
        );
        assert!(pin!(other.push(b"3")).poll(cx).is_pending());
        let third = Inbox::new(bounds, &budget);
        third.push(b"01").await.unwrap();
        assert!(pin!(third.push(b"2")).poll(cx).is_pending());
        let late = third.push(b"2");
        let room = async {
            tokio::task::yield_now().await;
            assert!(
                one.poll_pop(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
            );
        };
        tokio::join!(late, room).0.unwrap();
        drop((one, other, third));
        let last = Inbox::new(Bounds { all: 1, ..bounds }, &budget);
        last.push(b"since nothing else is there").await.unwrap();
    }

    #[tokio::test]
    async fn what_came_first_goes_in_first() {
        let inbox = inbox(1000);
        let cx = &mut Context::from_waker(Waker::noop());
        inbox.push(&[b'x'; 500]).await.unwrap();
        inbox.push(&[b'x'; 500]).await.unwrap();
        let mut large = pin!(inbox.push(&[b'y'; 600]));
        assert!(large.as_mut().poll(cx).is_pending());
        let mut small = pin!(inbox.push(b"z"));
        assert!(small.as_mut().poll(cx).is_pending());
        assert!(inbox.poll_pop(cx).is_ready());
        assert!(small.as_mut().poll(cx).is_pending(), "it has come later");
        assert!(inbox.poll_pop(cx).is_ready());
        large.await.unwrap();
        small.await.unwrap();
        let Poll::Ready(first) = inbox.poll_pop(cx) else {
            panic!("there is nothing");
        };
        assert_eq!(first.len(), 600);
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_the_end() {
        let inbox = inbox(1);
        inbox.push(b"x").await.unwrap();
        let late = async { tokio::join!(inbox.push(b"y"), inbox.push(b"z")) };
        let close = async {
            tokio::task::yield_now().await;
            inbox.close()
        };
        let (late, left) = tokio::join!(late, close);
        assert!(late.0.is_err() && late.1.is_err());
        assert_eq!(left.len(), 1);
    }
}

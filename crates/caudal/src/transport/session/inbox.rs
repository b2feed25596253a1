//! The client's messages of one session, until its driver takes them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// The client's messages of one session.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes that it may hold. One message may pass it, so that none is too large.
    limit: usize,
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
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
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
        if state.bytes > 0 && state.bytes + text.len() > self.limit {
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
        let pusher = state.pusher.take();
        drop(state);
        if let Some(pusher) = pusher {
            pusher.wake();
        }
        Poll::Ready(text)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes nothing in any more; returns what nobody has taken.
    pub(super) fn close(&self) -> VecDeque<Bytes> {
        let mut state = self.lock();
        state.closed = true;
        state.bytes = 0;
        let left = std::mem::take(&mut state.messages);
        let pusher = state.pusher.take();
        drop(state);
        if let Some(pusher) = pusher {
            pusher.wake();
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn what_came_first_goes_in_first() {
        let inbox = Inbox::new(1000);
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
        let inbox = Inbox::new(1);
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

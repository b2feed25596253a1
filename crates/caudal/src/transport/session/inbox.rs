//! The client's messages of one session, until its driver takes them.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;

/// The client's messages of one session.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Bytes that it may hold. One message may pass it, so that none is too large.
    limit: usize,
    state: Mutex<State>,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Bytes>,
    bytes: usize,
    driver: Option<Waker>,
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
            room: Notify::new(),
        }
    }

    /// Puts a message in when there is room.
    ///
    /// # Cancel safety
    /// If it is dropped, the message was not put in.
    pub(super) async fn push(&self, text: &[u8]) -> Result<(), Ended> {
        loop {
            let mut room = pin!(self.room.notified());
            room.as_mut().enable();
            if self.try_push(text)? {
                return Ok(());
            }
            room.await;
        }
    }

    fn try_push(&self, text: &[u8]) -> Result<bool, Ended> {
        let mut state = self.lock();
        if state.closed {
            return Err(Ended);
        }
        if state.bytes > 0 && state.bytes + text.len() > self.limit {
            return Ok(false);
        }
        state.bytes += text.len();
        // A copy: the body may be a small piece of a large buffer.
        state.messages.push_back(Bytes::copy_from_slice(text));
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(true)
    }

    /// The next message.
    pub(super) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut state = self.lock();
        let Some(text) = state.messages.pop_front() else {
            state.driver = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.bytes -= text.len();
        drop(state);
        self.room.notify_waiters();
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
        drop(state);
        self.room.notify_waiters();
        left
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

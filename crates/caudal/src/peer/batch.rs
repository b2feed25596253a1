//! Several outgoing calls in one message.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CallError, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::call::read_result;

use crate::call::Caller;
use crate::connection::Connection;
use crate::connection::deadline::after;
use crate::connection::sender::{CallKey, CallOptions};

/// Several calls and notifications that are sent as one message; made by
/// [`Peer::batch`](crate::Peer::batch).
///
/// Each call is awaited on its own, after [`send`](Self::send).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
/// # use caudal::{Peer, Router};
/// # let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// # let (peer, _server) = Peer::pair(Router::new(), router);
/// let mut batch = peer.batch();
/// let one = batch.call::<i64>("add", (1, 2))?;
/// let two = batch.call::<i64>("add", (3, 4))?;
/// batch.notify("log", ("added",))?;
/// batch.send().await?;
/// assert_eq!((one.await?, two.await?), (3, 7));
/// # Ok(()) }
/// ```
#[must_use = "a batch does nothing until it is sent"]
pub struct Batch<'a> {
    caller: &'a Caller,
    text: BytesMut,
    calls: Vec<CallKey>,
    notifications: u64,
    timeout: Option<Duration>,
    /// When the first of them times out.
    deadline: Option<Instant>,
    /// Epoch of the connection in which the first call was begun.
    epoch: Option<u64>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(caller: &'a Caller) -> Self {
        Self {
            caller,
            text: BytesMut::new(),
            calls: Vec::new(),
            notifications: 0,
            timeout: caller.config().call_timeout,
            deadline: None,
            epoch: None,
        }
    }

    /// Sets the timeout of the calls that are added after this; `None` is no limit. The
    /// time of a call runs from when it is added.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Adds a call.
    ///
    /// # Errors
    /// The connection is closed, too many calls wait, or the params do not
    /// serialise. The batch is as it was.
    pub fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<BatchReply<T>, CallError> {
        let deadline = self.timeout.map(|timeout| after(Instant::now(), timeout));
        let mut options = CallOptions {
            deadline,
            ..CallOptions::default()
        };
        let connection = self.caller.connection()?;
        let (key, epoch) = connection.sender.begin_call(&mut options)?;
        let reply = BatchReply {
            connection: Arc::clone(connection),
            key: Some(key),
            result: PhantomData,
        };
        self.add(|out| encode::call(out, key.id, method, &params))?;
        self.calls.push(key);
        self.epoch.get_or_insert(epoch);
        self.deadline = self.deadline.into_iter().chain(deadline).min();
        Ok(reply)
    }

    /// Adds a notification.
    ///
    /// # Errors
    /// The params do not serialise. The batch is as it was.
    pub fn notify(&mut self, method: &str, params: impl Serialize) -> Result<(), CallError> {
        self.add(|out| encode::notification(out, method, &params))?;
        self.notifications += 1;
        Ok(())
    }

    fn add(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), encode::EncodeError>,
    ) -> Result<(), CallError> {
        let before = self.text.len();
        self.text
            .extend_from_slice(if before == 0 { b"[" } else { b"," });
        write(&mut self.text).map_err(|error| {
            self.text.truncate(before);
            error.into()
        })
    }

    /// Sends what was added; nothing if there is nothing.
    ///
    /// # Errors
    /// The connection is closed, or was lost since the first call was added, or there was
    /// no room until that timed out; the calls fail then too, and nothing was sent.
    ///
    /// # Cancel safety
    /// If it is dropped before it returns, nothing is sent, and the calls fail
    /// with [`CallError::Cancelled`].
    pub async fn send(mut self) -> Result<(), CallError> {
        if self.text.is_empty() {
            return Ok(());
        }
        self.text.extend_from_slice(b"]");
        let mut frame = BytesMut::new();
        let connection = self.caller.connection()?;
        let written: Result<(), CallError> = connection.framing.write(&mut frame, |out| {
            out.extend_from_slice(&self.text);
            Ok(())
        });
        written?;
        // Calls that were begun on a connection that is lost have failed.
        let sent = self.write(connection, &frame).await;
        match &sent {
            Ok(()) => {
                connection.stats.notified(self.notifications);
                self.calls.clear();
            }
            Err(CallError::Timeout) => self.abandon(|| CallError::Timeout),
            Err(CallError::AlreadyClosed(why)) => {
                self.abandon(|| CallError::AlreadyClosed(why.clone()));
            }
            Err(_) => {}
        }
        sent
    }

    async fn write(&self, connection: &Connection, frame: &[u8]) -> Result<(), CallError> {
        let write = connection.sender.send_batch(self.epoch, frame, &self.calls);
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(CallError::Timeout),
            Some(deadline) => timeout_at(deadline, write)
                .await
                .unwrap_or(Err(CallError::Timeout)),
            None => write.await,
        }
    }

    fn abandon(&mut self, why: impl Fn() -> CallError) {
        let Ok(connection) = self.caller.connection() else {
            return;
        };
        for key in self.calls.drain(..) {
            connection.sender.abandon(key, why());
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.abandon(|| CallError::Cancelled);
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

/// The answer to one call of a batch.
///
/// # Cancel safety
/// When it is dropped before it is ready its answer is thrown away.
#[must_use = "an answer comes to who awaits it"]
pub struct BatchReply<T> {
    connection: Arc<Connection>,
    key: Option<CallKey>,
    result: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Future for BatchReply<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(key) = self.key else {
            panic!("an answer was polled after it was ready");
        };
        let outcome = ready!(self.connection.sender.poll_outcome(cx, key));
        self.key = None;
        Poll::Ready(outcome.and_then(|text| read_result(&self.connection, &text)))
    }
}

impl<T> Drop for BatchReply<T> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.connection.sender.forget(key);
        }
    }
}

impl<T> fmt::Debug for BatchReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BatchReply")
    }
}

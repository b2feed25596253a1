//! One outgoing call.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use caudal_core::encode::{self, Prepared};
use caudal_core::{CallError, EncodeError, RequestId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::call::Caller;
use crate::connection::Connection;
use crate::connection::IdKey;
use crate::connection::deadline::after;
use crate::connection::sender::{CallKey, CallOptions, Extension};
use crate::observe::span::shorten;
use crate::observe::trace::{TraceContext, TracePlace};

/// A call that is about to be made; made by [`Peer::call`](crate::Peer::call).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
/// # use caudal::{Peer, Router};
/// # use std::time::Duration;
/// # let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// # let (peer, _server) = Peer::pair(Router::new(), router);
/// let sum: i64 = peer.call("add", (1, 2)).timeout(Duration::from_secs(2)).await?;
/// # assert_eq!(sum, 3);
/// # Ok(()) }
/// ```
///
/// The params are serialised when it is made, so it holds no reference to them.
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'a, T> {
    caller: &'a Caller,
    method: &'a str,
    /// Method and params, until they are sent.
    message: Result<Prepared, EncodeError>,
    timeout: Option<Duration>,
    idempotent: bool,
    extend: Option<(RequestId, Duration)>,
    trace: Option<&'a TraceContext>,
    result: PhantomData<fn() -> T>,
}

thread_local! {
    /// Buffer for the message of the next call.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum capacity of the spare buffer.
const MAX_SPARE: usize = 64 << 10;

impl<'a, T> Call<'a, T> {
    pub(super) fn new(caller: &'a Caller, method: &'a str, params: &impl Serialize) -> Self {
        Self {
            caller,
            method,
            message: encode::prepare(SPARE.take(), method, params),
            timeout: caller.config().call_timeout,
            idempotent: false,
            extend: None,
            trace: None,
            result: PhantomData,
        }
    }

    /// Sets the maximum time to wait for the response; `None` is no limit. The default is
    /// [`Config::call_timeout`](crate::Config::call_timeout).
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Says that the call may run twice: it is sent again when the connection is
    /// lost and made again before the answer came. Over plain `http://` it is sent once:
    /// there is no connection to be made again.
    pub fn idempotent(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Waits for another [`timeout`](Self::timeout) whenever the other side
    /// reports progress under `token`, but never longer than `ceiling` in all.
    /// The token must also be in the params, where the
    /// [dialect](crate::Dialect) wants it.
    pub fn extend_on_progress(mut self, token: impl Into<RequestId>, ceiling: Duration) -> Self {
        self.extend = Some((token.into(), ceiling));
        self
    }

    /// Sends this trace context with the call, where
    /// [`Config::trace`](crate::Config::trace) says; with
    /// [`TracePlace::Off`](crate::TracePlace::Off) it sends nothing.
    ///
    /// Nor does it with [`TracePlace::Meta`](crate::TracePlace::Meta) if the params are an
    /// array, or have a context in their own `_meta`. A handler passes on what it was
    /// called with by [`.trace(cx.trace())`](crate::Context::trace).
    pub fn trace(mut self, trace: impl Into<Option<&'a TraceContext>>) -> Self {
        self.trace = trace.into();
        self
    }

    /// Starts the call, unless there is no room to send it.
    fn start(
        &self,
        connection: &Connection,
        message: &Prepared,
        options: &mut CallOptions,
    ) -> Result<Option<CallKey>, CallError> {
        let members = self.traced(TracePlace::TopLevel).map(TraceContext::members);
        connection.sender.try_call(options, |out, id| {
            message.call(out, id);
            if let Some(members) = &members {
                // In the place of the last brace.
                out.truncate(out.len() - 1);
                for piece in [",", members, "}"] {
                    out.extend_from_slice(piece.as_bytes());
                }
            }
        })
    }

    /// The message with the trace context, if that belongs into the params.
    fn message(&mut self) -> Result<Prepared, EncodeError> {
        let message = std::mem::replace(&mut self.message, Err(EncodeError::BlankMethod))?;
        let Some(trace) = self.traced(TracePlace::Meta) else {
            return Ok(message);
        };
        match trace.in_meta(message.params()) {
            Some(params) => encode::prepare(Vec::new(), self.method, &params),
            None => Ok(message),
        }
    }

    /// The trace context, if this is its place.
    fn traced(&self, place: TracePlace) -> Option<&'a TraceContext> {
        self.trace.filter(|_| self.caller.config().trace == place)
    }

    fn options(&self) -> CallOptions {
        let now = Instant::now();
        let extension = |by| {
            let (token, ceiling) = self.extend.as_ref()?;
            Some(Box::new(Extension {
                token: IdKey::of_owned(token),
                by,
                ceiling: after(now, *ceiling),
            }))
        };
        // The ceiling holds from the start, also if no progress is reported.
        let ceiling = self.extend.as_ref().map(|(_, ceiling)| *ceiling);
        let first = self.timeout.map(|by| ceiling.map_or(by, |it| by.min(it)));
        CallOptions {
            deadline: first.map(|first| after(now, first)),
            idempotent: self.idempotent,
            extension: self.timeout.and_then(extension),
        }
    }
}

impl<T> fmt::Debug for Call<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl<'a, T: DeserializeOwned> IntoFuture for Call<'a, T> {
    type Output = Result<T, CallError>;
    type IntoFuture = CallFuture<'a, T>;

    fn into_future(self) -> CallFuture<'a, T> {
        CallFuture {
            call: self,
            stage: Stage::New,
        }
    }
}

/// A call on its way.
///
/// # Cancel safety
/// If it is dropped before it is ready, its response is discarded. The other side is
/// notified if the dialect has a message for that. The call may still have run.
pub struct CallFuture<'a, T> {
    call: Call<'a, T>,
    stage: Stage<'a>,
}

enum Stage<'a> {
    New,
    /// There was no room to send it.
    Waiting(Box<Waiting<'a>>),
    Sent {
        connection: &'a Arc<Connection>,
        key: CallKey,
    },
    Done,
}

/// A call that waits for room.
struct Waiting<'a> {
    message: Prepared,
    options: CallOptions,
    room: Pin<Box<dyn Future<Output = Result<(), CallError>> + Send + 'a>>,
}

/// Nothing in it is ever pinned.
impl<T> Unpin for CallFuture<'_, T> {}

impl<T> CallFuture<'_, T> {
    /// Sends the call, or polls the wait for room.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        loop {
            let (message, mut options) = match std::mem::replace(&mut self.stage, Stage::Done) {
                Stage::New => (self.call.message()?, self.call.options()),
                Stage::Waiting(mut waiting) => match waiting.room.as_mut().poll(cx) {
                    Poll::Ready(Ok(())) => (waiting.message, waiting.options),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        self.stage = Stage::Waiting(waiting);
                        return Poll::Pending;
                    }
                },
                sent => {
                    self.stage = sent;
                    return Poll::Ready(Ok(()));
                }
            };
            let connection = self.call.caller.connection()?;
            let started = self.call.start(connection, &message, &mut options)?;
            self.stage = match started {
                Some(key) => {
                    let spare = message.into_buffer();
                    if spare.capacity() <= MAX_SPARE {
                        SPARE.set(spare);
                    }
                    Stage::Sent { connection, key }
                }
                None => Stage::Waiting(Box::new(Waiting {
                    room: Box::pin(room_until(connection, options.deadline)),
                    message,
                    options,
                })),
            };
        }
    }
}

impl<T: DeserializeOwned> Future for CallFuture<'_, T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        ready!(this.poll_send(cx))?;
        let Stage::Sent { connection, key } = this.stage else {
            panic!("a call was polled after it was ready");
        };
        let outcome = ready!(connection.sender.poll_outcome(cx, key));
        this.stage = Stage::Done;
        let result = outcome.and_then(|text| read_result(connection, &text));
        if let Err(error) = &result {
            let method = shorten(this.call.method);
            tracing::debug!(target: "caudal", method, %error, "a call failed");
        }
        Poll::Ready(result)
    }
}

/// Reads the result of a call, which has failed if it has another type.
pub(super) fn read_result<T: DeserializeOwned>(
    connection: &Connection,
    text: &str,
) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|error| {
        connection.stats.call_failed();
        CallError::Result(error)
    })
}

/// Waits for room, as long as the call may take.
async fn room_until(connection: &Connection, deadline: Option<Instant>) -> Result<(), CallError> {
    match deadline {
        Some(deadline) => timeout_at(deadline, connection.sender.wait_for_room(true))
            .await
            .map_err(|_| CallError::Timeout),
        None => {
            connection.sender.wait_for_room(true).await;
            Ok(())
        }
    }
}

impl<T> Drop for CallFuture<'_, T> {
    fn drop(&mut self) {
        if let Stage::Sent { connection, key } = self.stage {
            connection.sender.forget(key);
        }
    }
}

impl<T> fmt::Debug for CallFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

//! One outgoing call.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
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
#[must_use = "a call does nothing until it is awaited"]
pub struct Call<'a, P, T> {
    caller: &'a Caller,
    method: &'a str,
    params: P,
    timeout: Duration,
    idempotent: bool,
    extend: Option<(RequestId, Duration)>,
    trace: Option<&'a TraceContext>,
    result: PhantomData<fn() -> T>,
}

impl<'a, P, T> Call<'a, P, T> {
    pub(super) fn new(caller: &'a Caller, method: &'a str, params: P) -> Self {
        Self {
            caller,
            method,
            params,
            timeout: caller.config().call_timeout,
            idempotent: false,
            extend: None,
            trace: None,
            result: PhantomData,
        }
    }

    /// Sets the maximum time to wait for the response. Zero means no timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
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

    fn options(&self) -> CallOptions {
        let now = Instant::now();
        let timed = !self.timeout.is_zero();
        let extend = self.extend.as_ref().filter(|_| timed);
        // The ceiling is one from the start, whether or not there is any progress.
        let first = extend.map_or(self.timeout, |(_, ceiling)| self.timeout.min(*ceiling));
        CallOptions {
            deadline: timed.then(|| after(now, first)),
            idempotent: self.idempotent,
            extension: extend.map(|(token, ceiling)| {
                Box::new(Extension {
                    token: IdKey::of_owned(token),
                    by: self.timeout,
                    ceiling: after(now, *ceiling),
                })
            }),
        }
    }
}

impl<P: Serialize, T> Call<'_, P, T> {
    fn prepare<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<Prepared<'s>, EncodeError> {
        match self.traced(TracePlace::Meta) {
            None => encode::prepare(scratch, self.method, &self.params),
            Some(trace) => {
                let params = trace.in_meta(&self.params).map_err(EncodeError::Value)?;
                encode::prepare(scratch, self.method, &params)
            }
        }
    }

    /// The trace context, if this is its place.
    fn traced(&self, place: TracePlace) -> Option<&TraceContext> {
        self.trace.filter(|_| self.caller.config().trace == place)
    }
}

impl<P, T> fmt::Debug for Call<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl<'a, P: Serialize, T: DeserializeOwned> IntoFuture for Call<'a, P, T> {
    type Output = Result<T, CallError>;
    type IntoFuture = CallFuture<'a, P, T>;

    fn into_future(self) -> CallFuture<'a, P, T> {
        CallFuture {
            stage: Stage::New {
                options: None,
                room: None,
            },
            call: self,
        }
    }
}

/// A call on its way.
///
/// # Cancel safety
/// If it is dropped before it is ready, its response is discarded. The other side is
/// notified if the dialect has a message for that. The call may still have run.
pub struct CallFuture<'a, P, T> {
    call: Call<'a, P, T>,
    stage: Stage<'a>,
}

/// A wait for room, with the time that it may take.
type Room<'a> = Pin<Box<dyn Future<Output = Result<(), CallError>> + Send + 'a>>;

enum Stage<'a> {
    New {
        options: Option<CallOptions>,
        /// While there is no room to send it.
        room: Option<Room<'a>>,
    },
    Sent {
        connection: &'a Arc<Connection>,
        key: CallKey,
    },
    Done,
}

/// Nothing in it is ever pinned.
impl<P, T> Unpin for CallFuture<'_, P, T> {}

thread_local! {
    /// Params are serialised here before the connection is locked.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger one is not kept.
const KEPT: usize = 64 << 10;

impl<P: Serialize, T: DeserializeOwned> Future for CallFuture<'_, P, T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        while let Stage::New { options, room } = &mut this.stage {
            if let Some(wait) = room {
                let waited = ready!(wait.as_mut().poll(cx));
                *room = None;
                if let Err(error) = waited {
                    this.stage = Stage::Done;
                    return Poll::Ready(Err(error));
                }
            }
            let connection = match this.call.caller.connection() {
                Ok(connection) => connection,
                Err(error) => {
                    this.stage = Stage::Done;
                    return Poll::Ready(Err(error));
                }
            };
            let options = options.get_or_insert_with(|| this.call.options());
            let mut scratch = SCRATCH.take();
            let members = this.call.traced(TracePlace::TopLevel);
            let members = members.map(TraceContext::members);
            let started = this
                .call
                .prepare(&mut scratch)
                .map_err(CallError::from)
                .and_then(|prepared| {
                    let write = |out: &mut BytesMut, id| {
                        prepared.call(out, id);
                        if let Some(members) = &members {
                            // In the place of the last brace.
                            out.truncate(out.len() - 1);
                            for piece in [",", members, "}"] {
                                out.extend_from_slice(piece.as_bytes());
                            }
                        }
                    };
                    connection.sender.try_call(options, write)
                });
            if scratch.capacity() <= KEPT {
                SCRATCH.set(scratch);
            }
            match started {
                Ok(Some(key)) => this.stage = Stage::Sent { connection, key },
                Ok(None) => *room = Some(Box::pin(room_until(connection, options.deadline))),
                Err(error) => {
                    this.stage = Stage::Done;
                    return Poll::Ready(Err(error));
                }
            }
        }
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

impl<P, T> Drop for CallFuture<'_, P, T> {
    fn drop(&mut self) {
        if let Stage::Sent { connection, key } = self.stage {
            connection.sender.forget(key);
        }
    }
}

impl<P, T> fmt::Debug for CallFuture<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

//! Reads and drops the rest of a request body after the response, for a limited time.
//!
//! A connection that is closed while bytes are unread is reset, and so is a stream of
//! HTTP/2. A client that reads only after it has sent everything, or that drops the response
//! when it sees a reset, would then lose the response.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::request::Parts;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Maximum bytes that are dropped.
const MOST: u64 = 64 << 20;
/// Maximum time in which bytes are dropped.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum time between two pieces of a body that is dropped.
const SILENCE: Duration = Duration::from_secs(2);
/// Maximum size of a body that a client is expected to send without waiting for
/// `100 Continue`.
const LITTLE: u64 = 1024;

/// The body of a request. If it was not read to its end, the rest of it is dropped in
/// a task of its own, while the answer is sent.
#[derive(Debug)]
pub(super) struct Lingering {
    /// `None` when there is no more to come.
    body: Option<Incoming>,
    lingers: bool,
}

impl Lingering {
    pub(super) fn new(head: &Parts, body: Incoming) -> Self {
        let lingers = !asks_first(head, &body);
        Self {
            body: Some(body),
            lingers,
        }
    }
}

/// Returns true if the client waits for `100 Continue` before it sends its body. If such a
/// client is refused, it sends its next request instead.
fn asks_first(head: &Parts, body: &Incoming) -> bool {
    let size = body.size_hint();
    let little = size.exact().is_some_and(|size| size <= LITTLE);
    !little && head.headers.contains_key(EXPECT)
}

impl http_body::Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let none = || SizeHint::with_exact(0);
        self.body.as_ref().map_or_else(none, Incoming::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if !self.lingers || self.is_end_stream() {
            return;
        }
        if let (Some(body), Ok(runtime)) = (self.body.take(), Handle::try_current()) {
            runtime.spawn(timeout(LONGEST, drain(body)));
        }
    }
}

/// Drops what comes, until there is no more or it is too much. The connection goes on
/// in the one case, and is closed in the other.
async fn drain(mut body: Incoming) {
    let mut left = MOST;
    loop {
        let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let Ok(Some(Ok(frame))) = timeout(SILENCE, next).await else {
            return;
        };
        let size = frame.data_ref().map_or(0, Bytes::len) as u64;
        match left.checked_sub(size) {
            Some(less) => left = less,
            None => return,
        }
    }
}

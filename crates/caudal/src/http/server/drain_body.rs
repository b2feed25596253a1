//! Reads and drops the rest of a request body after the response, for a limited time.
//!
//! A connection that is closed while bytes are unread is reset, and so is a stream of
//! HTTP/2. A client that reads only after it has sent everything, or that drops the response
//! when it sees a reset, would then lose the response.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Maximum bytes that are dropped.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum time in which bytes are dropped.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Maximum time between two pieces of a body that is dropped.
const SILENCE: Duration = Duration::from_secs(2);
/// Maximum size of a body that a client is expected to send without waiting for
/// `100 Continue`.
const SMALL: u64 = 1024;

/// Drops what is left of the body of a request that is answered, in a task of its own.
pub(super) fn drain(headers: &HeaderMap, body: Incoming) {
    // A client that is refused without `100 Continue` sends its next request instead.
    let is_small = body.size_hint().exact().is_some_and(|size| size <= SMALL);
    if !body.is_end_stream() && (is_small || !headers.contains_key(EXPECT)) {
        tokio::spawn(timeout(MAX_TIME, read_to_end(body)));
    }
}

/// Reads a body until it ends or is too large. Its connection goes on in the first case, and
/// is closed in the second.
async fn read_to_end(mut body: Incoming) {
    let mut left = MAX_BYTES;
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

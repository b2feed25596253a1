//! The server's side: polls of a session.

use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::http::session::body_stream::BodyStream;
use crate::http::session::byte_limit::PIECE;
use crate::http::session::no_content;
use crate::http::session::outbox::Retention;
use crate::http::session::reader::{PageSize, Reader};
use crate::http::session::session::SessionHandle;
use crate::http::{Body, JSON, json, plain, with_type};

/// Time that a response waits for more messages while requests run, when the server stops.
const HOLD: Duration = Duration::from_millis(50);
/// End of a page.
const TAIL: &[u8] = b"]}";

/// Answers the poll that has opened a session.
pub(crate) fn begin(session: &SessionHandle) -> Response<Body> {
    // From now on messages wait to be acknowledged.
    drop(session.outbox().attach(Retention::UntilAcknowledged, None));
    let empty = Bytes::from_static(br#"{"cursor":0,"messages":[]}"#);
    uncached(json(StatusCode::OK, empty))
}

/// Acknowledges messages up to `cursor`, and waits for more.
pub(crate) async fn poll(
    session: SessionHandle,
    cursor: u64,
    wait: Duration,
    stop: &CancellationToken,
) -> Response<Body> {
    let mut reader = session.outbox().attach(Retention::UntilAcknowledged, None);
    session.outbox().acknowledge(cursor);
    reader.resume_after(cursor);
    let messages = async {
        let has_any = |page: &PageSize| page.count > 0;
        reader.page_until(has_any).await;
        if stop.is_cancelled() {
            hold(&reader, &session).await;
        }
    };
    // Messages that are there when the time is up are sent.
    let _ = tokio::time::timeout(wait, messages).await;
    let page = reader.page();
    match page.count {
        0 if reader.is_last() => uncached(plain(StatusCode::GONE, "the session has ended\n")),
        0 => uncached(no_content()),
        _ => respond(session, reader, &page),
    }
}

/// Waits for all that there is before the end of the session: the client may not be able to
/// come again. A call of the server's goes out at once, since a handler waits for its
/// answer.
async fn hold(reader: &Reader, session: &SessionHandle) {
    let is_urgent = |_: &PageSize| session.has_pending();
    tokio::select! {
        () = reader.page_until(is_urgent) => return,
        () = tokio::time::sleep(HOLD) => {}
    }
    if !session.is_busy() {
        reader.page_until(is_urgent).await;
    }
}

fn respond(session: SessionHandle, reader: Reader, page: &PageSize) -> Response<Body> {
    let head = head(page.last);
    let commas = page.count.saturating_sub(1);
    let length = head.len() + page.bytes + commas + TAIL.len();
    let body = PageBody {
        out: BytesMut::from(head.as_bytes()),
        reader,
        last: page.last,
        left: page.count,
        session,
    };
    let body = body.into_body(Some(length as u64));
    uncached(with_type(StatusCode::OK, JSON, body))
}

/// Messages of a page. The response is cut if another reader takes over: its client has
/// come again and does not wait for this one.
struct PageBody {
    /// Text before the next message.
    out: BytesMut,
    reader: Reader,
    /// Number of the last message.
    last: u64,
    /// Number of messages that have not ended.
    left: usize,
    session: SessionHandle,
}

impl BodyStream for PageBody {
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = std::mem::take(&mut self.out);
        while self.left > 0 && out.len() < PIECE {
            let size = PIECE - out.len();
            let Poll::Ready(Some(part)) = self.reader.try_part(self.last, size) else {
                return None;
            };
            out.extend_from_slice(&part.text);
            if part.is_last {
                self.left -= 1;
                out.extend_from_slice(if self.left > 0 { &b","[..] } else { TAIL });
            }
        }
        if out.is_empty() {
            return None;
        }
        let in_transit = &self.session.outbox().in_transit;
        Some(in_transit.hold(out.freeze()).await)
    }
}

/// Beginning of a page.
fn head(cursor: u64) -> String {
    format!(r#"{{"cursor":{cursor},"messages":["#)
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, value);
    response
}

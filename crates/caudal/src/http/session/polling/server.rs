//! The server's side: polls of a session.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use crate::http::session::{Keep, Reader, Visit};
use crate::http::{Body, Flow, JSON, json, plain, with_type};

/// So many messages one response has at most,
const MESSAGES: usize = 100;
/// and no further one when it has so many bytes.
const BYTES: usize = 1 << 20;
/// It is given in pieces of so many bytes.
const PIECE: usize = 64_000;
/// When the server stops, so long a response waits for more while requests run.
const HOLD: Duration = Duration::from_millis(50);

/// Answers the poll that has opened a session.
pub(crate) fn begin(visit: &Visit) -> Response<Body> {
    // From now on messages wait to be acknowledged.
    drop(visit.outbox().attach(Keep::Acknowledged, None));
    let mut text = BytesMut::from(head(0).as_bytes());
    text.extend_from_slice(TAIL);
    uncached(json(StatusCode::OK, text.freeze()))
}

/// Acknowledges what the client has got, and waits for more.
pub(crate) async fn poll(
    visit: Visit,
    cursor: u64,
    wait: Duration,
    stop: &CancellationToken,
) -> Response<Body> {
    let mut reader = visit.outbox().attach(Keep::Acknowledged, None);
    visit.outbox().acknowledge(cursor);
    reader.resume_after(cursor);
    let mut page = Page::new(cursor);
    let filled = poll_fn(|cx| page.poll_fill(cx, &mut reader, &visit, stop));
    // Whatever there is when the time is up, is sent.
    let _ = tokio::time::timeout(wait, filled).await;
    match page.count {
        0 if page.is_last => over(),
        0 => no_content(),
        _ => page.into_response(visit, reader),
    }
}

/// Messages that go out together.
struct Page {
    /// The number before the first,
    before: u64,
    /// and that of the last.
    cursor: u64,
    count: usize,
    /// Bytes of them all.
    size: usize,
    /// Whether nothing can follow.
    is_last: bool,
    hold: Option<Pin<Box<Sleep>>>,
}

impl Page {
    fn new(cursor: u64) -> Self {
        Self {
            before: cursor,
            cursor,
            count: 0,
            size: 0,
            is_last: false,
            hold: None,
        }
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut Reader,
        visit: &Visit,
        stop: &CancellationToken,
    ) -> Poll<()> {
        while self.count < MESSAGES && self.size < BYTES {
            match reader.poll_next(cx) {
                Poll::Ready(Some((number, text))) => self.add(number, text.len()),
                Poll::Ready(None) => {
                    self.is_last = reader.is_last();
                    if !self.is_last {
                        // They are another's now.
                        self.count = 0;
                    }
                    break;
                }
                Poll::Pending if self.count == 0 => return Poll::Pending,
                Poll::Pending if stop.is_cancelled() => return self.poll_hold(cx, visit),
                Poll::Pending => break,
            }
        }
        Poll::Ready(())
    }

    /// The client may not be able to come again, so it gets all there is before the
    /// end; but not later than somebody may wait for what it does then.
    fn poll_hold(&mut self, cx: &mut Context<'_>, visit: &Visit) -> Poll<()> {
        if visit.has_pending() {
            return Poll::Ready(());
        }
        let timer = self.hold.get_or_insert_with(|| Box::pin(sleep(HOLD)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) if visit.is_busy() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }

    fn add(&mut self, number: u64, size: usize) {
        if self.count == 0 {
            self.before = number - 1;
        }
        self.cursor = number;
        self.count += 1;
        self.size += size;
    }

    /// The messages, which the reader takes a second time to give them out.
    fn into_response(self, visit: Visit, mut reader: Reader) -> Response<Body> {
        reader.resume_after(self.before);
        let head = head(self.cursor);
        let commas = self.count.saturating_sub(1);
        let length = head.len() + self.size + commas + TAIL.len();
        let messages = Messages {
            out: BytesMut::from(head.as_bytes()),
            reader,
            last: self.cursor,
            left: self.count,
            _visit: visit,
        };
        let body = Body::flow(messages, Some(length as u64));
        uncached(with_type(StatusCode::OK, JSON, body))
    }
}

/// What a page begins with,
fn head(cursor: u64) -> String {
    format!(r#"{{"cursor":{cursor},"messages":["#)
}

/// and ends with.
const TAIL: &[u8] = b"]}";

/// The messages of a page, out of the outbox. It is cut if there is another reader: its
/// client has come again and does not wait for this.
struct Messages {
    /// What goes before the next one.
    out: BytesMut,
    reader: Reader,
    /// The number of the last one.
    last: u64,
    /// How many have still to end.
    left: usize,
    /// Until then the session does not expire.
    _visit: Visit,
}

impl Flow for Messages {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let mut out = std::mem::take(&mut this.out);
        while this.left > 0 && out.len() < PIECE {
            let size = PIECE - out.len();
            let Poll::Ready(Some(part)) = this.reader.poll_part(cx, this.last, size) else {
                return Poll::Ready(None);
            };
            out.extend_from_slice(&part.text);
            if part.is_last {
                this.left -= 1;
                out.extend_from_slice(if this.left > 0 { &b","[..] } else { TAIL });
            }
        }
        let piece = (!out.is_empty()).then(|| out.freeze());
        Poll::Ready(piece.map(|piece| this.reader.on_its_way(piece)))
    }
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    uncached(response)
}

fn over() -> Response<Body> {
    uncached(plain(StatusCode::GONE, "the session has ended\n"))
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, value);
    response
}

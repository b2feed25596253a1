//! The server's side: polls of a session.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response, StatusCode};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use crate::transport::http::{Body, json, plain};
use crate::transport::session::{Keep, Reader, Visit};

/// So many messages one response has at most,
const MESSAGES: usize = 100;
/// and no further one when it has so many bytes.
const BYTES: usize = 1 << 20;
/// When the server stops, so long a response waits for more while requests run.
const HOLD: Duration = Duration::from_millis(50);

/// Answers the poll that has opened a session.
pub(crate) fn begin(visit: &Visit) -> Response<Body> {
    // From now on messages wait to be acknowledged.
    drop(visit.outbox().attach(Keep::Acknowledged, None));
    Page::new(0).into_response(visit)
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
        _ => page.into_response(&visit),
    }
}

/// Messages that go out together.
struct Page {
    cursor: u64,
    count: usize,
    messages: BytesMut,
    /// Whether nothing can follow.
    is_last: bool,
    hold: Option<Pin<Box<Sleep>>>,
}

impl Page {
    fn new(cursor: u64) -> Self {
        Self {
            cursor,
            count: 0,
            messages: BytesMut::new(),
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
        while self.count < MESSAGES && self.messages.len() < BYTES {
            match reader.poll_next(cx) {
                Poll::Ready(Some((number, text))) => self.add(number, &text),
                Poll::Ready(None) => {
                    self.is_last = reader.is_last();
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

    fn add(&mut self, number: u64, text: &[u8]) {
        if self.count > 0 {
            self.messages.extend_from_slice(b",");
        }
        self.messages.extend_from_slice(text);
        self.count += 1;
        self.cursor = number;
    }

    fn into_response(self, visit: &Visit) -> Response<Body> {
        let mut text = BytesMut::with_capacity(self.messages.len() + 48);
        let cursor = self.cursor;
        text.extend_from_slice(format!(r#"{{"cursor":{cursor},"messages":["#).as_bytes());
        text.extend_from_slice(&self.messages);
        text.extend_from_slice(b"]}");
        let text = visit.outbox().on_its_way(text.freeze());
        uncached(json(StatusCode::OK, text))
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

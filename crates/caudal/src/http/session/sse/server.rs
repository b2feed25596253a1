//! The server's side: event streams of a session.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::time::{Instant, Sleep, sleep_until};

use super::event;
use super::event::{COMMENT, EventId, RETRY};
use crate::connection::deadline::after;
use crate::http::session::{Keep, Reader, Verb, Visit, Wait};
use crate::http::{Body, Flow, Options, with_type};

/// Events are put together up to so many bytes, and larger ones are given in parts: what
/// is not given yet is the outbox's, and so the next stream's if this one is cut.
const PIECE: usize = 64_000;

/// The messages of a session, for a GET that has opened it; `lost` if its client comes
/// from another one, of which nobody knows what it has missed.
pub(crate) fn listen_anew(visit: Visit, lost: bool, options: &Options) -> Response<Body> {
    let mut head = BytesMut::from(RETRY);
    let id = EventId {
        session: Some(&visit.id),
        number: 0,
    };
    event::write(&mut head, Some(id), Some("session"), visit.id.as_bytes());
    if lost {
        gap(&mut head, None);
    }
    let reader = visit.outbox().attach(Keep::Replay, None);
    events(visit, true, reader, head, options)
}

/// The messages of a session, after the one that its client has got last. A client that
/// did not name it finds its name in every id, and comes back with that.
pub(crate) fn listen(
    visit: Visit,
    unnamed: bool,
    last: Option<u64>,
    options: &Options,
) -> Response<Body> {
    let mut head = BytesMut::from(RETRY);
    let mut reader = visit.outbox().attach(Keep::Replay, last);
    if let Some(last) = last {
        let missed = reader.resume_after(last);
        if missed > 0 {
            gap(&mut head, Some(missed));
        }
    }
    events(visit, unnamed, reader, head, options)
}

/// Tells how many messages are missing, if that is known.
fn gap(out: &mut BytesMut, missed: Option<u64>) {
    let missed = missed.map_or_else(|| "null".to_owned(), |missed| missed.to_string());
    let data = format!(r#"{{"missed":{missed}}}"#);
    event::write(out, None, Some("gap"), data.as_bytes());
}

fn events(
    visit: Visit,
    unnamed: bool,
    reader: Reader,
    head: BytesMut,
    options: &Options,
) -> Response<Body> {
    stream(Events {
        head: Some(head),
        reader: Some(reader),
        silence: Silence::new(options.keep_alive),
        visit,
        unnamed,
    })
}

/// The answer to a POST, and before it what else there is to say.
pub(crate) fn answer(visit: Visit, wait: Wait, options: &Options) -> Response<Body> {
    stream(Answer {
        wait: Some(wait),
        reader: None,
        silence: Silence::new(options.keep_alive),
        visit,
    })
}

fn stream(flow: impl Flow + 'static) -> Response<Body> {
    let body = Body::flow(flow, None);
    let kind = HeaderValue::from_static("text/event-stream");
    let mut response = with_type(StatusCode::OK, kind, body);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
    response
}

/// Messages as events, until there is another reader or nothing more to say.
struct Events {
    head: Option<BytesMut>,
    /// Gone at the end.
    reader: Option<Reader>,
    silence: Silence,
    visit: Visit,
    /// Whether ids have the session's name.
    unnamed: bool,
}

impl Flow for Events {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let mut out = this.head.take().unwrap_or_default();
        let session = this.unnamed.then_some(&*this.visit.id);
        let id = |number| Some(EventId { session, number });
        if read(&mut this.reader, cx, u64::MAX, &mut out, id) {
            event::write(&mut out, None, Some("end"), b"");
        }
        if !out.is_empty() {
            this.silence.end();
            return Poll::Ready(Some(give(&this.visit, Verb::Get, out)));
        }
        match &this.reader {
            None => Poll::Ready(None),
            Some(_) => this.silence.poll(cx).map(Some),
        }
    }
}

/// The same, but only while nobody else reads; with its own progress, and with an
/// answer at the end.
struct Answer {
    /// Gone at the end.
    wait: Option<Wait>,
    reader: Option<Reader>,
    silence: Silence,
    visit: Visit,
}

impl Flow for Answer {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        let Some(wait) = &this.wait else {
            return Poll::Ready(None);
        };
        let ready = wait.poll_ready(cx);
        let mut out = BytesMut::new();
        loop {
            // What was said before the answer or a report goes before it.
            let last = wait.last();
            let before = wait.before_report();
            let limit = before.unwrap_or(match ready {
                Poll::Ready(Some(answered)) => answered,
                // A report that comes meanwhile is behind these.
                Poll::Ready(None) | Poll::Pending => last,
            });
            lent(wait, &mut this.reader, cx, limit, &mut out);
            if out.len() >= PIECE {
                // There may be more before the answer.
                return Poll::Ready(Some(give(&this.visit, Verb::Post, out)));
            }
            let is_more = ready.is_pending() && this.reader.is_some() && wait.last() > last;
            match before.and_then(|_| wait.next_report()) {
                Some(report) => event::write(&mut out, None, None, &report),
                None if is_more => {}
                None => break,
            }
        }
        if ready.is_ready() {
            let answer = wait.take();
            (this.wait, this.reader) = (None, None);
            if let Some(text) = answer {
                event::write(&mut out, None, None, &text);
            }
            return Poll::Ready((!out.is_empty()).then(|| give(&this.visit, Verb::Post, out)));
        }
        if !out.is_empty() {
            this.silence.end();
            return Poll::Ready(Some(give(&this.visit, Verb::Post, out)));
        }
        this.silence.poll(cx).map(Some)
    }
}

/// Writes what a POST may read, up to the message `limit`.
fn lent(
    wait: &Wait,
    reader: &mut Option<Reader>,
    cx: &mut Context<'_>,
    limit: u64,
    out: &mut BytesMut,
) {
    loop {
        if reader.is_none() {
            *reader = wait.lend(cx);
        }
        let had = reader.is_some();
        // A number would be a promise that this stream can be taken up again.
        read(reader, cx, limit, out, |_| None);
        // Where another has taken over, only `lend` tells when that one is gone.
        if reader.is_some() || !had {
            break;
        }
    }
}

fn give(visit: &Visit, verb: Verb, out: BytesMut) -> Bytes {
    visit.outbox().on_its_way(verb, out.freeze())
}

/// Writes what a reader has, up to the message `limit`, with the ids that the numbers
/// become. At its end it is gone; `true` if that is the end of the session.
fn read<'a>(
    reader: &mut Option<Reader>,
    cx: &mut Context<'_>,
    limit: u64,
    out: &mut BytesMut,
    id: impl Fn(u64) -> Option<EventId<'a>>,
) -> bool {
    while out.len() < PIECE {
        let Some(from) = reader else { break };
        match from.poll_part(cx, limit, PIECE - out.len()) {
            Poll::Ready(Some(part)) => {
                if part.is_first {
                    event::begin(out, id(part.number), None);
                }
                event::data(out, &part.text);
                if part.is_last {
                    event::end(out);
                }
            }
            Poll::Ready(None) => {
                let last = from.is_last();
                *reader = None;
                return last;
            }
            Poll::Pending => break,
        }
    }
    false
}

/// How long a stream has said nothing.
struct Silence {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Zero is for ever.
    const fn new(limit: Duration) -> Self {
        Self { limit, timer: None }
    }

    /// Something was said.
    fn end(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(after(Instant::now(), self.limit));
        }
    }

    /// Ready with a comment when it has lasted too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        if self.limit.is_zero() {
            return Poll::Pending;
        }
        let next = || after(Instant::now(), self.limit);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(next())));
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        timer.as_mut().reset(next());
        Poll::Ready(Bytes::from_static(COMMENT))
    }
}

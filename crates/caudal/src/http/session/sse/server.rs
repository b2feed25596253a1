//! The server's side: event streams of a session.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CACHE_CONTROL;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::event;
use super::event::{COMMENT, EventId, RETRY};
use crate::http::options::at_least;
use crate::http::session::body_stream::BodyStream;
use crate::http::session::byte_limit::{PIECE, Reservation, hold};
use crate::http::session::outbox::Retention;
use crate::http::session::pending_posts::PendingPost;
use crate::http::session::reader::{MessagePart, Reader};
use crate::http::session::session::SessionHandle;
use crate::http::session::within;
use crate::http::{Body, Options, with_type};

/// Opens the stream of a new session. If `is_lost`, the client comes from another session, and
/// its stream says that an unknown number of messages is missing.
pub(crate) fn begin(session: SessionHandle, is_lost: bool, options: &Options) -> Response<Body> {
    let mut head = BytesMut::from(RETRY);
    let id = EventId {
        session: Some(&session.id),
        number: 0,
    };
    event::write(&mut head, Some(id), Some("session"), session.id.as_bytes());
    if is_lost {
        gap(&mut head, None);
    }
    let reader = session.outbox().attach(Retention::Replay, None);
    event_stream(session, true, reader, head, options)
}

/// Opens a stream with the messages after the client's last event. `names_session` puts the
/// session into every event id, for a client that sends only that id when it comes back.
pub(crate) fn resume(
    session: SessionHandle,
    names_session: bool,
    last: Option<u64>,
    options: &Options,
) -> Response<Body> {
    let mut head = BytesMut::from(RETRY);
    let mut reader = session.outbox().attach(Retention::Replay, last);
    let missed = last.map_or(0, |last| reader.resume_after(last));
    if missed > 0 {
        gap(&mut head, Some(missed));
    }
    event_stream(session, names_session, reader, head, options)
}

/// Answers a POST: the server's other messages while no GET reads them, progress, and the
/// reply.
pub(crate) fn reply(
    session: SessionHandle,
    pending: PendingPost,
    options: &Options,
) -> Response<Body> {
    response(ReplyStream {
        pending: Some(pending),
        reader: None,
        keep_alive: options.keep_alive.map(at_least),
        session,
    })
}

/// Writes how many messages are missing, if that is known.
fn gap(out: &mut BytesMut, missed: Option<u64>) {
    let missed = missed.map_or_else(|| "null".to_owned(), |missed| missed.to_string());
    let data = format!(r#"{{"missed":{missed}}}"#);
    event::write(out, None, Some("gap"), data.as_bytes());
}

fn event_stream(
    session: SessionHandle,
    names_session: bool,
    reader: Reader,
    head: BytesMut,
    options: &Options,
) -> Response<Body> {
    response(EventStream {
        head,
        reader: Some(reader),
        keep_alive: options.keep_alive.map(at_least),
        session,
        names_session,
    })
}

fn response(stream: impl BodyStream) -> Response<Body> {
    let kind = HeaderValue::from_static("text/event-stream");
    let mut response = with_type(StatusCode::OK, kind, stream.into_body(None));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = HeaderName::from_static("x-accel-buffering");
    headers.insert(name, HeaderValue::from_static("no"));
    response
}

fn write(out: &mut BytesMut, part: &MessagePart, id: Option<EventId<'_>>) {
    if part.is_first {
        event::begin(out, id, None);
    }
    event::data(out, &part.text);
    if part.is_last {
        event::end(out);
    }
}

/// Messages as events, until another reader takes over or the session ends.
struct EventStream {
    head: BytesMut,
    /// None at the end.
    reader: Option<Reader>,
    keep_alive: Option<Duration>,
    session: SessionHandle,
    names_session: bool,
}

impl BodyStream for EventStream {
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = std::mem::take(&mut self.head);
        let reader = self.reader.as_mut()?;
        let session = self.names_session.then_some(&*self.session.id);
        let mut part = match out.is_empty() {
            true => match within(self.keep_alive, reader.part(u64::MAX, PIECE)).await {
                Some(part) => Poll::Ready(part),
                None => return Some(Bytes::from_static(COMMENT)),
            },
            false => reader.try_part(u64::MAX, PIECE),
        };
        while let Poll::Ready(Some(found)) = &part {
            let number = found.number;
            write(&mut out, found, Some(EventId { session, number }));
            if out.len() >= PIECE {
                break;
            }
            part = reader.try_part(u64::MAX, PIECE - out.len());
        }
        if let Poll::Ready(None) = part {
            if reader.is_last() {
                event::write(&mut out, None, Some("end"), b"");
            }
            self.reader = None;
        }
        if out.is_empty() {
            return None;
        }
        let in_transit = &self.session.outbox().in_transit;
        Some(in_transit.hold(out.freeze()).await)
    }
}

/// Events of a POST, which end with its reply.
struct ReplyStream {
    /// None at the end.
    pending: Option<PendingPost>,
    /// Reads the server's other messages, while no GET does.
    reader: Option<Reader>,
    keep_alive: Option<Duration>,
    session: SessionHandle,
}

impl BodyStream for ReplyStream {
    async fn next(&mut self) -> Option<Bytes> {
        let Some((out, reservations)) = within(self.keep_alive, self.events()).await else {
            return Some(Bytes::from_static(COMMENT));
        };
        (!out.is_empty()).then(|| hold(out.freeze(), reservations))
    }
}

impl ReplyStream {
    /// Waits for events, and returns them with the reservations of their messages; empty at
    /// the end.
    ///
    /// # Cancel safety
    /// Nothing is lost: it waits only while it has none.
    async fn events(&mut self) -> (BytesMut, Vec<Reservation>) {
        let (mut out, mut reservations) = (BytesMut::new(), Vec::new());
        let session = Arc::clone(self.session.session());
        while let Some(pending) = &mut self.pending {
            let outbox = session.outbox();
            // First, so that no change is missed that comes after the looks below.
            let (changed, unread) = outbox.notified();
            if self.reader.is_none() {
                self.reader = outbox.lend();
            }
            // Read before `pending` is: messages that come after its next one are above.
            let last = outbox.last();
            let next = pending.peek().map(|message| message.after);
            let is_over = pending.is_over();
            let limit = next.unwrap_or(last);
            let is_replaced = read(&mut self.reader, limit, &mut out, &mut reservations);
            if out.len() >= PIECE {
                break;
            }
            if is_replaced {
                continue;
            }
            if let Some(message) = pending.take() {
                event::write(&mut out, None, None, &message.text);
                reservations.extend(message.reservation);
                if message.is_reply {
                    (self.pending, self.reader) = (None, None);
                }
            } else if is_over {
                (self.pending, self.reader) = (None, None);
            } else if !out.is_empty() {
                break;
            } else {
                let is_reading = self.reader.is_some();
                tokio::select! {
                    () = pending.wait() => {}
                    () = changed, if is_reading => {}
                    () = unread, if !is_reading => {}
                }
            }
        }
        (out, reservations)
    }
}

/// Writes messages up to number `limit`. Returns true if another reader has taken over:
/// then this one is gone.
fn read(
    reader: &mut Option<Reader>,
    limit: u64,
    out: &mut BytesMut,
    reservations: &mut Vec<Reservation>,
) -> bool {
    while let Some(lent) = reader
        && out.len() < PIECE
    {
        match lent.try_part(limit, usize::MAX) {
            // A number would promise that this stream can be resumed.
            Poll::Ready(Some(part)) => {
                write(out, &part, None);
                reservations.extend(part.reservation);
            }
            Poll::Ready(None) => {
                *reader = None;
                return true;
            }
            Poll::Pending => break,
        }
    }
    false
}

//! GET: the client listens to the server's messages.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};

use super::sse::{self, event::EventId};
use super::{Owner, SessionHandle, Sessions, not_found, polling, request, with_session_id};
use crate::call::lone::LoneExchange;
use crate::http::{Body, Http, later, plain};

/// Form in which the client takes messages.
#[derive(Clone, Copy)]
enum Format {
    Events,
    Page,
}

impl Sessions {
    /// Answers a GET; `None` if it means nothing here.
    pub(super) async fn get(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        in_session: bool,
    ) -> Option<Response<Body>> {
        let format = Format::of(head, in_session);
        if in_session {
            return Some(match self.find(http, caller, head) {
                Some(session) => listen(http, session, head, format).await,
                None => not_found(),
            });
        }
        let format = format?;
        // Without an id it opens a session, unless its last event id names one.
        if let Format::Events = format
            && let Some((session, last)) = self.find_by_event(caller, head)
        {
            let id = Arc::clone(&session.id);
            let response = resume(http, session, true, Some(last));
            return Some(with_session_id(response, &id, http.options()));
        }
        let session = match self.table.open(http, caller, head) {
            Ok(session) => session,
            Err(refused) => return Some(*refused),
        };
        let id = Arc::clone(&session.id);
        let response = match format {
            Format::Events => {
                let is_lost = request::last_event_id(head).is_some();
                sse::begin(session, is_lost, http.options())
            }
            Format::Page => polling::begin(&session),
        };
        Some(with_session_id(response, &id, http.options()))
    }

    /// Finds the session that the last event id names. A browser comes back to the URL
    /// that it began with, and sends nothing else.
    fn find_by_event(&self, caller: &LoneExchange, head: &Parts) -> Option<(SessionHandle, u64)> {
        let last = EventId::parse(request::last_event_id(head)?)?;
        let session = self.table.find(last.session?, &Owner::of(caller, head))?;
        Some((session, last.number))
    }
}

/// Answers a GET in a session.
async fn listen(
    http: &Http,
    session: SessionHandle,
    head: &Parts,
    format: Option<Format>,
) -> Response<Body> {
    let bad_number = || {
        plain(
            StatusCode::BAD_REQUEST,
            "the number of a message is wanted\n",
        )
    };
    match format {
        Some(Format::Events) => {
            let last = match request::last_event_id(head).map(EventId::parse) {
                None => None,
                Some(Some(last)) if last.session.is_none_or(|own| own == &*session.id) => {
                    Some(last.number)
                }
                Some(_) => return bad_number(),
            };
            resume(http, session, false, last)
        }
        Some(Format::Page) if session.outbox().in_transit.is_full() => unread(),
        Some(Format::Page) => {
            let Ok(cursor) = request::number(request::query(head, "cursor")) else {
                return bad_number();
            };
            let limit = http.options().poll_timeout;
            let wait = request::preferred_wait(&head.headers).unwrap_or(limit);
            let stop = &http.hub().stop;
            polling::poll(session, cursor.unwrap_or(0), wait.min(limit), stop).await
        }
        None => plain(
            StatusCode::NOT_ACCEPTABLE,
            "accept text/event-stream or application/json\n",
        ),
    }
}

/// Opens an event stream with the messages after the client's last event, if the session has
/// room for its pieces.
fn resume(
    http: &Http,
    session: SessionHandle,
    names_session: bool,
    last: Option<u64>,
) -> Response<Body> {
    match session.outbox().in_transit.is_full() {
        true => unread(),
        false => sse::resume(session, names_session, last, http.options()),
    }
}

fn unread() -> Response<Body> {
    later("too much that was sent to this session is not read\n")
}

impl Format {
    /// Returns the format that a GET asks for. In a session `*/*` is enough; outside, a
    /// browser that happens to come by must not open a session, nor a client that sends a
    /// message by the wrong verb.
    fn of(head: &Parts, in_session: bool) -> Option<Self> {
        let (has_events, has_pages) = (cfg!(feature = "sse"), cfg!(feature = "polling"));
        let accepts = |kind| request::accepts(&head.headers, kind);
        let any = in_session && request::accepts_anything(&head.headers);
        let is_message = !in_session && head.headers.contains_key(CONTENT_TYPE);
        if has_events && accepts(request::EVENTS) {
            Some(Self::Events)
        } else if has_pages && (any || !is_message && accepts(request::JSON)) {
            Some(Self::Page)
        } else {
            (has_events && any).then_some(Self::Events)
        }
    }
}

//! GET: the client listens to the server's messages.

use std::sync::Arc;

#[cfg(feature = "polling")]
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};

#[cfg(feature = "polling")]
use super::polling;
#[cfg(feature = "sse")]
use super::sse::{self, event::EventId};
use super::{Owner, SessionHandle, Sessions, not_found, request, with_session_id};
use crate::call::lone::LoneExchange;
use crate::http::{Body, Http, later, plain};

/// Form in which the client takes messages.
#[derive(Clone, Copy)]
enum Format {
    #[cfg(feature = "sse")]
    Events,
    #[cfg(feature = "polling")]
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
        if !in_session {
            return Some(self.get_without_id(http, caller, head, format?));
        }
        let Some(session) = self.find(http, caller, head) else {
            return Some(not_found());
        };
        if session.outbox().in_transit.is_full() {
            return Some(unread());
        }
        Some(match format {
            #[cfg(feature = "sse")]
            Some(Format::Events) => match request::last_event_id(head) {
                None => sse::resume(session, false, None, http.options()),
                Some(last) => match EventId::parse(last) {
                    Some(last) if last.session.is_none_or(|own| own == &*session.id) => {
                        sse::resume(session, false, Some(last.number), http.options())
                    }
                    _ => bad_number(),
                },
            },
            #[cfg(feature = "polling")]
            Some(Format::Page) => match request::number(request::query(head, "cursor")) {
                Ok(cursor) => {
                    let limit = http.options().poll_timeout;
                    let wait = request::preferred_wait(&head.headers).unwrap_or(limit);
                    let stop = &http.hub().stop;
                    polling::poll(session, cursor.unwrap_or(0), wait.min(limit), stop).await
                }
                Err(_) => bad_number(),
            },
            None => plain(
                StatusCode::NOT_ACCEPTABLE,
                "accept text/event-stream or application/json\n",
            ),
        })
    }

    /// Answers a GET that does not name its session: it opens one, unless its last event
    /// id tells that the client comes back to one.
    fn get_without_id(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        format: Format,
    ) -> Response<Body> {
        #[cfg(feature = "sse")]
        if let Format::Events = format
            && let Some((session, last)) = self.find_by_event(caller, head)
        {
            if session.outbox().in_transit.is_full() {
                return unread();
            }
            let id = Arc::clone(&session.id);
            let response = sse::resume(session, true, Some(last), http.options());
            return with_session_id(response, &id, http.options());
        }
        let session = match self.open(http, caller, head) {
            Ok(session) => session,
            Err(refused) => return *refused,
        };
        let id = Arc::clone(&session.id);
        let response = match format {
            #[cfg(feature = "sse")]
            Format::Events => {
                let is_lost = request::last_event_id(head).is_some();
                sse::begin(session, is_lost, http.options())
            }
            #[cfg(feature = "polling")]
            Format::Page => polling::begin(&session),
        };
        with_session_id(response, &id, http.options())
    }

    /// Finds the session that the last event id names. A browser comes back to the URL
    /// that it began with, and has nothing else to tell.
    #[cfg(feature = "sse")]
    fn find_by_event(&self, caller: &LoneExchange, head: &Parts) -> Option<(SessionHandle, u64)> {
        let last = EventId::parse(request::last_event_id(head)?)?;
        let session = self.table.find(last.session?, &Owner::of(caller, head))?;
        Some((session, last.number))
    }
}

impl Format {
    /// Returns the format that a GET asks for. In a session `*/*` is enough; outside, a
    /// browser that happens to come by must not open a session, nor a client that sends a
    /// message by the wrong verb.
    fn of(head: &Parts, in_session: bool) -> Option<Self> {
        let any = in_session && request::accepts_anything(&head.headers);
        #[cfg(feature = "sse")]
        if request::accepts(&head.headers, request::EVENTS) {
            return Some(Self::Events);
        }
        #[cfg(feature = "polling")]
        {
            let is_message = !in_session && head.headers.contains_key(CONTENT_TYPE);
            if any || !is_message && request::accepts(&head.headers, request::JSON) {
                return Some(Self::Page);
            }
        }
        #[cfg(feature = "sse")]
        if any {
            return Some(Self::Events);
        }
        let _ = any;
        None
    }
}

fn unread() -> Response<Body> {
    later("too much that was sent to this session is not read\n")
}

fn bad_number() -> Response<Body> {
    let text = "the number of a message is wanted\n";
    plain(StatusCode::BAD_REQUEST, text)
}

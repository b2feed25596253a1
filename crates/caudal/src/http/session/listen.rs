//! The server's messages: a GET that listens.

use std::sync::Arc;

#[cfg(feature = "polling")]
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};

#[cfg(feature = "sse")]
use super::Visit;
#[cfg(feature = "polling")]
use super::polling;
#[cfg(feature = "sse")]
use super::sse::{self, event::EventId};
#[cfg(feature = "sse")]
use super::table::Owner;
use super::{Sessions, Verb, head, named, not_found};
use crate::call::lone::LoneExchange;
use crate::http::{Body, Http, later, plain};

impl Sessions {
    /// Takes a GET; `None` if it means nothing here.
    pub(super) async fn get(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        in_session: bool,
    ) -> Option<Response<Body>> {
        let way = Way::of(head, in_session);
        Some(match in_session {
            true => self.listen(http, caller, head, way).await,
            false => self.listen_anew(http, caller, head, way?),
        })
    }

    /// Lets the client of a session hear what the server says.
    async fn listen(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        way: Option<Way>,
    ) -> Response<Body> {
        let Some(visit) = self.find(http, caller, head) else {
            return not_found();
        };
        if visit.outbox().has_much_on_its_way(Verb::Get) {
            return unread();
        }
        match way {
            #[cfg(feature = "sse")]
            Some(Way::Events) => match head::last_event(head) {
                None => sse::listen(visit, false, None, http.options()),
                Some(last) => match EventId::parse(last) {
                    Some(last) if last.session.is_none_or(|session| session == &*visit.id) => {
                        sse::listen(visit, false, Some(last.number), http.options())
                    }
                    _ => bad_number(),
                },
            },
            #[cfg(feature = "polling")]
            Some(Way::Poll) => match head::number(head::query(head, "cursor")) {
                Ok(cursor) => {
                    let limit = http.options().poll_timeout;
                    let wait = head::prefers_wait(&head.headers).unwrap_or(limit);
                    let stop = &http.hub().stop;
                    polling::poll(visit, cursor.unwrap_or(0), wait.min(limit), stop).await
                }
                Err(_) => bad_number(),
            },
            None => plain(
                StatusCode::NOT_ACCEPTABLE,
                "accept text/event-stream or application/json\n",
            ),
        }
    }

    /// The same for a session that this opens, unless the client comes back to one.
    fn listen_anew(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        way: Way,
    ) -> Response<Body> {
        #[cfg(feature = "sse")]
        if let Way::Events = way
            && let Some((visit, last)) = self.find_again(caller, head)
        {
            if visit.outbox().has_much_on_its_way(Verb::Get) {
                return unread();
            }
            let id = Arc::clone(&visit.id);
            let response = sse::listen(visit, true, Some(last), http.options());
            return named(response, &id, http.options());
        }
        let visit = match self.open(http, caller, head) {
            Ok(visit) => visit,
            Err(refused) => return *refused,
        };
        let id = Arc::clone(&visit.id);
        let response = match way {
            #[cfg(feature = "sse")]
            Way::Events => {
                let lost = head::last_event(head).is_some();
                sse::listen_anew(visit, lost, http.options())
            }
            #[cfg(feature = "polling")]
            Way::Poll => polling::begin(&visit),
        };
        named(response, &id, http.options())
    }

    /// The session that the last event was of, and its number. A browser comes back to
    /// the URL that it began with, and has nothing else to say.
    #[cfg(feature = "sse")]
    fn find_again(&self, caller: &LoneExchange, head: &Parts) -> Option<(Visit, u64)> {
        let last = EventId::parse(head::last_event(head)?)?;
        let visit = self.table.find(last.session?, &Owner::of(caller, head))?;
        Some((visit, last.number))
    }
}

/// How the client hears what the server says.
#[derive(Clone, Copy)]
enum Way {
    #[cfg(feature = "sse")]
    Events,
    #[cfg(feature = "polling")]
    Poll,
}

impl Way {
    /// What a GET asks for. Whoever takes anything in a session wants to listen; a
    /// browser that happens to come by does not, nor who sends a message by the wrong verb.
    fn of(head: &Parts, in_session: bool) -> Option<Self> {
        let anything = in_session && head::accepts_anything(&head.headers);
        #[cfg(feature = "polling")]
        let sends = !in_session && head.headers.contains_key(CONTENT_TYPE);
        #[cfg(feature = "sse")]
        if head::accepts(&head.headers, head::EVENTS) {
            return Some(Self::Events);
        }
        #[cfg(feature = "polling")]
        if anything || !sends && head::accepts(&head.headers, head::JSON) {
            return Some(Self::Poll);
        }
        #[cfg(feature = "sse")]
        if anything {
            return Some(Self::Events);
        }
        let _ = anything;
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

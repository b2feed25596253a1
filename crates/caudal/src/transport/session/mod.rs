//! Sessions: many HTTP requests that make one connection.
//!
//! ```text
//! POST ──→ inbox ──→ channel ──→ the session's peer
//! POST ←── waits ←───┤
//! GET  ←── outbox ←──┘
//! ```
//!
//! A session is a peer like any other: [`channel`] is its transport. What the
//! client sends goes through the [`inbox`]; what the server says goes to the POST
//! that [`waits`] for it, or else into the [`outbox`], out of which an event stream,
//! a poll or a webhook takes it.

mod budget;
mod channel;
mod head;
mod inbox;
mod outbox;
mod post;
mod table;
mod waits;

#[cfg(any(feature = "sse", feature = "polling"))]
pub(crate) mod client;

use std::sync::Arc;

use bytes::Bytes;
use caudal_core::{Decoder, Message, Policy};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use super::http::{Body, Http, Options, plain};
use crate::peer::Link;
use table::{OpenError, Owner, Table};

#[cfg_attr(
    not(any(feature = "sse", feature = "polling")),
    allow(unused_imports, reason = "each way to the client uses its part")
)]
pub(crate) use outbox::{Keep, Reader};
pub(crate) use table::Visit;
#[cfg(feature = "sse")]
pub(crate) use waits::Wait;

/// All sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Arc<Table>,
}

impl Sessions {
    /// Takes a POST if it belongs to a session, or opens one; `None` if it stands
    /// alone.
    pub(crate) async fn post(
        &self,
        http: &Http,
        link: &Arc<Link>,
        head: &Parts,
        text: &Bytes,
    ) -> Option<Response<Body>> {
        let options = http.options();
        if head::session(head, options).is_some() {
            return Some(match self.find(http, link, head) {
                Some(visit) => post::take(http, visit, head, text).await,
                None => not_found(),
            });
        }
        if !opens(text, options, &link.config.policy) {
            return None;
        }
        Some(match self.open(http, link, head) {
            Ok(visit) => {
                let id = Arc::clone(&visit.id);
                named(post::take(http, visit, head, text).await, &id, options)
            }
            Err(refused) => *refused,
        })
    }

    /// Takes GET, DELETE and PUT; `None` if they mean nothing here.
    pub(crate) async fn other<B: http_body::Body>(
        &self,
        http: &Http,
        link: &Arc<Link>,
        head: &Parts,
        body: B,
    ) -> Option<Response<Body>> {
        drop(body);
        let in_session = head::session(head, http.options()).is_some();
        match head.method {
            Method::GET => {
                let way = Way::of(head, in_session);
                match in_session {
                    true => Some(self.listen(http, link, head, way).await),
                    false => Some(self.listen_anew(http, link, head, way?)),
                }
            }
            Method::DELETE if in_session => Some(self.end(http, link, head)),
            _ => None,
        }
    }

    /// The session that a request belongs to, if it may use it.
    fn find(&self, http: &Http, link: &Link, head: &Parts) -> Option<Visit> {
        let id = head::session(head, http.options())?;
        self.table.find(id, &Owner::of(link, head))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// The answer, if there is none to be had.
    pub(crate) fn open(
        &self,
        http: &Http,
        link: &Link,
        head: &Parts,
    ) -> Result<Visit, Box<Response<Body>>> {
        let opened = self.table.open(http, link, Owner::of(link, head));
        opened.map_err(|error| {
            let text = match error {
                OpenError::TooMany => "there are too many sessions\n",
                OpenError::Stopping => "the server is shutting down\n",
                OpenError::Random => "the system has no random numbers\n",
            };
            Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, text))
        })
    }

    /// Lets the client of a session hear what the server says.
    async fn listen(
        &self,
        http: &Http,
        link: &Link,
        head: &Parts,
        way: Option<Way>,
    ) -> Response<Body> {
        let Some(visit) = self.find(http, link, head) else {
            return not_found();
        };
        match way {
            #[cfg(feature = "sse")]
            Some(Way::Events) => {
                let header = head.headers.get("last-event-id");
                let header = header.map(|value| value.to_str().unwrap_or("?"));
                let last = header.or_else(|| head::query(head, "last-event-id"));
                match head::number(last) {
                    Ok(last) => super::sse::listen(visit, last, http.options()),
                    Err(_) => bad_number(),
                }
            }
            #[cfg(feature = "polling")]
            Some(Way::Poll) => match head::number(head::query(head, "cursor")) {
                Ok(cursor) => {
                    let limit = http.options().poll_timeout;
                    let wait = head::prefers_wait(&head.headers).unwrap_or(limit);
                    let stop = &http.hub().stop;
                    super::polling::poll(visit, cursor.unwrap_or(0), wait.min(limit), stop).await
                }
                Err(_) => bad_number(),
            },
            None => plain(
                StatusCode::NOT_ACCEPTABLE,
                "accept text/event-stream or application/json\n",
            ),
        }
    }

    /// The same for a session that this opens.
    fn listen_anew(&self, http: &Http, link: &Link, head: &Parts, way: Way) -> Response<Body> {
        let visit = match self.open(http, link, head) {
            Ok(visit) => visit,
            Err(refused) => return *refused,
        };
        let id = Arc::clone(&visit.id);
        let response = match way {
            #[cfg(feature = "sse")]
            Way::Events => super::sse::listen_anew(visit, http.options()),
            #[cfg(feature = "polling")]
            Way::Poll => super::polling::begin(visit),
        };
        named(response, &id, http.options())
    }

    /// Ends a session because its client says so.
    fn end(&self, http: &Http, link: &Link, head: &Parts) -> Response<Body> {
        // Of two that end it, one was late.
        let Some(visit) = self
            .find(http, link, head)
            .filter(|visit| self.table.remove(&visit.id))
        else {
            return not_found();
        };
        visit.end();
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
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
    /// browser that happens to come by does not.
    fn of(head: &Parts, in_session: bool) -> Option<Self> {
        let anything = in_session && head::accepts_anything(&head.headers);
        #[cfg(feature = "sse")]
        if head::accepts(&head.headers, head::EVENTS) {
            return Some(Self::Events);
        }
        #[cfg(feature = "polling")]
        if anything || head::accepts(&head.headers, head::JSON) {
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

/// Whether a message opens a session.
fn opens(text: &[u8], options: &Options, policy: &Policy) -> bool {
    let Some(opener) = &options.session_method else {
        return false;
    };
    if text.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let mut decoder = Decoder::new(text, policy);
    // Nearly every other call is known here, and is not read twice.
    if decoder
        .method_before_params()
        .is_some_and(|method| method != **opener)
    {
        return false;
    }
    matches!(decoder.finish(), Message::Request(request) if request.method == **opener)
}

/// Puts the id of a session into a response.
fn named(mut response: Response<Body>, id: &str, options: &Options) -> Response<Body> {
    if let Ok(id) = HeaderValue::from_str(id) {
        let name = options.session_header.clone();
        response.headers_mut().insert(name, id);
    }
    response
}

fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "there is no such session\n")
}

#[cfg(any(feature = "sse", feature = "polling"))]
fn bad_number() -> Response<Body> {
    let text = "the number of a message is wanted\n";
    plain(StatusCode::BAD_REQUEST, text)
}

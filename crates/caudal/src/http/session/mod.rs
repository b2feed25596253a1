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

#[cfg(feature = "polling")]
pub(crate) mod polling;
#[cfg(feature = "sse")]
pub(crate) mod sse;
#[cfg(feature = "webhook")]
pub mod webhook;

mod budget;
mod channel;
mod head;
#[cfg(feature = "webhook")]
mod hook;
mod inbox;
#[cfg(any(feature = "sse", feature = "polling"))]
mod listen;
#[cfg_attr(
    not(all(feature = "sse", feature = "polling")),
    allow(dead_code, reason = "each way to the client uses its part")
)]
mod outbox;
mod post;
mod refusal;
mod table;
mod waits;

#[cfg_attr(
    not(any(feature = "sse", feature = "polling")),
    allow(dead_code, reason = "each way back uses its part")
)]
pub(crate) mod client;

use std::sync::Arc;

use bytes::Bytes;
use caudal_core::{Decoder, Message, Policy};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use super::{Body, Http, Options, plain};
use crate::call::lone::LoneExchange;
use table::{OpenError, Owner, Table};

#[cfg_attr(
    not(any(feature = "sse", feature = "polling")),
    allow(unused_imports, reason = "each way to the client uses its part")
)]
pub(crate) use outbox::{Keep, Reader, Verb};
pub(crate) use table::Visit;
#[cfg(feature = "sse")]
pub(crate) use waits::Wait;

/// All sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Arc<Table>,
    #[cfg(feature = "webhook")]
    lookup: crate::http::session::webhook::Lookup,
}

impl Sessions {
    /// Whether a POST belongs to a session, or opens one.
    pub(crate) fn concerns(&self, http: &Http, head: &Parts, text: &[u8]) -> bool {
        let options = http.options();
        head::session(head, options).is_some() || {
            // Who does not serve the method that opens one has none to open.
            let opener = options.session_method.as_deref();
            let router = &http.hub().router;
            opener.is_some_and(|opener| router.serves(opener))
                && opens(text, options, &http.hub().config.policy)
        }
    }

    /// Takes a POST that belongs to a session, or opens one.
    pub(crate) async fn post(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        text: Bytes,
    ) -> Response<Body> {
        let options = http.options();
        if head::session(head, options).is_some() {
            return match self.find(http, caller, head) {
                Some(visit) => post::take(http, visit, head, text).await,
                None => not_found(),
            };
        }
        match self.open(http, caller, head) {
            Ok(visit) => {
                let id = Arc::clone(&visit.id);
                named(post::take(http, visit, head, text).await, &id, options)
            }
            Err(refused) => *refused,
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Takes GET, DELETE, PUT and HEAD; `None` if they mean nothing here.
    pub(crate) async fn other<B: http_body::Body>(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        body: B,
    ) -> Option<Response<Body>> {
        let in_session = head::session(head, http.options()).is_some();
        match head.method {
            #[cfg(feature = "webhook")]
            Method::PUT => Some(self.put(http, caller, head, body).await),
            #[cfg(any(feature = "sse", feature = "polling"))]
            Method::GET => self.get(http, caller, head, in_session).await,
            Method::DELETE if in_session => Some(self.end(http, caller, head)),
            Method::HEAD if in_session => Some(self.visit(http, caller, head)),
            _ => {
                drop(body);
                None
            }
        }
    }

    /// The session that a request belongs to, if it may use it.
    fn find(&self, http: &Http, caller: &LoneExchange, head: &Parts) -> Option<Visit> {
        let id = head::session(head, http.options())?;
        self.table.find(id, &Owner::of(caller, head))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// The answer, if there is none to be had.
    pub(crate) fn open(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
    ) -> Result<Visit, Box<Response<Body>>> {
        let opened = self.table.open(http, caller, head);
        opened.map_err(|error| {
            let text = match error {
                OpenError::TooMany => "there are too many sessions\n",
                OpenError::Stopping => "the server is shutting down\n",
                OpenError::Random => "the system has no random numbers\n",
            };
            Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, text))
        })
    }

    /// A client says that it is still there.
    fn visit(&self, http: &Http, caller: &LoneExchange, head: &Parts) -> Response<Body> {
        match self.find(http, caller, head) {
            Some(_) => no_content(),
            None => not_found(),
        }
    }

    /// Ends a session because its client says so.
    fn end(&self, http: &Http, caller: &LoneExchange, head: &Parts) -> Response<Body> {
        // Of two that end it, one was late.
        let Some(visit) = self
            .find(http, caller, head)
            .filter(|visit| self.table.remove(&visit.id))
        else {
            return not_found();
        };
        visit.end();
        no_content()
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

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "there is no such session\n")
}

//! Sessions: many HTTP requests that make one connection.
//!
//! ```text
//! client                          server
//! POST ──→ inbox ──────────────→ SessionTransport ──→ the session's connection
//! POST ←── PendingPosts ←───────────────┤
//! GET, webhook ←── Reader ←── outbox ←──┘
//! ```
//!
//! A session is a peer like any other: [`transport`] is its transport. What the client
//! sends goes through the [`inbox`]. What the server says goes to the POST that waits for
//! it ([`pending_posts`]), or else into the [`outbox`], out of which an event stream
//! ([`sse`]), a poll ([`polling`]) or a webhook takes it.
mod body_stream;
mod byte_limit;
#[cfg_attr(
    not(all(feature = "sse", feature = "polling", feature = "webhook")),
    allow(
        dead_code,
        unused_imports,
        reason = "each way to the client uses its part"
    )
)]
pub(crate) mod client;
mod get;
mod inbox;
mod outbox;
mod owner;
mod pending_posts;
pub(crate) mod polling;
mod post;
mod reader;
mod refusal;
mod request;
#[expect(
    clippy::module_inception,
    reason = "one session is what this module is named for"
)]
mod session;
pub(crate) mod sse;
mod table;
mod transport;
#[cfg(feature = "webhook")]
pub mod webhook;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::{Decoder, Message, Policy};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

use super::{Body, Http, Options, plain};
use crate::call::lone::LoneExchange;
use owner::Owner;
use session::SessionHandle;
use table::SessionTable;

/// Sessions of a server, as its HTTP service sees them.
#[derive(Debug)]
pub(crate) struct Sessions {
    table: Arc<SessionTable>,
    #[cfg(feature = "webhook")]
    lookup: webhook::Lookup,
}

impl Sessions {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            table: SessionTable::new(options),
            #[cfg(feature = "webhook")]
            lookup: webhook::Lookup::default(),
        }
    }

    /// Returns true if a POST belongs to a session, or opens one.
    pub(crate) fn concerns(&self, http: &Http, head: &Parts, text: &[u8]) -> bool {
        let options = http.options();
        request::session_id(head, options).is_some() || {
            let opener = options.session_method.as_deref();
            let router = &http.hub().router;
            opener.is_some_and(|opener| {
                router.serves(opener) && is_call_of(opener, text, &http.hub().config.policy)
            })
        }
    }

    /// Answers a POST that belongs to a session, or opens one.
    pub(crate) async fn post(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        text: Bytes,
    ) -> Response<Body> {
        let options = http.options();
        if request::session_id(head, options).is_some() {
            return match self.find(http, caller, head) {
                Some(session) => post::answer(http, session, head, text).await,
                None => not_found(),
            };
        }
        match self.table.open(http, caller, head) {
            Ok(session) => {
                let id = Arc::clone(&session.id);
                let response = post::answer(http, session, head, text).await;
                with_session_id(response, &id, options)
            }
            Err(refused) => *refused,
        }
    }

    /// Returns true if there is no session.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Answers GET, DELETE, PUT and HEAD; `None` if they mean nothing here.
    pub(crate) async fn other<B: http_body::Body>(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        body: B,
    ) -> Option<Response<Body>> {
        let in_session = request::session_id(head, http.options()).is_some();
        match head.method {
            #[cfg(feature = "webhook")]
            Method::PUT => Some(self.put(http, caller, head, body).await),
            Method::GET => self.get(http, caller, head, in_session).await,
            Method::DELETE if in_session => Some(self.delete(http, caller, head)),
            Method::HEAD if in_session => Some(match self.find(http, caller, head) {
                Some(_) => no_content(),
                None => not_found(),
            }),
            _ => {
                drop(body);
                None
            }
        }
    }

    /// Finds the session that a request belongs to, if it may use it.
    fn find(&self, http: &Http, caller: &LoneExchange, head: &Parts) -> Option<SessionHandle> {
        let id = request::session_id(head, http.options())?;
        self.table.find(id, &Owner::of(caller, head))
    }

    /// Ends a session, as its client asks.
    fn delete(&self, http: &Http, caller: &LoneExchange, head: &Parts) -> Response<Body> {
        let session = self.find(http, caller, head);
        // Of two requests that end it, the second finds nothing.
        match session.filter(|session| self.table.remove(&session.id)) {
            Some(session) => {
                session.end_by_client();
                no_content()
            }
            None => not_found(),
        }
    }
}

/// Returns true if a message is a call of `method`, alone.
fn is_call_of(method: &str, text: &[u8], policy: &Policy) -> bool {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let mut decoder = Decoder::new(text, policy);
    // Nearly every other call is known here, and is not read twice.
    if decoder
        .method_before_params()
        .is_some_and(|other| other != *method)
    {
        return false;
    }
    matches!(decoder.finish(), Message::Request(request) if request.method == *method)
}

/// Picks something of each entry of a batch, or of the only message.
fn collect<'m, T>(message: &Message<'m>, pick: impl Fn(&Message<'m>) -> Option<T>) -> Vec<T> {
    match message {
        Message::Batch(entries) => entries.iter().filter_map(pick).collect(),
        single => pick(single).into_iter().collect(),
    }
}

/// Adds the id of a session to a response.
fn with_session_id(mut response: Response<Body>, id: &str, options: &Options) -> Response<Body> {
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

/// Waits for `work`, but not longer than `limit`.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

/// Returns 128 random bits in hexadecimal digits.
fn random_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

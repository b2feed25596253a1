//! One address for all of HTTP: which verb does what.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use caudal_core::FrameError;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};

use super::access::{self, Guard, Own, Seen};
use super::answer::{Answer, Content, Rest, Wait, encoded, not_allowed, not_json, refusal, verbs};
use super::body;
use super::body::{Body, ReadError, Shares, Whole};
use super::status::Reply;
use crate::call::lone::{self, LoneExchange, LoneOrigin};
use crate::config::Config;
#[cfg(feature = "http2")]
use crate::connection::incomplete::Incomplete;
use crate::connection::incomplete::Share;
use crate::http::options::Options;
use crate::http::{JSON, json, plain, soon};
use crate::observe::stats::Stats;
use crate::peer::Peer;
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::server::group::{ConnectionGroup, GroupGuard};

/// A connection keeps the room of so many headers from one request to the next.
const HEADERS: usize = 32;

/// A router as an HTTP service: POST, WebSocket and sessions on one path.
///
/// It is a [`Service`](crate::layer::Service), so it mounts into an axum or hyper
/// application beside its own routes and layers. [`serve`](crate::serve()) runs
/// the same thing on an address of its own.
///
/// ```
/// use caudal::Router;
/// use caudal::http::Http;
///
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let http = Http::new(router);
/// // axum::Router::new().route_service("/rpc", http)
/// # let _ = http;
/// ```
///
/// A mounted service does not know connections. All its POSTs together have at most
/// [`Limits::in_flight`](crate::Limits::in_flight) requests under way, and further requests
/// are answered with -32000. Raise this limit as far as the application can bear. Each
/// WebSocket and each session has limits of its own in any case.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
    /// State that all lone messages of the connection, or of the mounted service, share.
    origin: Arc<LoneOrigin>,
    remote: Option<SocketAddr>,
    /// Bytes of the connection's bodies that are coming in.
    #[cfg(feature = "http2")]
    bodies: Arc<Incomplete>,
}

struct Shared {
    hub: Arc<ConnectionGroup>,
    options: Options,
    guard: Guard,
    #[cfg(feature = "session")]
    sessions: crate::http::session::Sessions,
}

impl Http {
    /// Serves a router with the default [`Config`] and [`Options`].
    #[must_use]
    pub fn new(router: Router) -> Self {
        Self::with(router, Config::default(), Options::default())
    }

    /// Serves a router.
    #[must_use]
    pub fn with(router: Router, config: Config, options: Options) -> Self {
        Self::on(&ConnectionGroup::new(router, config), options, Own::Nowhere)
    }

    pub(crate) fn on(hub: &Arc<ConnectionGroup>, options: Options, own: Own) -> Self {
        #[cfg(feature = "session")]
        let sessions = crate::http::session::Sessions::new(&options);
        Self {
            origin: LoneOrigin::new(Arc::clone(&hub.config), None),
            shared: Arc::new(Shared {
                hub: Arc::clone(hub),
                options,
                guard: Guard::new(own),
                #[cfg(feature = "session")]
                sessions,
            }),
            remote: None,
            #[cfg(feature = "http2")]
            bodies: Incomplete::new(usize::MAX),
        }
    }

    /// The same for one connection, which has limits of its own.
    pub(super) fn for_connection(&self, remote: SocketAddr) -> Self {
        let config = Arc::clone(&self.shared.hub.config);
        Self {
            shared: Arc::clone(&self.shared),
            #[cfg(feature = "http2")]
            bodies: Incomplete::new(config.limits.queue),
            origin: LoneOrigin::new(config, Some(remote.to_string())),
            remote: Some(remote),
        }
    }

    pub(crate) fn origin(&self) -> &Arc<LoneOrigin> {
        &self.origin
    }

    #[cfg(any(feature = "ws", feature = "session"))]
    pub(crate) fn hub(&self) -> &Arc<ConnectionGroup> {
        &self.shared.hub
    }

    /// Returns true if there are open sessions.
    pub(super) fn has_sessions(&self) -> bool {
        #[cfg(feature = "session")]
        return !self.shared.sessions.is_empty();
        #[cfg(not(feature = "session"))]
        return false;
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    #[cfg(any(feature = "ws", feature = "session"))]
    pub(crate) fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// Returns the statistics of all connections and sessions so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.shared.hub.stats();
        if self.remote.is_none() {
            stats.add(&self.origin.stats());
        }
        stats
    }

    /// Returns a handle to each WebSocket and session.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.hub.peers()
    }

    /// Refuses new requests, lets running ones finish until `limit`, and closes every
    /// WebSocket and session. Returns when that is done.
    pub async fn shutdown(&self, limit: Duration) {
        self.shared.hub.shutdown(limit).await;
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
    {
        let (mut head, body) = request.into_parts();
        let is_bare = is_bare(&head.method, head.version);
        let mut body = pin!(body);
        let answer = match self.begin(&head, body.as_mut()) {
            Ok(answer) => answer,
            Err(rest) => self.finish(&mut head, body, rest).await,
        };
        let mut response = self.respond(answer, head.headers);
        if is_bare {
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// Answers a request if that is possible without waiting, as it is for most requests.
    ///
    /// # Errors
    /// The rest of the request, for [`finish`](Self::finish).
    #[inline]
    pub(super) fn begin<B: http_body::Body>(
        &self,
        head: &Parts,
        body: Pin<&mut B>,
    ) -> Result<Answer, Box<Rest>> {
        let options = &self.shared.options;
        let seen = Seen::of(&head.headers);
        if let Err(refused) = self.shared.guard.check(head, seen, options) {
            return Ok(Answer::refusal(refused));
        }
        let origin = seen.origin.cloned();
        let is_json = !seen.has_two_types && is_json(seen.content_type);
        let is_encoded = seen.is_encoded;
        let caller = match access::check_caller(head, options) {
            Ok(()) => self.caller(head),
            Err(answered) => Err(answered),
        };
        let begun = match caller {
            Ok(_) if head.method == Method::POST && !is_json => Ok(not_json().into()),
            Ok(_) if head.method == Method::POST && is_encoded => Ok(encoded().into()),
            Ok(caller) if head.method == Method::POST => self.post(caller, head, body),
            Ok(caller) => Err(Rest::of(caller, None, Wait::Other)),
            Err(answered) => Ok(Content::Other(answered)),
        };
        match begun {
            Ok(content) => Ok(Answer { origin, content }),
            Err(mut rest) => {
                rest.origin = origin;
                Err(rest)
            }
        }
    }

    /// Waits for what is left of a request.
    ///
    /// # Cancel safety
    /// If it is dropped, what the request began is cancelled.
    pub(super) async fn finish<B: http_body::Body>(
        &self,
        head: &mut Parts,
        mut body: Pin<&mut B>,
        mut rest: Box<Rest>,
    ) -> Answer {
        let origin = rest.origin.take();
        let content = loop {
            let Rest {
                caller, held, wait, ..
            } = *rest;

            let next = match wait {
                Wait::Other => Ok(self.other(&caller, head, body.as_mut()).await.into()),
                Wait::Body(whole) => {
                    let limit = self.shared.hub.config.policy.max_message;
                    let read = self.read_on(head, body.as_mut(), whole, limit).await;
                    self.take(caller, held, head, read)
                }
                #[cfg(feature = "session")]
                Wait::Session(text) => {
                    let sessions = &self.shared.sessions;
                    Ok(sessions.post(self, &caller, head, text).await.into())
                }
                Wait::Answer(reply) => Ok(Content::Reply(reply.await)),
            };
            match next {
                Ok(content) => break content,
                Err(next) => rest = next,
            }
        };
        Answer { origin, content }
    }

    /// Answers what is no POST.
    async fn other<B: http_body::Body>(
        &self,
        caller: &LoneExchange,
        head: &mut Parts,
        body: B,
    ) -> Response<Body> {
        if head.method == Method::OPTIONS {
            return verbs();
        }
        #[cfg(feature = "ws")]
        if let Some(response) = crate::http::ws::accept(self, caller, head) {
            return response;
        }
        #[cfg(feature = "session")]
        if let Some(response) = self.shared.sessions.other(self, caller, head, body).await {
            return response;
        }
        #[cfg(not(feature = "session"))]
        drop(body);
        let _ = (caller, head);
        not_allowed()
    }

    /// Asks the application who calls, and lets handlers see what it found.
    ///
    /// # Errors
    /// The answer.
    fn caller(&self, head: &Parts) -> Result<Arc<LoneExchange>, Box<Response<Body>>> {
        let caller = LoneExchange::new(&self.origin);
        if let Some(authorize) = &self.shared.options.authorize
            && let Err(status) = authorize.authorize(head, caller.extensions())
        {
            return Err(Box::new(plain(status, "this caller is not let in\n")));
        }
        Ok(caller)
    }

    fn post<B: http_body::Body>(
        &self,
        caller: Arc<LoneExchange>,
        head: &Parts,
        body: Pin<&mut B>,
    ) -> Result<Content, Box<Rest>> {
        let hub = &self.shared.hub;
        // A connection of ours is held as a whole.
        let held = self.remote.is_none().then(|| hub.hold());
        let mut whole = Whole::default();
        // Most bodies are here already, and then no timer is needed.
        let cx = &mut Context::from_waker(Waker::noop());
        match whole.poll(body, cx, hub.config.policy.max_message) {
            Poll::Ready(read) => self.take(caller, held, head, read),
            Poll::Pending => Err(Rest::of(caller, held, Wait::Body(whole))),
        }
    }

    /// Takes the body of a POST, or why there is none.
    fn take(
        &self,
        caller: Arc<LoneExchange>,
        held: Option<GroupGuard>,
        head: &Parts,
        read: Result<Bytes, ReadError>,
    ) -> Result<Content, Box<Rest>> {
        let text = match read {
            Ok(text) => text,
            Err(error) => return Ok(self.unread(&error).into()),
        };
        let hub = &self.shared.hub;
        #[cfg(feature = "session")]
        if self.shared.sessions.concerns(self, head, &text) {
            return Err(Rest::of(caller, held, Wait::Session(text)));
        }
        #[cfg(not(feature = "session"))]
        let _ = head;
        if hub.is_stopping() {
            let text = "the server is shutting down\n";
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, text).into());
        }
        match lone::start(&hub.router, &caller, &text) {
            Ok(reply) => Ok(Content::Reply(reply)),
            Err(reply) => Err(Rest::of(caller, held, Wait::Answer(reply))),
        }
    }

    /// Reads what is left of a body, of `limit` bytes at most.
    async fn read_on<B: http_body::Body>(
        &self,
        head: &Parts,
        body: Pin<&mut B>,
        whole: Whole,
        limit: usize,
    ) -> Result<Bytes, ReadError> {
        let time = self.shared.hub.config.message_timeout;
        body::read_on(body, whole, limit, time, self.shares(head.version)).await
    }

    /// Reads a body of `limit` bytes at most.
    #[cfg(feature = "webhook")]
    pub(crate) async fn read<B: http_body::Body>(
        &self,
        head: &Parts,
        body: B,
        limit: usize,
    ) -> Result<Bytes, ReadError> {
        let whole = Whole::default();
        self.read_on(head, pin!(body), whole, limit).await
    }

    /// The answer to a POST whose body was not read.
    #[cold]
    fn unread(&self, error: &ReadError) -> Response<Body> {
        match error {
            ReadError::TooLarge => self.too_large(),
            ReadError::Slow => plain(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
            ReadError::Broken => plain(StatusCode::BAD_REQUEST, "the body could not be read\n"),
            ReadError::NoRoom => self.overloaded(),
        }
    }

    /// Counts a body that is received. A mounted service does not know connections, and a
    /// connection of HTTP/2 may have many bodies at once.
    fn shares(&self, version: Version) -> Shares {
        let all = &self.shared.hub.incomplete;
        match (self.remote, version) {
            #[cfg(feature = "http2")]
            (Some(_), Version::HTTP_2) => [Share::of(all), Share::of(&self.bodies)],
            (Some(_), _) => [Share::of_connection(all), Share::default()],
            (None, _) => [Share::of(all), Share::default()],
        }
    }

    /// The response that an answer becomes. The headers of a reply take the room of the
    /// request's, which hyper gives the next request's.
    #[inline]
    pub(super) fn respond(&self, answer: Answer, mut room: HeaderMap) -> Response<Body> {
        // Made in the place that it is returned from.
        let mut response = Response::new(Body::empty());
        match answer.content {
            Content::Other(other) => response = *other,
            Content::Reply(reply) => {
                let default = match reply {
                    Some(_) => StatusCode::OK,
                    None => StatusCode::NO_CONTENT,
                };
                *response.status_mut() = self.status(reply.as_deref(), default);
                let headers = response.headers_mut();
                if room.capacity() <= HEADERS {
                    room.clear();
                    *headers = room;
                }
                if let Some(text) = reply {
                    // There is none; and the code that appends is at hand, since it has
                    // read the headers of the request.
                    headers.append(CONTENT_TYPE, JSON);
                    *response.body_mut() = Body::whole(text);
                }
            }
        }
        if let Some(origin) = answer.origin {
            access::share(origin, &self.shared.options, &mut response);
        }
        response
    }

    /// The status of an answer, unless the application has another for it.
    pub(crate) fn status(&self, text: Option<&[u8]>, default: StatusCode) -> StatusCode {
        match &self.shared.options.status {
            Some(policy) => policy.status(Reply { text, default }),
            None => default,
        }
    }

    /// Refuses a body that there is no room for.
    pub(crate) fn overloaded(&self) -> Response<Body> {
        self.origin.stats.overloaded();
        let error = FrameError::Overloaded.to_wire(self.origin.config.policy.error_detail);
        soon(json(StatusCode::SERVICE_UNAVAILABLE, refusal(&error)))
    }

    fn too_large(&self) -> Response<Body> {
        let policy = &self.origin.config.policy;
        let limit = policy.max_message;
        let error = FrameError::TooLarge { limit }.to_wire(policy.error_detail);
        self.origin.stats.invalid();
        let text = refusal(&error);
        let status = self.status(Some(&text), StatusCode::PAYLOAD_TOO_LARGE);
        json(status, text)
    }
}

/// Returns true if the response must have no body. hyper omits the body itself, but not over
/// HTTP/2, where a client resets the stream if the response to HEAD has a body.
pub(super) fn is_bare(method: &Method, version: Version) -> bool {
    version == Version::HTTP_2 && *method == Method::HEAD
}

/// Checks that there is one type, and that it is that of JSON.
#[cfg(feature = "webhook")]
pub(crate) fn has_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    is_json(types.next()) && types.next().is_none()
}

/// Checks for the type of JSON, in UTF-8 as all JSON is.
fn is_json(content_type: Option<&HeaderValue>) -> bool {
    const KNOWN: [&[u8]; 3] = [
        b"application/json",
        b"application/json-rpc",
        b"application/jsonrequest",
    ];
    let Some(value) = content_type.map(HeaderValue::as_bytes) else {
        return false;
    };
    // What nearly everybody sends.
    if value == b"application/json" {
        return true;
    }
    let mut quoted = false;
    let mut parts = value.split(|byte| {
        quoted ^= *byte == b'"';
        *byte == b';' && !quoted
    });
    let kind = parts.next().unwrap_or_default().trim_ascii();
    KNOWN.iter().any(|known| kind.eq_ignore_ascii_case(known)) && !parts.any(is_foreign_charset)
}

/// Checks for a parameter that names another encoding than UTF-8.
fn is_foreign_charset(parameter: &[u8]) -> bool {
    let mut sides = parameter.splitn(2, |byte| *byte == b'=');
    let name = sides.next().unwrap_or_default().trim_ascii();
    let value = sides.next().unwrap_or_default().trim_ascii();
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""));
    let charset = inner.unwrap_or(value);
    name.eq_ignore_ascii_case(b"charset") && !charset.eq_ignore_ascii_case(b"utf-8")
}

impl<B> tower_service::Service<Request<B>> for Http
where
    B: http_body::Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let http = self.clone();
        Box::pin(async move { Ok(http.answer(request).await) })
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("options", &self.shared.options)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}

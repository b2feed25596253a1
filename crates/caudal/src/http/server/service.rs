//! One address for all of HTTP: which verb does what.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use caudal_core::FrameError;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};

use super::SharedState;
use super::access::{self, Guard, Own, RelevantHeaders};
use super::body;
use super::body::{Body, ReadError, Shares};
use super::content_type::has_json;
use super::responses::{encoded, not_allowed, not_json, refusal, verbs};
use super::status::Reply;
use crate::call::lone::{self, LoneExchange, LoneOrigin};
use crate::config::{Config, ServerLimits};
#[cfg(feature = "http2")]
use crate::connection::incomplete::Incomplete;
use crate::connection::incomplete::Share;
use crate::http::options::Options;
use crate::http::{JSON, json, plain, soon};
use crate::observe::stats::Stats;
use crate::peer::Peer;
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::server::group::ConnectionGroup;
use crate::server::hooks::Hooks;

/// Maximum headers whose memory a connection keeps from one request to the next.
const MAX_KEPT_HEADERS: usize = 32;

/// A router as an HTTP service: POST, WebSocket and sessions on one path.
///
/// It is a [`Service`](crate::middleware::Service), so it mounts into an axum or hyper
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
/// [`Config::in_flight`](crate::Config::in_flight) requests under way, and further requests
/// are answered with -32000. Raise this limit as far as the application can bear. Each
/// WebSocket and each session has limits of its own in any case.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
    /// State that all lone messages of the connection, or of the mounted service, share.
    origin: Arc<LoneOrigin>,
    /// True if the application's own server passes the requests.
    is_mounted: bool,
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
    sessions: Arc<crate::http::session::Sessions>,
}

impl Http {
    /// Serves a router with the default [`Config`] and [`Options`].
    #[must_use]
    pub fn new<S, E>(router: Router<S, E>) -> Self {
        Self::with(router, Config::default(), Options::default())
    }

    /// Serves a router.
    #[must_use]
    pub fn with<S, E>(router: Router<S, E>, config: Config, options: Options) -> Self {
        let group = ConnectionGroup::new(
            router.into_routes(),
            config,
            &ServerLimits::default(),
            Hooks::default(),
        );
        let shared = SharedState::new(&options);
        Self::mounted(&group, options, &shared)
    }

    /// The service of a server, for the application's own HTTP server.
    pub(crate) fn mounted(
        group: &Arc<ConnectionGroup>,
        options: Options,
        shared: &SharedState,
    ) -> Self {
        Self::on(group, options, Own::Nowhere, shared)
    }

    #[cfg_attr(
        not(feature = "session"),
        expect(unused_variables, reason = "for sessions")
    )]
    pub(crate) fn on(
        hub: &Arc<ConnectionGroup>,
        options: Options,
        own: Own,
        shared: &SharedState,
    ) -> Self {
        Self {
            origin: LoneOrigin::new(Arc::clone(&hub.config), None),
            shared: Arc::new(Shared {
                hub: Arc::clone(hub),
                options,
                guard: Guard::new(own),
                #[cfg(feature = "session")]
                sessions: Arc::clone(&shared.sessions),
            }),
            is_mounted: true,
            remote: None,
            #[cfg(feature = "http2")]
            bodies: Incomplete::new(usize::MAX),
        }
    }

    /// The same for one connection, which has limits of its own.
    pub(super) fn for_connection(&self, remote: Option<SocketAddr>) -> Self {
        let config = Arc::clone(&self.shared.hub.config);
        Self {
            shared: Arc::clone(&self.shared),
            #[cfg(feature = "http2")]
            bodies: Incomplete::new(config.queue),
            origin: LoneOrigin::new(config, remote.map(|remote| remote.to_string())),
            is_mounted: false,
            remote,
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
        if self.is_mounted {
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
    pub async fn shutdown(&self, limit: impl Into<Option<Duration>>) {
        let limit = limit.into().unwrap_or(Duration::MAX);
        self.shared.hub.shutdown(limit).await;
    }

    /// Answers one request.
    ///
    /// # Cancel safety
    /// If it is dropped, what the request began is cancelled.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
    {
        let (mut head, body) = request.into_parts();
        let mut response = self.respond(&mut head, pin!(body)).await;
        if has_no_body(&head) {
            *response.body_mut() = Body::empty();
        }
        response
    }

    /// Responds to a request. The response to HEAD may have a body.
    pub(super) async fn respond<B: http_body::Body>(
        &self,
        head: &mut Parts,
        body: Pin<&mut B>,
    ) -> Response<Body> {
        let options = &self.shared.options;
        let headers = RelevantHeaders::of(&head.headers);
        if let Err(refused) = self.shared.guard.check(head, headers, options) {
            return *refused;
        }
        let (origin, is_encoded) = (headers.origin.cloned(), headers.is_encoded);
        let mut response = self.respond_to_allowed(head, body, is_encoded).await;
        if let Some(origin) = origin {
            access::share(origin, options, &mut response);
        }
        response
    }

    /// Responds to a request whose host and origin are allowed.
    async fn respond_to_allowed<B: http_body::Body>(
        &self,
        head: &mut Parts,
        body: Pin<&mut B>,
        is_encoded: bool,
    ) -> Response<Body> {
        let caller = match self.authorize(head) {
            Ok(caller) => caller,
            Err(refused) => return *refused,
        };
        match head.method {
            Method::POST if !has_json(&head.headers) => not_json(),
            Method::POST if is_encoded => encoded(),
            Method::POST => self.post(caller, head, body).await,
            Method::OPTIONS => verbs(),
            // In memory of its own, so that a POST does not need it.
            _ => Box::pin(self.other(&caller, head, body)).await,
        }
    }

    /// Responds to a request that is neither a POST nor OPTIONS.
    async fn other<B: http_body::Body>(
        &self,
        caller: &LoneExchange,
        head: &mut Parts,
        body: Pin<&mut B>,
    ) -> Response<Body> {
        #[cfg(feature = "ws")]
        if let Some(response) = crate::http::ws::accept(self, caller, head) {
            return response;
        }
        #[cfg(feature = "session")]
        if let Some(response) = self.shared.sessions.other(self, caller, head, body).await {
            return response;
        }
        #[cfg(not(feature = "session"))]
        let _ = (caller, head, body);
        not_allowed()
    }

    /// Checks the token of a request, and asks the application who calls.
    ///
    /// # Errors
    /// The response to a caller that is refused.
    fn authorize(&self, head: &Parts) -> Result<Arc<LoneExchange>, Box<Response<Body>>> {
        access::check_caller(head, &self.shared.options)?;
        let caller = LoneExchange::new(&self.origin);
        if let Some(authorize) = &self.shared.options.authorize
            && let Err(status) = authorize.authorize(head, caller.extensions())
        {
            return Err(Box::new(plain(status, "this caller is not let in\n")));
        }
        Ok(caller)
    }

    async fn post<B: http_body::Body>(
        &self,
        caller: Arc<LoneExchange>,
        head: &mut Parts,
        body: Pin<&mut B>,
    ) -> Response<Body> {
        let hub = &self.shared.hub;
        // A connection of our own is held as a whole.
        let _held = self.is_mounted.then(|| hub.hold());
        let text = match self.read(head, body, hub.config.policy.max_message).await {
            Ok(text) => text,
            Err(error) => return self.unread(&error),
        };
        #[cfg(feature = "session")]
        if self.shared.sessions.concerns(self, head, &text) {
            let response = self.shared.sessions.post(self, &caller, head, text);
            return Box::pin(response).await;
        }
        if hub.is_stopping() {
            let text = "the server is shutting down\n";
            return plain(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        let reply = lone::run(&hub.router, caller, &text);
        // Handlers may wait for long.
        drop(text);
        let reply = reply.await;
        let mut response = Response::new(Body::empty());
        // The memory of the request's headers, which hyper uses for the next request again.
        if head.headers.capacity() <= MAX_KEPT_HEADERS {
            head.headers.clear();
            *response.headers_mut() = std::mem::take(&mut head.headers);
        }
        match reply {
            Some(reply) => {
                *response.status_mut() = self.status(Some(&reply), StatusCode::OK);
                response.headers_mut().insert(CONTENT_TYPE, JSON);
                *response.body_mut() = Body::whole(reply);
            }
            None => *response.status_mut() = self.status(None, StatusCode::NO_CONTENT),
        }
        response
    }

    /// Reads a body of `limit` bytes at most.
    pub(crate) async fn read<B: http_body::Body>(
        &self,
        head: &Parts,
        body: B,
        limit: usize,
    ) -> Result<Bytes, ReadError> {
        let time = self.shared.hub.config.message_timeout;
        body::read(body, limit, time, self.shares(head.version)).await
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
        match (self.is_mounted, version) {
            #[cfg(feature = "http2")]
            (false, Version::HTTP_2) => [Share::of(all), Share::of(&self.bodies)],
            (false, _) => [Share::of_connection(all), Share::default()],
            (true, _) => [Share::of(all), Share::default()],
        }
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
pub(super) fn has_no_body(request: &Parts) -> bool {
    request.version == Version::HTTP_2 && request.method == Method::HEAD
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

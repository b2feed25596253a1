//! Options of an HTTP server: the clients that it accepts, its limits and its timeouts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::setters;
use http::StatusCode;
use http::request::Parts;

use super::server::status::StatusPolicy;
use crate::extensions::Extensions;

/// Options of an HTTP server: the clients that it accepts, its limits and its timeouts.
/// [`Config`](crate::Config) has the options for the messages themselves.
///
/// ```
/// use caudal::http::{Allowed, Options};
///
/// let options = Options::default()
///     .token("s3cret")
///     .hosts(Allowed::of(["api.example.com"]))
///     .origins(Allowed::of(["https://app.example.com"]));
/// ```
///
/// | limit | default | at the limit |
/// |---|---|---|
/// | [`header_timeout`](Self::header_timeout) | 10 s | the connection is closed |
/// | [`Config::message_timeout`](crate::Config::message_timeout) | 60 s | 408 |
/// | [`idle_timeout`](Self::idle_timeout) | 60 s | the connection is closed |
/// | [`ServerLimits::connections`](crate::ServerLimits::connections) | 10,000 | a further connection is answered with 503 and closed; with TLS it is closed without a response |
/// | [`connections_per_address`](Self::connections_per_address) | 1,024 | the same |
/// | [`sessions`](Self::sessions) | 10,000 | 503 |
/// | [`sessions_per_caller`](Self::sessions_per_caller) | 1,024 | 503 |
/// | [`session_timeout`](Self::session_timeout) | 5 min | the session is closed |
/// | [`session_bytes`](Self::session_bytes) | 256 MiB in all sessions, each way | senders wait |
/// | ids that POSTs of one session wait for | 4 MiB, 256 bytes for each among them; in all [`session_bytes`](Self::session_bytes) | -32000 `Server overloaded` |
/// | POSTs that wait for room in a session | [`Config::queue`](crate::Config::queue), and [`session_bytes`](Self::session_bytes) in all | 503 |
/// | bodies that come in over one connection of HTTP/2 | [`Config::queue`](crate::Config::queue) | 503 |
/// | bodies that come in over all connections | [`ServerLimits::incomplete`](crate::ServerLimits::incomplete) | 503 |
/// | [`replay`](Self::replay) | 256 KiB a session | older events but the last are forgotten, and a gap is reported |
/// | [`ping_timeout`](Self::ping_timeout) | 10 s | the WebSocket is closed |
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Values of `Host` that are accepted, in addition to `localhost`, `127.0.0.1`, `[::1]`
    /// and the host of the address that is served. A server that listens on all addresses of
    /// the machine also accepts every IP address. The check prevents a foreign page from
    /// reaching a local server under a domain name of its own (DNS rebinding).
    pub hosts: Allowed,
    /// Values of `Origin` that are accepted, in addition to the server's own origin. The
    /// server's own origin has the host that `Host` names. Its scheme is `https` if the
    /// server uses TLS itself. Without TLS, and for a mounted service, both `https` and
    /// `http` are accepted, because a proxy may add TLS. A request without `Origin` passes
    /// this check, unless a browser marks it as cross-site and it is not a POST.
    pub origins: Allowed,
    /// Lets pages of the origins that are listed in [`origins`](Self::origins) send what
    /// the browser keeps for this server: cookies, certificates and passwords
    /// (`Access-Control-Allow-Credentials: true`). `false` by default. With
    /// [`Allowed::Any`] it has no effect: any page could act on behalf of its visitor.
    ///
    /// ```
    /// use caudal::http::{Allowed, Options};
    ///
    /// let options = Options::default()
    ///     .origins(Allowed::of(["https://app.example.com"]))
    ///     .credentials(true);
    /// ```
    pub credentials: bool,
    /// Bearer tokens that are accepted. If the list is empty, no token is required.
    ///
    /// A page in a browser sends one with `fetch`, whose responses can be event streams
    /// too. Its `WebSocket` and `EventSource` send no `Authorization`: for these, have an
    /// [`authorize`](Self::authorize) that reads a cookie or the query instead of tokens.
    pub tokens: Vec<Secret>,
    /// Check of the application, for every request that has passed all other checks.
    pub authorize: Option<Arc<dyn Authorize>>,
    /// Policy for the status of replies to POSTs. The default is 200, 204 without a reply, and
    /// 413 if the body was too large.
    pub status: Option<Arc<dyn StatusPolicy>>,
    /// Certificate and private key of the server, and the client certificates that it accepts,
    /// for `https` and `wss`. Only servers that [`serve`](crate::serve()) runs use it.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ServerTls>,
    /// Maximum time to receive the head of a request. The TLS handshake before it has the
    /// same limit.
    pub header_timeout: Duration,
    /// Maximum time that a connection waits for its next request, and maximum time in which
    /// its client reads nothing that is sent to it. For reading,
    /// [`header_timeout`](Self::header_timeout) applies instead if it is longer. Over HTTP/2,
    /// only the stream that is not read is reset. A WebSocket uses pings instead.
    pub idle_timeout: Duration,
    /// Maximum connections of one address. All IPv6 addresses of one /64 count as one address,
    /// because a single machine can use all of them. A WebSocket over HTTP/2 counts as a
    /// further connection, in addition to the one that carries it.
    pub connections_per_address: usize,
    /// The header that carries the id of a session.
    pub session_header: http::HeaderName,
    /// The method that opens a session when it is called without one, as MCP has
    /// it, if the router serves it.
    pub session_method: Option<String>,
    /// Maximum number of open sessions.
    pub sessions: usize,
    /// Maximum number of open sessions of one caller. A caller is identified by the
    /// [`Caller`] that the application has set, or else by its TLS certificate, or else by its
    /// address, as [`connections_per_address`](Self::connections_per_address) counts
    /// addresses. Tokens do not identify callers, because many callers may share one. A
    /// mounted service does not know addresses: set a [`Caller`] there.
    pub sessions_per_caller: usize,
    /// Time after which a session whose client is silent is closed, or `None` for no limit.
    pub session_timeout: Option<Duration>,
    /// Maximum bytes that wait for the clients of all sessions, and maximum bytes that
    /// these have sent and that have not begun. At the limit, senders wait. Each session has
    /// a share for itself, whatever the others hold: `session_bytes` divided by
    /// [`sessions`](Self::sessions), and at most 64 KiB.
    pub session_bytes: usize,
    /// Maximum bytes of events that a session keeps for a client that comes back. All
    /// sessions together keep no more than [`session_bytes`](Self::session_bytes).
    pub replay: usize,
    /// Time without an event after which an event stream sends a comment, or `None` for none; at least 100 ms.
    pub keep_alive: Option<Duration>,
    /// Maximum time that a poll waits for a message.
    pub poll_timeout: Duration,
    /// Time without input after which a WebSocket is sent a ping, or `None` for none; at least 100 ms.
    pub ping_interval: Option<Duration>,
    /// Maximum time that a WebSocket has to answer a ping. While its client reads nothing that
    /// is sent to it, the WebSocket counts as silent, even if it sends.
    pub ping_timeout: Duration,
    /// Lets webhooks call private, loopback and link-local addresses.
    pub private_webhooks: bool,
    /// Root certificates for receivers of webhooks over `https`, by default those of the
    /// system.
    #[cfg(all(feature = "tls", feature = "webhook"))]
    pub webhook_tls: Option<crate::tls::ClientTls>,
}

impl Options {
    setters! {
        hosts: Allowed,
        origins: Allowed,
        credentials: bool,
        #[cfg(feature = "tls")]
        tls: impl Into<Option<crate::tls::ServerTls>>,
        header_timeout: Duration,
        idle_timeout: Duration,
        connections_per_address: usize,
        session_header: http::HeaderName,
        session_method: impl Into<Option<String>>,
        sessions: usize,
        sessions_per_caller: usize,
        session_timeout: impl Into<Option<Duration>>,
        session_bytes: usize,
        replay: usize,
        keep_alive: impl Into<Option<Duration>>,
        poll_timeout: Duration,
        ping_interval: impl Into<Option<Duration>>,
        ping_timeout: Duration,
        private_webhooks: bool,
        #[cfg(all(feature = "tls", feature = "webhook"))]
        webhook_tls: impl Into<Option<crate::tls::ClientTls>>,
    }

    /// Adds a bearer token to [`tokens`](Self#structfield.tokens).
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.tokens.push(token.into());
        self
    }

    /// Sets [`authorize`](Self#structfield.authorize).
    #[must_use]
    pub fn authorize(mut self, authorize: impl Authorize + 'static) -> Self {
        self.authorize = Some(Arc::new(authorize));
        self
    }

    /// Sets [`status`](Self#structfield.status).
    #[must_use]
    pub fn status(mut self, status: impl StatusPolicy + 'static) -> Self {
        self.status = Some(Arc::new(status));
        self
    }
}

/// Returns the interval, but not less than 100 ms: a shorter one would only be load.
#[cfg(any(feature = "ws", feature = "session"))]
pub(crate) fn at_least(interval: Duration) -> Duration {
    interval.max(Duration::from_millis(100))
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hosts: Allowed::default(),
            origins: Allowed::default(),
            credentials: false,
            tokens: Vec::new(),
            authorize: None,
            status: None,
            #[cfg(feature = "tls")]
            tls: None,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            connections_per_address: 1024,
            session_header: http::HeaderName::from_static("mcp-session-id"),
            session_method: Some("initialize".to_owned()),
            sessions: 10_000,
            sessions_per_caller: 1024,
            session_timeout: Some(Duration::from_secs(300)),
            session_bytes: 256 << 20,
            replay: 256 << 10,
            keep_alive: Some(Duration::from_secs(15)),
            poll_timeout: Duration::from_secs(25),
            ping_interval: Some(Duration::from_secs(30)),
            ping_timeout: Duration::from_secs(10),
            private_webhooks: false,
            #[cfg(all(feature = "tls", feature = "webhook"))]
            webhook_tls: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("hosts", &self.hosts)
            .field("origins", &self.origins)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Values of a header that are accepted.
///
/// ```
/// use caudal::http::Allowed;
///
/// assert!(matches!(Allowed::default(), Allowed::Listed(list) if list.is_empty()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Allowed {
    /// One of these.
    Listed(Vec<String>),
    /// Any value. Use it where a proxy in front of the server checks the header.
    Any,
}

impl Allowed {
    /// Exactly these.
    ///
    /// ```
    /// let allowed = caudal::http::Allowed::of(["https://app.example.com"]);
    /// # let _ = allowed;
    /// ```
    pub fn of(list: impl IntoIterator<Item: Into<String>>) -> Self {
        Self::Listed(list.into_iter().map(Into::into).collect())
    }
}

impl Default for Allowed {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

/// A text that is not shown.
///
/// ```
/// let secret = caudal::http::Secret::from("s3cret");
/// assert_eq!(format!("{secret:?}"), "Secret(…)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) String);

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Decides which requests are accepted; see [`Options::authorize`]. Every closure with
/// this signature implements it.
///
/// Handlers find the values that it puts into the extensions in
/// [`Peer::extensions`](crate::Peer::extensions). If a [`Caller`] is among them, a session
/// belongs to that caller. Otherwise it belongs to the `Authorization` header.
///
/// ```
/// use caudal::http::{Caller, Options, Parts, StatusCode};
/// use caudal::Extensions;
///
/// let options = Options::default().authorize(|request: &Parts, found: &Extensions| {
///     let key = request.headers.get("x-api-key").ok_or(StatusCode::UNAUTHORIZED)?;
///     let user = if key == "abc" { "ada" } else { return Err(StatusCode::FORBIDDEN) };
///     found.insert(Caller::new(user));
///     Ok(())
/// });
/// ```
pub trait Authorize: Send + Sync {
    /// Lets a request pass, or says with which status it is refused.
    ///
    /// # Errors
    /// The status of the refusal: 401 or 403.
    fn authorize(&self, request: &Parts, extensions: &Extensions) -> Result<(), StatusCode>;
}

impl<F> Authorize for F
where
    F: Fn(&Parts, &Extensions) -> Result<(), StatusCode> + Send + Sync,
{
    fn authorize(&self, request: &Parts, extensions: &Extensions) -> Result<(), StatusCode> {
        self(request, extensions)
    }
}

/// Name of a caller, as the application chooses it.
///
/// ```
/// assert_eq!(caudal::http::Caller::new("ada").name(), "ada");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller(String);

impl Caller {
    /// A caller of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

//! What an HTTP server accepts, and from whom.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;

use super::server::status::StatusPolicy;
use crate::extensions::Extensions;

/// What an HTTP server accepts, from whom, and how long it waits. What is in the
/// messages is the business of [`Config`](crate::Config).
///
/// ```
/// use caudal::http::{Allowed, Options};
///
/// let mut options = Options::default();
/// options.tokens.push("s3cret".into());
/// options.hosts = Allowed::of(["api.example.com"]);
/// options.origins = Allowed::of(["https://app.example.com"]);
/// ```
///
/// | limit | default | at the limit |
/// |---|---|---|
/// | [`header_timeout`](Self::header_timeout) | 10 s | the connection is closed |
/// | [`Config::message_timeout`](crate::Config::message_timeout) | 60 s | 408 |
/// | [`idle_timeout`](Self::idle_timeout) | 60 s | the connection is closed |
/// | [`Limits::connections`](crate::Limits::connections) | 10,000 | a further one is told so with 503, and closed; with TLS just closed |
/// | [`connections_per_address`](Self::connections_per_address) | 1,024 | the same |
/// | [`sessions`](Self::sessions) | 10,000 | 503 |
/// | [`sessions_per_caller`](Self::sessions_per_caller) | 1,024 | 503 |
/// | [`session_timeout`](Self::session_timeout) | 5 min | the session is closed |
/// | [`session_bytes`](Self::session_bytes) | 256 MiB in all sessions, each way | whoever sends to a session waits |
/// | ids that POSTs of one session wait for | 4 MiB, 256 bytes for each among them; in all [`session_bytes`](Self::session_bytes) | -32000 `Server overloaded` |
/// | POSTs that wait for room in a session | [`Limits::queue`](crate::Limits::queue), and [`session_bytes`](Self::session_bytes) in all | 503 |
/// | bodies that come in over one connection of HTTP/2 | [`Limits::queue`](crate::Limits::queue) | 503 |
/// | bodies that come in over all connections | [`Limits::incomplete`](crate::Limits::incomplete) | 503 |
/// | [`replay`](Self::replay) | 256 KiB a session | older events but the last are forgotten, and a gap is reported |
/// | [`ping_timeout`](Self::ping_timeout) | 10 s | the WebSocket is closed |
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// What `Host` may say, on top of `localhost`, `127.0.0.1`, `[::1]` and the
    /// host of the address that is served; or any address in numbers, where every
    /// address of the machine is served. This keeps a foreign page from reaching a local
    /// server under a name of its own.
    pub hosts: Allowed,
    /// What `Origin` may say, on top of the server's own; who sends none, and so is
    /// no browser, is let in. Its own is what `Host` says, over `https` where the server
    /// has TLS itself. Otherwise, and where it is mounted, a proxy may have it: there both
    /// `https` and `http` are its own.
    pub origins: Allowed,
    /// Lets pages of the origins that are listed in [`origins`](Self::origins) send what
    /// the browser keeps for this server: cookies, certificates and passwords
    /// (`Access-Control-Allow-Credentials: true`). `false` by default. With
    /// [`Allowed::Any`] it has no effect: any page could act for whoever looks at it.
    ///
    /// ```
    /// use caudal::http::{Allowed, Options};
    ///
    /// let mut options = Options::default();
    /// options.origins = Allowed::of(["https://app.example.com"]);
    /// options.credentials = true;
    /// ```
    pub credentials: bool,
    /// Bearer tokens, any of which lets a caller in; without one, everybody is.
    ///
    /// A page in a browser sends one with `fetch`, whose responses can be event streams
    /// too. Its `WebSocket` and `EventSource` send no `Authorization`: for these, have an
    /// [`authorize`](Self::authorize) that reads a cookie or the query instead of tokens.
    pub tokens: Vec<Secret>,
    /// Asked about every request that has passed all other checks.
    pub authorize: Option<Arc<dyn Authorize>>,
    /// Which status an answer to a POST gets; by default 200, 204 for none, and 413 where
    /// the body was too large.
    pub status: Option<Arc<dyn StatusPolicy>>,
    /// Who the server is, for `https` and `wss`; only what
    /// [`serve`](crate::serve()) runs makes use of it.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ServerTls>,
    /// How long the head of a request may take, and the TLS handshake before it.
    pub header_timeout: Duration,
    /// How long a connection may wait for its next request, and how long its client may
    /// take nothing of what is sent to it, unless
    /// [`header_timeout`](Self::header_timeout) is longer. Of HTTP/2 only the stream is
    /// reset that is not taken. A WebSocket has its pings for that.
    pub idle_timeout: Duration,
    /// How many connections one address may have. Of IPv6, all addresses of one /64
    /// count as one: a single machine has as many. A WebSocket over HTTP/2 counts as a
    /// connection, beside the one that carries it.
    pub connections_per_address: usize,
    /// The header that carries the id of a session.
    pub session_header: http::HeaderName,
    /// The method that opens a session when it is called without one, as MCP has
    /// it, if the router serves it.
    pub session_method: Option<String>,
    /// How many sessions there may be.
    pub sessions: usize,
    /// How many sessions one caller may have: the [`Caller`] that the application has
    /// named, or who shows the same TLS certificate, or else the same address, as
    /// [`connections_per_address`](Self::connections_per_address) counts them. Tokens
    /// do not tell callers apart, since many may share one. A service that is mounted
    /// elsewhere knows no addresses: there, name a [`Caller`].
    pub sessions_per_caller: usize,
    /// How long a session lasts of which nothing is heard; zero is for ever.
    pub session_timeout: Duration,
    /// Maximum bytes that wait for the clients of all sessions, and maximum bytes that
    /// these have sent and that have not begun. At the limit, senders wait. Each session has
    /// a share for itself, whatever the others hold: `session_bytes` divided by
    /// [`sessions`](Self::sessions), and at most 64 KiB.
    pub session_bytes: usize,
    /// Maximum bytes of events that a session keeps for a client that comes back. All
    /// sessions together keep no more than [`session_bytes`](Self::session_bytes).
    pub replay: usize,
    /// After so much silence an event stream gets a comment; zero is never.
    pub keep_alive: Duration,
    /// How long a poll waits for a message.
    pub poll_timeout: Duration,
    /// After so much silence a WebSocket is asked whether it is still there,
    pub ping_interval: Duration,
    /// and has so long to answer. While it takes nothing of what is sent to it, it counts
    /// as silent, whatever it says.
    pub ping_timeout: Duration,
    /// Lets webhooks call private, loopback and link-local addresses.
    pub private_webhooks: bool,
    /// Which receivers of webhooks are believed, over `https`: those that the system
    /// believes, by default.
    #[cfg(all(feature = "tls", feature = "webhook"))]
    pub webhook_tls: Option<crate::tls::ClientTls>,
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
            session_timeout: Duration::from_secs(300),
            session_bytes: 256 << 20,
            replay: 256 << 10,
            keep_alive: Duration::from_secs(15),
            poll_timeout: Duration::from_secs(25),
            ping_interval: Duration::from_secs(30),
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

/// What a header may say.
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
    /// Anything: whoever checks it stands in front of the server.
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

/// Decides who may speak; see [`Options::authorize`]. Every closure of this shape
/// is one.
///
/// What it puts into the extensions is what handlers find in
/// [`Peer::extensions`](crate::Peer::extensions). A [`Caller`] among them is whom a
/// session belongs to; without one that is the `Authorization` header.
///
/// ```
/// use std::sync::Arc;
/// use caudal::http::{Caller, Options, Parts, StatusCode};
/// use caudal::Extensions;
///
/// let mut options = Options::default();
/// options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
///     let key = request.headers.get("x-api-key").ok_or(StatusCode::UNAUTHORIZED)?;
///     let user = if key == "abc" { "ada" } else { return Err(StatusCode::FORBIDDEN) };
///     found.insert(Caller::new(user));
///     Ok(())
/// }));
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

/// Who calls, in the application's own terms.
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

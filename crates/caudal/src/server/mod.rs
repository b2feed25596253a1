//! A server: a peer for each connection that comes in.

pub(crate) mod group;
pub(crate) mod hooks;
mod listen;
mod protocol;
mod serve;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::group::ConnectionGroup;
use self::listen::Endpoints;
pub use self::protocol::Protocol;
pub use self::serve::{Serve, serve, serve_on, serve_stream};
use crate::endpoint::{Endpoint, EndpointError};
use crate::error::Error;
#[cfg(feature = "http")]
use crate::http;
use crate::observe::stats::Stats;
use crate::peer::Peer;
use crate::transport::{AcceptedStream, BoundListener};

/// A handle to a running server.
///
/// Cheap to clone. Dropping it changes nothing: the server goes on until
/// [`shutdown`](Self::shutdown), or the end of the runtime.
///
/// One server may have many endpoints, so its router, limits, statistics and shutdown cover
/// all of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::Router;
/// use std::time::Duration;
///
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let server = caudal::serve("tcp://127.0.0.1:0", router).await?;
/// let peer = caudal::connect(server.endpoint()).await?; // with the port it got
/// assert_eq!(peer.call::<i64>("add", (1, 2)).await?, 3);
/// assert_eq!((server.connections(), server.accepted()), (1, 1));
/// assert_eq!(server.stats().requests_served, 1);
/// for client in server.peers() {
///     client.notify("goodbye", ()).await?;
/// }
/// server.shutdown(Duration::from_secs(5)).await; // lets what runs finish
/// server.wait().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Server {
    endpoints: Arc<Endpoints>,
    group: Arc<ConnectionGroup>,
}

impl Server {
    /// Returns the first endpoint on which the server listens, with the port that the system
    /// chose.
    ///
    /// # Panics
    /// If the server has never listened, because it was made by [`serve_stream`] or
    /// [`Serve::new`].
    #[must_use]
    #[track_caller]
    pub fn endpoint(&self) -> &Endpoint {
        match self.endpoints.first() {
            Some(endpoint) => endpoint,
            None => panic!("this server listens on no endpoint: add one with `listen`"),
        }
    }

    /// Returns all endpoints on which the server listens, with the ports that the system
    /// chose.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.endpoints.all()
    }

    /// Listens on another endpoint, with the same router, limits, statistics and shutdown.
    /// Returns the endpoint with the port that the system chose.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::Router;
    ///
    /// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    /// let server = caudal::serve("tcp://127.0.0.1:0", router).await?;
    /// let other = server.listen("tcp://127.0.0.1:0?framing=header").await?;
    /// assert_eq!(server.endpoints(), [server.endpoint().clone(), other]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The same as for [`serve`].
    pub async fn listen<A>(&self, endpoint: A) -> Result<Endpoint, Error>
    where
        A: TryInto<Endpoint, Error: Into<EndpointError>>,
    {
        let endpoint = endpoint.try_into().map_err(Into::into);
        let endpoint = endpoint.map_err(EndpointError::for_server)?;
        self.endpoints.listen(&self.group, endpoint).await
    }

    /// Serves the connections of a socket that listens already, as [`serve_on`] does.
    /// Returns its endpoint.
    ///
    /// # Errors
    /// The protocol is none, or other machines can reach the socket and that was not
    /// allowed.
    pub fn listen_on<P>(
        &self,
        listener: impl Into<BoundListener>,
        protocol: P,
    ) -> Result<Endpoint, Error>
    where
        P: TryInto<Protocol, Error: Into<EndpointError>>,
    {
        let protocol = protocol.try_into().map_err(Into::into)?;
        let listener = listener.into();
        self.endpoints.listen_on(&self.group, listener, protocol)
    }

    /// Serves one connection that the application has accepted. Sessions over HTTP are
    /// shared by all connections.
    ///
    /// # Errors
    /// The server has been shut down, the protocol is none, or the connection is not one of this machine and that was not
    /// allowed.
    pub fn serve_stream<P>(
        &self,
        stream: impl Into<AcceptedStream>,
        protocol: P,
    ) -> Result<(), Error>
    where
        P: TryInto<Protocol, Error: Into<EndpointError>>,
    {
        let protocol = protocol.try_into().map_err(Into::into)?;
        let stream = stream.into();
        self.endpoints.serve_stream(&self.group, stream, protocol)
    }

    /// Lets [`wait`](Self::wait) wait for the shutdown also while there is no connection.
    fn hold_until_shutdown(&self) {
        let guard = self.group.hold();
        tokio::spawn(async move { guard.stop.cancelled().await });
    }

    /// Returns this server as an HTTP service, to be mounted in the application's own HTTP
    /// server, with the options of [`Serve::http`].
    ///
    /// Add the domain under which clients reach it to
    /// [`Options::hosts`](crate::http::Options::hosts): a mounted service knows only
    /// `localhost`. At the end, await [`shutdown`](Self::shutdown) first and stop the HTTP
    /// server after it, since event streams stay open until then.
    ///
    /// Unlike [`Http::new`](crate::http::Http::new), it has the limits, hooks, statistics and
    /// shutdown of this server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::Error> {
    /// use caudal::{Router, Serve, ServerLimits};
    ///
    /// let server = Serve::new(Router::new().method("ping", || Ok("pong")))
    ///     .limits(ServerLimits::default().connections(100))
    ///     .await?;
    /// let service = server.http_service();
    /// // axum::Router::new().route_service("/rpc", service)
    /// # let _ = service; Ok(()) }
    /// ```
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http_service(&self) -> http::Http {
        self.endpoints.http_service(&self.group)
    }

    /// Returns the statistics of all connections, open or closed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.endpoints.with_mounted(self.group.stats())
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.group.connections()
    }

    /// Returns the number of connections that were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.group.accepted()
    }

    /// Returns a handle to each open connection.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.group.peers()
    }

    /// Stops listening, refuses new requests, lets running handlers finish, and closes every
    /// connection. Handlers have time until `limit`; with `None` they have no limit. Returns
    /// when that is done, which may take a second more: a client that still sends or reads
    /// must not lose its last reply.
    pub async fn shutdown(&self, limit: impl Into<Option<Duration>>) {
        let limit = limit.into().unwrap_or(Duration::MAX);
        self.group.shutdown(limit).await;
    }

    /// Returns when it has stopped and its last connection is closed: after
    /// [`shutdown`](Self::shutdown), or at the end of stdin.
    pub async fn wait(&self) {
        self.group.wait().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoints", &self.endpoints())
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

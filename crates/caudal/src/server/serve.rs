//! Options of a server that is about to start.

use std::future::{Future, IntoFuture};
use std::sync::Arc;

use caudal_core::{CloseReason, JsonRpcError};

use super::Server;
use super::group::ConnectionGroup;
use super::hooks::Hooks;
use super::listen::Endpoints;
use super::protocol::Protocol;
use crate::config::{Config, ServerLimits};
use crate::endpoint::{Endpoint, EndpointError};
use crate::error::Error;
#[cfg(feature = "http")]
use crate::http;
use crate::peer::Peer;
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::router::routes::Routes;
use crate::transport::{AcceptedStream, BoundListener};

/// Serves a router on an [`Endpoint`], or on its text.
///
/// Returns when it listens; [`Server::wait`] waits for its end.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::Error> {
/// use caudal::Router;
///
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// caudal::serve("tcp://127.0.0.1:4017", router).await?.wait().await;
/// # Ok(()) }
/// ```
///
/// # HTTP and WebSocket
/// `http://…` and `ws://…` make the same server: one address takes POSTs, sessions and
/// WebSockets, each if its feature is enabled. So both serve clients of `http://` and of
/// `ws://`. Two things differ: `ws://` is an error without the feature `ws`, and
/// [`Server::endpoint`] has the scheme that was given, which
/// [`connect`](crate::connect()) follows. The same holds for `https://` and `wss://`.
///
/// ```
/// # #[cfg(feature = "ws")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::Router;
///
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let server = caudal::serve("ws://127.0.0.1:0/rpc", router).await?;
/// let websocket = server.endpoint().to_string();
/// let post = websocket.replace("ws://", "http://");
/// for address in [websocket, post] {
///     let peer = caudal::connect(address).await?;
///     assert_eq!(peer.call::<i64>("add", (1, 2)).await?, 3);
/// }
/// # Ok(()) }
/// # #[cfg(not(feature = "ws"))] fn main() {}
/// ```
pub fn serve<A, S, E>(endpoint: A, router: Router<S, E>) -> Serve
where
    A: TryInto<Endpoint, Error: Into<EndpointError>>,
{
    let endpoint = endpoint.try_into().map_err(Into::into);
    Serve::from(endpoint.map(Source::Endpoint), router)
}

/// Serves a router on a socket that listens already.
///
/// [`Serve::protocol`] sets the protocol, which is JSON-RPC in lines by default. As with
/// [`serve`], a socket that other machines can reach needs
/// [`allow_remote`](Serve::allow_remote).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::Router;
///
/// let socket = std::net::TcpListener::bind("127.0.0.1:0")?; // or one of the service manager
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let server = caudal::serve_on(socket, router).await?;
/// let peer = caudal::connect(server.endpoint()).await?;
/// assert_eq!(peer.call::<i64>("add", (1, 2)).await?, 3);
/// # Ok(()) }
/// ```
pub fn serve_on<S, E>(listener: impl Into<BoundListener>, router: Router<S, E>) -> Serve {
    Serve::from(Ok(Source::Listener(listener.into())), router)
}

/// Serves a router on one connection that was accepted already.
///
/// For an accept loop, start one server with [`Serve::new`], and hand it each connection
/// with [`Server::serve_stream`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::{AcceptedStream, Router};
///
/// let (_client, stream) = tokio::io::duplex(4096);
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let server = caudal::serve_stream(AcceptedStream::new(stream), router).await?;
/// assert_eq!(server.connections(), 1);
/// # Ok(()) }
/// ```
pub fn serve_stream<S, E>(stream: impl Into<AcceptedStream>, router: Router<S, E>) -> Serve {
    Serve::from(Ok(Source::Stream(stream.into())), router)
}

/// A server that is about to start; made by [`serve`], [`serve_on`], [`serve_stream`] or
/// [`Serve::new`].
///
/// It is awaited to start the server, so all options are known before the first connection.
/// Every way to start a server makes this type, so all have the same options.
#[derive(Debug)]
#[must_use = "nothing is served until this is awaited"]
pub struct Serve {
    source: Result<Source, EndpointError>,
    protocol: Option<Result<Protocol, EndpointError>>,
    router: Routes,
    config: Config,
    limits: ServerLimits,
    allow_remote: bool,
    hooks: Hooks,
    #[cfg(feature = "http")]
    http: http::Options,
}

/// The first source of a server's connections.
#[derive(Debug)]
enum Source {
    None,
    Endpoint(Endpoint),
    Listener(BoundListener),
    Stream(AcceptedStream),
}

impl Serve {
    fn from<S, E>(source: Result<Source, EndpointError>, router: Router<S, E>) -> Self {
        Self {
            source,
            protocol: None,
            router: router.into_routes(),
            config: Config::default(),
            limits: ServerLimits::default(),
            allow_remote: false,
            hooks: Hooks::default(),
            #[cfg(feature = "http")]
            http: http::Options::default(),
        }
    }

    /// A server that does not listen: it serves the connections that are handed to
    /// [`Server::serve_stream`], and the endpoints that are added with [`Server::listen`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::{Protocol, Router, Serve};
    ///
    /// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    /// let server = Serve::new(router).await?;
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    /// # let client = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
    /// # let mut rounds = 0..1;
    /// while rounds.next().is_some() { // for ever
    ///     let (stream, remote) = listener.accept().await?;
    ///     if let Err(error) = server.serve_stream(stream, Protocol::default()) {
    ///         println!("{remote}: {error}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn new<S, E>(router: Router<S, E>) -> Self {
        Self::from(Ok(Source::None), router)
    }

    /// Sets limits, timeouts and conventions of every connection.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the limits of the server as a whole.
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the options of an HTTP server: accepted clients, limits and timeouts.
    #[cfg(feature = "http")]
    pub fn http(mut self, options: http::Options) -> Self {
        self.http = options;
        self
    }

    /// Sets the protocol on the socket of [`serve_on`] or [`serve_stream`]: a
    /// [`Framing`](crate::Framing), or a URL for HTTP. The endpoint of [`serve`] has its
    /// own.
    ///
    /// ```
    /// # #[cfg(feature = "http")]
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::Router;
    ///
    /// let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let server = caudal::serve_on(socket, Router::new())
    ///     .protocol("http://localhost/rpc")
    ///     .await?;
    /// assert!(server.endpoint().to_string().ends_with("/rpc"));
    /// # Ok(()) }
    /// # #[cfg(not(feature = "http"))] fn main() {}
    /// ```
    pub fn protocol<P>(mut self, protocol: P) -> Self
    where
        P: TryInto<Protocol, Error: Into<EndpointError>>,
    {
        self.protocol = Some(protocol.try_into().map_err(Into::into));
        self
    }

    /// Sets a function that runs when a client has connected. With an error, every request
    /// that has come is answered with it, the client is sent the error once more with the id
    /// `null`, and the connection is closed. [`Server::peers`] has accepted clients alone.
    ///
    /// The function is a barrier, as a notification is: the client's messages wait until it
    /// returns, up to [`Config::queue`]. So handlers find what it has put into
    /// [`Peer::extensions`], and a client that it refuses has run nothing. Responses pass, so
    /// the function may call the client. If the connection ends meanwhile, its future is
    /// dropped, and [`on_disconnect`](Self::on_disconnect) runs.
    ///
    /// It runs once for each connection over stdio, TCP, a Unix socket or a WebSocket, and
    /// for each session over HTTP. It does not run for a single POST, which is no
    /// connection.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::{Peer, PeerId, Router};
    /// use std::collections::HashMap;
    /// use std::sync::{Arc, Mutex};
    ///
    /// #[derive(Default)]
    /// struct Hub(Mutex<HashMap<PeerId, Peer>>);
    ///
    /// let hub = Arc::new(Hub::default());
    /// let (joined, left) = (hub.clone(), hub.clone());
    /// let server = caudal::serve("tcp://127.0.0.1:0", Router::new())
    ///     .on_connect(move |peer| {
    ///         joined.0.lock().unwrap().insert(peer.id(), peer);
    ///         async { Ok(()) }
    ///     })
    ///     .on_disconnect(move |peer, _reason| {
    ///         left.0.lock().unwrap().remove(&peer.id());
    ///         async {}
    ///     })
    ///     .await?;
    /// # let _ = server; Ok(()) }
    /// ```
    pub fn on_connect<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Peer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JsonRpcError>> + Send + 'static,
    {
        self.hooks.on_connect(hook);
        self
    }

    /// Sets a function that runs when a connection has ended, with the reason.
    ///
    /// It runs once for each connection that [`on_connect`](Self::on_connect) has not
    /// refused, after the last handler of the connection has ended, also one that goes on
    /// though it was cancelled. [`Server::shutdown`] waits for it until its limit.
    pub fn on_disconnect<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Peer, CloseReason) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.hooks.on_disconnect(hook);
        self
    }

    /// Lets other machines connect: without this only loopback addresses are
    /// served.
    pub fn allow_remote(mut self) -> Self {
        self.allow_remote = true;
        self
    }
}

impl IntoFuture for Serve {
    type Output = Result<Server, Error>;
    type IntoFuture = BoxFuture<Result<Server, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let source = self.source.map_err(EndpointError::for_server)?;
            let protocol = self.protocol.transpose()?;
            let group = ConnectionGroup::new(self.router, self.config, &self.limits, self.hooks);
            let endpoints = Endpoints::new(
                self.allow_remote,
                #[cfg(feature = "http")]
                self.http,
            );
            let server = Server {
                endpoints: Arc::new(endpoints),
                group,
            };
            match source {
                Source::None => server.hold_until_shutdown(),
                Source::Endpoint(endpoint) if protocol.is_some() => {
                    return Err(Error::Unsupported {
                        endpoint: Box::new(endpoint),
                        verb: "served with another protocol",
                        hint: "its address names the protocol; `protocol` is for sockets",
                    });
                }
                Source::Endpoint(endpoint) => drop(server.listen(endpoint).await?),
                Source::Listener(listener) => {
                    server.listen_on(listener, protocol.unwrap_or_default())?;
                }
                Source::Stream(stream) => {
                    server.serve_stream(stream, protocol.unwrap_or_default())?;
                }
            }
            Ok(server)
        })
    }
}

//! A server: a peer for each connection that comes in.

pub(crate) mod group;
pub(crate) mod hooks;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CloseReason, Framing, JsonRpcError};

use self::group::{ConnectionGroup, GroupGuard};
use self::hooks::Hooks;
#[cfg(feature = "http")]
use super::http;
use super::transport;
use crate::config::Config;
use crate::connection::incomplete::Share;
use crate::endpoint::{Address, Endpoint, EndpointError};
use crate::error::Error;
use crate::observe::stats::Stats;
use crate::peer::Peer;
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::router::routes::Routes;
use crate::transport::Listener;

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
pub fn serve<A, S, E>(endpoint: A, router: Router<S, E>) -> Serve
where
    A: TryInto<Endpoint, Error: Into<EndpointError>>,
{
    Serve {
        endpoint: endpoint.try_into().map_err(Into::into),
        router: router.into_routes(),
        config: Config::default(),
        allow_remote: false,
        hooks: Hooks::default(),
        #[cfg(feature = "http")]
        http: http::Options::default(),
    }
}

/// A server that is about to listen; made by [`serve`].
#[derive(Debug)]
#[must_use = "nothing is served until this is awaited"]
pub struct Serve {
    endpoint: Result<Endpoint, EndpointError>,
    router: Routes,
    config: Config,
    allow_remote: bool,
    hooks: Hooks,
    #[cfg(feature = "http")]
    http: http::Options,
}

impl Serve {
    /// Limits, timeouts and conventions of every connection.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the options of an HTTP server: accepted clients, limits and timeouts.
    #[cfg(feature = "http")]
    pub fn http(mut self, options: http::Options) -> Self {
        self.http = options;
        self
    }

    /// Sets a function that runs when a client has connected. No message of the client is
    /// run before the function returns. With an error, the client is sent that error with
    /// the id `null`, and the connection is closed.
    ///
    /// It runs once for each connection over stdio, TCP, a Unix socket or a WebSocket, and
    /// for each session over HTTP. It does not run for a single POST, which is no
    /// connection. It may call the client.
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
    /// It runs once for each connection that [`on_connect`](Self::on_connect) has accepted,
    /// after the last handler of the connection has ended, also one that goes on though it
    /// was cancelled. [`Server::shutdown`] waits for it.
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
            let endpoint = self.endpoint.map_err(EndpointError::for_server)?;
            if !self.allow_remote && !endpoint.is_loopback() {
                let endpoint = Box::new(endpoint);
                return Err(Error::NotLoopback { endpoint });
            }
            let hub = ConnectionGroup::new(self.router, self.config, self.hooks);
            #[cfg(feature = "http")]
            if let Address::Http { .. } | Address::WebSocket { .. } = endpoint.address() {
                if !cfg!(feature = "ws") && matches!(endpoint.address(), Address::WebSocket { .. })
                {
                    return Err(Error::not_built_in(&endpoint, "served"));
                }
                return listen_http(endpoint, hub, self.http).await;
            }
            listen(endpoint, hub).await
        })
    }
}

async fn listen(endpoint: Endpoint, hub: Arc<ConnectionGroup>) -> Result<Server, Error> {
    let failed = |cause| Error::Listen {
        endpoint: Box::new(endpoint.clone()),
        cause,
    };
    let framing = endpoint.framing();
    let max_message = hub.config.policy.max_message;
    let (local, listener) = match endpoint.address() {
        Address::Stdio => {
            let stdio = transport::stdio(framing, max_message).map_err(failed)?;
            let share = Share::of_connection(&hub.incomplete);
            hub.start(Box::new(stdio.with_share(share)));
            return Ok(Server::new(endpoint, hub));
        }
        Address::Tcp { host, port } => {
            let listener = Listener::tcp(host, *port).await.map_err(failed)?;
            let port = listener.port().unwrap_or(*port);
            (Endpoint::tcp(host, port).with_framing(framing), listener)
        }
        Address::Unix { path } => {
            let listener = Listener::unix(path).map_err(failed)?;
            (endpoint.clone(), listener)
        }
        Address::Command { .. } => {
            return Err(Error::Unsupported {
                endpoint: Box::new(endpoint),
                verb: "served",
                hint: "a program is connected to, with `connect`",
            });
        }
        _ => return Err(Error::not_built_in(&endpoint, "served")),
    };
    tokio::spawn(accept(hub.hold(), listener, framing));
    Ok(Server::new(local, hub))
}

#[cfg(feature = "http")]
async fn listen_http(
    endpoint: Endpoint,
    hub: Arc<ConnectionGroup>,
    options: http::Options,
) -> Result<Server, Error> {
    let failed = |cause| Error::Listen {
        endpoint: Box::new(endpoint.clone()),
        cause,
    };
    let Some(target) = endpoint.target() else {
        unreachable!("this is called for URLs only");
    };
    let listener = http::Listener::bind(&target, &hub, options).await;
    let listener = listener.map_err(failed)?;
    let port = listener.port().map_err(failed)?;
    tokio::spawn(listener.run(hub.hold()));
    let endpoint = endpoint.with_port(port);
    Ok(Server::new(endpoint, hub))
}

/// Accepts connections until the server stops.
async fn accept(hub: GroupGuard, listener: Listener, framing: Framing) {
    let limit = hub.config.policy.max_message;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(framing, limit, Share::of_connection(&hub.incomplete)) => accepted,
            () = hub.stop.cancelled() => break,
        };
        match accepted {
            Ok(transport) if hub.has_room() => drop(hub.start(transport)),
            Ok(transport) => hub.refuse(transport),
            Err(error) => transport::accept_failed(&error).await,
        }
    }
}

/// A server that listens.
///
/// Cheap to clone. Dropping it changes nothing: the server goes on until
/// [`shutdown`](Self::shutdown), or the end of the runtime.
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
    endpoint: Arc<Endpoint>,
    hub: Arc<ConnectionGroup>,
}

impl Server {
    fn new(endpoint: Endpoint, hub: Arc<ConnectionGroup>) -> Self {
        let endpoint = Arc::new(endpoint);
        Self { endpoint, hub }
    }

    /// Returns the endpoint on which the server listens, with the port that the system chose.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the statistics of all connections, open or closed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.hub.stats()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.hub.connections()
    }

    /// Returns the number of connections that were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.hub.accepted()
    }

    /// Returns a handle to each open connection.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.hub.peers()
    }

    /// Stops listening, refuses new requests, lets what runs finish until
    /// `limit`, and closes every connection. Returns when that is done, which may take a
    /// second more: a client that still sends or reads must not lose its last answer.
    pub async fn shutdown(&self, limit: Duration) {
        self.hub.shutdown(limit).await;
    }

    /// Returns when it has stopped and its last connection is closed: after
    /// [`shutdown`](Self::shutdown), or at the end of stdin.
    pub async fn wait(&self) {
        self.hub.wait().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.endpoint)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

//! A server: a peer for each connection that comes in.

pub(crate) mod group;

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::Framing;

use self::group::{ConnectionGroup, GroupGuard};
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
            #[cfg(feature = "http")]
            if let Address::Http { .. } | Address::WebSocket { .. } = endpoint.address() {
                if !cfg!(feature = "ws") && matches!(endpoint.address(), Address::WebSocket { .. })
                {
                    return Err(Error::not_built_in(&endpoint, "served"));
                }
                return listen_http(endpoint, self.router, self.config, self.http).await;
            }
            listen(endpoint, self.router, self.config).await
        })
    }
}

async fn listen(endpoint: Endpoint, router: Routes, config: Config) -> Result<Server, Error> {
    let failed = |cause| Error::Listen {
        endpoint: Box::new(endpoint.clone()),
        cause,
    };
    let framing = endpoint.framing();
    let max_message = config.policy.max_message;
    let (local, listener) = match endpoint.address() {
        Address::Stdio => {
            let stdio = transport::stdio(framing, max_message).map_err(failed)?;
            let hub = ConnectionGroup::new(router, config);
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
    let hub = ConnectionGroup::new(router, config);
    tokio::spawn(accept(hub.hold(), listener, framing));
    Ok(Server::new(local, hub))
}

#[cfg(feature = "http")]
async fn listen_http(
    endpoint: Endpoint,
    router: Routes,
    config: Config,
    options: http::Options,
) -> Result<Server, Error> {
    let hub = ConnectionGroup::new(router, config);
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

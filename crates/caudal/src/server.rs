//! A server: a peer for each connection that comes in.

use std::fmt;
use std::future::IntoFuture;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use slab::Slab;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::endpoint::{Address, Endpoint, EndpointError};
use crate::error::Error;
use crate::handler::BoxFuture;
use crate::peer::{self, Link, Order, Peer};
use crate::router::Router;
use crate::stats::Stats;
use crate::time::after;
use crate::transport::{self, Listener, Transport};

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
pub fn serve<E>(endpoint: E, router: Router) -> Serve
where
    E: TryInto<Endpoint, Error: Into<EndpointError>>,
{
    Serve {
        endpoint: endpoint.try_into().map_err(Into::into),
        router,
        config: Config::default(),
        allow_remote: false,
    }
}

/// A server that is about to listen; made by [`serve`].
#[derive(Debug)]
#[must_use = "nothing is served until this is awaited"]
pub struct Serve {
    endpoint: Result<Endpoint, EndpointError>,
    router: Router,
    config: Config,
    allow_remote: bool,
}

impl Serve {
    /// Limits, timeouts and conventions of every connection.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
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
            let endpoint = self.endpoint?;
            if !self.allow_remote && !endpoint.is_loopback() {
                let endpoint = Box::new(endpoint);
                return Err(Error::NotLoopback { endpoint });
            }
            listen(endpoint, self.router, self.config).await
        })
    }
}

async fn listen(endpoint: Endpoint, router: Router, config: Config) -> Result<Server, Error> {
    let failed = |cause| Error::Listen {
        endpoint: Box::new(endpoint.clone()),
        cause,
    };
    let framing = endpoint.framing();
    let max_message = config.policy.max_message;
    let (local, listener) = match endpoint.address() {
        Address::Stdio => {
            let stdio = transport::stdio(framing, max_message).map_err(failed)?;
            let inner = Inner::new(endpoint, router, config, false);
            inner.start(stdio);
            return Ok(Server(inner));
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
        _ => {
            return Err(Error::Unsupported {
                endpoint: Box::new(endpoint),
                verb: "served",
                hint: "this transport is not built in",
            });
        }
    };
    let inner = Inner::new(local, router, config, true);
    tokio::spawn(accept(Arc::clone(&inner), listener));
    Ok(Server(inner))
}

/// Takes connections in until it is told to stop.
async fn accept(inner: Arc<Inner>, listener: Listener) {
    let (framing, limit) = (inner.endpoint.framing(), inner.config.policy.max_message);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(framing, limit) => accepted,
            () = inner.stop.cancelled() => break,
        };
        match accepted {
            Ok(transport) if inner.has_room() => inner.start(transport),
            Ok(_) => tracing::warn!(target: "caudal", "a connection was refused: too many"),
            Err(error) => {
                // Out of descriptors, perhaps: what is connected goes on.
                tracing::warn!(target: "caudal", %error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    drop(listener);
    inner.listening.store(false, Ordering::Release);
    inner.update();
}

/// A server that listens.
///
/// Cheap to clone. Dropping it changes nothing: the server goes on until
/// [`shutdown`](Self::shutdown), or the end of the runtime.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    router: Arc<Router>,
    config: Arc<Config>,
    stop: CancellationToken,
    connections: Mutex<Connections>,
    listening: AtomicBool,
    /// How many connections there are, and one more while it listens; none is the
    /// end.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Connections {
    open: Slab<Arc<Link>>,
    /// What the closed ones have done.
    past: Stats,
    accepted: u64,
}

impl Server {
    /// Where it listens, with the port that the system chose.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// What all its connections, open or closed, have done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let connections = self.0.lock();
        let mut stats = connections.past;
        for (_, link) in &connections.open {
            stats.add(&link.stats());
        }
        stats
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.lock().open.len()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.lock().accepted
    }

    /// A handle to each open connection, to call or notify them all.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let connections = self.0.lock();
        let open = connections.open.iter();
        open.map(|(_, link)| Peer::of(link)).collect()
    }

    /// Stops listening, refuses new requests, lets what runs finish until
    /// `limit`, and closes every connection. Returns when that is done.
    pub async fn shutdown(&self, limit: Duration) {
        self.0.stop.cancel();
        let deadline = after(Instant::now(), limit);
        for peer in self.peers() {
            peer.link().order(Order::Drain(deadline));
        }
        self.wait().await;
    }

    /// Returns when it has stopped and its last connection is closed: after
    /// [`shutdown`](Self::shutdown), or at the end of stdin.
    pub async fn wait(&self) {
        let mut count = self.0.count.subscribe();
        // The sender is in `self`.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

impl Inner {
    fn new(endpoint: Endpoint, router: Router, config: Config, listening: bool) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            router: Arc::new(router),
            config: Arc::new(config),
            stop: CancellationToken::new(),
            connections: Mutex::default(),
            listening: AtomicBool::new(listening),
            count: watch::Sender::new(usize::from(listening)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn has_room(&self) -> bool {
        self.lock().open.len() < self.config.limits.connections
    }

    fn start(self: &Arc<Self>, transport: impl Transport) {
        let inner = Arc::clone(self);
        let attend = move |link: &Arc<Link>| {
            let mut connections = inner.lock();
            connections.accepted += 1;
            let key = connections.open.insert(Arc::clone(link));
            drop(connections);
            inner.update();
            move || {
                let mut connections = inner.lock();
                let stats = connections.open.remove(key).stats();
                connections.past.add(&stats);
                (connections.past.in_flight, connections.past.pending) = (0, 0);
                drop(connections);
                inner.update();
            }
        };
        let router = Arc::clone(&self.router);
        let config = Arc::clone(&self.config);
        let link = peer::start(transport, router, config, None, attend);
        if self.stop.is_cancelled() {
            link.order(Order::Drain(Instant::now()));
        }
    }

    fn update(&self) {
        let connections = self.lock();
        let listening = self.listening.load(Ordering::Acquire);
        self.count
            .send_replace(connections.open.len() + usize::from(listening));
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("endpoint", &self.0.endpoint)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

//! The connections of one server: what they share, and how they end together.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use slab::Slab;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::extensions::Extensions;
use crate::incomplete::Incomplete;
use crate::peer::{self, Link, Order, Peer};
use crate::router::Router;
use crate::stats::Stats;
use crate::time::after;
use crate::transport::Transport;

/// What serves many connections.
pub(crate) struct Hub {
    pub(crate) router: Arc<Router>,
    pub(crate) config: Arc<Config>,
    /// Fires when nothing new is taken in.
    pub(crate) stop: CancellationToken,
    /// Whether it has fired, for those who ask often.
    stopping: AtomicBool,
    /// Whether a connection was refused since the last that was not.
    refused: AtomicBool,
    /// By when what still runs is to end, once that is known.
    deadline: Mutex<Option<Instant>>,
    connections: Mutex<Connections>,
    /// Memory of the messages that are coming in.
    pub(crate) incomplete: Arc<Incomplete>,
    /// How much there is that [`wait`](Self::wait) waits for.
    held: watch::Sender<usize>,
}

#[derive(Default)]
struct Connections {
    open: Slab<Arc<Link>>,
    /// What the closed ones have done.
    past: Stats,
    accepted: u64,
}

/// Something that is not over yet.
pub(crate) struct Held(Arc<Hub>);

impl std::ops::Deref for Held {
    type Target = Arc<Hub>;

    fn deref(&self) -> &Arc<Hub> {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held -= 1);
    }
}

/// A connection that is counted.
pub(crate) struct Attended(Held, usize);

impl Attended {
    #[cfg(feature = "http")]
    pub(crate) fn hub(&self) -> &Hub {
        &self.0
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let Self(hub, key) = self;
        let mut connections = hub.lock();
        let stats = connections.open.remove(*key).stats();
        connections.past.add(&stats);
        (connections.past.in_flight, connections.past.pending) = (0, 0);
    }
}

impl Hub {
    pub(crate) fn new(mut router: Router, config: Config) -> Arc<Self> {
        // What it serves elsewhere is bounded there.
        router.outliving = Arc::default();
        Arc::new(Self {
            router: Arc::new(router),
            incomplete: Incomplete::new(config.limits.incomplete),
            config: Arc::new(config),
            stop: CancellationToken::new(),
            stopping: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            deadline: Mutex::default(),
            connections: Mutex::default(),
            held: watch::Sender::new(0),
        })
    }

    /// Lets [`wait`](Self::wait) wait until what is returned is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        self.held.send_modify(|held| *held += 1);
        Held(Arc::clone(self))
    }

    /// Runs a connection in a task of its own.
    pub(crate) fn start(self: &Arc<Self>, transport: Box<dyn Transport>) -> Arc<Link> {
        self.start_with(transport, Extensions::default())
    }

    /// The same with values that travel with the connection.
    pub(crate) fn start_with(
        self: &Arc<Self>,
        transport: Box<dyn Transport>,
        extensions: Extensions,
    ) -> Arc<Link> {
        let attend = |link: &Arc<Link>| Some(self.attend(link));
        let router = Arc::clone(&self.router);
        let config = Arc::clone(&self.config);
        let link = peer::start(transport, router, config, None, extensions, attend);
        if self.stop.is_cancelled() {
            link.order(Order::Drain(self.deadline()));
        }
        link
    }

    /// Counts a connection until what is returned is dropped.
    pub(crate) fn attend(self: &Arc<Self>, link: &Arc<Link>) -> Attended {
        self.refused.store(false, Relaxed);
        let mut connections = self.lock();
        connections.accepted += 1;
        let key = connections.open.insert(Arc::clone(link));
        drop(connections);
        Attended(self.hold(), key)
    }

    #[cfg(feature = "http")]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Logs that a connection was refused: the first of many aloud, since anybody can make
    /// more of them.
    pub(crate) fn log_refused(&self, remote: Option<SocketAddr>) {
        let why = "a connection was refused: too many";
        match self.refused.swap(true, Relaxed) {
            false => tracing::warn!(target: "caudal", ?remote, "{why}"),
            true => tracing::debug!(target: "caudal", ?remote, "{why}"),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.lock().open.len() < self.config.limits.connections
    }

    pub(crate) fn stats(&self) -> Stats {
        let connections = self.lock();
        let mut stats = connections.past;
        for (_, link) in &connections.open {
            stats.add(&link.stats());
        }
        stats
    }

    pub(crate) fn connections(&self) -> usize {
        self.lock().open.len()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.lock().accepted
    }

    pub(crate) fn peers(&self) -> Vec<Peer> {
        let connections = self.lock();
        let open = connections.open.iter().map(|(_, link)| link);
        // Those of single POSTs lead nowhere.
        let open = open.filter(|link| !link.is_over());
        open.map(Peer::of).collect()
    }

    /// Takes nothing new in, and ends what there is: when it is done, or at the
    /// limit.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        let deadline = after(Instant::now(), limit);
        *lock(&self.deadline) = Some(deadline);
        self.stopping.store(true, Relaxed);
        self.stop.cancel();
        for peer in self.peers() {
            peer.link().order(Order::Drain(deadline));
        }
        self.wait().await;
    }

    /// By when all is to end, if it is to end.
    pub(crate) fn deadline(&self) -> Instant {
        lock(&self.deadline).unwrap_or_else(Instant::now)
    }

    /// Returns when nothing is held any more.
    pub(crate) async fn wait(&self) {
        let mut held = self.held.subscribe();
        // The sender is in `self`.
        let _ = held.wait_for(|held| *held == 0).await;
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        lock(&self.connections)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

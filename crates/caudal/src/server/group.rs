//! The connections of one server: what they share, and how they end together.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, ErrorDetail, Id, JsonRpcError, encode};
use slab::Slab;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::hooks::{ConnectionHooks, Hooks};
use crate::call::Caller;
#[cfg(feature = "http")]
use crate::call::lone::LoneOrigin;
use crate::config::{Config, ServerLimits};
use crate::connection::deadline::after;
use crate::connection::incomplete::Incomplete;
use crate::connection::{self, Command, Connection};
use crate::extensions::Extensions;
use crate::observe::stats::Stats;
use crate::peer::Peer;
use crate::router::routes::Routes;
use crate::transport::Transport;

/// Maximum number of refused connections that are sent the reason at one time.
const TOLD: usize = 64;
/// Maximum time to send one of them the reason.
const TELLING: Duration = Duration::from_secs(2);

/// The state that all connections of one server share.
pub(crate) struct ConnectionGroup {
    pub(crate) router: Arc<Routes>,
    pub(crate) config: Arc<Config>,
    hooks: Hooks,
    pub(crate) max_connections: usize,
    /// Cancelled when the server stops accepting new requests.
    pub(crate) stop: CancellationToken,
    /// True if `stop` is cancelled. It is cheaper to read than the token.
    stopping: AtomicBool,
    /// True if a connection was refused since the last one that was accepted.
    refused: AtomicBool,
    /// Permits for refused connections that are being sent the reason.
    telling: Arc<Semaphore>,
    /// Deadline for everything that still runs, once the server is shutting down.
    deadline: Mutex<Option<Instant>>,
    connections: Mutex<Connections>,
    /// Memory of messages that are not complete yet.
    pub(crate) incomplete: Arc<Incomplete>,
    /// Number of guards that [`wait`](Self::wait) waits for.
    held: watch::Sender<usize>,
}

#[derive(Default)]
struct Connections {
    open: Slab<Member>,
    /// Statistics of the closed connections.
    past: Stats,
    accepted: u64,
}

/// A member of the group.
pub(crate) enum Member {
    Connection(Arc<Connection>),
    /// An HTTP connection, as far as it carries lone messages.
    #[cfg(feature = "http")]
    Lone(Arc<LoneOrigin>),
}

impl Member {
    fn stats(&self) -> Stats {
        match self {
            Self::Connection(connection) => connection.stats(),
            #[cfg(feature = "http")]
            Self::Lone(origin) => origin.stats(),
        }
    }
}

/// Keeps [`ConnectionGroup::wait`] waiting until it is dropped.
pub(crate) struct GroupGuard(Arc<ConnectionGroup>);

impl std::ops::Deref for GroupGuard {
    type Target = Arc<ConnectionGroup>;

    fn deref(&self) -> &Arc<ConnectionGroup> {
        &self.0
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.0.held.send_modify(|held| *held -= 1);
    }
}

/// A connection that is counted.
pub(crate) struct Membership(GroupGuard, usize);

impl Membership {
    /// Runs the hook for a connection that begins.
    pub(crate) fn connect(&self, connection: &Arc<Connection>) -> Option<ConnectionHooks> {
        self.0.hooks.connect(connection, || self.0.hold())
    }

    #[cfg(feature = "http")]
    pub(crate) fn hub(&self) -> &ConnectionGroup {
        &self.0
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let Self(hub, key) = self;
        let mut connections = hub.lock();
        let member = connections.open.remove(*key);
        connections.past.add(&member.stats());
        (connections.past.in_flight, connections.past.pending) = (0, 0);
        drop(connections);
        // Values of the application are dropped with it, without the lock.
        drop(member);
    }
}

impl ConnectionGroup {
    pub(crate) fn new(
        mut router: Routes,
        config: Config,
        limits: &ServerLimits,
        hooks: Hooks,
    ) -> Arc<Self> {
        // What it serves elsewhere is bounded there.
        router.detached = Arc::default();
        Arc::new(Self {
            router: Arc::new(router),
            incomplete: Incomplete::new(limits.incomplete),
            max_connections: limits.connections,
            config: Arc::new(config),
            hooks,
            stop: CancellationToken::new(),
            stopping: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            telling: Arc::new(Semaphore::new(TOLD)),
            deadline: Mutex::default(),
            connections: Mutex::default(),
            held: watch::Sender::new(0),
        })
    }

    /// Lets [`wait`](Self::wait) wait until what is returned is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> GroupGuard {
        self.held.send_modify(|held| *held += 1);
        GroupGuard(Arc::clone(self))
    }

    /// Runs a connection in a task of its own.
    pub(crate) fn start(self: &Arc<Self>, transport: Box<dyn Transport>) -> Arc<Connection> {
        self.start_with(transport, Extensions::default())
    }

    /// The same with values that travel with the connection.
    pub(crate) fn start_with(
        self: &Arc<Self>,
        transport: Box<dyn Transport>,
        extensions: Extensions,
    ) -> Arc<Connection> {
        let join = |connection: &Arc<Connection>| {
            Some(self.join(Member::Connection(Arc::clone(connection))))
        };
        let router = Arc::clone(&self.router);
        let config = Arc::clone(&self.config);
        let connection = connection::start(transport, router, config, None, extensions, join);
        if self.stop.is_cancelled() {
            connection.command(Command::Drain(self.deadline()));
        }
        connection
    }

    /// Counts a connection until what is returned is dropped.
    pub(crate) fn join(self: &Arc<Self>, member: Member) -> Membership {
        self.refused.store(false, Relaxed);
        let mut connections = self.lock();
        connections.accepted += 1;
        let key = connections.open.insert(member);
        drop(connections);
        Membership(self.hold(), key)
    }

    #[cfg(feature = "http")]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Logs that a connection was refused. Only the first of several refusals in a row is a
    /// warning, because any client can cause more of them.
    pub(crate) fn log_refused(&self, remote: Option<SocketAddr>, reason: &str) {
        match self.refused.swap(true, Relaxed) {
            false => tracing::warn!(target: "caudal", ?remote, reason, "a connection was refused"),
            true => tracing::debug!(target: "caudal", ?remote, reason, "a connection was refused"),
        }
    }

    /// The reason why there is no room for a connection.
    pub(crate) fn full(&self) -> String {
        let limit = self.max_connections;
        format!("connections are limited to {limit} in all")
    }

    /// Runs a future that sends a refused client the reason, for [`TELLING`] at most. If
    /// [`TOLD`] of them run already, the future is dropped: refusals are bounded, too.
    pub(crate) fn tell_refused(&self, telling: impl Future<Output = ()> + Send + 'static) {
        let Ok(place) = Arc::clone(&self.telling).try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            let _ = timeout(TELLING, telling).await;
            drop(place);
        });
    }

    /// Refuses a connection beyond the limit, and sends its client the reason.
    pub(crate) fn refuse(&self, mut transport: Box<dyn Transport>) {
        let reason = self.full();
        self.log_refused(None, &reason);
        let mut error = JsonRpcError::new(-32_000, "Server overloaded");
        if self.config.policy.error_detail == ErrorDetail::Full {
            error = error.and_data(serde_json::json!({ "reason": reason }));
        }
        let mut out = BytesMut::new();
        let framing = transport.info().framing;
        let _ = framing.write(&mut out, |out| {
            encode::error(out, Id::NULL, &error);
            Ok::<_, Infallible>(())
        });
        self.tell_refused(async move {
            let _ = poll_fn(|cx| transport.poll_send(cx, &mut out)).await;
            let reason = CloseReason::local();
            poll_fn(|cx| transport.poll_close(cx, &reason)).await;
        });
    }

    pub(crate) fn has_room(&self) -> bool {
        self.lock().open.len() < self.max_connections
    }

    pub(crate) fn stats(&self) -> Stats {
        let connections = self.lock();
        let mut stats = connections.past;
        for (_, member) in &connections.open {
            stats.add(&member.stats());
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
        let open = connections
            .open
            .iter()
            .filter_map(|(_, member)| match member {
                Member::Connection(connection)
                    if connection.is_accepted() && !connection.is_closed() =>
                {
                    Some(Peer::of(Caller::Connection(Arc::clone(connection))))
                }
                _ => None,
            });
        open.collect()
    }

    /// Stops accepting requests, and closes each connection when its requests have finished,
    /// or at the limit.
    pub(crate) async fn shutdown(&self, limit: Duration) {
        let deadline = after(Instant::now(), limit);
        self.shorten_deadline(deadline);
        self.stopping.store(true, Relaxed);
        self.stop.cancel();
        for (_, member) in &self.lock().open {
            match member {
                Member::Connection(connection) => connection.command(Command::Drain(deadline)),
                #[cfg(feature = "http")]
                Member::Lone(_) => {}
            }
        }
        self.wait().await;
    }

    /// Sets the deadline of the shutdown; of several, the earliest counts.
    fn shorten_deadline(&self, deadline: Instant) {
        let mut earliest = lock(&self.deadline);
        *earliest = Some(earliest.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// Returns the deadline of the shutdown, or now if there is none.
    pub(crate) fn deadline(&self) -> Instant {
        lock(&self.deadline).unwrap_or_else(Instant::now)
    }

    /// Waits until all guards are dropped.
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

//! The life of a connection: start, run, end, and reconnection if configured.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use caudal_core::CloseReason;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::Connection;
use super::shutdown::Unsent;
use super::task::ConnectionTask;
use crate::call::Caller;
use crate::config::Config;
use crate::extensions::Extensions;
use crate::peer::{Backoff, ConnectionGap, ConnectionState, Peer};
use crate::router::handler::BoxFuture;
use crate::router::routes::Routes;
use crate::server::group::Membership;
use crate::server::hooks::ConnectionHooks;
use crate::transport::Transport;

/// Function that opens a new transport.
pub(crate) type Connector =
    Box<dyn FnMut() -> BoxFuture<Result<Box<dyn Transport>, crate::Error>> + Send>;
/// Function of the application that runs after every reconnection.
pub(crate) type OnReconnect = Arc<dyn Fn(Peer, ConnectionGap) -> BoxFuture<()> + Send + Sync>;

/// Settings for reconnection.
pub(crate) struct Reconnect {
    pub(crate) backoff: Backoff,
    pub(crate) connect: Connector,
    pub(crate) on_reconnect: Option<OnReconnect>,
}

/// Runs a connection in a task of its own.
///
/// `join` sees the connection before its task begins, and its result is dropped when the
/// connection has ended.
#[track_caller]
pub(crate) fn start(
    transport: Box<dyn Transport>,
    router: Arc<Routes>,
    config: Arc<Config>,
    reconnect: Option<Reconnect>,
    extensions: Extensions,
    join: impl FnOnce(&Arc<Connection>) -> Option<Membership>,
) -> Arc<Connection> {
    let info = transport.info();
    let connection = Arc::new(Connection::new(
        config,
        info.framing,
        reconnect.is_some(),
        extensions,
        info.remote,
    ));
    if let Some(bytes) = info.output {
        connection.sender.lower_limit(bytes);
    }
    let span = tracing::info_span!(
        target: "caudal",
        "connection",
        remote = connection.remote.as_deref(),
    );
    let membership = join(&connection);
    let end = EndGuard {
        connection: Arc::clone(&connection),
        hooks: membership
            .as_ref()
            .and_then(|membership| span.in_scope(|| membership.connect(&connection)))
            .map(Box::new),
        membership,
    };
    let task = ConnectionTask::new(transport, Arc::clone(&connection), router);
    let run = async move {
        // Dropped after all else.
        let mut end = end;
        run(task, reconnect.map(Box::new)).await;
        // Its place is free for another connection.
        end.membership = None;
        if let Some(hooks) = end.hooks.take() {
            Box::pin(hooks.disconnect()).await;
        }
    };
    tokio::spawn(tracing::Instrument::instrument(run, span));
    connection
}

/// Announces the end of the connection when its task ends, also by a panic or by the end of
/// the runtime.
struct EndGuard {
    connection: Arc<Connection>,
    /// `None` when the disconnect hook has begun to run.
    hooks: Option<Box<ConnectionHooks>>,
    /// Dropped after that.
    membership: Option<Membership>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.connection.close(CloseReason::failed(Aborted));
        self.connection.announce_closed(None);
        if let (Some(hooks), Ok(runtime)) = (self.hooks.take(), Handle::try_current()) {
            runtime.spawn(hooks.disconnect());
        }
    }
}

/// Reason of a connection whose task was dropped or has panicked.
#[derive(Debug, thiserror::Error)]
#[error("the task of the connection was aborted")]
struct Aborted;

/// Runs a connection until it ends, and reconnects if that is configured.
async fn run(mut task: ConnectionTask, reconnect: Option<Box<Reconnect>>) {
    let reason = (&mut task).await;
    // Boxed, so that an idle connection holds no memory for it.
    Box::pin(after_first(task, reason, reconnect)).await;
}

/// Ends the first connection, and reconnects if that is configured.
async fn after_first(task: ConnectionTask, reason: CloseReason, reconnect: Option<Box<Reconnect>>) {
    let (connection, router) = (Arc::clone(task.connection()), Arc::clone(task.router()));
    let (mut reason, mut better) = end(task, reason).await;
    if let Some(mut reconnect) = reconnect {
        let mut delays = reconnect.backoff.delays();
        let mut received_before = 0;
        while !reason.is_local() {
            let lost = Instant::now();
            let failed = connection.interrupt(&reason.clone().temporary());
            // The delays start again only if something was received since.
            let received = connection.stats().bytes_received;
            if received > std::mem::replace(&mut received_before, received) {
                delays = reconnect.backoff.delays();
            }
            match connect_again(&connection, &mut reconnect, &mut delays, reason).await {
                Ok((transport, attempts)) => {
                    connection.set_state(ConnectionState::Connected);
                    let gap = ConnectionGap {
                        lasted: lost.elapsed(),
                        attempts,
                        failed,
                    };
                    tracing::info!(target: "caudal", ?gap, "connected again");
                    if let Some(on_reconnect) = &reconnect.on_reconnect {
                        let caller = Caller::Connection(Arc::clone(&connection));
                        let (on_reconnect, peer) = (Arc::clone(on_reconnect), Peer::of(caller));
                        // The function may panic even before its first await.
                        tokio::spawn(async move { on_reconnect(peer, gap).await });
                    }
                    let (connection, router) = (Arc::clone(&connection), Arc::clone(&router));
                    let mut task = ConnectionTask::new(transport, connection, router);
                    reason = (&mut task).await;
                    (reason, better) = end(task, reason).await;
                }
                Err(end) => {
                    (reason, better) = (end, None);
                    break;
                }
            }
        }
    }
    tracing::debug!(target: "caudal", %reason, "closed");
    let local = reason.is_local();
    if connection.close(reason) && local {
        better.get_or_insert_with(Unsent::reason);
    }
    connection.announce_closed(better);
}

/// Closes the transport of a connection that has ended. If this side has ended it, a more
/// exact reason may be found: messages were left unsent, or the transport reports one.
async fn end(task: ConnectionTask, reason: CloseReason) -> (CloseReason, Option<CloseReason>) {
    let connection = Arc::clone(task.connection());
    let (mut transport, mut unsent) = task.end();
    let reconnects = connection.sender.reconnects() && !reason.is_local();
    if !reconnects {
        // Callers must not wait for the transport to close.
        connection.set_state(ConnectionState::Draining);
        if connection.close(reason.clone()) {
            unsent.get_or_insert_with(Unsent::reason);
        }
    }
    let limit = transport.info().close_timeout;
    let why = reason.clone();
    let close = async move { timeout(limit, poll_fn(|cx| transport.poll_close(cx, &why))).await };
    if reconnects {
        // The next connection need not wait for the end of this one.
        tokio::spawn(close);
        return (reason, None);
    }
    let closed = close.await;
    let better = match closed {
        _ if unsent.is_some() => unsent,
        Ok(better) => better,
        Err(_) => Some(Unsent::reason()),
    };
    let better = better.filter(|_| reason.is_local());
    (reason, better)
}

/// Tries to connect until it succeeds, is told to stop, or has no attempt left.
async fn connect_again(
    connection: &Connection,
    reconnect: &mut Reconnect,
    delays: &mut impl Iterator<Item = Duration>,
    lost: CloseReason,
) -> Result<(Box<dyn Transport>, u32), CloseReason> {
    let mut end = lost;
    let mut attempts = 0;
    for delay in delays {
        unless_closed(connection, sleep(delay)).await?;
        attempts += 1;
        match unless_closed(connection, (reconnect.connect)()).await? {
            Ok(transport) => return Ok((transport, attempts)),
            Err(error) => {
                tracing::debug!(target: "caudal", %error, attempts, "not connected");
                let recoverable = error.is_recoverable();
                end = CloseReason::failed(error);
                if !recoverable {
                    break;
                }
            }
        }
    }
    Err(end)
}

/// Waits for `work`, unless the connection is to be closed meanwhile; calls
/// whose time is up fail meanwhile too.
async fn unless_closed<F: Future>(
    connection: &Connection,
    work: F,
) -> Result<F::Output, CloseReason> {
    let mut work = std::pin::pin!(work);
    let mut timer = std::pin::pin!(sleep(Duration::ZERO));
    poll_fn(|cx| {
        connection.signal.set_task(cx.waker());
        loop {
            let input = connection.sender.look();
            if input.command.is_some() {
                return Poll::Ready(Err(CloseReason::local()));
            }
            let Some(deadline) = input.next_deadline else {
                break;
            };
            timer.as_mut().reset(deadline);
            if timer.as_mut().poll(cx).is_pending() {
                break;
            }
            connection.sender.expire();
        }
        work.as_mut().poll(cx).map(Ok)
    })
    .await
}

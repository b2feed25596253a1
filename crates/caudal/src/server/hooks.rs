//! Functions of the application that run when a client connects or disconnects.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CloseReason, JsonRpcError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::group::GroupGuard;
use crate::call::{Caller, incident};
use crate::connection::{Command, Connection};
use crate::peer::{ConnectionState, Peer};
use crate::router::handler::BoxFuture;

type OnConnect = Arc<dyn Fn(Peer) -> BoxFuture<Result<(), JsonRpcError>> + Send + Sync>;
type OnDisconnect = Arc<dyn Fn(Peer, CloseReason) -> BoxFuture<()> + Send + Sync>;

/// Maximum time for the replies to a client that is refused.
const REFUSAL: Duration = Duration::from_secs(2);
/// Additional time after the deadline of the server, in which disconnect hooks finish.
const FAREWELL: Duration = Duration::from_millis(500);

/// Functions that run at the beginning and at the end of each connection of a server.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    on_connect: Option<OnConnect>,
    on_disconnect: Option<OnDisconnect>,
}

impl Hooks {
    pub(crate) fn on_connect<F, Fut>(&mut self, hook: F)
    where
        F: Fn(Peer) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JsonRpcError>> + Send + 'static,
    {
        self.on_connect = Some(Arc::new(move |peer| Box::pin(hook(peer))));
    }

    pub(crate) fn on_disconnect<F, Fut>(&mut self, hook: F)
    where
        F: Fn(Peer, CloseReason) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_disconnect = Some(Arc::new(move |peer, reason| Box::pin(hook(peer, reason))));
    }

    /// Begins a connection: no message of the client is run until the hook has accepted it.
    /// Returns the hooks of this connection, if it has any.
    pub(crate) fn connect(
        &self,
        connection: &Arc<Connection>,
        guard: impl FnOnce() -> GroupGuard,
    ) -> Option<ConnectionHooks> {
        let Some(on_connect) = &self.on_connect else {
            let _ = connection.admission.set(Ok(()));
            let on_disconnect = self.on_disconnect.clone()?;
            return Some(ConnectionHooks {
                admission: None,
                on_disconnect: Some(on_disconnect),
                connection: Arc::clone(connection),
                guard: guard(),
            });
        };
        connection.add_barrier();
        let admission = admit(Arc::clone(on_connect), Arc::clone(connection));
        Some(ConnectionHooks {
            admission: Some(tokio::spawn(admission.in_current_span())),
            on_disconnect: self.on_disconnect.clone(),
            connection: Arc::clone(connection),
            guard: guard(),
        })
    }
}

/// Runs the hook for a new connection, and lets the client's messages run if it is accepted.
async fn admit(on_connect: OnConnect, connection: Arc<Connection>) {
    let peer = Peer::of(Caller::Connection(Arc::clone(&connection)));
    let accepted = AbortOnDrop(tokio::spawn(
        async move { on_connect(peer).await }.in_current_span(),
    ));
    // The hook may have panicked.
    let accepted = accepted
        .join()
        .await
        .unwrap_or_else(|error| Err(incident::report("on_connect", None, || error)));
    match connection.admission.get_or_init(|| accepted) {
        Ok(()) => connection.remove_barrier(),
        Err(error) => {
            tracing::debug!(target: "caudal", %error, "a client was refused when it connected");
            connection.command(Command::Drain(Instant::now() + REFUSAL));
        }
    }
}

/// A task that is aborted when nothing waits for it any more.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The hooks of one connection.
pub(crate) struct ConnectionHooks {
    /// Runs the hook for the beginning.
    admission: Option<JoinHandle<()>>,
    on_disconnect: Option<OnDisconnect>,
    connection: Arc<Connection>,
    /// Lets the shutdown of the server wait.
    guard: GroupGuard,
}

impl ConnectionHooks {
    /// Ends a connection that is closed: drops the connect hook if it still runs, waits for
    /// the last handler, and runs the disconnect hook. When the server stops, all of this
    /// ends at its deadline.
    pub(crate) async fn disconnect(mut self) {
        if let Some(admission) = &mut self.admission {
            admission.abort();
            // It may have ended just before.
            let _ = admission.await;
        }
        let Some(on_disconnect) = self.on_disconnect.take() else {
            return;
        };
        if self.connection.refusal().is_some() {
            return;
        }
        let run = async {
            if self.admission.is_some() && !self.connection.is_accepted() {
                // The barrier of a hook that was dropped.
                self.connection.remove_barrier();
            }
            poll_fn(|cx| self.connection.poll_idle(cx)).await;
            let ConnectionState::Closed(reason) = self.connection.state() else {
                return;
            };
            let peer = Peer::of(Caller::Connection(Arc::clone(&self.connection)));
            let hook =
                tokio::spawn(async move { on_disconnect(peer, reason).await }.in_current_span());
            if let Err(error) = AbortOnDrop(hook).join().await {
                let _ = incident::report("on_disconnect", None, || error);
            }
        };
        let is_late = async {
            self.guard.stop.cancelled().await;
            sleep_until(self.guard.deadline() + FAREWELL).await;
        };
        tokio::select! {
            () = run => {}
            () = is_late => tracing::warn!(
                target: "caudal",
                "the server has stopped before a handler or the disconnect hook has finished",
            ),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("on_connect", &self.on_connect.is_some())
            .field("on_disconnect", &self.on_disconnect.is_some())
            .finish()
    }
}

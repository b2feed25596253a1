//! Functions of the application that run when a client connects or disconnects.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use bytes::BytesMut;
use caudal_core::{CloseReason, Id, JsonRpcError, encode};
use tokio::task::JoinHandle;

use crate::call::{Caller, incident};
use crate::connection::{Command, Connection};
use crate::peer::{ConnectionState, Peer};
use crate::router::handler::BoxFuture;

type OnConnect = Arc<dyn Fn(Peer) -> BoxFuture<Result<(), JsonRpcError>> + Send + Sync>;
type OnDisconnect = Arc<dyn Fn(Peer, CloseReason) -> BoxFuture<()> + Send + Sync>;

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
    /// Returns the hook for its end.
    pub(crate) fn connect(&self, connection: &Arc<Connection>) -> Option<DisconnectHook> {
        let accepted = self.on_connect.as_ref().map(|on_connect| {
            connection.add_barrier();
            let (on_connect, connection) = (Arc::clone(on_connect), Arc::clone(connection));
            tokio::spawn(accept(on_connect, connection))
        });
        Some(DisconnectHook {
            accepted,
            on_disconnect: self.on_disconnect.clone()?,
            connection: Arc::clone(connection),
        })
    }
}

/// Runs the hook for a new connection. Returns true if it accepts the client.
async fn accept(on_connect: OnConnect, connection: Arc<Connection>) -> bool {
    let peer = Peer::of(Caller::Connection(Arc::clone(&connection)));
    let accepted = tokio::spawn(async move { on_connect(peer).await });
    // The hook may have panicked.
    let accepted = accepted
        .await
        .unwrap_or_else(|error| Err(incident::report("on_connect", None, || error)));
    match &accepted {
        Ok(()) => connection.remove_barrier(),
        Err(error) => refuse(&connection, error),
    }
    accepted.is_ok()
}

/// Sends a client the reason for which it is refused, and closes the connection. Its messages
/// never run.
fn refuse(connection: &Arc<Connection>, error: &JsonRpcError) {
    tracing::debug!(target: "caudal", %error, "a client was refused when it connected");
    let mut frame = BytesMut::new();
    let written: Result<(), Infallible> = connection.framing.write(&mut frame, |out| {
        encode::error(out, Id::NULL, error);
        Ok(())
    });
    let Ok(()) = written;
    // It is not sent if the connection is lost already.
    let _ = connection.sender.try_send(&frame);
    connection.command(Command::Close);
}

/// The hook for the end of one connection.
pub(crate) struct DisconnectHook {
    /// Result of the hook for its beginning.
    accepted: Option<JoinHandle<bool>>,
    on_disconnect: OnDisconnect,
    connection: Arc<Connection>,
}

impl DisconnectHook {
    /// Runs the hook, when the last handler of a closed connection has ended.
    pub(crate) async fn run(self) {
        if let Some(accepted) = self.accepted
            && !accepted.await.unwrap_or_default()
        {
            return;
        }
        let connection = &self.connection;
        poll_fn(|cx| connection.poll_idle(cx)).await;
        let ConnectionState::Closed(reason) = connection.state() else {
            return;
        };
        let peer = Peer::of(Caller::Connection(Arc::clone(connection)));
        (self.on_disconnect)(peer, reason).await;
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

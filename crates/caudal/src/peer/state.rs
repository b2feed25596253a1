//! The state of a connection.

use caudal_core::CloseReason;
use tokio::sync::watch;

/// The state of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// The connection is being made, for the first time or again. Calls wait.
    Connecting,
    /// The connection is open.
    Connected,
    /// The connection is closing gracefully: running requests may finish.
    Draining,
    /// The connection has ended, for this reason.
    Closed(CloseReason),
}

impl ConnectionState {
    /// Returns true if the connection has ended for good.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

/// Watches the state of a connection; made by [`Peer::watch`](crate::Peer::watch).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use caudal::{Peer, Router, ConnectionState};
///
/// let (peer, _other) = Peer::pair(Router::new(), Router::new());
/// let mut states = peer.watch();
/// peer.close();
/// while let Some(state) = states.changed().await {
///     println!("now {state:?}");
/// }
/// assert!(peer.state().is_closed());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StateWatch(pub(crate) watch::Receiver<ConnectionState>);

impl StateWatch {
    /// The state now.
    #[must_use]
    pub fn now(&self) -> ConnectionState {
        self.0.borrow().clone()
    }

    /// The next state that has not been seen yet; `None` after
    /// [`ConnectionState::Closed`]. States that came and went in between are skipped.
    ///
    /// # Cancel safety
    /// It can be dropped and called again; no state is lost.
    pub async fn changed(&mut self) -> Option<ConnectionState> {
        // When the connection is gone it is an error to ask for changes, but `changed`
        // has the last one still.
        if matches!(self.0.has_changed(), Ok(false)) && self.0.borrow().is_closed() {
            return None;
        }
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

//! Number of a peer.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of a peer, which no other peer of this process has; returned by
/// [`Peer::id`](crate::Peer::id).
///
/// All handles of one connection have the same number, also after a reconnection. Numbers
/// increase, and a number is not used again.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use caudal::{Peer, PeerId, Router};
/// use std::collections::HashMap;
///
/// let (one, other) = Peer::pair(Router::new(), Router::new());
/// let names: HashMap<PeerId, &str> = HashMap::from([(one.id(), "one"), (other.id(), "other")]);
/// assert_eq!(names[&one.clone().id()], "one");
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(u64);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is chosen when it is used for the first time.
#[derive(Debug, Default)]
pub(crate) struct LazyPeerId(OnceLock<PeerId>);

impl LazyPeerId {
    pub(crate) fn get(&self) -> PeerId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        *self.0.get_or_init(|| PeerId(NEXT.fetch_add(1, Relaxed)))
    }
}

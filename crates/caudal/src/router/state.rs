//! State that the methods of a router share.

use std::ops::Deref;
use std::sync::Arc;

/// The state that all methods of a router share, as an argument of a handler; see
/// [`Router::with_state`](crate::Router::with_state).
///
/// It dereferences to the state, and a clone shares it.
///
/// ```
/// use caudal::{Router, State};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// #[derive(Default)]
/// struct Counter {
///     count: AtomicU64,
/// }
///
/// let router = Router::with_state(Counter::default())
///     .method("add", |counter: State<Counter>, (n,): (u64,)| {
///         Ok(counter.count.fetch_add(n, Relaxed) + n)
///     });
/// # let _ = router;
/// ```
#[derive(Debug)]
pub struct State<S>(pub(crate) Arc<S>);

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Deref for State<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

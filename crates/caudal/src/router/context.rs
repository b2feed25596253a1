//! Context of the call that a handler serves.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use caudal_core::Id;
use tokio_util::sync::CancellationToken;

use crate::call::Caller;
use crate::extensions::Extensions;
use crate::observe::trace::TraceContext;
use crate::peer::Peer;

/// The call that a handler serves: its caller, method and id, and whether it was
/// cancelled.
///
/// A handler that takes it as an argument, before its params, gets it. It is made only for
/// such handlers and for layers, since it costs an allocation. It is cheap to clone.
///
/// ```
/// use caudal::{Context, Router};
///
/// let router = Router::new().method("count", |cx: Context, (n,): (u32,)| async move {
///     for i in 0..n {
///         cx.peer().notify("tick", [i]).await?;
///     }
///     Ok(n)
/// });
/// ```
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    peer: Peer,
    method: Arc<str>,
    id: Option<Box<str>>,
    cancelled: CancellationToken,
    extensions: Extensions,
    trace: Option<Box<TraceContext>>,
}

impl Context {
    /// The other side: call it back, notify it.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Messages that can be sent to the caller beside the reply.
    ///
    /// ```
    /// use caudal::{Context, ReturnPath, Router};
    ///
    /// let router = Router::new().method("build", |cx: Context| async move {
    ///     if cx.return_path() >= ReturnPath::Notifications {
    ///         cx.peer().notify("log", ("building",)).await?;
    ///     }
    ///     Ok("built")
    /// });
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn return_path(&self) -> ReturnPath {
        self.0.peer.caller().return_path()
    }

    /// The method that was called.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// The id of the request; `None` for a notification.
    #[must_use]
    pub fn id(&self) -> Option<Id<'_>> {
        self.0.id.as_deref().and_then(|id| Id::parse(id).ok())
    }

    /// Returns true if the call is a notification, which gets no reply.
    #[must_use]
    pub fn is_notification(&self) -> bool {
        self.0.id.is_none()
    }

    /// Returns when the call is cancelled, timed out, or its connection closed.
    ///
    /// # Cancel safety
    /// It can be dropped and called again.
    pub async fn cancelled(&self) {
        self.0.cancelled.cancelled().await;
    }

    /// Returns true if the call was cancelled or timed out, or if its connection was closed.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// The values that layers have put in for this call. Those of the connection
    /// are in [`Peer::extensions`].
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.0.extensions
    }

    /// The trace that the call belongs to, if it came with one where
    /// [`Config::trace`](crate::Config::trace) says.
    ///
    /// ```
    /// use caudal::{Context, Router};
    ///
    /// let router = Router::new().method("relay", |cx: Context| async move {
    ///     // The call that it makes belongs to the same trace.
    ///     Ok(cx.peer().call::<String>("name", ()).trace(cx.trace()).await?)
    /// });
    /// # let _ = router;
    /// ```
    #[must_use]
    pub fn trace(&self) -> Option<&TraceContext> {
        self.0.trace.as_deref()
    }

    pub(crate) fn token(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.0.method
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("method", &self.0.method)
            .field("id", &self.0.id)
            .finish_non_exhaustive()
    }
}

/// Messages that can be sent to the caller of a method beside the reply; returned by
/// [`Context::return_path`]. A later variant includes the ones before it.
///
/// ```
/// assert!(caudal::ReturnPath::Calls > caudal::ReturnPath::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ReturnPath {
    /// None: the caller sent a single POST, or the message came by
    /// [`Router::handle`](crate::Router::handle).
    None,
    /// Notifications, until the reply is sent.
    Notifications,
    /// Notifications and calls, as long as the connection lives.
    Calls,
}

/// Builds the [`Context`] of a call if its handler asks for one.
pub(crate) struct ContextBuilder<'c> {
    pub(crate) caller: &'c Caller,
    pub(crate) method: &'c Arc<str>,
    pub(crate) id: Option<Id<'c>>,
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) built: Option<Context>,
    pub(crate) is_serial: bool,
    /// Number of calls of the router that go on though they were cancelled.
    pub(crate) detached: &'c Arc<AtomicUsize>,
}

impl ContextBuilder<'_> {
    /// Returns true if no other message may start before the call has ended.
    pub(crate) fn is_barrier(&self) -> bool {
        self.id.is_none() || self.is_serial
    }

    pub(crate) fn context(&mut self) -> Context {
        let build = || {
            Context(Arc::new(Inner {
                peer: Peer::of(self.caller.clone()),
                method: Arc::clone(self.method),
                id: self.id.map(|id| id.as_str().into()),
                cancelled: self.caller.incoming().new_token(),
                extensions: Extensions::default(),
                trace: self.trace.take(),
            }))
        };
        self.built.get_or_insert_with(build).clone()
    }
}

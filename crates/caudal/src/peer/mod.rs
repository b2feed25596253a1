//! Handles to connections, and the types that belong to them.

mod backoff;
mod batch;
mod call;
mod event;
pub(crate) mod id;
mod state;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CallError, CloseReason, Framing, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::call::Caller;
use crate::config::Config;
use crate::connection::deadline::after;
use crate::connection::{self, Command, Connection, buffers};
use crate::extensions::Extensions;
use crate::observe::stats::Stats;
use crate::router::Router;
use crate::transport::{Stream, Transport};

pub use self::backoff::{Backoff, Gap};
pub use self::batch::{Batch, BatchReply};
pub use self::call::{Call, CallFuture};
pub use self::event::Event;
pub use self::id::PeerId;
pub use self::state::{ConnectionState, StateWatch};

/// One end of a connection: it calls the other end, and serves it, at the same
/// time.
///
/// Cheap to clone. When the last handle that [`connect`](crate::connect()),
/// [`pair`](Self::pair) or [`start`](Self::start) gave out is dropped, the
/// connection is closed; handles of a [`Context`](crate::Context) do not keep it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
/// use caudal::{Peer, Router};
///
/// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
/// let (peer, _server) = Peer::pair(Router::new(), router);
/// let sum: i64 = peer.call("add", (1, 2)).await?;
/// assert_eq!(sum, 3);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Peer {
    caller: Caller,
    _owner: Option<Arc<Owner>>,
}

/// Closes the connection when the last of its owners is gone.
struct Owner(Arc<Connection>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.command(Command::Close);
    }
}

impl Peer {
    /// A handle that does not keep the connection open.
    pub(crate) fn of(caller: Caller) -> Self {
        Self {
            caller,
            _owner: None,
        }
    }

    /// A handle that keeps the connection open.
    pub(crate) fn owning(connection: Arc<Connection>) -> Self {
        Self {
            _owner: Some(Arc::new(Owner(Arc::clone(&connection)))),
            caller: Caller::Connection(connection),
        }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Runs a connection over any transport, in a task of its own.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
    /// use caudal::transport::Stream;
    /// use caudal::{Framing, Peer, Router};
    ///
    /// let (here, there) = tokio::io::duplex(64 << 10); // any two ends of a pipe
    /// let stream = |io| Stream::new(io, Framing::Line);
    /// let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    /// let _server = Peer::start(stream(there), router);
    /// let client = Peer::start(stream(here), Router::new());
    /// assert_eq!(client.call::<i64>("add", (1, 2)).await?, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    pub fn start<S, E>(transport: impl Transport, router: Router<S, E>) -> Self {
        Self::start_with(transport, router, Config::default())
    }

    /// The same with another configuration.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    pub fn start_with<S, E>(
        transport: impl Transport,
        router: Router<S, E>,
        config: Config,
    ) -> Self {
        let (router, config) = (Arc::new(router.into_routes()), Arc::new(config));
        let (transport, extensions) = (Box::new(transport), Extensions::default());
        let connection = connection::start(transport, router, config, None, extensions, |_| None);
        Self::owning(connection)
    }

    /// Two peers that are connected in memory, for tests.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    pub fn pair<S, E, T, F>(one: Router<S, E>, other: Router<T, F>) -> (Self, Self) {
        Self::pair_with(one, other, &Config::default())
    }

    /// The same with another configuration, of both.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    #[track_caller]
    pub fn pair_with<S, E, T, F>(
        one: Router<S, E>,
        other: Router<T, F>,
        config: &Config,
    ) -> (Self, Self) {
        let (here, there) = tokio::io::duplex(buffers::SIZE);
        let stream = |io| Stream::new(io, Framing::Line).with_remote("memory");
        (
            Self::start_with(stream(here), one, config.clone()),
            Self::start_with(stream(there), other, config.clone()),
        )
    }

    /// Calls a method of the other side. Nothing is sent before the call is
    /// awaited; dropping it then forgets it.
    ///
    /// Params are a tuple or a struct; `()` sends none. The result is of any type
    /// that deserialises; where it is not used, `()` takes a `null`, and
    /// [`IgnoredAny`](serde::de::IgnoredAny) any result.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
    /// # use caudal::{Peer, Router};
    /// # let router = Router::new()
    /// #     .method("add", |(a, b): (i64, i64)| Ok(a + b))
    /// #     .method("reset", || Ok(()));
    /// # let (peer, _server) = Peer::pair(Router::new(), router);
    /// let sum: i64 = peer.call("add", (1, 2)).await?;
    /// assert_eq!(sum, 3);
    /// peer.call::<()>("reset", ()).await?; // nothing to use
    /// # Ok(()) }
    /// ```
    pub fn call<'a, T: DeserializeOwned>(
        &'a self,
        method: &'a str,
        params: impl Serialize,
    ) -> Call<'a, T> {
        Call::new(&self.caller, method, &params)
    }

    /// Calls a method with params that are JSON already, for a result that stays
    /// so.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::{Peer, RawValue, Router};
    ///
    /// let echo = Router::new().method("echo", |params: Box<RawValue>| Ok(params));
    /// let (peer, _server) = Peer::pair(Router::new(), echo);
    /// let params = RawValue::from_string("[1.50]".to_owned())?;
    /// assert_eq!(peer.call_raw("echo", Some(&params)).await?.get(), "[1.50]");
    /// # Ok(()) }
    /// ```
    pub fn call_raw<'a>(
        &'a self,
        method: &'a str,
        params: Option<&RawValue>,
    ) -> Call<'a, Box<RawValue>> {
        self.call(method, params)
    }

    /// Sends a notification: returns when it is on its way, which is at once
    /// unless too much waits to be sent.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
    /// # use caudal::{Peer, Router};
    /// # let router = Router::new().method("log", |(line,): (String,)| eprintln!("{line}"));
    /// # let (peer, _server) = Peer::pair(Router::new(), router);
    /// peer.notify("log", ("started",)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The connection is closed, or the params do not serialise.
    ///
    /// # Cancel safety
    /// If it is dropped before it returns, nothing is sent.
    pub async fn notify(&self, method: &str, params: impl Serialize) -> Result<(), CallError> {
        let connection = self.caller.connection()?;
        let mut frame = buffers::take();
        connection
            .framing
            .write(&mut frame, |out| encode::notification(out, method, &params))?;
        let sent = connection.sender.try_send(&frame);
        // A task that waits holds no more than the message.
        let waits = matches!(sent, Ok(false)).then(|| Box::<[u8]>::from(&*frame));
        frame.clear();
        buffers::give(frame);
        sent?;
        if let Some(frame) = waits {
            connection.sender.send(&frame).await?;
        }
        connection.stats.notified(1);
        Ok(())
    }

    /// Sends a notification that was serialised before, perhaps for many. It waits while the
    /// output is full; [`try_publish`](Self::try_publish) does not.
    ///
    /// A task that calls this for very many peers yields to other tasks from time to time, so
    /// that queued output can be sent.
    ///
    /// # Errors
    /// The connection is closed.
    ///
    /// # Cancel safety
    /// If it is dropped before it returns, nothing is sent.
    pub async fn publish(&self, event: &Event) -> Result<(), CallError> {
        tokio::task::coop::consume_budget().await;
        let connection = self.caller.connection()?;
        let frame = event.frame(connection.framing);
        connection.sender.send(&frame).await?;
        connection.stats.notified(1);
        Ok(())
    }

    /// Sends a notification that was serialised before if there is room for it at once. It
    /// never waits, so a peer that reads slowly does not delay the others.
    ///
    /// It may overtake messages that wait for room, such as a [`publish`](Self::publish).
    /// Call [`yield_now`](tokio::task::yield_now) now and then when you send to very many
    /// peers: this does not let other tasks run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use caudal::{CallError, Event, Peer, Router};
    ///
    /// # let (one, _a) = Peer::pair(Router::new(), Router::new());
    /// # let (two, _b) = Peer::pair(Router::new(), Router::new());
    /// let mut members = vec![one, two];
    /// let event = Event::new("line", ["Ann: hello"])?;
    /// members.retain(|member| match member.try_publish(&event) {
    ///     Ok(()) => true,
    ///     // It misses this event and stays.
    ///     Err(CallError::OutputFull { .. }) => true,
    ///     // It is gone.
    ///     Err(_) => false,
    /// });
    /// assert_eq!(members.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::OutputFull`] if [`Config::output`](crate::Config::output) is reached, or
    /// the connection is closed. Nothing is sent then, and [`Stats`] does not count it.
    pub fn try_publish(&self, event: &Event) -> Result<(), CallError> {
        let connection = self.caller.connection()?;
        if !connection
            .sender
            .try_send(&event.frame(connection.framing))?
        {
            let limit = connection.sender.limit();
            return Err(CallError::OutputFull { limit });
        }
        connection.stats.notified(1);
        Ok(())
    }

    /// Several calls and notifications that are sent as one message.
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(&self.caller)
    }

    /// Returns the number of this peer, which no other peer of the process has.
    #[must_use]
    pub fn id(&self) -> PeerId {
        self.caller.id()
    }

    /// Returns the current state of the connection.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        match &self.caller {
            Caller::Connection(connection) => connection.state(),
            Caller::Lone(_) => ConnectionState::Closed(CloseReason::nowhere()),
        }
    }

    /// Returns a watch on the state of the connection.
    #[must_use]
    pub fn watch(&self) -> StateWatch {
        StateWatch(match &self.caller {
            Caller::Connection(connection) => connection.watch(),
            Caller::Lone(_) => watch::channel(self.state()).1,
        })
    }

    /// Returns when the connection has ended, with the reason.
    ///
    /// If this side has closed it, [`CloseReason::is_local`] says that all that was
    /// written has been sent, and over HTTP accepted. If not, the reason is what
    /// went wrong; an [`io::Error`](std::io::Error) of the kind
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) if it took too long.
    pub async fn closed(&self) -> CloseReason {
        let mut states = self.watch();
        loop {
            match states.now() {
                ConnectionState::Closed(reason) => return reason,
                _ => states.changed().await,
            };
        }
    }

    /// Closes the connection: what is written already is sent, calls that wait
    /// fail, handlers that run are cancelled. [`closed`](Self::closed) says whether
    /// it could be sent.
    pub fn close(&self) {
        self.command(Command::Close);
    }

    /// Closes the connection when all that runs has finished, and at `limit` in
    /// any case. New requests of the other side are refused meanwhile.
    pub async fn shutdown(&self, limit: impl Into<Option<Duration>>) -> CloseReason {
        let limit = limit.into().unwrap_or(Duration::MAX);
        self.command(Command::Drain(after(Instant::now(), limit)));
        self.closed().await
    }

    fn command(&self, command: Command) {
        if let Caller::Connection(connection) = &self.caller {
            connection.command(command);
        }
    }

    /// Counts of what the connection has done so far. A lone message, such as a POST, counts
    /// with all others of its HTTP connection or mounted service.
    #[must_use]
    pub fn stats(&self) -> Stats {
        match &self.caller {
            Caller::Connection(connection) => connection.stats(),
            Caller::Lone(exchange) => exchange.origin.stats(),
        }
    }

    /// Returns the address or name of the other side, if the transport knows it.
    #[must_use]
    pub fn remote(&self) -> Option<&str> {
        self.caller.remote()
    }

    /// Values that belong to this connection.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        self.caller.extensions()
    }
}

/// Two handles are equal when they belong to the same connection.
impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Peer {}

impl Hash for Peer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("remote", &self.remote())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::{Config, Framing, Peer, Router, Stream};
    use crate::connection::buffers;

    /// Ten thousand that wait hold their messages, and not a large buffer each.
    #[tokio::test]
    async fn who_waits_for_room_holds_only_the_message() {
        let (io, _other) = tokio::io::duplex(1);
        let config = Config::default().output(1);
        let stream = Stream::new(io, Framing::Line);
        let peer = Peer::start_with(stream, Router::new(), config);
        peer.notify("fills", ()).await.unwrap();
        buffers::give(buffers::take());
        let before = buffers::free();
        let mut waits = pin!(peer.notify("waits", ()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        assert_eq!(buffers::free(), before);
    }
}

//! Options of a connection and of a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{IdFormat, Policy, setters};

use crate::dialect::Dialect;
use crate::observe::tap::Tap;
use crate::observe::trace::TracePlace;

/// Options of a connection: its limits, timeouts and conventions. One value serves all ways
/// to get a connection: [`serve`](crate::serve()), [`connect`](crate::connect()) and
/// [`Peer::pair_with`](crate::Peer::pair_with).
///
/// Every field has a setter of the same name. Limits of a single message are in
/// [`Policy`], and limits of a whole server in [`ServerLimits`].
///
/// ```
/// use caudal::{Config, Dialect};
/// use std::time::Duration;
///
/// let config = Config::default()
///     .call_timeout(Duration::from_secs(5))
///     .idle_timeout(None)
///     .in_flight(64)
///     .max_message(16 << 20)
///     .dialect(Dialect::lsp());
/// ```
///
/// All limits are on by default:
///
/// | limit | default | at the limit |
/// |---|---|---|
/// | `policy.max_message` | 1 MiB | -32600 `Request payload too large`, skipped as it arrives; an answer fails its call |
/// | `policy.max_batch` | 1,000 entries | one -32600 that says so |
/// | `policy.max_depth` | 128 | -32600 |
/// | `policy.max_id` | 1 KiB | -32600 |
/// | a method's name | 256 bytes | cannot be registered, so it is -32601 |
/// | [`in_flight`](Self::in_flight) | 1,024 requests | -32000 `Server overloaded`; what runs goes on |
/// | the same, of one server's calls that [block](crate::Method::blocking) or [finish though they were cancelled](crate::Method::finish_when_cancelled), and go on when nobody waits for them | 1,024 calls | -32000 for such methods |
/// | [`queue`](Self::queue) | 4 MiB, and `in_flight` messages, those of batches too | reading stops until the handler in front has finished |
/// | [`output`](Self::output) | 4 MiB | callers and replies wait, no further request starts; [`Peer::try_publish`](crate::Peer::try_publish) fails with [`CallError::OutputFull`](crate::CallError::OutputFull); over HTTP/2, where each answer has a stream of its own, -32000 |
/// | [`pending`](Self::pending) | 1,024 calls | [`CallError::TooManyPending`](crate::CallError::TooManyPending) |
/// | [`connections`](ServerLimits::connections) | 10,000 | a further one is told so, with -32000 or over HTTP with 503, and closed |
/// | [`incomplete`](ServerLimits::incomplete) | 256 MiB of one server | the message is refused: -32000 `Server overloaded`; over HTTP with 503 and `Retry-After`, over a WebSocket with close code 1013 |
/// | [`Config::call_timeout`] | 30 s | [`CallError::Timeout`](crate::CallError::Timeout) |
/// | [`Config::drain_timeout`] | 10 s | what still runs is cancelled |
/// | [`Config::message_timeout`] | 60 s | the connection is closed |
/// | [`Config::idle_timeout`] | off | the connection is closed |
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// Rules for valid messages, and the detail of error responses.
    pub policy: Policy,
    /// Requests of the other side that run or wait to run. The calls of one server that
    /// continue after they were cancelled have a limit of the same size, which is
    /// independent of their connections.
    ///
    /// Memory that handlers allocate is not counted. Params have at most
    /// [`Policy::max_message`](crate::Policy::max_message) bytes each.
    pub in_flight: usize,
    /// Bytes of messages that wait behind a notification or a serial method.
    pub queue: usize,
    /// Bytes queued for sending. One message may exceed it, so that none is too large.
    pub output: usize,
    /// Outgoing calls that wait for a response.
    pub pending: usize,
    /// Timeout of an outgoing call, or `None` for no limit. A call may have its own:
    /// [`Call::timeout`](crate::Call::timeout).
    pub call_timeout: Option<Duration>,
    /// Time that running handlers have to finish after the other side has ended its input;
    /// then they are cancelled. The time starts again whenever the other side accepts
    /// output, so that a slow reader gets every reply.
    pub drain_timeout: Duration,
    /// Closes a connection on which nothing was sent, received or in progress for this
    /// time. `None`, the default, disables it. Dead sockets are found by keep-alive in any
    /// case.
    pub idle_timeout: Option<Duration>,
    /// Maximum time from the first byte of a message to its last, or `None` for no limit. A
    /// connection that sends half a message and stops is closed. A connection is also closed
    /// if nothing could be read or sent for this time because both sides have more to send
    /// than the limits let the other accept.
    pub message_timeout: Option<Duration>,
    /// Format of the ids of outgoing calls.
    pub id_format: IdFormat,
    /// Conventions for cancellation and progress.
    pub dialect: Dialect,
    /// Observer that sees every message.
    pub tap: Option<Arc<dyn Tap>>,
    /// Location of the trace context in messages; off by default.
    pub trace: TracePlace,
}

impl Config {
    setters! {
        policy: Policy,
        in_flight: usize,
        queue: usize,
        output: usize,
        pending: usize,
        call_timeout: impl Into<Option<Duration>>,
        drain_timeout: Duration,
        idle_timeout: impl Into<Option<Duration>>,
        message_timeout: impl Into<Option<Duration>>,
        id_format: IdFormat,
        dialect: Dialect,
        trace: TracePlace,
    }

    /// Sets [`tap`](Self#structfield.tap).
    #[must_use]
    pub fn tap(mut self, tap: impl Tap + 'static) -> Self {
        self.tap = Some(Arc::new(tap));
        self
    }

    /// Sets [`Policy::max_message`](crate::Policy::max_message), the maximum bytes of an
    /// incoming message.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Self {
        self.policy.max_message = bytes;
        self
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            in_flight: 1024,
            queue: 4 << 20,
            output: 4 << 20,
            pending: 1024,
            call_timeout: Some(Duration::from_secs(30)),
            drain_timeout: Duration::from_secs(10),
            idle_timeout: None,
            message_timeout: Some(Duration::from_secs(60)),
            id_format: IdFormat::Integer,
            dialect: Dialect::default(),
            tap: None,
            trace: TracePlace::Off,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("policy", &self.policy)
            .field("in_flight", &self.in_flight)
            .field("queue", &self.queue)
            .field("output", &self.output)
            .field("pending", &self.pending)
            .field("call_timeout", &self.call_timeout)
            .field("drain_timeout", &self.drain_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("message_timeout", &self.message_timeout)
            .field("id_format", &self.id_format)
            .field("dialect", &self.dialect)
            .field("tap", &self.tap.is_some())
            .field("trace", &self.trace)
            .finish()
    }
}

/// Limits of a server as a whole, over all its connections; set by
/// [`Serve::limits`](crate::Serve::limits).
///
/// ```
/// let limits = caudal::ServerLimits::default().connections(100).incomplete(64 << 20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Open connections.
    pub connections: usize,
    /// Bytes of memory for the incomplete messages of all connections and sessions. The
    /// first 128 KiB of a connection do not count, so that small messages are accepted when
    /// the limit is reached. One message alone may exceed it, so that none is too large.
    ///
    /// The default has room for 256 messages of
    /// [`Policy::max_message`](crate::Policy::max_message) bytes that arrive at the same
    /// time. Clients on a slow network have enough room, and clients that never finish a
    /// message cannot use more memory than this.
    pub incomplete: usize,
}

impl ServerLimits {
    setters! {
        connections: usize,
        incomplete: usize,
    }
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            incomplete: 256 << 20,
        }
    }
}

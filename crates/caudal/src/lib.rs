//! JSON-RPC 2.0 for Rust: one symmetric peer over any pipe.
//!
//! ```text
//! bytes → frame → message → route → handler → reply → frame → bytes
//!  transport  framing  decode   router   yours   encode  framing  transport
//! ```
//!
//! A [`Router`] says what one side serves. A [`Peer`] is one end of a connection:
//! it calls the other end and serves it, at the same time. There is no second type
//! for clients: a client is a peer whose router is empty.
//!
//! # A server
//! ```no_run
//! use caudal::{Context, Router};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), caudal::Error> {
//!     let router = Router::new()
//!         .method("add", |(a, b): (i64, i64)| Ok(a + b))
//!         .method("count", |cx: Context, (n,): (u32,)| async move {
//!             for i in 0..n {
//!                 cx.peer().notify("tick", [i]).await?;
//!             }
//!             Ok(n)
//!         });
//!     caudal::serve("tcp://127.0.0.1:4017", router).await?.wait().await;
//!     Ok(())
//! }
//! ```
//!
//! # A client
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! let peer = caudal::connect("tcp://127.0.0.1:4017").await?;
//! let sum: i64 = peer.call("add", (1, 2)).timeout(Duration::from_secs(2)).await?;
//! # Ok(()) }
//! ```
//!
//! # Both at once
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
//! use caudal::{Context, Peer, Router};
//!
//! let asks = Router::new().method("greet", |cx: Context| async move {
//!     let name: String = cx.peer().call("name", ()).await?; // it calls its caller
//!     Ok(format!("hello {name}"))
//! });
//! let named = Router::new().method("name", || Ok("Ada"));
//! let (peer, _other) = Peer::pair(named, asks); // connected in memory, for tests
//! assert_eq!(peer.call::<String>("greet", ()).await?, "hello Ada");
//! # Ok(()) }
//! ```
//!
//! # A plug-in on stdio, and the program that starts it
//! ```no_run
//! # async fn plug_in(router: caudal::Router) -> Result<(), caudal::Error> {
//! caudal::serve("stdio:", router).await?.wait().await;
//! # Ok(()) }
//! # async fn host() -> Result<(), caudal::Error> {
//! let peer = caudal::connect("cmd:my-plugin --fast").await?;
//! # let _ = peer; Ok(()) }
//! ```
//! While it serves, stdout belongs to the connection. On Unix, a stray `println!` goes to
//! stderr and cannot corrupt the stream.
//!
//! # Addresses
//! | address | what it is |
//! |---|---|
//! | `stdio:` | stdin and stdout of this process |
//! | `cmd:program args` | a child process, without a shell |
//! | `tcp://127.0.0.1:4017` | a TCP socket; port 0 lets the system choose |
//! | `unix:/run/my.sock` | a Unix socket, with mode 0600 |
//! | `http://127.0.0.1:4100/rpc` | HTTP, each call a POST; the server upgrades to WebSocket there too, if it has `ws` (feature `http`) |
//! | `http://…#sse`, `http://…#poll` | a session: the server speaks by events or polls (`sse`, `polling`) |
//! | `ws://127.0.0.1:4100/rpc` | a WebSocket (`ws`) |
//! | `https://…`, `wss://…` | the same with TLS (`tls`) |
//! | anything else | your own [`Transport`](transport::Transport), with [`Peer::start`] |
//!
//! Messages are lines of JSON; `?framing=header` at the end of an address chooses
//! `Content-Length` headers, as language servers speak, and `?framing=concatenated` one
//! value after the other with nothing in between.
//!
//! # Ordering
//! Requests start in the order in which they came and run concurrently. A
//! notification finishes before any later message of its connection starts, and so
//! does a [serial](Method::serial) method. Responses wait for nothing, so a handler
//! may call its caller back, and back again, and cannot deadlock. What a handler
//! sends arrives before its answer. The entries of a batch run concurrently; their
//! answers keep their order.
//!
//! There is one exception. While a notification or a serial method runs, no request
//! of the other side starts. If it calls the other side, and that side must call
//! back before it can answer, both wait until the call times out. Such a handler
//! hands the work to a task of its own.
//!
//! A handler is polled once by the connection's own task and answered at once if it
//! is ready; one that must wait is moved to a task of its own. So do not block in
//! it: a [blocking](Method::blocking) handler has threads for that.
//!
//! # How a call ends
//! Every call ends exactly once: with a result, an error of the other side, a
//! timeout (30 s unless said otherwise), or the end of the connection with its
//! reason. [`CallError::may_have_run`] says whether it may have been carried out.
//!
//! # Errors
//! A handler returns a [`JsonRpcError`], and the caller gets its code, message and
//! data. A cause that the caller must not see goes through [`internal`]: it is logged
//! under a number, and the reply is -32603 with that number. A panic is treated alike.
//! Such log entries have a [rate limit](internal#rate-limit). The panic hook is the
//! application's: the default hook prints every panic, without a limit.
//! `?` on a call that a handler makes itself passes an error with a code of the
//! application on, and answers -32603 with the reason for any other.
//!
//! ```
//! use caudal::{JsonRpcError, Router};
//!
//! let router = Router::new().method("read", |(path,): (String,)| async move {
//!     if path.starts_with('/') {
//!         return Err(JsonRpcError::new(1001, "only relative paths"));
//!     }
//!     tokio::fs::read_to_string(path).await.map_err(caudal::internal)
//! });
//! # let _ = router;
//! ```
//!
//! # Cancel safety
//! Dropping a call forgets it, and tells the other side where the [`Dialect`] has a
//! way to. [`Peer::notify`] and [`Batch::send`] send all or nothing. A handler is
//! dropped when its connection is lost, or its caller cancels it as the [`Dialect`]
//! says, unless it [chose to finish](Method::finish_when_cancelled); and after its
//! [own timeout](Method::timeout) in any case. Without a dialect, a caller that stops
//! waiting cannot tell the other side, and the handler goes on.
//!
//! # Limits
//! All are on by default; [`Config`] has the table. At a limit the sender waits or
//! gets an error; running calls continue.
//!
//! ## Memory of a server, at worst
//! With the defaults, and where every client does its worst at the same time:
//!
//! | term | options | default |
//! |---|---|---|
//! | messages that are not whole | [`ServerLimits::incomplete`] | 256 MiB |
//! | read buffers: 128 KiB for each connection, or for its HTTP/1.1 body; none while it is idle | [`ServerLimits::connections`] | 1.2 GiB |
//! | buffers of HTTP: 64 KiB for the head of a request, 64 KiB read and 80 KiB to be written for each connection (HTTP/2: 16 MiB for the heads of 256 requests, 1 MiB and 4 MiB) | [`ServerLimits::connections`] | 2.0 GiB (205 GiB) |
//! | messages that wait for their turn: `queue` and one message for each connection | [`Config::queue`], [`Policy::max_message`], [`ServerLimits::connections`] | 49 GiB |
//! | what is to be sent: `output` and one message for each connection | [`Config::output`], [`Policy::max_message`], [`ServerLimits::connections`] | 49 GiB |
//! | answers that wait for the rest of their batch, or each on a stream of HTTP/2: the same once more | the same | 49 GiB |
//! | sessions, eight times `session_bytes`: from clients what waits, the shares of all sessions, and the POSTs that wait for room; to clients twice what waits, the shares, the replay, and the ids that POSTs wait for | `http::Options::session_bytes` | 2.0 GiB |
//!
//! That is 152 GiB by its limits, and 355 GiB if all 10,000 connections are of HTTP/2. One
//! message is counted with its limit of 1 MiB, also one that is sent, which may be larger
//! where a handler makes it so.
//!
//! The application adds, for each connection: the params and results of
//! [`Config::in_flight`] requests, and the responses to [`Config::pending`] calls of its own
//! that it has not read yet, each of at most [`Policy::max_message`] bytes. Further memory is
//! 2 MiB of spare buffers for each thread of the runtime, and reserves of the allocator.
//!
//! Every client that can connect reaches the first three terms: 3.5 GiB over pipes, sockets
//! and HTTP/1.1. The other terms depend on the methods: a notification or serial method that
//! takes long, or replies that are large and not read. Almost all of the sum are limits of one
//! connection times 10,000, so [`ServerLimits::connections`] is the first to lower. With these
//! limits the first six terms are 0.7 GiB without HTTP/2:
//!
//! ```
//! use caudal::{Config, ServerLimits};
//!
//! let config = Config::default().queue(1 << 20).output(1 << 20);
//! let limits = ServerLimits::default().connections(100).incomplete(64 << 20);
//! ```
//!
//! # Seen from outside
//! `tracing` has a span for each connection and call, [`Peer::stats`] the counts,
//! [`Config::tap`] every message with [secrets left out](Redacted). With the
//! feature `metrics`, calls are counted and timed by method. [`Config::trace`] has calls
//! carry a [trace context](TraceContext).
//!
//! The log is seen by a subscriber, such as `tracing_subscriber::fmt::init()` in
//! `main`; without one it goes nowhere. Internal errors are at ERROR. What the other
//! side does wrong is at DEBUG, so that it cannot fill the log; a notification with
//! wrong params or an unknown name is found there alone.
//!
//! # Features
//! None is on by default: stdio, child processes, TCP, Unix sockets and memory need none.
//! All that HTTP has is
//! ```toml
//! [dependencies]
//! caudal = { version = "0.1", features = ["http", "http2", "ws", "sse", "polling", "webhook", "tls"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
//! ```
//!
//! | feature | what it adds |
//! |---|---|
//! | `http` | POST: [`serve`](crate::serve()) and [`connect`](crate::connect()) for `http://`, and a tower service to mount elsewhere |
//! | `http2` | HTTP/2 for servers, beside HTTP/1.1 on the same address; clients speak HTTP/1.1 |
//! | `ws` | WebSocket, on the same address |
//! | `sse`, `polling`, `webhook` | sessions over HTTP, in which the server speaks by events, when it is asked, or by calling a URL |
//! | `tls` | `https://` and `wss://`, by rustls |
//! | `metrics` | `caudal_requests_total` and `caudal_request_seconds` through the `metrics` facade |
//!
//! # Stability
//! Types that may grow are `#[non_exhaustive]`. The types of `serde`, `serde_json`,
//! `bytes`, `tokio`'s I/O traits, tower's `Layer` and `Service` and those of `http` are
//! part of the API; no other crate's are.
//!
//! # Platforms
//! It runs on tokio, on Unix and Windows. Windows has no Unix sockets, no SIGTERM for
//! [child processes](transport::Child), and no protection of [stdout](transport::stdio) from
//! a stray `println!`. It was tested with wine, not on Windows itself.

mod call;
mod config;
mod connect;
mod connection;
mod dialect;
mod endpoint;
mod error;
mod extensions;
#[cfg(feature = "http")]
pub mod http;
mod observe;
mod peer;
mod router;
mod server;
mod sync;
pub mod transport;

pub use self::call::incident::internal;
pub use self::config::{Config, ServerLimits};
pub use self::connect::{Connect, connect};
pub use self::dialect::{Cancel, Dialect, Progress};
pub use self::endpoint::{Address, Downlink, Endpoint, EndpointError};
pub use self::error::Error;
pub use self::extensions::Extensions;
#[cfg(feature = "webhook")]
pub use self::http::session::webhook;
#[cfg(feature = "tls")]
pub use self::http::tls;
pub use self::observe::stats::Stats;
pub use self::observe::tap::{Direction, Redacted, Tap};
pub use self::observe::trace::{TraceContext, TracePlace};
pub use self::peer::{
    Backoff, Batch, BatchReply, Call, CallFuture, ConnectionState, Event, Gap, Peer, PeerId,
    StateWatch,
};
pub use self::router::context::{Context, ReturnPath};
#[doc(hidden)]
pub use self::router::handler::ErasedMethod;
pub use self::router::handler::IntoMethod;
pub use self::router::method::{Blocking, Method};
pub use self::router::routes::RegisterError;
pub use self::router::state::State;
pub use self::router::{Router, middleware};
pub use self::server::{Protocol, Serve, Server, serve, serve_on, serve_stream};
pub use self::transport::{AcceptedStream, BoundListener};
pub use caudal_core::{
    CallError, CloseReason, CorrelationId, EncodeError, ErrorCode, ErrorDetail, ExtraMembers,
    FrameError, Framing, Id, IdFormat, JsonRpcError, NullId, OldResponses, Policy, RequestId,
    ScalarParams, StatusError,
};
pub use serde_json::value::RawValue;

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the page about HTTP.
#[cfg(all(
    doctest,
    feature = "ws",
    feature = "sse",
    feature = "polling",
    feature = "webhook"
))]
#[doc = include_str!("../../../docs/HTTP.md")]
struct HttpPage;

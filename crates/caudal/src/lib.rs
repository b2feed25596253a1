//! JSON-RPC 2.0 for Rust: one symmetric peer over any transport.
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
//! [Tour](#tour) · [Addresses](#addresses) · [Options](#options) · [Ordering](#ordering) ·
//! [How a call ends](#how-a-call-ends) · [Cancel safety](#cancel-safety) ·
//! [Memory](#memory-of-a-server-at-worst) · [Seen from outside](#seen-from-outside) ·
//! [Features](#features)
//!
//! # Tour
//! ## Server
//! A method is a name and a closure. Its params are one value, a tuple by position or a
//! struct by name. [`serve`](crate::serve()) listens on an [address](#addresses).
//! ```
//! use caudal::Router;
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), caudal::Error> {
//!     let router = Router::new()
//!         .method("add", |(a, b): (i64, i64)| Ok(a + b))
//!         .method("wait", |(ms,): (u64,)| async move {
//!             tokio::time::sleep(Duration::from_millis(ms)).await;
//!             Ok("done")
//!         });
//!     let server = caudal::serve("tcp://127.0.0.1:0", router).await?; // or "stdio:"
//!     println!("serving {}", server.endpoint()); // with the port that the system chose
//!     # server.shutdown(None).await;
//!     server.wait().await;
//!     Ok(())
//! }
//! ```
//! An application that has a socket gives it to [`serve_on`], and one that accepts connections
//! itself gives each to [`Server::serve_stream`].
//!
//! ## Client
//! A call has a name, params, and the type of its result. Its timeout is 30 s, unless the call
//! or the connection has another.
//! ```
//! # use caudal::Router;
//! use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!
//! # let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
//! # let server = caudal::serve("tcp://127.0.0.1:0", router).await?;
//! # let address = server.endpoint();
//! let peer = caudal::connect(address).await?; // such as "tcp://127.0.0.1:4017"
//! let sum = peer.call::<i64>("add", (1, 2)).timeout(Duration::from_secs(2)).await?;
//! assert_eq!(sum, 3);
//! peer.notify("log", ("added",)).await?; // no reply
//!
//! let mut batch = peer.batch(); // several calls in one message
//! let one = batch.call::<i64>("add", (3, 4))?;
//! let two = batch.call::<i64>("add", (5, 6))?;
//! batch.send().await?;
//! assert_eq!((one.await?, two.await?), (7, 11));
//! # Ok(()) }
//! ```
//! A program that is started is called in the same way:
//! `connect("cmd:my-plugin --fast")`. The program itself serves `stdio:`. While it does,
//! stdout belongs to the connection, and on Unix a stray `println!` goes to stderr.
//!
//! ## Both directions
//! A handler that takes a [`Context`] calls its caller, and a client gives its own router
//! to [`Connect::router`].
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use caudal::{Context, Router};
//!
//! let greets = Router::new().method("greet", |cx: Context| async move {
//!     let name: String = cx.peer().call("name", ()).await?;
//!     Ok(format!("hello {name}"))
//! });
//! let server = caudal::serve("tcp://127.0.0.1:0", greets).await?;
//!
//! let named = Router::new().method("name", || Ok("Ada"));
//! let peer = caudal::connect(server.endpoint()).router(named).await?;
//! assert_eq!(peer.call::<String>("greet", ()).await?, "hello Ada");
//! # Ok(()) }
//! ```
//! [`Server::peers`] and [`Serve::on_connect`] have the clients to which a server speaks
//! first. A [`PreparedNotification`] is serialised once for all of them.
//!
//! ## State
//! State of the application is given to the router, and state of one connection is kept in
//! [`Peer::extensions`].
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
//! use caudal::{Peer, Router, State};
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! #[derive(Default)]
//! struct Counter(AtomicU64);
//!
//! let router = Router::with_state(Counter::default())
//!     .method("count", |counter: State<Counter>, (n,): (u64,)| {
//!         Ok(counter.0.fetch_add(n, Relaxed) + n)
//!     });
//! # let (peer, _server) = Peer::pair(Router::new(), router);
//! assert_eq!(peer.call::<u64>("count", (5,)).await?, 5);
//! # Ok(()) }
//! ```
//!
//! ## Errors
//! A handler returns a [`JsonRpcError`], and the caller gets its code, message and data; a
//! router can have [another error type](Router::error_type).
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use caudal::{CallError, JsonRpcError, Peer, Router};
//!
//! let router = Router::new().method("divide", |(a, b): (i64, i64)| {
//!     a.checked_div(b).ok_or_else(|| JsonRpcError::new(1001, "division by zero"))
//! });
//! # let (peer, _server) = Peer::pair(Router::new(), router);
//! match peer.call::<i64>("divide", (1, 0)).await {
//!     Err(CallError::Remote(error)) => assert_eq!(error.message, "division by zero"),
//!     other => panic!("{other:?}"),
//! }
//! # }
//! ```
//! A cause that the caller must not see goes through [`internal`]: it is logged under a
//! number, at a [limited rate](internal#rate-limit), and the reply is -32603 with that number.
//! A panic is treated alike; the panic hook is the application's, and the default hook prints
//! every panic. `?` on a call that a handler makes itself passes an error with a code of the
//! application on, and answers -32603 with the reason for any other.
//!
//! ## Middleware
//! A [layer](Router::layer) is put around the methods that are registered so far. It sees each
//! call, also each of a batch. It is an async function, or any tower layer.
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
//! use caudal::middleware::{self, IncomingCall, Next};
//! use caudal::{Peer, Router};
//!
//! let log = middleware::from_fn(|call: IncomingCall, next: Next| async move {
//!     let method = call.method().to_owned();
//!     let result = next.run(call).await;
//!     println!("{method}: {}", if result.is_ok() { "ok" } else { "failed" });
//!     result
//! });
//! let router = Router::new().method("ping", || Ok("pong")).layer(log);
//! # let (peer, _server) = Peer::pair(Router::new(), router);
//! # assert_eq!(peer.call::<String>("ping", ()).await?, "pong");
//! # Ok(()) }
//! ```
//!
//! ## Limits
//! All limits are on by default. At a limit the sender waits or gets an error, and running
//! calls continue. [`Config`] says what happens at each.
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::Error> {
//! use caudal::{Config, Router, ServerLimits};
//! use std::time::Duration;
//!
//! let config = Config::default()
//!     .max_message(16 << 20)
//!     .in_flight(64)
//!     .idle_timeout(Duration::from_secs(300));
//! let server = caudal::serve("tcp://127.0.0.1:0", Router::new())
//!     .config(config) // each connection
//!     .limits(ServerLimits::default().connections(100)) // all of them
//!     .await?;
//! # drop(server); Ok(()) }
//! ```
//!
//! ## Shutdown
//! [`Server::shutdown`] stops listening and refuses new requests with -32010. Running
//! requests may finish within the limit. [`Peer::shutdown`] does it for one connection.
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use caudal::Router;
//! use std::time::Duration;
//!
//! let server = caudal::serve("tcp://127.0.0.1:0", Router::new()).await?;
//! let peer = caudal::connect(server.endpoint()).await?;
//! // tokio::signal::ctrl_c().await?;
//! server.shutdown(Duration::from_secs(5)).await; // or None: as long as they run
//! let reason = peer.closed().await;
//! println!("{reason}");
//! # Ok(()) }
//! ```
//! A client ends its connection when its last [`Peer`] is dropped, and a server never does
//! that by itself: a [`Server`] that is dropped goes on.
//!
//! ## Testing
//! [`Peer::pair`] connects two routers in memory. [`Router::handle`] answers the bytes of one
//! message.
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), caudal::CallError> {
//! use caudal::{Peer, Router};
//!
//! let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
//! let (peer, _server) = Peer::pair(Router::new(), router.clone());
//! assert_eq!(peer.call::<i64>("add", (1, 2)).await?, 3);
//!
//! let request = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
//! let reply = router.handle(request).await;
//! assert_eq!(reply.unwrap(), &br#"{"jsonrpc":"2.0","id":1,"result":3}"#[..]);
//! # Ok(()) }
//! ```
//!
//! # Addresses
//! | address | what it is |
//! |---|---|
//! | `stdio:` | stdin and stdout of this process |
//! | `cmd:program args` | a child process, without a shell |
//! | `tcp://127.0.0.1:4017` | a TCP socket; port 0 lets the system choose |
//! | `unix:/run/my.sock` | a Unix socket, with mode 0600 |
//! | `http://127.0.0.1:4100/rpc` | HTTP; a client makes each call a POST (feature `http`) |
//! | `http://…#sse`, `http://…#poll` | a session: the server speaks by events or polls (`sse`, `polling`) |
//! | `ws://127.0.0.1:4100/rpc` | a WebSocket (`ws`) |
//! | `https://…`, `wss://…` | the same with TLS (`tls`) |
//! | anything else | your own [`Transport`](transport::Transport), with [`Peer::start`] |
//!
//! A server on `http://` or on `ws://` is the same server: it takes POSTs, sessions and
//! WebSockets at one address, as far as their features are enabled. A client chooses one of
//! them by its address.
//!
//! Messages are lines of JSON; `?framing=header` at the end of an address chooses
//! `Content-Length` headers, as language servers speak, and `?framing=concatenated` one
//! value after the other with nothing in between.
//!
//! # Options
//! Options are set in one way: a type has a default and a setter for each option, and setters
//! are chained. A timeout that can be off is an `Option<Duration>`; its setter takes a
//! `Duration` or `None`.
//! ```
//! use caudal::{Backoff, Config, Policy};
//! use std::time::Duration;
//!
//! let config = Config::default()
//!     .call_timeout(None)
//!     .message_timeout(Duration::from_secs(10))
//!     .policy(Policy::default().max_batch(20));
//! let client = caudal::connect("tcp://127.0.0.1:4017")
//!     .config(config)
//!     .reconnect(Backoff::default().tries(10));
//! # let _ = client;
//! ```
//! *Set in* names the type: [`Config`] and its [`Policy`] are for a connection of either side,
//! [`Serve`], [`ServerLimits`] and [`http::Options`] for a server, and [`Connect`], [`Backoff`],
//! [`ChildOptions`](transport::ChildOptions) and [`http::ClientOptions`] for a client.
//!
//! | option | set in | default | meaning |
//! |---|---|---|---|
//! | [`max_message`](Policy::max_message) | `Policy`, `Config` | 1 MiB | bytes of an incoming message |
//! | [`max_batch`](Policy::max_batch) | `Policy` | 1,000 | entries of a batch |
//! | [`max_depth`](Policy::max_depth) | `Policy` | 128 | nesting of arrays and objects |
//! | [`max_id`](Policy::max_id) | `Policy` | 1 KiB | bytes of an id |
//! | [`null_id`](Policy::null_id) | `Policy` | accept | requests whose id is null |
//! | [`scalar_params`](Policy::scalar_params) | `Policy` | -32602 | params that are neither array nor object |
//! | [`extra_members`](Policy::extra_members) | `Policy` | ignore | members that the specification does not define |
//! | [`old_responses`](Policy::old_responses) | `Policy` | refuse | responses in the form of JSON-RPC 1.0 |
//! | [`error_detail`](Policy::error_detail) | `Policy` | full | detail of error responses |
//! | [`policy`](Config::policy) | `Config` | as above | all of these |
//! | [`in_flight`](Config::in_flight) | `Config` | 1,024 | requests of the other side that run or wait |
//! | [`queue`](Config::queue) | `Config` | 4 MiB | bytes of messages that wait for their turn |
//! | [`output`](Config::output) | `Config` | 4 MiB | bytes queued for sending |
//! | [`pending`](Config::pending) | `Config` | 1,024 | own calls that wait for a response |
//! | [`call_timeout`](Config::call_timeout) | `Config` | 30 s | timeout of own calls; also [for one call](Call::timeout) |
//! | [`drain_timeout`](Config::drain_timeout) | `Config` | 10 s | time for running handlers after the input has ended |
//! | [`idle_timeout`](Config::idle_timeout) | `Config` | `None` | closes a silent connection |
//! | [`message_timeout`](Config::message_timeout) | `Config` | 60 s | time from the first byte of a message to its last |
//! | [`id_format`](Config::id_format) | `Config` | integers | ids of own calls |
//! | [`dialect`](Config::dialect) | `Config` | none | conventions for cancellation and progress |
//! | [`tap`](Config::tap) | `Config` | `None` | observer of every message |
//! | [`trace`](Config::trace) | `Config` | off | place of the trace context in messages |
//! | [`connections`](ServerLimits::connections) | `ServerLimits` | 10,000 | open connections |
//! | [`incomplete`](ServerLimits::incomplete) | `ServerLimits` | 256 MiB | bytes of incomplete messages of all connections |
//! | [`config`](Serve::config) | `Serve` | as above | the `Config` of every connection |
//! | [`limits`](Serve::limits) | `Serve` | as above | the `ServerLimits` |
//! | [`http`](Serve::http) | `Serve` | as below | the `http::Options` |
//! | [`protocol`](Serve::protocol) | `Serve` | lines | [`Protocol`] on a socket of the application |
//! | [`allow_remote`](Serve::allow_remote) | `Serve` | off | lets other machines connect |
//! | [`on_connect`](Serve::on_connect) | `Serve` | none | function that runs before a client's first message |
//! | [`on_disconnect`](Serve::on_disconnect) | `Serve` | none | function that runs after a client's last handler |
//! | [`hosts`](http::Options::hosts) | `http::Options` | own, loopback | `Host` values that are accepted |
//! | [`origins`](http::Options::origins) | `http::Options` | own | `Origin` values that are accepted |
//! | [`credentials`](http::Options::credentials) | `http::Options` | off | lets pages of listed origins send cookies |
//! | [`tokens`](http::Options::tokens) | `http::Options` | none | bearer tokens that are accepted; `token` adds one |
//! | [`authorize`](http::Options::authorize) | `http::Options` | `None` | check of the application |
//! | [`status`](http::Options::status) | `http::Options` | 200, 204, 413 | status of replies to POSTs |
//! | [`tls`](http::Options::tls) | `http::Options` | `None` | certificate and key |
//! | [`header_timeout`](http::Options::header_timeout) | `http::Options` | 10 s | time for the head of a request, and for the TLS handshake |
//! | [`idle_timeout`](http::Options::idle_timeout) | `http::Options` | 60 s | silence between requests, or of a client that does not read |
//! | [`connections_per_address`](http::Options::connections_per_address) | `http::Options` | 1,024 | connections of one address |
//! | [`session_header`](http::Options::session_header) | `http::Options` | `mcp-session-id` | header with the id of a session |
//! | [`session_method`](http::Options::session_method) | `http::Options` | `initialize` | method that opens a session; `None` for none |
//! | [`sessions`](http::Options::sessions) | `http::Options` | 10,000 | open sessions |
//! | [`sessions_per_caller`](http::Options::sessions_per_caller) | `http::Options` | 1,024 | open sessions of one caller |
//! | [`session_timeout`](http::Options::session_timeout) | `http::Options` | 5 min | closes a silent session |
//! | [`session_bytes`](http::Options::session_bytes) | `http::Options` | 256 MiB | bytes that wait in all sessions, each way |
//! | [`replay`](http::Options::replay) | `http::Options` | 256 KiB | bytes of sent events that a session keeps |
//! | [`keep_alive`](http::Options::keep_alive) | `http::Options` | 15 s | silence after which an event stream sends a comment |
//! | [`poll_timeout`](http::Options::poll_timeout) | `http::Options` | 25 s | time that a poll waits for a message |
//! | [`ping_interval`](http::Options::ping_interval) | `http::Options` | 30 s | silence after which a WebSocket is sent a ping |
//! | [`ping_timeout`](http::Options::ping_timeout) | `http::Options` | 10 s | time for the answer to a ping |
//! | [`private_webhooks`](http::Options::private_webhooks) | `http::Options` | off | lets webhooks call private addresses |
//! | [`webhook_tls`](http::Options::webhook_tls) | `http::Options` | `None` | root certificates for webhooks; without, those of the system |
//! | [`router`](Connect::router) | `Connect` | empty | methods that a client serves |
//! | [`config`](Connect::config) | `Connect` | as above | the `Config` of the connection |
//! | [`timeout`](Connect::timeout) | `Connect` | 10 s | time for one attempt to connect |
//! | [`reconnect`](Connect::reconnect) | `Connect` | off | a `Backoff`: connects again when the connection is lost |
//! | [`on_reconnect`](Connect::on_reconnect) | `Connect` | none | function that runs after each reconnection |
//! | [`child`](Connect::child) | `Connect` | as below | the `ChildOptions` |
//! | [`http`](Connect::http) | `Connect` | as below | the `http::ClientOptions` |
//! | [`webhook`](Connect::webhook) | `Connect` | none | receiver to which the server delivers its messages |
//! | [`first`](Backoff::first) | `Backoff` | 100 ms | delay before the first attempt |
//! | [`factor`](Backoff::factor) | `Backoff` | 2 | factor from one delay to the next |
//! | [`longest`](Backoff::longest) | `Backoff` | 30 s | longest delay |
//! | [`tries`](Backoff::tries) | `Backoff` | `None` | attempts until something is received again |
//! | [`stderr`](transport::ChildOptions::stderr) | `ChildOptions` | inherit | handling of the child's stderr |
//! | [`framing`](transport::ChildOptions::framing) | `ChildOptions` | lines | framing, if there is no address to say it |
//! | [`grace`](transport::ChildOptions::grace) | `ChildOptions` | 2 s | time to exit, before and after SIGTERM |
//! | [`end_with_parent`](transport::ChildOptions::end_with_parent) | `ChildOptions` | off | ends the child also when this process is killed |
//! | [`headers`](http::ClientOptions::headers), [`header`](http::ClientOptions::header) | `http::ClientOptions` | none | headers of every request |
//! | [`token`](http::ClientOptions::token) | `http::ClientOptions` | `None` | bearer token |
//! | [`tls`](http::ClientOptions::tls) | `http::ClientOptions` | system roots | trusted servers, and an own certificate |
//! | [`connections`](http::ClientOptions::connections) | `http::ClientOptions` | 64 | connections for POSTs |
//! | [`session_header`](http::ClientOptions::session_header) | `http::ClientOptions` | `mcp-session-id` | header with the id of a session |
//!
//! A single method has settings of its own: [`Method`]. So has a single call: [`Call`].
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
//! # Cancel safety
//! Dropping a call forgets it, and tells the other side where the [`Dialect`] has a
//! way to. [`Peer::notify`] and [`Batch::send`] send all or nothing. A handler is
//! dropped when its connection is lost, or its caller cancels it as the [`Dialect`]
//! says, unless it [chose to finish](Method::finish_when_cancelled); and after its
//! [own timeout](Method::timeout) in any case. Without a dialect, a caller that stops
//! waiting cannot tell the other side, and the handler goes on.
//!
//! # Memory of a server, at worst
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
//! connection times 10,000, so [`ServerLimits::connections`] is the first to lower. With
//! `Config::default().queue(1 << 20).output(1 << 20)` and
//! `ServerLimits::default().connections(100).incomplete(64 << 20)` the first six terms are
//! 0.7 GiB without HTTP/2.
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
pub use self::dialect::{CancelRule, Dialect, ProgressRule};
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
    Backoff, Batch, BatchReply, Call, CallFuture, ConnectionGap, ConnectionState, Peer, PeerId,
    PreparedNotification, StateWatch,
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

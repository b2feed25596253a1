//! A router over HTTP/2, by a client of another make.
#![cfg(feature = "http2")]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Log, eventually, stays_pending, within};
use caudal::http::{Allowed, Options};
use caudal::{Config, Router, Server};
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Says when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// What waits for the gate says when it has begun, and when it was dropped.
fn router(gate: &Arc<Semaphore>, log: &Log) -> Router {
    let (gate, log) = (Arc::clone(gate), log.clone());
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("hold", move || {
            let (gate, log) = (Arc::clone(&gate), log.clone());
            async move {
                log.add("begun");
                let dropped = Dropped(log);
                gate.acquire().await.unwrap().forget();
                drop(dropped);
                Ok("held")
            }
        })
}

async fn start(router: Router, options: Options) -> Server {
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router);
    serve.http(options).await.unwrap()
}

fn address(server: &Server) -> String {
    let text = server.endpoint().to_string();
    text.split('/').nth(2).unwrap().to_owned()
}

/// A connection, and the task that runs it.
async fn open(server: &Server) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
    open_with(server, None).await
}

/// The same; of each response, the server may send so much before more of it is read.
async fn open_with(
    server: &Server,
    window: Option<u32>,
) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
    let socket = TcpStream::connect(address(server)).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let opened = builder.handshake(TokioIo::new(socket)).await;
    let (sender, connection) = opened.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(method: Method, host: &str, call: &str) -> Request<String> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,{call}}}"#);
    Request::builder()
        .method(method)
        .uri(format!("http://{host}/rpc"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

fn post(call: &str) -> Request<String> {
    request(Method::POST, "localhost", call)
}

const ADD: &str = r#""method":"add","params":[1,2]"#;
const HOLD: &str = r#""method":"hold""#;

#[tokio::test]
async fn the_authority_is_the_host() {
    let mut options = Options::default();
    options.hosts = Allowed::of(["api.example.com"]);
    let router = router(&Arc::new(Semaphore::new(0)), &Log::default());
    let server = start(router, options).await;
    for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT] {
        for (host, refused) in [
            ("localhost", false),
            ("api.example.com", false),
            ("api.example.com:8443", false),
            ("evil.example.com", true),
            ("localhost.evil.com", true),
        ] {
            // A connection is judged by each of its requests.
            let (mut sender, _) = open(&server).await;
            for host in ["localhost", host] {
                let request = request(method.clone(), host, ADD);
                let response = within(sender.send_request(request)).await.unwrap();
                let refused = refused && host != "localhost";
                assert_eq!(response.status() == 403, refused, "{method} {host}");
            }
        }
    }
}

#[tokio::test]
async fn an_authority_and_a_host_that_differ_are_refused() {
    let mut options = Options::default();
    options.hosts = Allowed::of(["api.example.com"]);
    let router = router(&Arc::new(Semaphore::new(0)), &Log::default());
    let server = start(router, options).await;
    let (mut sender, _connection) = open(&server).await;
    for (authority, host, status) in [
        ("localhost", "localhost", 200),
        ("localhost:8080", "LOCALHOST:8080", 200),
        ("localhost", "api.example.com", 400),
        ("api.example.com", "localhost", 400),
        ("evil.example.com", "localhost", 400),
        ("localhost", "evil.example.com", 400),
        ("localhost", "localhost:8080", 400),
    ] {
        let mut request = request(Method::POST, authority, ADD);
        request.headers_mut().insert("host", host.parse().unwrap());
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), status, "{authority} {host}");
    }
}

#[tokio::test]
async fn what_answers_head_has_no_body() {
    let router = router(&Arc::new(Semaphore::new(0)), &Log::default());
    let server = start(router, Options::default()).await;
    let (mut sender, _) = open(&server).await;
    let gone = if cfg!(feature = "session") { 404 } else { 405 };
    for (url, status) in [
        ("http://localhost/rpc", 405),
        ("http://localhost/rpc?session=x", gone),
        ("http://localhost/other", 404),
        ("http://evil.example.com/rpc", 403),
    ] {
        let request = Request::head(url).body(String::new()).unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), status, "{url}");
        let body = within(response.collect()).await;
        assert!(body.unwrap().to_bytes().is_empty(), "{url}");
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_cancels_its_handler_and_no_other() {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let server = start(router(&gate, &log), Options::default()).await;
    let (mut sender, _connection) = open(&server).await;
    let stays = tokio::spawn(sender.send_request(post(HOLD)));
    eventually("it happens", || log.len() == 1).await;
    // hyper resets the stream of a response that nobody waits for.
    let goes = tokio::spawn(sender.send_request(post(HOLD)));
    eventually("it happens", || log.len() == 2).await;
    goes.abort();
    eventually("it happens", || log.len() == 3).await;
    assert_eq!(log.take(), ["begun", "begun", "dropped"]);
    assert_eq!(server.stats().in_flight, 1);
    gate.add_permits(1);
    let response = within(stays).await.unwrap().unwrap();
    let body = within(response.collect()).await.unwrap().to_bytes();
    assert!(body.ends_with(br#""result":"held"}"#), "{body:?}");
}

#[tokio::test]
async fn shutdown_answers_what_was_accepted() {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let server = start(router(&gate, &log), Options::default()).await;
    let (mut sender, connection) = open(&server).await;
    let calls: Vec<_> = (0..10)
        .map(|_| tokio::spawn(sender.send_request(post(HOLD))))
        .collect();
    eventually("it happens", || log.len() == 10).await;
    let stopping = server.clone();
    let end = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(20)).await });
    let no_more = async { while TcpStream::connect(address(&server)).await.is_ok() {} };
    within(no_more).await;
    assert!(!end.is_finished(), "it waits for those that are under way");
    gate.add_permits(10);
    for call in calls {
        let response = within(call).await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        let body = within(response.collect()).await.unwrap().to_bytes();
        assert!(body.ends_with(br#""result":"held"}"#), "{body:?}");
    }
    within(end).await.unwrap();
    within(connection).await.unwrap().unwrap();
    assert_eq!(server.connections(), 0);
}

/// So long a client may take nothing.
const LIMIT: Duration = Duration::from_millis(250);

/// Gives up who takes nothing for so long.
fn patient(limit: Duration) -> Options {
    let mut options = Options::default();
    (options.idle_timeout, options.header_timeout) = (limit, limit);
    options
}

#[tokio::test]
async fn a_stream_that_takes_nothing_is_reset_and_no_other() {
    // The last one has room for nearly all.
    let tests = [0, 1, 10_000, 65_535, 300_000].map(|window| tokio::spawn(stall(window)));
    for test in tests {
        test.await.unwrap();
    }
}

async fn stall(window: u32) {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let router = router(&gate, &log).method("big", || Ok("x".repeat(300_000)));
    let server = start(router, patient(LIMIT)).await;
    let (mut sender, connection) = open_with(&server, Some(window)).await;
    let big = within(sender.send_request(post(r#""method":"big""#))).await;
    let big = big.unwrap();
    assert_eq!(big.status(), 200);
    // While this is under way, the connection is.
    let stays = tokio::spawn(sender.send_request(post(HOLD)));
    eventually("it happens", || log.len() == 1).await;
    tokio::time::sleep(LIMIT * 6).await;
    let read = within(big.collect()).await;
    let error = format!("{:?}", read.expect_err("it was given up"));
    assert!(error.contains("CANCEL"), "{window}: {error}");
    gate.add_permits(1);
    let response = within(stays).await.unwrap().unwrap();
    assert_eq!(response.status(), 200);
    if window > 0 {
        let body = within(response.collect()).await.unwrap().to_bytes();
        assert!(body.ends_with(br#""result":"held"}"#), "{body:?}");
    }
    assert!(!connection.is_finished());
}

#[tokio::test]
async fn a_stream_that_takes_a_little_in_time_goes_on() {
    let router = Router::new().method("big", || Ok("x".repeat(100_000)));
    let server = start(router, patient(LIMIT * 16)).await;
    let (mut sender, _connection) = open_with(&server, Some(40_000)).await;
    let big = within(sender.send_request(post(r#""method":"big""#))).await;
    let mut big = big.unwrap().into_body();
    let mut size = 0;
    while let Some(frame) = within(big.frame()).await {
        size += frame.unwrap().into_data().unwrap().len();
        tokio::time::sleep(LIMIT / 4).await;
    }
    assert!(size > 100_000, "{size}");
}

#[cfg(feature = "sse")]
#[tokio::test]
async fn events_that_nobody_has_to_take_are_waited_for() {
    let mut options = patient(LIMIT);
    options.keep_alive = None;
    let server = start(Router::new(), options).await;
    let (mut sender, _connection) = open_with(&server, Some(1000)).await;
    let mut request = request(Method::GET, "localhost", ADD).map(|_| String::new());
    let accept = "text/event-stream".parse().unwrap();
    request.headers_mut().insert("accept", accept);
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut events = response.into_body();
    within(events.frame()).await.unwrap().unwrap();
    stays_pending("an event", events.frame()).await;
}

const BIG: &str = r#""method":"big""#;

/// What an answer says, when it has come.
async fn said(sender: &mut SendRequest<String>, request: Request<String>) -> String {
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = within(response.collect()).await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn answers_that_nobody_takes_are_bounded() {
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("big", || Ok("x".repeat(60_000)));
    let mut config = Config::default();
    config.output = 100_000;
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router).config(config);
    let server = serve.await.unwrap();
    let (mut sender, _connection) = open_with(&server, Some(1000)).await;

    let one = within(sender.send_request(post(BIG))).await.unwrap();
    assert!(said(&mut sender, post(ADD)).await.contains(r#""result":3"#));
    let two = within(sender.send_request(post(BIG))).await.unwrap();
    // Now there is too much: whatever asks for more is turned away.
    assert!(said(&mut sender, post(ADD)).await.contains("-32000"));
    let batch = post(ADD).map(|call| format!("[{call},{call}]"));
    let batch = said(&mut sender, batch).await;
    assert_eq!(batch.matches("-32000").count(), 1, "{batch}");
    // Others have room of their own.
    let (mut other, _connection) = open(&server).await;
    assert!(said(&mut other, post(ADD)).await.contains(r#""result":3"#));

    let taken = within(one.collect()).await.unwrap().to_bytes();
    assert!(taken.len() > 60_000);
    served_again(&mut sender).await;
    // Nor does one count that is given up.
    let three = within(sender.send_request(post(BIG))).await.unwrap();
    assert!(said(&mut sender, post(ADD)).await.contains("-32000"));
    drop(two);
    served_again(&mut sender).await;
    drop(three);
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap();
    let mut out = size.to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The head of a POST, as HEADERS has it.
fn head(host: &str) -> Vec<u8> {
    let mut head = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", host),
        (":path", "/rpc"),
        ("content-type", "application/json"),
    ] {
        head.push(0);
        for text in [name, value] {
            head.push(u8::try_from(text.len()).unwrap());
            head.extend(text.as_bytes());
        }
    }
    head
}

/// Asks for so many big answers, with all the room for them that HTTP/2 knows; who reads
/// of the socket, and when, is left to the test.
async fn ask_for_much(server: &Server, streams: u32) -> TcpStream {
    const WINDOW: u32 = i32::MAX as u32;
    let host = address(server);
    let mut socket = TcpStream::connect(&host).await.unwrap();
    let mut out = PREFACE.to_vec();
    let settings = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
    out.extend(frame(4, 0, 0, &settings));
    out.extend(frame(8, 0, 0, &(WINDOW - 65_535).to_be_bytes()));
    out.extend(frame(4, 1, 0, b""));
    let head = head(&host);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,{BIG}}}"#);
    for stream in (0..streams).map(|number| number * 2 + 1) {
        out.extend(frame(1, 4, stream, &head));
        out.extend(frame(0, 1, stream, body.as_bytes()));
        socket.write_all(&out).await.unwrap();
        out.clear();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    socket
}

/// The next frame: its kind, its flags, its stream and its payload; `None` at the end.
async fn next_frame(socket: &mut TcpStream) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    within(socket.read_exact(&mut head)).await.ok()?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    within(socket.read_exact(&mut payload)).await.ok()?;
    Some((kind, flags, u32::from_be_bytes(stream), payload))
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_limit_cost_no_reply_of_those_within_it() {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let server = start(router(&gate, &log), Options::default()).await;
    let host = address(&server);
    let mut socket = TcpStream::connect(&host).await.unwrap();
    // The server's SETTINGS are not read yet, so the client knows no limit.
    let mut out = [PREFACE, &frame(4, 0, 0, b"")].concat();
    let (head, body) = (head(&host), format!(r#"{{"jsonrpc":"2.0","id":1,{HOLD}}}"#));
    // As many as flow control lets it open.
    let streams = 65_535 / body.len();
    for number in 0..streams {
        let stream = u32::try_from(number * 2 + 1).unwrap();
        out.extend(frame(1, 4, stream, &head));
        out.extend(frame(0, 1, stream, body.as_bytes()));
    }
    within(socket.write_all(&out)).await.unwrap();
    gate.add_permits(streams);
    let (mut replies, mut refused) = (0, 0);
    while replies + refused < streams {
        let Some((kind, flags, _, payload)) = next_frame(&mut socket).await else {
            panic!("it ended after {replies} replies and {refused} refusals");
        };
        match kind {
            0 if flags & 1 == 1 => replies += 1,
            3 if payload == [0, 0, 0, 7] => refused += 1,
            7 => panic!("it says goodbye: {payload:?}"),
            _ => {}
        }
    }
    assert!(replies >= 256, "{replies} replies");
}

const MUCH: usize = 390_000;

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_are_bounded_whatever_the_window_is() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let router = Router::new().method("big", move || {
        count.fetch_add(1, Relaxed);
        Ok("x".repeat(MUCH))
    });
    let server = start(router, Options::default()).await;
    let socket = ask_for_much(&server, 250).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // 4 MiB, and what the sockets themselves take; in all there are 97.
    let made = made.load(Relaxed) * MUCH;
    assert!(made < 30 << 20, "{made} bytes");
    drop(socket);
}

async fn served_again(sender: &mut SendRequest<String>) {
    let served = async {
        while said(sender, post(ADD)).await.contains("-32000") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(served).await;
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

/// A body of which the rest is yet to come.
struct Pieces(tokio::sync::mpsc::Receiver<&'static str>);

impl http_body::Body for Pieces {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        let piece = std::task::ready!(self.0.poll_recv(cx));
        Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(piece.into()))))
    }
}

#[tokio::test]
async fn bodies_that_are_coming_in_are_bounded() {
    let mut config = Config::default();
    config.queue = 100_000;
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router).config(config);
    let server = serve.await.unwrap();
    let socket = TcpStream::connect(address(&server)).await.unwrap();
    let builder = http2::Builder::new(TokioExecutor::new());
    let opened = builder.handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = opened.unwrap();
    tokio::spawn(connection);
    let blank: &'static str = " ".repeat(60_000).leak();
    let mut begin = |first: &'static str| {
        let (pieces, body) = tokio::sync::mpsc::channel(10);
        pieces.try_send(first).unwrap();
        let request = post(ADD).map(|_| Pieces(body));
        (pieces, tokio::spawn(sender.send_request(request)))
    };
    let (rest, first) = begin(blank);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (_second, refused) = begin(blank);
    let refused = within(refused).await.unwrap().unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    // There is room for a little.
    let (little, added) = begin(CALL);
    drop(little);
    assert_eq!(within(added).await.unwrap().unwrap().status(), 200);
    // One alone may be larger than that.
    rest.send(blank).await.unwrap();
    rest.send(CALL).await.unwrap();
    drop(rest);
    assert_eq!(within(first).await.unwrap().unwrap().status(), 200);
    // Nothing of those that are over counts.
    let (rest, third) = begin(blank);
    tokio::time::sleep(Duration::from_millis(100)).await;
    rest.send(CALL).await.unwrap();
    drop(rest);
    assert_eq!(within(third).await.unwrap().unwrap().status(), 200);
}

/// The bodies of all connections of a server, that is: small ones, too, since a connection
/// may have many.
#[tokio::test]
async fn bodies_that_are_coming_in_over_many_connections_are_bounded_together() {
    let limits = caudal::ServerLimits::default().incomplete(100_000);
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router).limits(limits);
    let server = serve.await.unwrap();
    let blank: &'static str = " ".repeat(60_000).leak();
    let begin = async || {
        let socket = TcpStream::connect(address(&server)).await.unwrap();
        let builder = http2::Builder::new(TokioExecutor::new());
        let opened = builder.handshake(TokioIo::new(socket)).await;
        let (mut sender, connection) = opened.unwrap();
        tokio::spawn(connection);
        let (pieces, body) = tokio::sync::mpsc::channel(10);
        pieces.try_send(blank).unwrap();
        let request = post(ADD).map(|_| Pieces(body));
        (pieces, Box::pin(sender.send_request(request)))
    };
    let (mut first, mut second) = (begin().await, begin().await);
    let (told, rest) = tokio::select! {
        told = &mut first.1 => (told, second),
        told = &mut second.1 => (told, first),
    };
    let told = told.unwrap();
    assert_eq!(told.status(), 503);
    assert_eq!(told.headers()["retry-after"], "1");
    let text = told.into_body().collect().await.unwrap().to_bytes();
    let error =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server overloaded"}}"#;
    assert_eq!(text, error);
    let (pieces, reply) = rest;
    pieces.send(CALL).await.unwrap();
    drop(pieces);
    assert_eq!(within(reply).await.unwrap().status(), 200);
    // Nothing of those that are over counts.
    let (pieces, reply) = begin().await;
    pieces.send(CALL).await.unwrap();
    drop(pieces);
    assert_eq!(within(reply).await.unwrap().status(), 200);
}

/// Bytes of the answers to so many batches, of which nobody takes anything.
async fn unread(sender: &mut SendRequest<String>, batch: &str, times: usize) -> u64 {
    let mut kept = Vec::new();
    let mut size = 0;
    for _ in 0..times {
        let request = post(ADD).map(|_| batch.to_owned());
        let response = within(sender.send_request(request)).await.unwrap();
        let length = response.headers().get("content-length");
        size += length.map_or(0, |length| length.to_str().unwrap().parse::<u64>().unwrap());
        kept.push(response);
    }
    size
}

#[tokio::test]
async fn refusals_that_nobody_takes_are_bounded_too() {
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let mut config = Config::default();
    config.output = 100_000;
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router).config(config);
    let server = serve.await.unwrap();
    let (mut sender, _connection) = open_with(&server, Some(1)).await;
    // 2 KB, each entry of which has an error of its own.
    let nothing = format!("[{}1]", "1,".repeat(999));
    let size = unread(&mut sender, &nothing, 100).await;
    assert!(
        size < 500_000,
        "{size} bytes of 100 KB, for 200 KB that were sent"
    );
    drop(sender);
    // 1 MB, each entry of which has an id of 1 KB.
    let (mut sender, _connection) = open_with(&server, Some(1)).await;
    let id = "x".repeat(900);
    let call = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"add","params":[1,2]}}"#);
    let calls = format!("[{}{call}]", format!("{call},").repeat(999));
    let size = unread(&mut sender, &calls, 20).await;
    assert!(size < 3_000_000, "{size} bytes of 100 KB");
}

#[tokio::test]
async fn a_connection_too_many_is_told_so() {
    let mut options = Options::default();
    options.connections_per_address = 1;
    let router = router(&Arc::new(Semaphore::new(0)), &Log::default());
    let server = start(router, options).await;
    let (mut first, _connection) = open(&server).await;
    assert!(said(&mut first, post(ADD)).await.contains(r#""result":3"#));
    let (mut second, connection) = open(&server).await;
    let response = within(second.send_request(post(ADD))).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let body = within(response.collect()).await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("limited to 1"), "{text}");
    // It ends in good order.
    drop(second);
    within(connection).await.unwrap().unwrap();
    assert!(said(&mut first, post(ADD)).await.contains(r#""result":3"#));
}

#[tokio::test]
async fn a_query_that_follows_the_host_is_no_path() {
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let server = caudal::serve("http://127.0.0.1:0?x=1", router)
        .await
        .unwrap();
    let peer = caudal::connect(server.endpoint().to_string())
        .await
        .unwrap();
    let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
    assert_eq!(sum, 3);
}

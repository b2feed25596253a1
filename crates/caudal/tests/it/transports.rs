//! Every transport with every framing: TCP, Unix sockets, memory, child processes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::any::Any;
#[cfg(unix)]
use std::error::Error as _;
use std::fmt::Write as _;
#[cfg(unix)]
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use caudal::transport::Stream;
use caudal::{
    CallError, Config, Context, Endpoint, Error, Framing, JsonRpcError, Peer, RawValue, Router,
    Server, connect, serve,
};
use serde::Deserialize;
use serde_json::{Value, json};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::support::program::conformance;
use crate::support::{Scratch, eventually, within};

// ---- places ----

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Unix,
    Memory,
    Child,
}
use Kind::{Child, Memory, Tcp, Unix};

/// Every transport with both framings.
fn everywhere() -> Vec<(Kind, Framing)> {
    let kinds = [
        Tcp,
        #[cfg(unix)]
        Unix,
        Memory,
        Child,
    ];
    let both = |kind| [(kind, Framing::Line), (kind, Framing::Header)];
    kinds.into_iter().flat_map(both).collect()
}

fn framed(framing: Framing, body: &str) -> Vec<u8> {
    match framing {
        Framing::Header => format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
        _ => format!("{body}\n").into_bytes(),
    }
}

// ---- what is served ----

#[derive(Deserialize)]
struct Slow {
    ms: u64,
}

/// What the conformance example has of it, and a little more.
fn methods() -> Router {
    type Anything = Option<Box<RawValue>>;
    let notes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&notes);
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("echo", |params: Anything| Ok(params))
        .method("fail", |_: Anything| {
            let data = json!({ "why": "test" });
            Err::<(), _>(JsonRpcError::with_data(1001, "failed on purpose", data))
        })
        .method("slow", |Slow { ms }| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
        .method("who", |cx: Context| {
            Ok(cx.peer().remote().map(str::to_owned))
        })
        .method("mirror", |cx: Context, params: Value| async move {
            let back: Value = cx.peer().call("echo", params).await?;
            Ok(back)
        })
        .method("update", move |_: Anything| {
            notes.fetch_add(1, SeqCst);
        })
        .method("repeat", |(text, times): (String, usize)| {
            Ok(text.repeat(times))
        })
        .method("updates", move || Ok(counted.load(SeqCst)))
}

fn echo() -> Router {
    Router::new().method("echo", |params: Option<Box<RawValue>>| Ok(params))
}

fn listen(kind: Kind, framing: Framing) -> (Endpoint, Scratch) {
    let scratch = Scratch::new();
    let endpoint = match kind {
        Unix => Endpoint::unix(scratch.file()),
        _ => Endpoint::tcp("127.0.0.1", 0),
    };
    (endpoint.with_framing(framing), scratch)
}

/// What lives as long as a connection.
type Keep = Box<dyn Any + Send>;

/// A peer that is connected to what is served.
async fn peer(kind: Kind, framing: Framing, router: Router) -> (Peer, Keep) {
    match kind {
        Tcp | Unix => {
            let (endpoint, scratch) = listen(kind, framing);
            let server = serve(endpoint, methods()).await.unwrap();
            let peer = connect(server.endpoint()).router(router).await.unwrap();
            (peer, Box::new((server, scratch)))
        }
        Memory => {
            let (here, there) = tokio::io::duplex(64 << 10);
            let server = Peer::start(Stream::new(there, framing), methods());
            let peer = Peer::start(Stream::new(here, framing), router);
            (peer, Box::new(server))
        }
        Child => {
            let framing_option = match framing {
                Framing::Header => "?framing=header",
                _ => "",
            };
            let argument = format!("stdio:{framing_option}");
            let endpoint = Endpoint::command(conformance(), [argument]).with_framing(framing);
            (
                connect(endpoint).router(router).await.unwrap(),
                Box::new(()),
            )
        }
    }
}

/// The other end of a connection, which says what it likes.
struct Raw {
    framing: Framing,
    input: Box<dyn AsyncRead + Send + Unpin>,
    /// Gone when it has ended its output.
    output: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    read: Vec<u8>,
    _keep: Keep,
}

impl Raw {
    async fn new(kind: Kind, framing: Framing) -> Self {
        type Halves = (
            Box<dyn AsyncRead + Send + Unpin>,
            Box<dyn AsyncWrite + Send + Unpin>,
        );
        let (halves, keep): (Halves, Keep) = match kind {
            Tcp | Unix => {
                let (endpoint, scratch) = listen(kind, framing);
                let server = serve(endpoint, methods()).await.unwrap();
                let halves: Halves = match kind {
                    #[cfg(unix)]
                    Unix => {
                        let socket = UnixStream::connect(scratch.file()).await.unwrap();
                        let (input, output) = socket.into_split();
                        (Box::new(input), Box::new(output))
                    }
                    _ => {
                        let (input, output) = tcp(&server).await.into_split();
                        (Box::new(input), Box::new(output))
                    }
                };
                (halves, Box::new((server, scratch)))
            }
            Memory => {
                let (here, there) = tokio::io::duplex(64 << 10);
                let server = Peer::start(Stream::new(there, framing), methods());
                let (input, output) = tokio::io::split(here);
                ((Box::new(input), Box::new(output)), Box::new(server))
            }
            Child => {
                let option = if framing == Framing::Header {
                    "?framing=header"
                } else {
                    ""
                };
                let mut child = tokio::process::Command::new(conformance())
                    .arg(format!("stdio:{option}"))
                    .stdin(std::process::Stdio::piped())
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .unwrap();
                let (input, output) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
                ((Box::new(input), Box::new(output)), Box::new(child))
            }
        };
        Self {
            framing,
            input: halves.0,
            output: Some(halves.1),
            read: Vec::new(),
            _keep: keep,
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let output = self.output.as_mut().unwrap();
        within(output.write_all(bytes)).await.unwrap();
        within(output.flush()).await.unwrap();
    }

    async fn send(&mut self, body: &str) {
        self.write(&framed(self.framing, body)).await;
    }

    /// Ends the output; the input goes on.
    async fn end(&mut self) {
        let mut output = self.output.take().unwrap();
        within(output.shutdown()).await.unwrap();
    }

    /// The next message; `None` at the end.
    async fn receive(&mut self) -> Option<Value> {
        loop {
            if let Some(body) = self.cut() {
                return Some(serde_json::from_slice(&body).unwrap());
            }
            let read = within(self.input.read_buf(&mut self.read)).await.unwrap();
            if read == 0 {
                assert_eq!(String::from_utf8_lossy(&self.read), "");
                return None;
            }
        }
    }

    fn cut(&mut self) -> Option<Vec<u8>> {
        let find = |what: &[u8]| {
            self.read
                .windows(what.len())
                .position(|found| found == what)
        };
        if self.framing == Framing::Line {
            let end = find(b"\n")?;
            return Some(self.read.drain(..=end).collect());
        }
        let end = find(b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&self.read[..end]).unwrap();
        let length = head.strip_prefix("Content-Length: ").unwrap().trim_end();
        let length: usize = length.parse().unwrap();
        (self.read.len() >= end + length).then(|| {
            self.read.drain(..end);
            self.read.drain(..length).collect()
        })
    }
}

async fn tcp(server: &Server) -> TcpStream {
    let text = server.endpoint().to_string();
    let address = text.strip_prefix("tcp://").unwrap();
    let address = address.split('?').next().unwrap();
    within(TcpStream::connect(address)).await.unwrap()
}

fn remote(error: CallError) -> JsonRpcError {
    match error {
        CallError::Remote(error) => error,
        other => panic!("not an answer: {other:?}"),
    }
}

// ---- everywhere ----

/// Proves: A9, A10, A11, A58, A59
#[tokio::test]
async fn calls_notifications_batches_and_errors_pass_every_transport() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let (peer, _keep) = peer(kind, framing, Router::new()).await;
        let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
        assert_eq!(sum, 3);
        peer.notify("update", (1, 2)).await.unwrap();
        let failed = within(peer.call::<()>("fail", ())).await.unwrap_err();
        let failed = remote(failed);
        assert_eq!(
            (failed.code.get(), &*failed.message),
            (1001, "failed on purpose")
        );
        assert_eq!(failed.data, Some(json!({ "why": "test" })));
        let unknown = within(peer.call::<()>("nope", ())).await.unwrap_err();
        assert_eq!(remote(unknown).code, -32601);
        let mut batch = peer.batch();
        let slow = batch.call::<u64>("slow", json!({ "ms": 20 })).unwrap();
        let fast = batch.call::<i64>("add", (3, 4)).unwrap();
        let bad = batch.call::<i64>("add", ("x",)).unwrap();
        batch.notify("update", (1,)).unwrap();
        within(batch.send()).await.unwrap();
        assert_eq!(within(fast).await.unwrap(), 7);
        assert_eq!(within(slow).await.unwrap(), 20);
        assert_eq!(remote(within(bad).await.unwrap_err()).code, -32602);
        if kind != Child {
            let updates: usize = within(peer.call("updates", ())).await.unwrap();
            assert_eq!(updates, 2);
        }
        // Nothing came that nobody had asked for.
        let stats = peer.stats();
        assert_eq!((stats.late_replies, stats.invalid), (0, 0));
    }
}

/// Proves: A32, A33, A34, A35
#[tokio::test]
async fn a_handler_calls_back_over_every_transport() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        if kind == Child && cfg!(windows) {
            continue;
        }
        if kind == Child {
            // `cat` sends back our own call, so the callee is us.
            let cat = Endpoint::command("cat", [""; 0]).with_framing(framing);
            let peer = connect(cat).router(echo()).await.unwrap();
            let back: Value = within(peer.call("echo", (1, "é"))).await.unwrap();
            assert_eq!(back, json!([1, "é"]));
            continue;
        }
        let (peer, _keep) = peer(kind, framing, echo()).await;
        let calls = (0..20).map(|n| peer.call::<Value>("mirror", (n,)).into_future());
        for (n, call) in calls.enumerate() {
            assert_eq!(within(call).await.unwrap(), json!([n]));
        }
    }
}

/// Proves: A92
#[tokio::test]
async fn nine_hundred_kilobytes_pass_every_transport_both_ways() {
    let big = json!(["é😀x".repeat(900_000 / 7)]);
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let (peer, _keep) = peer(kind, framing, echo()).await;
        let back: Value = within(peer.call("echo", &big)).await.unwrap();
        assert!(back == big);
        if kind != Child {
            // There, back to us as a call, there as its answer, and back.
            let back: Value = within(peer.call("mirror", &big)).await.unwrap();
            assert!(back == big);
        }
    }
}

#[tokio::test]
async fn large_messages_both_ways_at_once_do_not_block_each_other() {
    let big = json!(["x".repeat(900_000)]);
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let (peer, _keep) = peer(kind, framing, Router::new()).await;
        let five = async {
            let echo = || peer.call::<Value>("echo", &big).into_future();
            tokio::join!(echo(), echo(), echo(), echo(), echo())
        };
        let five = within(five).await;
        assert!(five.0.unwrap() == big && five.4.unwrap() == big);
    }
}

/// Proves: A94, J28
#[tokio::test]
async fn an_oversized_message_is_refused_and_the_connection_goes_on() {
    let big = "x".repeat(1_300_000);
    let oversized = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":["{big}"]}}"#);
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        raw.send(&oversized).await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(answer["error"]["message"], "Request payload too large");
        raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}"#)
            .await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": 2, "result": 3 }));
        raw.end().await;
        assert_eq!(raw.receive().await, None);
    }
}

/// Proves: A93
#[tokio::test]
async fn a_connection_may_have_another_limit() {
    let mut config = Config::default();
    config.policy.max_message = 100;
    let server = serve("tcp://127.0.0.1:0", methods())
        .config(config)
        .await
        .unwrap();
    let mut socket = tcp(&server).await;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":["{}"]}}"#,
        "x".repeat(80)
    );
    within(socket.write_all(&framed(Framing::Line, &call)))
        .await
        .unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    within(socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("Request payload too large"), "{answer}");
}

/// Proves: A12, A13, A15, J8
#[tokio::test]
async fn garbage_is_answered_and_the_connection_goes_on() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        for garbage in ["hello", "{\"jsonrpc\":", "\u{0}\u{1}", "{}}"] {
            raw.send(garbage).await;
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer["error"]["code"], -32700, "{garbage:?}: {answer}");
            assert_eq!(answer["id"], Value::Null);
        }
        raw.write(&match framing {
            Framing::Header => b"Content-Length: 2\r\n\r\n\xff\xfe".to_vec(),
            _ => b"\xff\xfe\n".to_vec(),
        })
        .await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer["error"]["code"], -32700);
        raw.send(r#"{"jsonrpc":"2.0","id":"a","method":"add","params":[1,2]}"#)
            .await;
        assert_eq!(raw.receive().await.unwrap()["result"], 3);
    }
}

/// Proves: A12, A46
#[tokio::test]
async fn headers_without_a_length_are_answered_once_and_the_connection_goes_on() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
    for (kind, framing) in everywhere() {
        if framing != Framing::Header {
            continue;
        }
        println!("{kind:?}");
        let mut raw = Raw::new(kind, framing).await;
        let framed = String::from_utf8(framed(framing, call)).unwrap();
        let block = "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n";
        for skipped in ["", "a line\r\n\r\n", call] {
            let stream = format!("{block}{skipped}{framed}");
            raw.write(stream.as_bytes()).await;
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer["error"]["code"], -32700, "{skipped:?}: {answer}");
            assert_eq!(answer["id"], Value::Null);
            assert_eq!(raw.receive().await.unwrap()["result"], 3, "{skipped:?}");
        }
        // Lengths that contradict each other end it.
        raw.write(format!("{block}Content-Length: 2\r\n{framed}").as_bytes())
            .await;
        for _ in 0..2 {
            let answer = raw.receive().await.unwrap();
            assert_eq!(answer["error"]["code"], -32700, "{answer}");
        }
        assert_eq!(raw.receive().await, None);
    }
}

/// A frame that stays unfinished ends its connection; this is none.
#[tokio::test(start_paused = true)]
async fn what_is_skipped_up_to_a_length_may_pause_for_as_long_as_it_takes() {
    let (mut here, there) = tokio::io::duplex(1 << 16);
    let server = Peer::start(Stream::new(there, Framing::Header), methods());
    here.write_all(b"X-Other: 1\r\n\r\n{\"half\":")
        .await
        .unwrap();
    tokio::time::sleep(10 * Config::default().message_timeout.unwrap()).await;
    assert!(!server.state().is_closed());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
    let framed = framed(Framing::Header, call);
    here.write_all(&framed).await.unwrap();
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\"result\":3") {
        assert_ne!(here.read_buf(&mut read).await.unwrap(), 0);
    }
    assert_eq!(server.stats().invalid, 1);
}

/// Proves: A46, A48, A49
#[tokio::test]
async fn a_message_may_come_byte_by_byte() {
    let call = r#"{"jsonrpc":"2.0","id":"é","method":"echo","params":["😀"]}"#;
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        for byte in framed(framing, call) {
            raw.write(&[byte]).await;
            if kind == Memory {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
        let answer = raw.receive().await.unwrap();
        assert_eq!(
            answer,
            json!({ "jsonrpc": "2.0", "id": "é", "result": ["😀"] })
        );
    }
}

/// Proves: A50, A51
#[tokio::test]
async fn many_messages_may_come_in_one_write() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        let mut all = Vec::new();
        for n in 0..500 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{n},"method":"add","params":[{n},1]}}"#);
            all.extend(framed(framing, &call));
            let note = r#"{"jsonrpc":"2.0","method":"update"}"#;
            all.extend(framed(framing, note));
        }
        // Half of the last one comes later.
        let cut = all.len() - 20;
        raw.write(&all[..cut]).await;
        for n in 0..499 {
            let answer = raw.receive().await.unwrap();
            assert_eq!(
                (&answer["id"], &answer["result"]),
                (&json!(n), &json!(n + 1))
            );
        }
        assert_eq!(raw.receive().await.unwrap()["id"], 499);
        raw.write(&all[cut..]).await;
        raw.send(r#"{"jsonrpc":"2.0","id":"end","method":"add","params":[1,1]}"#)
            .await;
        assert_eq!(raw.receive().await.unwrap()["id"], "end");
    }
}

/// Proves: A48
#[tokio::test]
async fn the_last_line_needs_no_newline() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        let mut call = framed(
            framing,
            r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
        );
        if framing == Framing::Line {
            assert_eq!(call.pop(), Some(b'\n'));
        }
        raw.write(&call).await;
        raw.end().await;
        assert_eq!(raw.receive().await.unwrap()["result"], 3);
        assert_eq!(raw.receive().await, None);
    }
}

/// Proves: A52
#[tokio::test]
async fn who_ends_its_output_still_gets_the_answers_to_what_it_asked() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        let calls = [
            r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":{"ms":300}}"#,
            r#"[{"jsonrpc":"2.0","id":2,"method":"slow","params":{"ms":100}},{"jsonrpc":"2.0","method":"update"}]"#,
            r#"{"jsonrpc":"2.0","id":3,"method":"add","params":[1,2]}"#,
        ];
        for call in calls {
            raw.send(call).await;
        }
        raw.end().await;
        assert_eq!(raw.receive().await.unwrap()["id"], 3);
        assert_eq!(raw.receive().await.unwrap()[0]["id"], 2);
        assert_eq!(raw.receive().await.unwrap()["result"], 300);
        assert_eq!(raw.receive().await, None);
    }
}

/// Whether it says that the answer is too large.
fn is_too_large(error: &CallError, most: usize) -> bool {
    matches!(error, CallError::TooLarge { limit } if *limit == most)
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_its_caller_does_not_end_the_connection() {
    for (kind, framing) in everywhere().into_iter().filter(|(kind, _)| *kind != Child) {
        println!("{kind:?} {framing:?}");
        let (peer, _keep) = peer(kind, framing, Router::new()).await;
        let other = peer.call::<u64>("slow", json!({ "ms": 300 })).timeout(None);
        let large = peer.call::<String>("repeat", ("x", 3_000_000));
        let large = large.timeout(None);
        let (other, large) = within(async { tokio::join!(other, large) }).await;
        let error = large.unwrap_err();
        assert!(is_too_large(&error, 1 << 20), "{error:?}");
        assert_eq!(error.to_string(), "the answer is larger than 1048576 bytes");
        assert!(!error.is_fatal() && error.may_have_run());
        assert_eq!(other.unwrap(), 300);
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
        let stats = peer.stats();
        assert_eq!((stats.invalid, stats.calls_failed), (1, 1));
    }
}

#[tokio::test]
async fn the_answer_of_a_child_may_be_too_large_too() {
    let mut config = Config::default();
    config.policy.max_message = 1_000;
    config.call_timeout = None;
    for framing in [Framing::Line, Framing::Header] {
        println!("{framing:?}");
        let argument = match framing {
            Framing::Header => "stdio:?framing=header",
            _ => "stdio:",
        };
        let endpoint = Endpoint::command(conformance(), [argument]).with_framing(framing);
        let peer = connect(endpoint).config(config.clone()).await.unwrap();
        let call = peer.call::<Value>("echo", ["x".repeat(100_000)]);
        let error = within(call).await.unwrap_err();
        assert!(is_too_large(&error, 1_000), "{error:?}");
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    }
}

/// The server is the caller here, that of stdio among them.
#[tokio::test]
async fn an_oversized_response_is_not_answered() {
    for (kind, framing) in everywhere() {
        println!("{kind:?} {framing:?}");
        let mut raw = Raw::new(kind, framing).await;
        let big = "x".repeat(1_300_000);
        // Nobody waits for this one, and nobody can tell for which call that one is.
        raw.send(&format!(r#"{{"jsonrpc":"2.0","id":99,"result":"{big}"}}"#))
            .await;
        raw.send(&format!(r#"{{"jsonrpc":"2.0","result":"{big}","id":1}}"#))
            .await;
        raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}"#)
            .await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": 2, "result": 3 }));
        if kind == Child {
            // It calls nobody.
            continue;
        }
        raw.send(r#"{"jsonrpc":"2.0","id":"m","method":"mirror","params":[1]}"#)
            .await;
        let asked = raw.receive().await.unwrap();
        assert_eq!(asked["method"], "echo", "{asked}");
        let id = &asked["id"];
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":"{big}"}}"#
        ))
        .await;
        let answer = raw.receive().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!("m"), &json!(-32603))
        );
        let reason = answer["error"]["data"]["reason"].as_str().unwrap();
        assert!(
            reason.ends_with("the answer is larger than 1048576 bytes"),
            "{reason}"
        );
        raw.end().await;
        assert_eq!(raw.receive().await, None);
    }
}

#[tokio::test]
async fn the_answers_to_a_batch_that_are_too_large_together_end_what_can_be_seen_of_them() {
    for (kind, framing) in everywhere().into_iter().filter(|(kind, _)| *kind != Child) {
        println!("{kind:?} {framing:?}");
        let (peer, _keep) = peer(kind, framing, Router::new()).await;
        let mut batch = peer.batch();
        let sum = batch.call::<i64>("add", (1, 2)).unwrap();
        let large = batch.call::<String>("repeat", ("x", 3_000_000)).unwrap();
        within(batch.send()).await.unwrap();
        for error in [
            within(sum).await.unwrap_err(),
            within(large).await.unwrap_err(),
        ] {
            assert!(is_too_large(&error, 1 << 20), "{error:?}");
        }
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    }
}

// ---- TCP ----

#[tokio::test]
async fn what_ran_on_a_connection_that_is_gone_is_not_in_flight() {
    let server = serve("tcp://127.0.0.1:0", methods()).await.unwrap();
    let mut socket = tcp(&server).await;
    let call = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"slow\",\"params\":{\"ms\":60000}}\n";
    within(socket.write_all(call.as_bytes())).await.unwrap();
    eventually("it runs", || server.stats().in_flight == 1).await;
    SockRef::from(&socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(socket);
    eventually("gone", || server.connections() == 0).await;
    eventually("idle", || server.stats().in_flight == 0).await;
}

#[tokio::test]
async fn a_peer_knows_who_is_at_the_other_end() {
    let server = serve("tcp://127.0.0.1:0", methods()).await.unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    let listens = server.endpoint().to_string().replace("tcp://", "");
    assert_eq!(peer.remote(), Some(&*listens));
    let seen: String = within(peer.call("who", ())).await.unwrap();
    assert!(seen.starts_with("127.0.0.1:") && seen != listens, "{seen}");
    assert_eq!(server.peers()[0].remote(), Some(&*seen));

    #[cfg(unix)]
    {
        let scratch = Scratch::new();
        let server = serve(Endpoint::unix(scratch.file()), methods())
            .await
            .unwrap();
        let peer = connect(server.endpoint()).await.unwrap();
        let path = format!("unix:{}", scratch.file().display());
        assert_eq!(peer.remote(), Some(&*path));
    }
    let (one, _other) = Peer::pair(Router::new(), Router::new());
    assert_eq!(one.remote(), Some("memory"));
}

#[tokio::test]
async fn ipv6_and_names_are_served_too() {
    for host in ["[::1]", "localhost"] {
        let endpoint = format!("tcp://{host}:0");
        let server = match serve(endpoint, methods()).await {
            Ok(server) => server,
            // A machine may have no IPv6.
            Err(Error::Listen { cause, .. }) if host == "[::1]" => {
                println!("skipped: {cause}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let text = server.endpoint().to_string();
        assert!(text.starts_with(&format!("tcp://{host}:")), "{text}");
        let peer = connect(text).await.unwrap();
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    }
}

// ---- Unix sockets ----

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_for_its_user_alone_and_gone_after_shutdown() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let server = serve(Endpoint::unix(&path), methods()).await.unwrap();
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    assert_eq!(mode(&path), 0o600);
    // Nothing else is left beside it.
    assert_eq!(fs::read_dir(scratch.folder()).unwrap().count(), 1);
    let peer = connect(server.endpoint()).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    within(server.shutdown(Duration::from_secs(1))).await;
    eventually("removed", || !path.exists()).await;
    assert!(connect(Endpoint::unix(&path)).await.is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_is_free_as_soon_as_shutdown_returns() {
    let scratch = Scratch::new();
    let path = scratch.file();
    for _ in 0..20 {
        let server = serve(Endpoint::unix(&path), methods()).await.unwrap();
        within(server.shutdown(Duration::from_secs(1))).await;
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn a_port_is_free_as_soon_as_shutdown_returns() {
    let first = serve("tcp://127.0.0.1:0", methods()).await.unwrap();
    let endpoint = first.endpoint().clone();
    within(first.shutdown(Duration::from_secs(1))).await;
    for _ in 0..20 {
        let server = serve(&endpoint, methods()).await.unwrap();
        within(server.shutdown(Duration::from_secs(1))).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let scratch = Scratch::new();
    let path = scratch.file();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = serve(Endpoint::unix(&path), methods()).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    let peer = connect(server.endpoint()).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_live_socket_is_not_replaced() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let server = serve(Endpoint::unix(&path), methods()).await.unwrap();
    let error = serve(Endpoint::unix(&path), methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on `unix:{}`; stop the other server, or choose another path",
            path.display()
        )
    );
    assert_eq!(
        error.source().unwrap().to_string(),
        "another server listens on it"
    );
    // The first one goes on, and its path stays.
    let peer = connect(server.endpoint()).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_that_another_server_has_taken_over_is_not_removed() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let first = serve(Endpoint::unix(&path), methods()).await.unwrap();
    fs::remove_file(&path).unwrap();
    let _second = serve(Endpoint::unix(&path), methods()).await.unwrap();
    within(first.shutdown(Duration::from_secs(1))).await;
    within(first.wait()).await;
    let peer = connect(Endpoint::unix(&path)).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_no_socket_is_not_replaced() {
    let scratch = Scratch::new();
    let path = scratch.file();
    fs::write(&path, "precious").unwrap();
    let error = serve(Endpoint::unix(&path), methods()).await.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }));
    assert_eq!(
        error.source().unwrap().to_string(),
        "there is something else than a socket; choose another path"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    // Nor is what a link points to.
    let link = scratch.folder().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(serve(Endpoint::unix(&link), methods()).await.is_err());
    let directory = scratch.folder().join("no/such");
    let missing = Endpoint::unix(directory.join("socket"));
    let error = serve(&missing, methods()).await.unwrap_err();
    assert!(matches!(error, Error::Listen { .. }) && !error.is_recoverable());
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on `{missing}`; make the directory `{}` first",
            directory.display()
        )
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_as_long_as_the_system_allows_is_served() {
    let scratch = Scratch::new();
    let mut path = scratch
        .folder()
        .as_os_str()
        .to_owned()
        .into_string()
        .unwrap();
    path.push('/');
    while path.len() < 107 {
        path.push('x');
    }
    // The system takes it,
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    fs::remove_file(&path).unwrap();
    // and so do we.
    serve(Endpoint::unix(&path), methods()).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn what_an_earlier_process_left_behind_is_no_obstacle() {
    let scratch = Scratch::new();
    let mut left = scratch.file().into_os_string();
    left.push(format!(".{}", std::process::id()));
    drop(std::os::unix::net::UnixListener::bind(left).unwrap());
    serve(Endpoint::unix(scratch.file()), methods())
        .await
        .unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_path_of_another_kind_is_not_worth_another_try() {
    let scratch = Scratch::new();
    fs::write(scratch.file(), "precious").unwrap();
    let error = serve(Endpoint::unix(scratch.file()), methods())
        .await
        .unwrap_err();
    assert!(!error.is_recoverable());
}

// ---- endpoints ----

#[tokio::test]
async fn only_loopback_is_served_unless_asked() {
    let error = serve("tcp://0.0.0.0:0", methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tcp://0.0.0.0:0` is no loopback address, so other machines may reach it; if that is meant, say `allow_remote()`"
    );
    assert!(!error.is_recoverable());
    let server = serve("tcp://0.0.0.0:0", methods())
        .allow_remote()
        .await
        .unwrap();
    let text = server.endpoint().to_string();
    let port = text.strip_prefix("tcp://0.0.0.0:").unwrap();
    let peer = connect(format!("tcp://127.0.0.1:{port}")).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

/// Proves: A84, A87
#[tokio::test]
async fn a_closed_port_may_be_tried_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = within(connect(Endpoint::tcp("127.0.0.1", port)).into_future())
        .await
        .unwrap_err();
    let Error::Connect { endpoint, cause } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(
        error.to_string(),
        format!("cannot connect to `{endpoint}`; start the server first, or mend the address")
    );
    // As `main` prints it.
    assert_eq!(format!("{error:?}"), format!("{error}: {cause}"));
    assert!(error.is_recoverable());
    #[cfg(unix)]
    {
        let scratch = Scratch::new();
        let error = connect(Endpoint::unix(scratch.file())).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }) && error.is_recoverable());
        assert!(
            error
                .to_string()
                .ends_with("; start the server first, or mend the path")
        );
    }
}

#[tokio::test]
async fn nobody_listens_on_port_0_and_never_will() {
    let error = within(connect("tcp://127.0.0.1:0").into_future())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot connect to `tcp://127.0.0.1:0`; port 0 is for listening, use 1–65535"
    );
    assert!(!error.is_recoverable());
}

#[tokio::test]
async fn an_address_in_use_says_what_to_try() {
    let first = serve("tcp://127.0.0.1:0", methods()).await.unwrap();
    let error = serve(first.endpoint(), methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on `{}`; stop whoever has the port, choose another, or 0 for a free one",
            first.endpoint()
        )
    );
    assert!(error.is_recoverable());
    #[cfg(unix)]
    {
        let scratch = Scratch::new();
        let first = serve(Endpoint::unix(scratch.file()), methods())
            .await
            .unwrap();
        let error = serve(first.endpoint(), methods()).await.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("; stop the other server, or choose another path")
        );
        assert!(error.is_recoverable());
    }
}

/// Proves: A84, A86
#[tokio::test]
async fn a_bad_address_is_refused_with_a_hint() {
    let error = connect("localhost:4017").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`localhost:4017` has no scheme; try `tcp://localhost:4017`"
    );
    assert!(!error.is_recoverable());
    let error = serve("tcp://localhost", methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`tcp://localhost` has no port; try `tcp://localhost:4017`"
    );
    let error = serve("cmd:pylsp -v", methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`cmd:pylsp -v` cannot be served: a program is connected to, with `connect`"
    );
    assert!(!error.is_recoverable());
    #[cfg(not(feature = "http"))]
    not_built_in().await;
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_given_up_in_time() {
    // A backlog that is full lets nobody in and refuses nobody.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut filled = Vec::new();
    loop {
        let one =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await;
        match one {
            Ok(stream) => filled.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let connecting =
        connect(Endpoint::tcp("127.0.0.1", address.port())).timeout(Duration::from_millis(300));
    let error = within(connecting.into_future()).await.unwrap_err();
    assert!(matches!(error, Error::ConnectTimeout { .. }), "{error:?}");
    assert!(error.is_recoverable());
}

#[tokio::test]
async fn a_framing_of_the_endpoint_is_used_by_both_sides() {
    let server = serve("tcp://127.0.0.1:0?framing=header", methods())
        .await
        .unwrap();
    let text = server.endpoint().to_string();
    assert!(text.ends_with("?framing=header"), "{text}");
    let peer = connect(text).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    let mut socket = tcp(&server).await;
    let mut call = String::new();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
    write!(
        call,
        "content-length:{}\r\nContent-Type: x\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    within(socket.write_all(call.as_bytes())).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = String::new();
    within(socket.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(
        answer,
        "Content-Length: 35\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}"
    );
}

#[cfg(not(feature = "http"))]
async fn not_built_in() {
    let error = serve("ws://localhost:1", methods()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`ws://localhost:1` cannot be served: this transport is not built in; \
         give caudal the feature `ws` in Cargo.toml"
    );
    let error = connect("ws://localhost:1").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "`ws://localhost:1` cannot be connected to: this transport is not built in; \
         give caudal the feature `ws` in Cargo.toml"
    );
    assert!(!error.is_recoverable());
}

/// One that has bound the path, and does not listen yet, has not left it behind.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn of_servers_that_start_at_once_on_a_path_one_has_it() {
    const SERVERS: usize = 6;
    let scratch = Scratch::new();
    for round in 0..300 {
        if round % 2 == 0 {
            drop(std::os::unix::net::UnixListener::bind(scratch.file()).unwrap());
            // A program that another test starts just now may still hold it.
            let connect = || std::os::unix::net::UnixStream::connect(scratch.file());
            eventually("nobody listens", || connect().is_err()).await;
        }
        let start = Arc::new(std::sync::Barrier::new(SERVERS));
        let servers: Vec<_> = (0..SERVERS)
            .map(|_| {
                let (start, endpoint) = (Arc::clone(&start), Endpoint::unix(scratch.file()));
                tokio::spawn(async move {
                    start.wait();
                    serve(endpoint, Router::new()).await
                })
            })
            .collect();
        let mut listening = Vec::new();
        for server in servers {
            listening.extend(server.await.unwrap());
        }
        assert_eq!(listening.len(), 1, "in round {round}");
        for server in listening {
            server.shutdown(Duration::ZERO).await;
        }
    }
}

/// Who answers and hangs up has answered, though we find out by a write that fails.
#[cfg(unix)]
#[tokio::test]
async fn answers_that_came_before_a_write_failed_are_heard() {
    answers_before_a_write_fails(false).await;
}

#[cfg(unix)]
#[tokio::test]
async fn answers_that_came_before_a_write_failed_are_heard_in_a_shutdown() {
    answers_before_a_write_fails(true).await;
}

#[cfg(unix)]
async fn answers_before_a_write_fails(shuts_down: bool) {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::mpsc;

    const CALLS: usize = 3;
    let scratch = Scratch::new();
    let listener = std::os::unix::net::UnixListener::bind(scratch.file()).unwrap();
    let (go, may_answer) = mpsc::channel();
    let (has, heard) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let lines = BufReader::new(socket.try_clone().unwrap()).lines();
        let calls: Vec<_> = lines.take(CALLS).map(Result::unwrap).collect();
        has.send(()).unwrap();
        may_answer.recv().unwrap();
        for call in calls {
            let call: Value = serde_json::from_str(&call).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": 7});
            writeln!(socket, "{answer}").unwrap();
        }
        drop(socket);
        gone.send(()).unwrap();
    });
    let peer = connect(Endpoint::unix(scratch.file())).await.unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call::<i64>("seven", ()).await })
        })
        .collect();
    eventually("the calls are sent", || heard.try_recv().is_ok()).await;
    // Nothing of this runtime runs meanwhile: the answers wait in the socket.
    go.send(()).unwrap();
    is_gone.recv().unwrap();
    peer.notify("more", ()).await.unwrap();
    if shuts_down {
        within(peer.shutdown(Duration::from_secs(5))).await;
    }
    for call in calls {
        assert_eq!(within(call).await.unwrap().unwrap(), 7);
    }
    let reason = within(peer.closed()).await;
    assert!(!reason.is_local(), "{reason}");
}

/// A socket that is closed while something is unread is reset.
#[tokio::test]
async fn what_a_server_said_last_is_heard_though_its_client_was_speaking() {
    let kinds = [
        Tcp,
        #[cfg(unix)]
        Unix,
    ];
    for kind in kinds {
        let (endpoint, _scratch) = listen(kind, Framing::Line);
        let server = serve(endpoint, Router::new()).await.unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        let router = Router::new().method("log", move || {
            let count = Arc::clone(&count);
            async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                count.fetch_add(1, SeqCst);
            }
        });
        let connecting = connect(server.endpoint().clone()).router(router);
        let client = connecting.await.unwrap();
        eventually("it is served", || !server.peers().is_empty()).await;
        let speaker = client.clone();
        let speaks = tokio::spawn(async move {
            let text = "x".repeat(10_000);
            while speaker.notify("chatter", (&text,)).await.is_ok() {
                tokio::task::yield_now().await;
            }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        for _ in 0..3 {
            server.peers()[0].notify("log", ()).await.unwrap();
        }
        within(server.shutdown(Duration::from_secs(1))).await;
        let reason = within(client.closed()).await;
        within(speaks).await.unwrap();
        assert_eq!(heard.load(SeqCst), 3, "{kind:?}: {reason:?}");
    }
}

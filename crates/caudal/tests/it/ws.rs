//! WebSocket through a server and a client, and through bytes made by hand.
#![cfg(feature = "ws")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

mod http2;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Log, eventually, within};
use caudal::http::{Caller, ClientOptions, Options, Parts, StatusCode};
use caudal::{
    Backoff, CallError, Config, Context, Error, Extensions, Peer, Router, Server, connect, serve,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// ---- a server ----

/// Is told when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

fn router(log: &Log) -> Router {
    let (noted, dropped) = (log.clone(), log.clone());
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("who", |cx: Context| {
            let caller = cx.peer().extensions().get::<Caller>();
            Ok(caller.map(|caller| caller.name().to_owned()))
        })
        .method("remote", |cx: Context| {
            Ok(cx.peer().remote().map(str::to_owned))
        })
        .method("down", |cx: Context, (n,): (u32,)| async move {
            match n {
                0 => Ok(0),
                n => Ok(cx.peer().call::<u32>("down", (n - 1,)).await? + 1),
            }
        })
        .method("hang", move || {
            let dropped = Dropped(dropped.clone());
            async move {
                dropped.0.add("hangs");
                std::future::pending::<()>().await;
                drop(dropped);
                Ok(())
            }
        })
        .method("much", |(bytes,): (usize,)| Ok("x".repeat(bytes)))
        .method("note", move |(text,): (String,)| noted.add(text))
}

async fn start(url: &str, config: Config, options: Options) -> (Server, Log) {
    let log = Log::default();
    let serving = serve(url, router(&log)).config(config).http(options);
    (within(serving).await.unwrap(), log)
}

async fn plain() -> (Server, Log) {
    let config = Config::default();
    start("ws://127.0.0.1:0/rpc", config, Options::default()).await
}

/// Its URL with this scheme.
fn url(server: &Server, scheme: &str) -> String {
    let endpoint = server.endpoint().to_string();
    let (_, rest) = endpoint.split_once("://").unwrap();
    format!("{scheme}://{rest}")
}

fn address(server: &Server) -> String {
    let endpoint = server.endpoint().to_string();
    let (_, rest) = endpoint.split_once("://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

async fn client(server: &Server) -> Peer {
    within(connect(&*url(server, "ws"))).await.unwrap()
}

// ---- a client by hand ----

const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

struct Raw(TcpStream);

impl Raw {
    /// Sends a head and returns what comes back, up to the empty line.
    async fn ask(server: &Server, head: &str) -> (Self, String) {
        let mut socket = TcpStream::connect(address(server)).await.unwrap();
        let request = format!("GET /rpc HTTP/1.1\r\n{head}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(within(socket.read_u8()).await.unwrap());
        }
        (Self(socket), String::from_utf8(answer).unwrap())
    }

    async fn open(server: &Server) -> Self {
        let host = address(server);
        let (raw, answer) = Self::ask(server, &format!("Host: {host}\r\n{HANDSHAKE}")).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        // The example of RFC 6455, section 1.3.
        let answer = answer.to_ascii_lowercase();
        let proof = "s3pplmbitxaq9kygzzhzrbk+xoo=";
        assert!(answer.contains(&format!("sec-websocket-accept: {proof}\r\n")));
        raw
    }

    /// `first` has the opcode, and 0x80 if it is the last frame of its message.
    async fn frame(&mut self, first: u8, payload: &[u8]) {
        self.0.write_all(&masked(first, payload)).await.unwrap();
    }

    async fn text(&mut self, message: &Value) {
        self.frame(0x81, message.to_string().as_bytes()).await;
    }

    /// The next frame, which is whole: its first byte and what it carries.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        within(read_frame(&mut self.0)).await
    }

    async fn json(&mut self) -> Value {
        let (first, payload) = self.next().await;
        assert_eq!(first, 0x81, "{payload:?}");
        serde_json::from_slice(&payload).unwrap()
    }

    /// The goodbye comes, and then the end.
    async fn goodbye(&mut self) -> u16 {
        let (first, payload) = self.next().await;
        assert_eq!(first, 0x88, "{payload:?}");
        // It goes on to read until we have said the same.
        let _ = self.0.write_all(&masked(0x88, &payload[..2])).await;
        let mut rest = Vec::new();
        let _ = within(self.0.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "{rest:?}");
        u16::from_be_bytes([payload[0], payload[1]])
    }
}

fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [9, 80, 0, 255];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
    frame
}

async fn read_frame(io: &mut (impl tokio::io::AsyncRead + Unpin)) -> (u8, Vec<u8>) {
    let first = io.read_u8().await.unwrap();
    let length = match io.read_u8().await.unwrap() {
        126 => u64::from(io.read_u16().await.unwrap()),
        127 => io.read_u64().await.unwrap(),
        length => u64::from(length),
    };
    assert!(length < 1 << 31);
    let mut payload = vec![0; length as usize];
    io.read_exact(&mut payload).await.unwrap();
    (first, payload)
}

fn add(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "add", "params": [id, 1]})
}

// ---- messages ----

#[tokio::test]
async fn calls_notifications_callbacks_and_batches_pass() {
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:0/rpc");
        let (server, log) = start(&url, Config::default(), Options::default()).await;
        let there = router(&Log::default());
        let connecting = connect(&*self::url(&server, "ws")).router(there);
        let peer = within(connecting).await.unwrap();
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
        assert_eq!(within(peer.call::<u32>("down", (7,))).await.unwrap(), 7);
        within(peer.notify("note", ("hello",))).await.unwrap();
        let mut batch = peer.batch();
        let one = batch.call::<i64>("add", (3, 4)).unwrap();
        batch.notify("note", ("batch",)).unwrap();
        let two = batch.call::<i64>("add", (5, 6)).unwrap();
        within(batch.send()).await.unwrap();
        assert_eq!(within(one).await.unwrap(), 7);
        assert_eq!(within(two).await.unwrap(), 11);
        assert_eq!(log.take(), ["hello", "batch"]);
        let remote: Option<String> = within(peer.call("remote", ())).await.unwrap();
        assert!(remote.unwrap().starts_with("127.0.0.1:"));
        // And the other way round.
        eventually("one is left", || server.connections() == 1).await;
        let there = &server.peers()[0];
        assert_eq!(within(there.call::<i64>("add", (2, 2))).await.unwrap(), 4);
        server.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn both_schemes_answer_a_post() {
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:0/rpc");
        let (server, _) = start(&url, Config::default(), Options::default()).await;
        let body = add(1).to_string();
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        let request = format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(socket.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with(r#""result":2}"#), "{answer}");
    }
}

#[tokio::test]
async fn text_binary_and_fragments_are_messages() {
    let (server, _) = plain().await;
    let mut raw = Raw::open(&server).await;
    raw.text(&add(1)).await;
    assert_eq!(raw.json().await["result"], 2);
    raw.frame(0x82, add(2).to_string().as_bytes()).await;
    assert_eq!(raw.json().await["result"], 3);
    let text = add(3).to_string();
    let (one, two) = text.as_bytes().split_at(9);
    raw.frame(0x01, one).await;
    raw.frame(0x89, b"ping").await;
    raw.frame(0x00, two).await;
    raw.frame(0x80, b"").await;
    assert_eq!(raw.next().await, (0x8a, b"ping".to_vec()));
    assert_eq!(raw.json().await["result"], 4);
    // What is no JSON is answered, and the connection goes on.
    raw.frame(0x81, b"").await;
    assert_eq!(raw.json().await["error"]["code"], -32700);
    raw.frame(0x82, b"\xff").await;
    assert_eq!(raw.json().await["error"]["code"], -32700);
    raw.frame(
        0x81,
        b"{\n\"jsonrpc\": \"2.0\",\r\n\"id\": 4, \"method\": \"add\", \"params\": [1, 2]}\n",
    )
    .await;
    assert_eq!(raw.json().await["result"], 3);
}

#[tokio::test]
async fn another_implementation_is_understood() {
    let (server, _) = plain().await;
    let url = url(&server, "ws");
    let spoken = tokio::task::spawn_blocking(move || {
        let host = url
            .strip_prefix("ws://")
            .unwrap()
            .split('/')
            .next()
            .unwrap();
        let socket = std::net::TcpStream::connect(host).unwrap();
        let (mut ws, response) = tungstenite::client(&*url, socket).unwrap();
        assert!(!response.headers().contains_key("sec-websocket-extensions"));
        for id in 0..100 {
            ws.write(add(id).to_string().into()).unwrap();
        }
        ws.flush().unwrap();
        for id in 0..100 {
            let answer = ws.read().unwrap().into_text().unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["result"], id + 1);
        }
        ws.close(None).unwrap();
        loop {
            match ws.read() {
                Ok(_) => {}
                Err(tungstenite::Error::ConnectionClosed) => break,
                Err(error) => panic!("{error}"),
            }
        }
    });
    within(spoken).await.unwrap();
}

// ---- limits and ends ----

#[tokio::test]
async fn what_is_too_large_is_answered_and_ends_with_1009() {
    let mut config = Config::default();
    config.policy.max_message = 4096;
    let (server, _) = start("ws://127.0.0.1:0/rpc", config, Options::default()).await;
    let mut raw = Raw::open(&server).await;
    let mut fits = add(1).to_string();
    fits.push_str(&" ".repeat(4096 - fits.len()));
    raw.frame(0x81, fits.as_bytes()).await;
    assert_eq!(raw.json().await["result"], 2);
    // A megabyte more is on its way when the answer comes.
    raw.frame(0x81, &vec![b' '; 1 << 20]).await;
    let error = raw.json().await;
    assert_eq!(error["error"]["code"], -32600);
    assert_eq!(error["error"]["message"], "Request payload too large");
    assert_eq!(error["id"], Value::Null);
    assert_eq!(raw.goodbye().await, 1009);
}

#[tokio::test]
async fn broken_text_ends_with_1007_and_broken_frames_with_1002() {
    let (server, _) = plain().await;
    let mut raw = Raw::open(&server).await;
    raw.frame(0x81, b"\"\xff\"").await;
    assert_eq!(raw.goodbye().await, 1007);
    let mut raw = Raw::open(&server).await;
    raw.0.write_all(b"\x81\x02{}").await.unwrap();
    assert_eq!(raw.goodbye().await, 1002);
}

#[tokio::test]
async fn an_end_says_1000_and_a_shutdown_1001() {
    let (server, _) = plain().await;
    let mut raw = Raw::open(&server).await;
    raw.text(&add(1)).await;
    raw.json().await;
    server.peers().iter().for_each(Peer::close);
    assert_eq!(raw.goodbye().await, 1000);
    let mut raw = Raw::open(&server).await;
    raw.text(&add(1)).await;
    raw.json().await;
    let peer = client(&server).await;
    let ending = {
        let server = server.clone();
        tokio::spawn(async move { server.shutdown(Duration::from_secs(5)).await })
    };
    assert_eq!(raw.goodbye().await, 1001);
    let reason = within(peer.closed()).await;
    assert!(reason.is_remote());
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1001: shutting down");
    within(ending).await.unwrap();
}

#[tokio::test]
async fn a_goodbye_is_answered_and_cancels_what_runs() {
    let (server, log) = plain().await;
    for politely in [true, false] {
        let mut raw = Raw::open(&server).await;
        raw.text(&json!({"jsonrpc": "2.0", "id": 1, "method": "hang"}))
            .await;
        eventually("it runs", || log.len() == 1).await;
        if politely {
            raw.frame(0x88, &4000_u16.to_be_bytes()).await;
            assert_eq!(raw.goodbye().await, 4000);
        } else {
            drop(raw);
        }
        eventually("it is dropped", || log.len() == 2).await;
        assert_eq!(log.take(), ["hangs", "dropped"]);
        eventually("it is gone", || server.connections() == 0).await;
    }
}

#[tokio::test]
async fn what_was_asked_before_a_goodbye_is_answered_before_it_is_said_back() {
    let (server, log) = plain().await;
    let mut raw = Raw::open(&server).await;
    let hang = json!({"jsonrpc": "2.0", "id": 2, "method": "hang"});
    let last_words = [
        masked(0x81, add(1).to_string().as_bytes()),
        masked(0x81, hang.to_string().as_bytes()),
        masked(0x81, add(3).to_string().as_bytes()),
        masked(0x88, &1000_u16.to_be_bytes()),
    ];
    // One piece, as `printf … | websocat` sends it.
    raw.0.write_all(&last_words.concat()).await.unwrap();
    assert_eq!(raw.json().await["id"], 1);
    assert_eq!(raw.json().await["id"], 3);
    assert_eq!(raw.goodbye().await, 1000);
    // Nobody is there for what was not ready.
    eventually("it is dropped", || log.len() == 2).await;
    assert_eq!(log.take(), ["hangs", "dropped"]);
}

#[tokio::test]
async fn a_clients_close_is_an_end_in_good_order() {
    let (server, _) = plain().await;
    let peer = client(&server).await;
    within(peer.call::<i64>("add", (1, 2))).await.unwrap();
    eventually("one is left", || server.connections() == 1).await;
    let there = server.peers().remove(0);
    peer.close();
    let reason = within(there.closed()).await;
    assert!(reason.is_remote());
    assert_eq!(reason.source().unwrap().to_string(), "close code 1000");
    assert!(within(peer.closed()).await.is_local());
}

#[tokio::test]
async fn whoever_does_not_answer_a_ping_is_given_up() {
    let mut options = Options::default();
    options.ping_interval = Duration::from_millis(50);
    options.ping_timeout = Duration::from_millis(150);
    let (server, log) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    let mut raw = Raw::open(&server).await;
    raw.text(&json!({"jsonrpc": "2.0", "id": 1, "method": "hang"}))
        .await;
    assert_eq!(raw.next().await, (0x89, vec![]));
    raw.frame(0x8a, b"").await;
    assert_eq!(raw.next().await, (0x89, vec![]));
    assert_eq!(raw.goodbye().await, 1008);
    eventually("it is dropped", || log.len() == 2).await;
    // One who answers stays.
    let peer = client(&server).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[tokio::test]
async fn a_slow_reader_does_not_make_memory_grow() {
    let mut config = Config::default();
    config.limits.output = 256 << 10;
    let (server, _) = start("ws://127.0.0.1:0/rpc", config, Options::default()).await;
    let mut raw = Raw::open(&server).await;
    const CALLS: u32 = 1000;
    let mut requests = Vec::new();
    for id in 0..CALLS {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "much", "params": [50_000]});
        requests.extend(masked(0x81, request.to_string().as_bytes()));
    }
    let (mut reader, mut writer) = raw.0.split();
    let write = async { writer.write_all(&requests).await.unwrap() };
    let read = async {
        // So long it has time to answer more than it may keep.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let sent = server.stats().bytes_sent;
        // The system's buffers take some megabytes of these fifty.
        assert!(sent < 20 << 20, "{sent} bytes are on their way");
        let mut refused = 0;
        for _ in 0..CALLS {
            let (_, payload) = within(read_frame(&mut reader)).await;
            let answer: Value = serde_json::from_slice(&payload).unwrap();
            refused += u32::from(answer["error"]["code"] == -32000);
        }
        refused
    };
    let ((), refused) = tokio::join!(write, read);
    assert!(refused < CALLS, "{refused}");
}

/// A client need not wait for the answer to its handshake, nor a server before its first
/// message: what comes in the same piece belongs to the WebSocket.
#[tokio::test]
async fn what_comes_with_a_handshake_is_read() {
    let (server, log) = plain().await;
    let note = json!({"jsonrpc": "2.0", "method": "note", "params": ["early"]});
    let frames = [
        masked(0x81, note.to_string().as_bytes()),
        masked(0x81, add(1).to_string().as_bytes()),
    ];
    let frames = frames.concat();
    for cut in [0, 1, 5, 60, frames.len() - 1, frames.len()] {
        let mut socket = TcpStream::connect(address(&server)).await.unwrap();
        let begin = format!("GET /rpc HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}\r\n");
        let (with, later) = frames.split_at(cut);
        let begin = [begin.as_bytes(), with].concat();
        socket.write_all(&begin).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(within(socket.read_u8()).await.unwrap());
        }
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{answer:?}");
        socket.write_all(later).await.unwrap();
        let mut raw = Raw(socket);
        assert_eq!(raw.json().await["result"], 2, "cut at {cut}");
        assert_eq!(log.take(), ["early"], "cut at {cut}");
    }
}

#[tokio::test]
async fn what_comes_with_the_answer_to_a_handshake_is_read() {
    let note = json!({"jsonrpc": "2.0", "method": "note", "params": ["early"]}).to_string();
    let frame = [&[0x81, note.len() as u8], note.as_bytes()].concat();
    for cut in [0, 1, 2, 20, frame.len() - 1, frame.len()] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let log = Log::default();
        let connecting = connect(&*url).router(router(&log)).into_future();
        let serving = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let (_, key) = head.split_once("sec-websocket-key: ").unwrap();
            let key = key.split("\r\n").next().unwrap();
            let proof = tungstenite::handshake::derive_accept_key(key.as_bytes());
            let answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Accept: {proof}\r\n\r\n"
            );
            let (with, later) = frame.split_at(cut);
            let begin = [answer.as_bytes(), with].concat();
            socket.write_all(&begin).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            socket.write_all(later).await.unwrap();
            socket
        };
        let (peer, _socket) = within(async { tokio::join!(connecting, serving) }).await;
        let peer = peer.unwrap();
        eventually("it is read", || log.len() == 1).await;
        assert_eq!(log.take(), ["early"], "cut at {cut}");
        // The two bytes of the head count, too.
        assert_eq!(peer.stats().bytes_received, frame.len() as u64);
    }
}

// ---- who is let in ----

#[tokio::test]
async fn a_malformed_handshake_is_refused() {
    let (server, _) = plain().await;
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let begin = "Host: localhost\r\nUpgrade: websocket\r\n";
    let table = [
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 8\r\n{key}"),
            "426",
        ),
        (format!("{begin}Connection: Upgrade\r\n{key}"), "426"),
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"),
            "400",
        ),
        (
            format!(
                "{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: short==\r\n"
            ),
            "400",
        ),
        (
            format!("{begin}Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n{key}{key}"),
            "400",
        ),
        (format!("{begin}Sec-WebSocket-Version: 13\r\n{key}"), "400"),
        (format!("Host: localhost\r\n{key}"), "405"),
        (format!("Host: evil.example\r\n{HANDSHAKE}"), "403"),
        (
            format!("Host: localhost\r\nOrigin: https://evil.example\r\n{HANDSHAKE}"),
            "403",
        ),
        (
            format!("Host: localhost\r\nOrigin: http://localhost\r\n{HANDSHAKE}"),
            "101",
        ),
        (
            format!("Host: localhost\r\nSec-WebSocket-Protocol: a, b\r\n{HANDSHAKE}"),
            "101",
        ),
    ];
    for (head, status) in table {
        let (_, answer) = Raw::ask(&server, &head).await;
        assert_eq!(&answer[9..12], status, "{head}{answer}");
        let answer = answer.to_ascii_lowercase();
        let tells = answer.contains("sec-websocket-version: 13\r\n");
        assert_eq!(tells, status == "426", "{answer}");
        assert!(!answer.contains("sec-websocket-protocol"), "{answer}");
    }
    // Another path.
    let elsewhere = url(&server, "ws").replace("/rpc", "/other");
    let error = within(connect(&*elsewhere)).await.unwrap_err();
    let text = error.source().unwrap().to_string();
    assert!(
        text.contains("404") && text.contains("nothing is served"),
        "{text}"
    );
}

#[tokio::test]
async fn a_token_lets_in() {
    let mut options = Options::default();
    options.tokens.push("s3cret".into());
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    for token in [None, Some("wrong")] {
        let mut options = ClientOptions::default();
        options.token = token.map(Into::into);
        let connecting = connect(&*url(&server, "ws")).http(options);
        let Error::Connect { cause, .. } = within(connecting).await.unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(cause.kind(), std::io::ErrorKind::PermissionDenied);
        let text = cause.to_string();
        assert!(
            text.contains("401") && text.contains("bearer token"),
            "{text}"
        );
    }
    let mut options = ClientOptions::default();
    options.token = Some("s3cret".into());
    let connecting = connect(&*url(&server, "ws")).http(options);
    let peer = within(connecting).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

#[tokio::test]
async fn handlers_see_what_was_found_out_about_the_caller() {
    let mut options = Options::default();
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        let user = request.headers.get("x-user").ok_or(StatusCode::FORBIDDEN)?;
        found.insert(Caller::new(user.to_str().unwrap()));
        Ok(())
    }));
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    for user in ["ada", "bob"] {
        let mut options = ClientOptions::default();
        options.headers.insert("x-user", user.parse().unwrap());
        let connecting = connect(&*url(&server, "ws")).http(options);
        let peer = within(connecting).await.unwrap();
        let who: String = within(peer.call("who", ())).await.unwrap();
        assert_eq!(who, user);
    }
    let error = within(connect(&*url(&server, "ws"))).await.unwrap_err();
    assert!(error.source().unwrap().to_string().contains("403"));
    assert!(!error.is_recoverable());
}

#[tokio::test]
async fn a_websocket_is_counted_while_it_lasts() {
    let mut options = Options::default();
    options.connections_per_address = 1;
    let (server, _) = start("ws://127.0.0.1:0/rpc", Config::default(), options).await;
    let peer = client(&server).await;
    within(peer.call::<i64>("add", (1, 2))).await.unwrap();
    eventually("one is left", || server.connections() == 1).await;
    assert!(within(connect(&*url(&server, "ws"))).await.is_err());
    peer.close();
    eventually("it is gone", || server.connections() == 0).await;
    let peer = client(&server).await;
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

/// Runs a service as an application would, and returns its address.
async fn mount(http: caudal::http::Http) -> String {
    use hyper_util::rt::TokioIo;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let http = http.clone();
            let service = hyper::service::service_fn(move |request| {
                let http = http.clone();
                async move { Ok::<_, std::convert::Infallible>(http.answer(request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .with_upgrades();
            tokio::spawn(connection);
        }
    });
    format!("ws://{address}/anywhere")
}

#[tokio::test]
async fn a_mounted_service_has_its_limit_and_its_end() {
    let mut config = Config::default();
    config.limits.connections = 1;
    let router = router(&Log::default());
    let http = caudal::http::Http::with(router, config, Options::default());
    let url = mount(http.clone()).await;
    let peer = within(connect(&*url)).await.unwrap();
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    let refused = within(connect(&*url)).await.unwrap();
    let reason = within(refused.closed()).await;
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1013: too many connections");
    assert_eq!(http.peers().len(), 1);
    within(http.shutdown(Duration::from_secs(5))).await;
    let reason = within(peer.closed()).await;
    let text = reason.source().unwrap().to_string();
    assert_eq!(text, "close code 1001: shutting down");
    let error = within(connect(&*url)).await.unwrap_err();
    let text = error.source().unwrap().to_string();
    assert!(text.contains("503") && error.is_recoverable(), "{text}");
}

// ---- a client ----

/// Takes one connection in and answers its first request with this.
async fn answering(answer: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/x?y=z", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(socket.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /x?y=z HTTP/1.1\r\n"), "{head}");
        socket.write_all(answer.as_bytes()).await.unwrap();
        let _ = socket.read_u8().await;
    });
    url
}

#[tokio::test]
async fn a_client_believes_no_false_answer() {
    let chunked = "HTTP/1.1 503 Service Unavailable\r\nTransfer-Encoding: chunked\r\n\r\n\
        4\r\ncome\r\n6\r\n later\r\n0\r\n\r\n";
    let table = [
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            "does not begin a WebSocket",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "200 OK: hi",
        ),
        (chunked, "503 Service Unavailable: come later"),
        (
            "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            "302 Found to `/`",
        ),
        ("SSH-2.0-OpenSSH_9.9\r\n", "is not HTTP"),
    ];
    for (answer, text) in table {
        let url = answering(answer).await;
        let error = within(connect(&*url)).await.unwrap_err();
        let cause = error.source().unwrap().to_string();
        assert!(cause.ends_with(text), "{cause}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_made_again() {
    let (server, log) = plain().await;
    let mut backoff = Backoff::default();
    backoff.first = Duration::from_millis(20);
    let connecting = connect(&*url(&server, "ws")).reconnect(backoff);
    let peer = within(connecting).await.unwrap();
    let hanging = {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call::<()>("hang", ()).await })
    };
    eventually("it runs", || log.len() == 1).await;
    server.peers().iter().for_each(Peer::close);
    let lost = within(hanging).await.unwrap();
    assert!(matches!(lost, Err(CallError::Closed(_))), "{lost:?}");
    assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
}

//! Messages that do not arrive whole: what a server holds of them, over all its connections.
#![cfg(all(feature = "ws", feature = "sse"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::sync::Arc;

use crate::support::within;
use caudal::{CallError, Config, Context, Policy, Router, Server, ServerLimits, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The largest message. Two of them fit into what a server of these tests holds, and three
/// do not.
const LARGE: usize = 400_000;
const HELD: usize = 1_000_000;

/// By which way a message comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Line,
    Unix,
    Header,
    Concatenated,
    Post,
    Chunks,
    /// A POST in a session.
    Session,
    Frame,
    Fragments,
}

use Way::*;

const ALL: &[Way] = &[
    Line,
    #[cfg(unix)]
    Unix,
    Header,
    Concatenated,
    Post,
    Chunks,
    Session,
    Frame,
    Fragments,
];

/// What comes back.
#[derive(Debug, PartialEq)]
enum Reply {
    Message(Value),
    /// A message with a status other than 200, which asks to wait so long.
    Status(u16, Option<String>, Value),
    /// The WebSocket is closed with this code.
    Goodbye(u16),
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A server, a session of it, and how many connections there are when there are none.
struct Site {
    server: Server,
    session: String,
    idle: usize,
    _directory: tempfile::TempDir,
}

/// A response.
struct Response {
    status: u16,
    wait: Option<String>,
    session: Option<String>,
    body: Value,
}

struct Client {
    way: Way,
    session: String,
    io: BufReader<Box<dyn Io>>,
}

fn config() -> Config {
    let mut config = Config::default();
    config.policy.max_message = LARGE;
    config
}

fn router() -> Router {
    Router::new()
        .method("initialize", || Ok(1))
        .method("size", |(text,): (String,)| Ok(text.len()))
        .method("mirror", |cx: Context| async move {
            let answer = cx.peer().call::<Value>("echo", ()).await;
            Ok(matches!(answer, Err(CallError::NoRoom)))
        })
}

async fn start(way: Way, config: Config) -> Site {
    start_with(way, config, HELD).await
}

async fn start_with(way: Way, config: Config, incomplete: usize) -> Site {
    let limits = ServerLimits::default().incomplete(incomplete);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let url = match way {
        Line => "tcp://127.0.0.1:0".to_owned(),
        Unix => format!("unix:{}", path.display()),
        Header => "tcp://127.0.0.1:0?framing=header".to_owned(),
        Concatenated => "tcp://127.0.0.1:0?framing=concatenated".to_owned(),
        _ => "http://127.0.0.1:0/rpc".to_owned(),
    };
    let server = serve(&*url, router()).config(config).limits(limits);
    let server = server.await.unwrap();
    let mut site = Site {
        server,
        session: String::new(),
        idle: 0,
        _directory: directory,
    };
    if way == Session {
        let mut raw = Client::connect(&site, Post).await;
        let opens = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;
        raw.begin(opens, 0).await;
        site.session = raw.body().await.session.unwrap();
        site.idle = 1;
    }
    site
}

/// A request of so many bytes.
fn call(id: usize, bytes: usize) -> String {
    let (head, tail) = (
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"size","params":[""#),
        r#""]}"#,
    );
    let text = "x".repeat(bytes - head.len() - tail.len());
    format!("{head}{text}{tail}")
}

impl Client {
    async fn connect(site: &Site, way: Way) -> Self {
        let endpoint = site.server.endpoint().to_string();
        let io: Box<dyn Io> = match endpoint.strip_prefix("unix:") {
            #[cfg(unix)]
            Some(path) => Box::new(UnixStream::connect(path).await.unwrap()),
            _ => {
                let address = endpoint.split("//").nth(1).unwrap();
                let address = address.split(['/', '?']).next().unwrap();
                Box::new(TcpStream::connect(address).await.unwrap())
            }
        };
        let io = BufReader::new(io);
        let session = site.session.clone();
        let mut client = Self { way, session, io };
        if matches!(way, Frame | Fragments) {
            let head = "GET /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            client.write(head.as_bytes()).await;
            while !client.line().await.is_empty() {}
        }
        client
    }

    async fn write(&mut self, bytes: &[u8]) {
        // Whoever is refused may be gone.
        let _ = self.io.get_mut().write_all(bytes).await;
    }

    /// Sends the beginning of a message, and returns what is missing.
    async fn begin(&mut self, message: &str, missing: usize) -> Vec<u8> {
        let masked = |first: u8, length: usize| {
            let mut head = vec![first, 0xff];
            head.extend_from_slice(&(length as u64).to_be_bytes());
            head.extend_from_slice(&[0; 4]);
            head
        };
        let (length, text) = (message.len(), message.as_bytes());
        let mut bytes = match self.way {
            Line | Unix | Concatenated => Vec::new(),
            Header => format!("Content-Length: {length}\r\n\r\n").into_bytes(),
            Post | Chunks | Session => {
                let how = match self.way {
                    Chunks => format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n"),
                    _ => format!("Content-Length: {length}\r\n\r\n"),
                };
                let session = match self.way {
                    Session => format!("Mcp-Session-Id: {}\r\n", self.session),
                    _ => String::new(),
                };
                format!(
                    "POST /rpc HTTP/1.1\r\nHost: localhost\r\n\
                     Content-Type: application/json\r\n{session}{how}"
                )
                .into_bytes()
            }
            Frame => masked(0x81, length),
            Fragments => Vec::new(),
        };
        if self.way == Fragments {
            let mut first = 0x01;
            let mut pieces = text.chunks(30_000).peekable();
            while let Some(piece) = pieces.next() {
                let last = if pieces.peek().is_none() { 0x80 } else { 0 };
                bytes.extend_from_slice(&masked(first | last, piece.len()));
                bytes.extend_from_slice(piece);
                first = 0;
            }
        } else {
            bytes.extend_from_slice(text);
        }
        bytes.extend_from_slice(match self.way {
            Line | Unix => b"\n",
            Chunks => b"\r\n0\r\n\r\n",
            _ => b"",
        });
        let rest = bytes.split_off(bytes.len() - missing);
        self.write(&bytes).await;
        rest
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        within(self.io.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        within(self.io.read_exact(&mut read)).await.unwrap();
        read
    }

    async fn body(&mut self) -> Response {
        let status = self.line().await;
        let (mut length, mut wait, mut session) = (0, None, None);
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            match &*name.to_ascii_lowercase() {
                "content-length" => length = value.parse().unwrap(),
                "retry-after" => wait = Some(value.to_owned()),
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let body = self.read(length).await;
        Response {
            status: status.split(' ').nth(1).unwrap().parse().unwrap(),
            wait,
            session,
            body: serde_json::from_slice(&body).unwrap(),
        }
    }

    async fn reply(&mut self) -> Reply {
        match self.way {
            Line | Unix | Concatenated => {
                Reply::Message(serde_json::from_str(&self.line().await).unwrap())
            }
            Header => Reply::Message(self.body_of_frame().await),
            Post | Chunks | Session => {
                let Response {
                    status, wait, body, ..
                } = self.body().await;
                match status {
                    200 => Reply::Message(body),
                    status => Reply::Status(status, wait, body),
                }
            }
            Frame | Fragments => {
                let head = self.read(2).await;
                let length = usize::from(head[1]);
                assert!(length < 126, "answers are short");
                let payload = self.read(length).await;
                match head[0] {
                    0x81 => Reply::Message(serde_json::from_slice(&payload).unwrap()),
                    0x88 => Reply::Goodbye(u16::from_be_bytes([payload[0], payload[1]])),
                    other => panic!("{other}"),
                }
            }
        }
    }

    async fn body_of_frame(&mut self) -> Value {
        let line = self.line().await;
        let length = line.strip_prefix("Content-Length: ").unwrap();
        self.line().await;
        let body = self.read(length.parse().unwrap()).await;
        serde_json::from_slice(&body).unwrap()
    }

    /// Sends a whole message.
    async fn ask(&mut self, message: &str) -> Reply {
        self.begin(message, 0).await;
        self.reply().await
    }
}

fn overloaded() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": {"code": -32000, "message": "Server overloaded"},
    })
}

fn answer(id: usize, bytes: usize) -> Reply {
    let size = call(id, bytes).matches('x').count();
    Reply::Message(json!({"jsonrpc": "2.0", "id": id, "result": size}))
}

async fn nobody(site: &Site) {
    while site.server.connections() > site.idle {
        tokio::task::yield_now().await;
    }
}

/// Messages that begin together, one more than the server holds. One of them is refused, and
/// its sender and what it was told are returned, with the others and what they miss.
async fn one_too_many(site: &Site, way: Way) -> (Client, Vec<u8>, Reply, Vec<(Client, Vec<u8>)>) {
    let gate = Arc::new(Semaphore::new(0));
    let mut all = JoinSet::new();
    for id in 0..3 {
        let mut client = Client::connect(site, way).await;
        let gate = Arc::clone(&gate);
        all.spawn(async move {
            let rest = client.begin(&call(id, LARGE), 7).await;
            let told = tokio::select! {
                told = client.io.fill_buf() => told.map(<[u8]>::len),
                _ = gate.acquire() => Ok(0),
            };
            (client, rest, told.unwrap() > 0)
        });
    }
    let (mut client, rest, is_told) = within(all.join_next()).await.unwrap().unwrap();
    assert!(is_told, "{way:?}: one is refused");
    let told = client.reply().await;
    gate.add_permits(2);
    let mut others = Vec::new();
    while let Some(other) = within(all.join_next()).await {
        let (client, rest, is_told) = other.unwrap();
        assert!(!is_told, "{way:?}: the others have room");
        others.push((client, rest));
    }
    (client, rest, told, others)
}

#[tokio::test]
async fn messages_of_many_connections_that_are_not_whole_are_bounded_together() {
    for &way in ALL {
        println!("{way:?}");
        let site = start(way, config()).await;
        // Connections that end amid a message leave nothing behind.
        for _ in 0..3 {
            let (_, _, _, others) = one_too_many(&site, way).await;
            assert_eq!(others.len(), 2);
            drop(others);
            nobody(&site).await;
        }
        let (mut refused, rest, told, others) = one_too_many(&site, way).await;
        match way {
            Post | Chunks | Session => {
                let soon = Some("1".to_owned());
                assert_eq!(told, Reply::Status(503, soon, overloaded()));
            }
            _ => assert_eq!(told, Reply::Message(overloaded())),
        }
        // Small messages pass, also in pieces.
        let mut small = Client::connect(&site, way).await;
        assert_eq!(small.ask(&call(7, 100)).await, answer(7, 100));
        let rest_of_small = small.begin(&call(8, 50_000), 20).await;
        tokio::task::yield_now().await;
        small.write(&rest_of_small).await;
        assert_eq!(small.reply().await, answer(8, 50_000));
        // A connection goes on whose message was refused; a WebSocket ends.
        match way {
            Frame | Fragments => assert_eq!(refused.reply().await, Reply::Goodbye(1013)),
            _ => {
                refused.write(&rest).await;
                assert_eq!(refused.ask(&call(9, 100)).await, answer(9, 100));
            }
        }
        // The others are served, and then there is room again.
        for (mut client, rest) in others {
            client.write(&rest).await;
            let Reply::Message(reply) = client.reply().await else {
                panic!("{way:?}")
            };
            assert!(reply["result"].as_u64() > Some(300_000), "{reply}");
            let asked = client.ask(&call(10, LARGE)).await;
            assert_eq!(asked, answer(10, LARGE));
        }
        assert_eq!(site.server.stats().overloaded, 4, "{way:?}");
    }
}

/// The counter is one for all ways by which a server can be spoken to.
#[tokio::test]
async fn posts_and_web_sockets_count_together() {
    let site = start(Post, config()).await;
    let (refused, _, _, others) = one_too_many(&site, Frame).await;
    drop(refused);
    let mut post = Client::connect(&site, Post).await;
    post.begin(&call(1, LARGE), 1).await;
    let Reply::Status(503, ..) = post.reply().await else {
        panic!("it is not refused")
    };
    drop((post, others));
    nobody(&site).await;
    let mut post = Client::connect(&site, Post).await;
    assert_eq!(post.ask(&call(2, LARGE)).await, answer(2, LARGE));
}

#[tokio::test]
async fn one_message_alone_is_never_too_much() {
    for &way in ALL {
        let site = start_with(way, config(), 0).await;
        let mut client = Client::connect(&site, way).await;
        for id in 0..3 {
            let asked = client.ask(&call(id, LARGE)).await;
            assert_eq!(asked, answer(id, LARGE), "{way:?}");
        }
    }
}

/// An answer to a call of the server has no answer: its call fails instead.
#[tokio::test]
async fn an_answer_that_is_refused_fails_its_call() {
    let site = start(Line, config()).await;
    let (refused, _, _, others) = one_too_many(&site, Line).await;
    drop(refused);
    let mut client = Client::connect(&site, Line).await;
    let asks = r#"{"jsonrpc":"2.0","id":1,"method":"mirror"}"#;
    let Reply::Message(asked) = client.ask(asks).await else {
        panic!()
    };
    assert_eq!(asked["method"], "echo");
    let text = "x".repeat(LARGE - 1_000);
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": text});
    // The members stand in this order where the id can be seen.
    let answer = answer.to_string();
    client.begin(&answer, 5).await;
    let told = client.reply().await;
    let told_so = json!({"jsonrpc": "2.0", "id": 1, "result": true});
    assert_eq!(told, Reply::Message(told_so));
    drop(others);
}

/// The default is far beyond what a client has under way at once.
#[test]
fn by_default_there_is_room_for_many_of_the_largest_messages() {
    let (limits, policy) = (ServerLimits::default(), Policy::default());
    assert!(limits.incomplete >= 100 * policy.max_message);
}

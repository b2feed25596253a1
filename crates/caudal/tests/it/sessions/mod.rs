//! Sessions over HTTP, spoken to by hand: events, polling, limits, and the end.
#![cfg(all(feature = "sse", feature = "polling"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "a test may"
)]

mod end;
mod events;
#[cfg(feature = "webhook")]
mod hooks;
mod http2;
mod limits;
mod opening;
mod owners;
mod polling;
mod posts;
mod service;
mod shutdown;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::raw_http::{Raw, Reply};
use caudal::http::{Caller, Http, Options, Parts, StatusCode};
use caudal::{Config, ConnectionState, Context, Dialect, Extensions, Peer, Router, Server, serve};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{eventually, ms, stays_pending, within};

const JSON: &str = "Content-Type: application/json";
const ACCEPT_JSON: &str = "Accept: application/json";
const ACCEPT_EVENTS: &str = "Accept: text/event-stream";
const ACCEPT_BOTH: &str = "Accept: application/json, text/event-stream";
const ASYNC: &str = "Prefer: respond-async";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#;

/// A server, and what its handlers wait for.
struct Site {
    server: Server,
    port: u16,
    gate: Arc<Semaphore>,
    notes: Arc<AtomicUsize>,
}

/// A session, and a connection for its POSTs.
struct Client {
    raw: Raw,
    session: String,
}

fn router(gate: &Arc<Semaphore>, notes: &Arc<AtomicUsize>) -> Router {
    let (gate, notes) = (Arc::clone(gate), Arc::clone(notes));
    let (later, stay) = (Arc::clone(&gate), Arc::clone(&gate));
    Router::new()
        .method("initialize", || Ok("ready"))
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("large", |(size,): (usize,)| Ok("x".repeat(size)))
        .method("hold", move |_: Option<Value>| {
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok("held")
            }
        })
        .method("count", |cx: Context, (n,): (u64,)| async move {
            for i in 1..=n {
                cx.peer().notify("tick", (i,)).await?;
            }
            Ok(n)
        })
        .method("work", |cx: Context, params: Value| async move {
            let token = &params["_meta"]["progressToken"];
            for step in 1..=params["steps"].as_u64().unwrap_or(3) {
                let mut report = json!({"progressToken": token, "progress": step});
                if let Some(size) = params["size"].as_u64() {
                    report["message"] = "x".repeat(size as usize).into();
                }
                cx.peer().notify("notifications/progress", report).await?;
            }
            cx.peer().notify("tick", (9,)).await?;
            Ok("worked")
        })
        .method("ask", |cx: Context| async move {
            let answer: String = cx.peer().call("question", ()).await?;
            Ok(answer)
        })
        .method("ask_later", move |cx: Context, _: Option<Value>| {
            let gate = Arc::clone(&later);
            async move {
                gate.acquire().await.unwrap().forget();
                let answer: String = cx.peer().call("question", ()).await?;
                Ok(answer)
            }
        })
        .method("who", |cx: Context| {
            let found = cx.peer().extensions().get::<Caller>();
            Ok(found.map(|caller| caller.name().to_owned()))
        })
        .method("stay", move || {
            let gate = Arc::clone(&stay);
            async move { gate.acquire().await.unwrap().forget() }
        })
        .method("note", move || {
            notes.fetch_add(1, SeqCst);
        })
}

impl Site {
    async fn new() -> Self {
        Self::with(Options::default(), Config::default()).await
    }

    async fn with(options: Options, config: Config) -> Self {
        let (gate, notes) = (Arc::new(Semaphore::new(0)), Arc::default());
        let serve = serve("http://127.0.0.1:0/", router(&gate, &notes));
        let server = serve.http(options).config(config).await.unwrap();
        let text = server.endpoint().to_string();
        let port = text.trim_end_matches('/').rsplit(':').next().unwrap();
        Self {
            port: port.parse().unwrap(),
            server,
            gate,
            notes,
        }
    }

    /// Calls that handlers work on.
    fn running(&self) -> usize {
        self.server.stats().in_flight as usize
    }

    async fn raw(&self) -> Raw {
        Raw::connect(self.port).await
    }

    /// A session that a POST has opened.
    async fn open(&self) -> Client {
        let mut raw = self.raw().await;
        let reply = raw.ask("POST", "/", &[JSON], INITIALIZE).await;
        assert_eq!(reply.status, 200);
        let session = reply.session();
        Client { raw, session }
    }

    /// A session that polls.
    async fn open_polling(&self) -> Client {
        let mut raw = self.raw().await;
        let reply = raw.ask("GET", "/", &[ACCEPT_JSON], "").await;
        assert_eq!(reply.json(), json!({"cursor": 0, "messages": []}));
        let session = reply.session();
        Client { raw, session }
    }

    /// Another connection of a session.
    async fn again(&self, client: &Client) -> Client {
        Client {
            raw: self.raw().await,
            session: client.session.clone(),
        }
    }

    /// An event stream of a session.
    async fn listen(&self, client: &Client, last: Option<u64>) -> Raw {
        let mut raw = self.again(client).await;
        let last = last.map(|last| format!("Last-Event-ID: {last}"));
        let mut headers = vec![ACCEPT_EVENTS];
        headers.extend(last.as_deref());
        raw.send("GET", "/", &headers, "").await;
        assert!(raw.raw.head().await.is_stream());
        assert_eq!(raw.raw.block().await.unwrap(), "retry: 1000");
        raw.raw
    }

    /// The one session's peer.
    fn peer(&self) -> Peer {
        let mut peers = self.server.peers();
        // Connections are there too, and cannot be called.
        peers.retain(|peer| !peer.state().is_closed());
        assert_eq!(peers.len(), 1);
        peers.remove(0)
    }
}

impl Client {
    async fn send(&mut self, verb: &str, target: &str, headers: &[&str], body: &str) {
        let session = format!("Mcp-Session-Id: {}", self.session);
        let headers = [headers, &[&*session, JSON]].concat();
        self.raw.send(verb, target, &headers, body).await;
    }

    async fn ask(&mut self, verb: &str, target: &str, headers: &[&str], body: &str) -> Reply {
        self.send(verb, target, headers, body).await;
        self.raw.reply().await
    }

    async fn post(&mut self, headers: &[&str], body: &Value) -> Reply {
        self.ask("POST", "/", headers, &body.to_string()).await
    }

    async fn poll(&mut self, cursor: u64) -> Reply {
        let target = format!("/?cursor={cursor}");
        self.ask("GET", &target, &[ACCEPT_JSON], "").await
    }
}

fn is_draining(peer: &Peer) -> bool {
    matches!(peer.state(), ConnectionState::Draining)
}

fn call(id: i64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn note(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

fn ok(id: i64, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn tick(n: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "tick", "params": [n]})
}

//! Sessions over HTTP, spoken to by hand: events, polling, limits, and the end.
#![cfg(all(feature = "sse", feature = "polling"))]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "a test may"
)]

#[path = "support/raw_http.rs"]
mod raw_http;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use caudal::http::{Caller, Http, Options, Parts, StatusCode};
use caudal::{Config, Context, Dialect, Extensions, Peer, Router, Server, serve};
use raw_http::{Event, Raw, Reply, within};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

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
    Router::new()
        .method("initialize", || Ok("ready"))
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("hold", move || {
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
        .method("ask", |cx: Context| async move {
            let answer: String = cx.peer().call("question", ()).await?;
            Ok(answer)
        })
        .method("who", |cx: Context| {
            let found = cx.peer().extensions().get::<Caller>();
            Ok(found.map(|caller| caller.name().to_owned()))
        })
        .notification("note", move || {
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

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

// Opening and ending.

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let site = Site::new().await;
    let mut client = site.open().await;
    assert_eq!(client.session.len(), 32, "128 bits");
    let reply = client.post(&[], &call(1, "add", json!([1, 2]))).await;
    assert_eq!((reply.status, reply.json()), (200, ok(1, json!(3))));
    assert_eq!(reply.header("mcp-session-id"), None);
    let in_query = format!("/?session={}", client.session);
    let text = call(2, "add", json!([2, 2])).to_string();
    let reply = client.raw.ask("POST", &in_query, &[JSON], &text).await;
    assert_eq!(reply.json(), ok(2, json!(4)));
    let peer = site.peer();
    assert_eq!(client.ask("DELETE", "/", &[], "").await.status, 204);
    eventually("the peer is closed", || peer.state().is_closed()).await;
    assert_eq!(client.ask("DELETE", "/", &[], "").await.status, 404);
    let reply = client.post(&[], &call(3, "add", json!([1, 2]))).await;
    assert_eq!(reply.status, 404);
    assert_eq!(client.poll(0).await.status, 404);
}

#[tokio::test]
async fn only_the_call_of_its_method_opens_a_session() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    let others = [
        call(1, "add", json!([1, 2])),
        note("initialize"),
        json!([call(1, "initialize", json!([]))]),
    ];
    for body in others {
        let reply = raw.ask("POST", "/", &[JSON], &body.to_string()).await;
        assert_eq!(reply.header("mcp-session-id"), None, "{body}");
    }
    let late = r#"{"params":[],"id":1,"method":"\u0069nitialize","jsonrpc":"2.0"}"#;
    let reply = raw.ask("POST", "/", &[JSON], late).await;
    assert!(reply.header("mcp-session-id").is_some());
    let mut options = Options::default();
    options.session_method = None;
    let site = Site::with(options, Config::default()).await;
    let reply = site.raw().await.ask("POST", "/", &[JSON], INITIALIZE).await;
    assert_eq!(reply.header("mcp-session-id"), None);
}

#[tokio::test]
async fn a_get_says_what_it_wants_to_hear() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    for accept in ["Accept: */*", "Accept: text/html", "X: y"] {
        assert_eq!(raw.ask("GET", "/", &[accept], "").await.status, 405);
    }
    assert_eq!(raw.ask("DELETE", "/", &[], "").await.status, 405);
    assert_eq!(site.server.connections(), 1, "no session was opened");
    let mut client = site.open().await;
    for accept in ["Accept: text/html", "Accept: text/event-stream;q=0"] {
        assert_eq!(client.ask("GET", "/", &[accept], "").await.status, 406);
    }
    let any = ["Accept: */*", "Prefer: wait=0"];
    assert_eq!(client.ask("GET", "/", &any, "").await.status, 204);
    for target in ["/?cursor=x", "/?cursor=-1", "/?cursor="] {
        let reply = client.ask("GET", target, &[ACCEPT_JSON], "").await;
        assert_eq!(reply.status, 400, "{target}");
    }
    for last in ["Last-Event-ID: x", "Last-Event-ID: 99999999999999999999"] {
        let reply = client.ask("GET", "/", &[ACCEPT_EVENTS, last], "").await;
        assert_eq!(reply.status, 400, "{last}");
    }
}

#[tokio::test]
async fn there_are_so_many_sessions_and_no_more() {
    let mut options = Options::default();
    options.sessions = 2;
    let site = Site::with(options, Config::default()).await;
    let (mut one, _other) = (site.open().await, site.open_polling().await);
    let mut raw = site.raw().await;
    assert_eq!(raw.ask("POST", "/", &[JSON], INITIALIZE).await.status, 503);
    for accept in [ACCEPT_JSON, ACCEPT_EVENTS] {
        assert_eq!(raw.ask("GET", "/", &[accept], "").await.status, 503);
    }
    assert_eq!(one.ask("DELETE", "/", &[], "").await.status, 204);
    let reply = raw.ask("POST", "/", &[JSON], INITIALIZE).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_session_that_nobody_uses_expires() {
    let mut options = Options::default();
    options.session_timeout = ms(300);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let peer = site.peer();
    eventually("it is closed", || peer.state().is_closed()).await;
    assert_eq!(client.poll(0).await.status, 404);
    // And again, after there was none.
    let mut client = site.open().await;
    let peer = site.peer();
    eventually("it is closed", || peer.state().is_closed()).await;
    assert_eq!(client.poll(0).await.status, 404);
}

#[tokio::test]
async fn a_session_that_is_used_does_not_expire() {
    let mut options = Options::default();
    options.session_timeout = ms(400);
    let site = Site::with(options, Config::default()).await;
    let (mut streams, mut waits) = (site.open().await, site.open().await);
    let mut events = site.listen(&streams, None).await;
    waits
        .send("POST", "/", &[], &call(1, "hold", json!([])).to_string())
        .await;
    tokio::time::sleep(ms(1200)).await;
    let add = call(2, "add", json!([1, 2]));
    assert_eq!(streams.post(&[], &add).await.status, 200);
    site.gate.add_permits(1);
    assert_eq!(waits.raw.reply().await.json(), ok(1, json!("held")));
    streams.post(&[ASYNC], &add).await;
    assert_eq!(events.event().await.unwrap().json(), ok(2, json!(3)));
}

// Who may use it.

#[tokio::test]
async fn a_session_belongs_to_the_credentials_that_opened_it() {
    let mut options = Options::default();
    options.tokens = vec!["ada".into(), "bob".into()];
    let site = Site::with(options, Config::default()).await;
    let (ada, bob) = ("Authorization: Bearer ada", "Authorization: Bearer bob");
    let mut raw = site.raw().await;
    let opened = raw.ask("POST", "/", &[JSON, ada], INITIALIZE).await;
    let session = opened.session();
    let mut client = Client { raw, session };
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[bob], &add).await.status, 404);
    assert_eq!(client.ask("DELETE", "/", &[bob], "").await.status, 404);
    for accept in [ACCEPT_JSON, ACCEPT_EVENTS] {
        assert_eq!(client.ask("GET", "/", &[bob, accept], "").await.status, 404);
    }
    assert_eq!(client.post(&[], &add).await.status, 401);
    assert_eq!(client.post(&[ada], &add).await.json(), ok(1, json!(3)));
    for guess in ["", "0", &"0".repeat(32), &"f".repeat(5000), "\u{e9}"] {
        client.session = guess.to_owned();
        assert_eq!(client.post(&[ada], &add).await.status, 404, "{guess}");
    }
}

#[tokio::test]
async fn a_session_belongs_to_whom_the_application_names() {
    let mut options = Options::default();
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        let name = request.headers.get("x-user");
        let name = name.ok_or(StatusCode::UNAUTHORIZED)?.to_str().unwrap();
        found.insert(Caller::new(name));
        Ok(())
    }));
    let site = Site::with(options, Config::default()).await;
    let mut raw = site.raw().await;
    let ada = ["X-User: ada", "Authorization: old"];
    let opened = raw
        .ask("POST", "/", &[JSON, ada[0], ada[1]], INITIALIZE)
        .await;
    let session = opened.session();
    let mut client = Client { raw, session };
    let who = json!({"jsonrpc": "2.0", "id": 1, "method": "who"});
    let renewed = ["X-User: ada", "Authorization: new"];
    assert_eq!(
        client.post(&renewed, &who).await.json(),
        ok(1, json!("ada"))
    );
    assert_eq!(client.post(&["X-User: bob"], &who).await.status, 404);
    // It does not matter on which connection it was opened.
    let mut other = site.again(&client).await;
    assert_eq!(other.post(&renewed, &who).await.json(), ok(1, json!("ada")));
}

// The client's messages.

#[tokio::test]
async fn what_wants_no_answer_is_accepted() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let bodies = [
        note("note"),
        json!([note("note"), note("note")]),
        ok(77, json!("nobody asked")),
        json!({"jsonrpc": "2.0", "id": 77, "result": 1, "error": {"code": 1, "message": ""}}),
    ];
    for body in bodies {
        let reply = client.post(&[ASYNC], &body).await;
        assert_eq!((reply.status, &*reply.body), (202, ""), "{body}");
        assert_eq!(reply.header("preference-applied"), None);
    }
    eventually("three notes", || site.notes.load(SeqCst) == 3).await;
}

#[tokio::test]
async fn answers_that_nobody_waits_for_come_among_the_messages_in_order() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let reply = client.post(&[ASYNC], &call(1, "count", json!([2]))).await;
    assert_eq!(reply.status, 202);
    assert_eq!(reply.header("preference-applied"), Some("respond-async"));
    for (id, message) in [(1, tick(1)), (2, tick(2)), (3, ok(1, json!(2)))] {
        let event = events.event().await.unwrap();
        assert_eq!((event.id, event.json()), (Some(id), message));
    }
    let batch = json!([call(2, "add", json!([1, 1])), note("note")]);
    assert_eq!(client.post(&[ASYNC], &batch).await.status, 202);
    let event = events.event().await.unwrap();
    assert_eq!(event.json(), json!([ok(2, json!(2))]));
}

#[tokio::test]
async fn what_is_no_message_is_answered_where_it_came() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        ("1", -32600),
        (r#"{"jsonrpc":"2.0","id":[],"method":"add"}"#, -32600),
    ] {
        for prefer in [ASYNC, "X: y"] {
            let reply = client.ask("POST", "/", &[prefer], body).await;
            assert_eq!(reply.status, 200, "{body}");
            assert_eq!(reply.json()["error"]["code"], code, "{body}");
            assert_eq!(reply.json()["id"], Value::Null, "{body}");
        }
    }
    let reply = client.ask("POST", "/", &[], "[1, 2]").await.json();
    assert_eq!(reply.as_array().unwrap().len(), 2);
    assert_eq!(reply[1]["error"]["code"], -32600);
    let mixed = json!([7, call(3, "add", json!([1, 2])), note("note")]);
    let reply = client.post(&[], &mixed).await.json();
    assert_eq!(reply[0]["error"]["code"], -32600);
    assert_eq!(reply[1], ok(3, json!(3)));
    let null = r#"{"jsonrpc":"2.0","id":null,"method":"add","params":[1,2]}"#;
    let reply = client.ask("POST", "/", &[], null).await.json();
    assert_eq!(reply, json!({"jsonrpc": "2.0", "id": null, "result": 3}));
    events.silence().await;
}

#[tokio::test]
async fn an_id_is_known_by_its_text() {
    let site = Site::new().await;
    let mut client = site.open().await;
    for id in [
        "1.0",
        "1e2",
        "18446744073709551616",
        r#""\u0061""#,
        r#""a""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"add","params":[1,2]}}"#);
        let reply = client.ask("POST", "/", &[], &text).await;
        assert_eq!(
            reply.body,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":3}}"#)
        );
    }
}

#[tokio::test]
async fn each_of_many_posts_gets_its_own_answer() {
    let site = Site::new().await;
    let client = site.open().await;
    let mut tasks = Vec::new();
    for i in 0..20 {
        let mut other = site.again(&client).await;
        tasks.push(tokio::spawn(async move {
            for j in 0..20 {
                // Ids of one digit are in use many times at once.
                let id = if i % 2 == 0 { j } else { i * 1000 + j };
                let accept = [ACCEPT_JSON, ACCEPT_BOTH][(i % 3 == 0) as usize];
                let reply = other
                    .post(&[accept], &call(id, "add", json!([id, id])))
                    .await;
                assert_eq!(reply.json(), ok(id, json!(2 * id)));
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
}

#[tokio::test]
async fn a_late_answer_is_the_end_of_an_event_stream() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    let head = client.raw.head().await;
    assert!(head.is_stream());
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    site.gate.add_permits(1);
    let event = client.raw.event().await.unwrap();
    assert_eq!((event.id, event.json()), (None, ok(1, json!("held"))));
    assert_eq!(client.raw.event().await, None);
    // Who does not accept events waits for JSON.
    client.send("POST", "/", &[ACCEPT_JSON], &hold).await;
    client.raw.silence().await;
    site.gate.add_permits(1);
    assert_eq!(client.raw.reply().await.json(), ok(1, json!("held")));
}

#[tokio::test]
async fn what_is_said_before_an_answer_comes_before_it() {
    let site = Site::new().await;
    let mut client = site.open().await;
    for round in 0..20 {
        let count = call(1, "count", json!([50])).to_string();
        client.send("POST", "/", &[ACCEPT_BOTH], &count).await;
        assert!(client.raw.head().await.is_stream());
        for n in 1..=50 {
            let event = client.raw.event().await.unwrap();
            assert_eq!(event.json(), tick(n));
            assert_eq!(event.id, Some(round * 50 + n));
        }
        let event = client.raw.event().await.unwrap();
        assert_eq!(event.json(), ok(1, json!(50)));
        assert_eq!(client.raw.event().await, None);
    }
}

#[tokio::test]
async fn a_handler_calls_its_caller_back() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut other = site.again(&client).await;
    let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "ask"});
    // Over the POST itself,
    client
        .send("POST", "/", &[ACCEPT_BOTH], &ask.to_string())
        .await;
    assert!(client.raw.head().await.is_stream());
    let question = client.raw.event().await.unwrap().json();
    assert_eq!(question["method"], "question");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "yes"});
    assert_eq!(other.post(&[], &answer).await.status, 202);
    assert_eq!(
        client.raw.event().await.unwrap().json(),
        ok(5, json!("yes"))
    );
    assert_eq!(client.raw.event().await, None);
    // and over the stream, if there is one.
    let mut events = site.listen(&client, None).await;
    client
        .send("POST", "/", &[ACCEPT_BOTH], &ask.to_string())
        .await;
    let question = events.event().await.unwrap().json();
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "no"});
    assert_eq!(other.post(&[], &answer).await.status, 202);
    let reply = client.raw.head().await;
    match reply.is_stream() {
        true => assert_eq!(client.raw.event().await.unwrap().json(), ok(5, json!("no"))),
        false => assert_eq!(reply.status, 200),
    }
    events.silence().await;
}

#[tokio::test]
async fn a_stream_takes_over_from_a_post_and_gives_back() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(client.raw.head().await.is_stream());
    let peer = site.peer();
    peer.notify("tick", (1,)).await.unwrap();
    assert_eq!(client.raw.event().await.unwrap().json(), tick(1));
    let mut events = site.listen(&client, None).await;
    peer.notify("tick", (2,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().json(), tick(2));
    drop(events);
    eventually("messages go over the POST again", || {
        site.server.connections() == 2
    })
    .await;
    peer.notify("tick", (3,)).await.unwrap();
    let event = client.raw.event().await.unwrap();
    assert_eq!((event.id, event.json()), (Some(3), tick(3)));
    site.gate.add_permits(1);
    assert_eq!(
        client.raw.event().await.unwrap().json(),
        ok(1, json!("held"))
    );
}

#[tokio::test]
async fn the_answer_to_a_post_that_is_gone_is_not_lost() {
    let site = Site::new().await;
    let client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    for accept in [ACCEPT_JSON, ACCEPT_BOTH] {
        let mut gone = site.again(&client).await;
        gone.send("POST", "/", &[accept], &hold).await;
        let peer = site.peer();
        eventually("it runs", || peer.stats().in_flight == 1).await;
        if accept == ACCEPT_BOTH {
            assert!(gone.raw.head().await.is_stream());
        }
        drop(gone);
        eventually("it is gone", || site.server.connections() == 2).await;
        let mut events = site.listen(&client, None).await;
        site.gate.add_permits(1);
        assert_eq!(events.event().await.unwrap().json(), ok(1, json!("held")));
        drop(events);
        eventually("it is gone", || site.server.connections() == 2).await;
    }
}

#[tokio::test]
async fn a_post_whose_request_is_cancelled_without_an_answer_ends() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut other = site.again(&client).await;
    for accept in [ACCEPT_JSON, ACCEPT_BOTH] {
        let hold = call(9, "hold", json!([])).to_string();
        client.send("POST", "/", &[accept], &hold).await;
        match accept {
            ACCEPT_BOTH => assert!(client.raw.head().await.is_stream()),
            _ => client.raw.silence().await,
        }
        let cancel = json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": 9},
        });
        assert_eq!(other.post(&[], &cancel).await.status, 202);
        match accept {
            ACCEPT_BOTH => assert_eq!(client.raw.event().await, None),
            _ => assert_eq!(client.raw.reply().await.status, 204),
        }
    }
}

#[tokio::test]
async fn posts_wait_while_too_much_is_before_them() {
    let mut config = Config::default();
    config.limits.queue = 200;
    config.limits.in_flight = 1;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut raws = Vec::new();
    // The first runs; so many are told that there is no room, and none is lost.
    for i in 0..20 {
        let mut other = site.again(&client).await;
        let hold = call(i, "hold", json!([])).to_string();
        other.send("POST", "/", &[], &hold).await;
        raws.push(other);
    }
    let peer = site.peer();
    eventually("all others are refused", || peer.stats().overloaded == 19).await;
    site.gate.add_permits(1);
    let mut held = 0;
    for (i, other) in raws.iter_mut().enumerate() {
        let reply = other.raw.reply().await.json();
        assert_eq!(reply["id"], i);
        match reply["error"]["code"].as_i64() {
            None => held += 1,
            code => assert_eq!(code, Some(-32000)),
        }
    }
    assert_eq!(held, 1);
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[], &add).await.json(), ok(1, json!(3)));
}

// Events.

#[tokio::test]
async fn an_event_stream_opens_a_session() {
    let site = Site::new().await;
    let mut raw = site.raw().await;
    raw.send("GET", "/", &[ACCEPT_EVENTS], "").await;
    let head = raw.head().await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    assert_eq!(raw.block().await.unwrap(), "retry: 1000");
    let first = raw.event().await.unwrap();
    assert_eq!(first.name.as_deref(), Some("session"));
    assert_eq!(first.data, head.session());
    site.peer().notify("tick", (1,)).await.unwrap();
    let expected = Event {
        name: None,
        id: Some(1),
        data: tick(1).to_string(),
    };
    let event = raw.event().await.unwrap();
    assert_eq!((event.json(), event.id), (expected.json(), expected.id));
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let mut options = Options::default();
    options.keep_alive = ms(20);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    for _ in 0..3 {
        assert_eq!(events.block().await.unwrap(), ":");
    }
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(client.raw.head().await.is_stream());
    for _ in 0..3 {
        assert_eq!(client.raw.block().await.unwrap(), ":");
    }
}

#[tokio::test]
async fn who_comes_back_goes_on_where_it_was() {
    let site = Site::new().await;
    let client = site.open().await;
    let peer = site.peer();
    for n in 1..=4 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    let mut events = site.listen(&client, None).await;
    for n in 1..=4 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    peer.notify("tick", (5,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().id, Some(5));
    drop(events);
    let mut events = site.listen(&client, Some(2)).await;
    for n in 3..=5 {
        let event = events.event().await.unwrap();
        assert_eq!((event.id, event.json()), (Some(n), tick(n)));
    }
    // Without a number: what was never sent.
    peer.notify("tick", (6,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().id, Some(6));
    let mut again = site.listen(&client, None).await;
    peer.notify("tick", (7,)).await.unwrap();
    assert_eq!(again.event().await.unwrap().id, Some(7));
    assert_eq!(events.event().await, None, "a new stream ends the old one");
    let mut raw = site.raw().await;
    let target = format!("/?session={}&last-event-id=5", client.session);
    raw.send("GET", &target, &[ACCEPT_EVENTS], "").await;
    assert!(raw.head().await.is_stream());
    assert_eq!(raw.event().await.unwrap().id, Some(6));
    // A number that was never given is taken as the last one.
    let mut far = site.listen(&client, Some(u64::MAX)).await;
    peer.notify("tick", (8,)).await.unwrap();
    assert_eq!(far.event().await.unwrap().id, Some(8));
}

#[tokio::test]
async fn what_is_kept_is_bounded_and_a_gap_is_told() {
    let size = tick(1).to_string().len();
    let mut options = Options::default();
    options.replay = 3 * size;
    let site = Site::with(options, Config::default()).await;
    let client = site.open().await;
    let peer = site.peer();
    let mut events = site.listen(&client, None).await;
    for n in 1..=9 {
        peer.notify("tick", (n,)).await.unwrap();
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    let mut events = site.listen(&client, Some(6)).await;
    assert_eq!(events.event().await.unwrap().id, Some(7), "just no gap");
    let mut events = site.listen(&client, Some(4)).await;
    let gap = events.event().await.unwrap();
    assert_eq!((gap.name.as_deref(), gap.id), (Some("gap"), None));
    assert_eq!(gap.json(), json!({"missed": 2}));
    for n in 7..=9 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
}

/// Connections are cut anywhere, streams are replaced while the server sends: who
/// tells its last number gets every message exactly once, in order.
#[tokio::test]
async fn every_event_comes_exactly_once_over_broken_connections() {
    const ALL: u64 = 3000;
    let mut options = Options::default();
    options.replay = 8 << 20;
    let site = Site::with(options, Config::default()).await;
    let client = site.open().await;
    let peer = site.peer();
    let sender = tokio::spawn(async move {
        for n in 1..=ALL {
            peer.notify("tick", (n,)).await.unwrap();
            if n % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
    let (mut last, mut cuts) = (0, 0_u64);
    let mut old = None;
    while last < ALL {
        let mut events = site.listen(&client, Some(last)).await;
        for _ in 0..(cuts * 37) % 200 + 1 {
            if last == ALL {
                break;
            }
            let event = events.event().await.unwrap();
            assert_eq!((event.id, event.name.as_deref()), (Some(last + 1), None));
            assert_eq!(event.json(), tick(last + 1));
            last += 1;
        }
        // Every other stream is left open, for the next to replace.
        old = (cuts % 2 == 0).then_some(events);
        cuts += 1;
    }
    drop(old);
    within(sender).await.unwrap();
    assert!(cuts > 10);
}

// Polling.

#[tokio::test]
async fn polls_acknowledge_and_repeat() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let peer = site.peer();
    let nothing = client
        .ask("GET", "/?cursor=0", &[ACCEPT_JSON, "Prefer: wait=0"], "")
        .await;
    assert_eq!((nothing.status, &*nothing.body), (204, ""));
    peer.notify("tick", (1,)).await.unwrap();
    peer.notify("tick", (2,)).await.unwrap();
    eventually("both are sent", || peer.stats().bytes_sent > 80).await;
    let both = json!({"cursor": 2, "messages": [tick(1), tick(2)]});
    assert_eq!(client.poll(0).await.json(), both);
    assert_eq!(client.poll(0).await.json(), both, "it was not acknowledged");
    let second = json!({"cursor": 2, "messages": [tick(2)]});
    assert_eq!(client.poll(1).await.json(), second);
    assert_eq!(client.poll(0).await.json(), second, "it was acknowledged");
    // A poll waits for what comes next.
    client.send("GET", "/?cursor=2", &[ACCEPT_JSON], "").await;
    client.raw.silence().await;
    peer.notify("tick", (3,)).await.unwrap();
    let third = json!({"cursor": 3, "messages": [tick(3)]});
    assert_eq!(client.raw.reply().await.json(), third);
    // What was not sent cannot be acknowledged.
    let mut other = site.again(&client).await;
    let far = format!("/?cursor={}", u64::MAX);
    other.send("GET", &far, &[ACCEPT_JSON], "").await;
    other.raw.silence().await;
    peer.notify("tick", (4,)).await.unwrap();
    let reply = other.raw.reply().await.json();
    assert_eq!(reply, json!({"cursor": 4, "messages": [tick(4)]}));
}

#[tokio::test]
async fn a_poll_ends_in_time_or_when_another_comes() {
    let mut options = Options::default();
    options.poll_timeout = ms(50);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open_polling().await;
    assert_eq!(client.poll(0).await.status, 204);
    let longer = ["Prefer: wait=3600", ACCEPT_JSON];
    assert_eq!(client.ask("GET", "/", &longer, "").await.status, 204);
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let mut other = site.again(&client).await;
    client.send("GET", "/", &[ACCEPT_JSON], "").await;
    client.raw.silence().await;
    other.send("GET", "/", &[ACCEPT_JSON], "").await;
    assert_eq!(client.raw.reply().await.status, 204);
    site.peer().notify("tick", (1,)).await.unwrap();
    let reply = other.raw.reply().await.json();
    assert_eq!(reply, json!({"cursor": 1, "messages": [tick(1)]}));
}

#[tokio::test]
async fn a_response_has_so_much_and_no_more() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let peer = site.peer();
    for n in 1..=101 {
        peer.notify("tick", (n,)).await.unwrap();
    }
    eventually("all are sent", || peer.stats().bytes_sent > 101 * 40).await;
    let page = client.poll(0).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 100);
    assert_eq!(page["cursor"], 100);
    let page = client.poll(100).await.json();
    assert_eq!(page, json!({"cursor": 101, "messages": [tick(101)]}));
    let large = "x".repeat(400 << 10);
    let before = peer.stats().bytes_sent;
    for _ in 0..4 {
        peer.notify("large", (&large,)).await.unwrap();
    }
    eventually("all are sent", || {
        peer.stats().bytes_sent - before > 1600 << 10
    })
    .await;
    let page = client.poll(101).await.json();
    assert_eq!(page["messages"].as_array().unwrap().len(), 3, "past 1 MiB");
    assert_eq!(page["cursor"], 104);
    assert_eq!(client.poll(104).await.json()["cursor"], 105);
}

#[tokio::test]
async fn answers_come_by_polling_too() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let mut posts = site.again(&client).await;
    for n in 1..50 {
        let add = call(n, "add", json!([n, 1]));
        assert_eq!(posts.post(&[ASYNC], &add).await.status, 202);
    }
    let (mut cursor, mut next) = (0, 1);
    while next < 50 {
        // Each response is lost once.
        client.poll(cursor).await;
        let page = client.poll(cursor).await.json();
        for message in page["messages"].as_array().unwrap() {
            assert_eq!(*message, ok(next, json!(next + 1)));
            next += 1;
        }
        cursor = page["cursor"].as_u64().unwrap();
    }
}

// Limits.

#[tokio::test]
async fn whoever_sends_waits_for_a_client_that_does_not_read() {
    for share in [false, true] {
        let (mut options, mut config) = (Options::default(), Config::default());
        // So much waits in the peer, and as much in the session if it may.
        config.limits.output = 500_000;
        options.session_bytes = if share { 10_000 } else { 1 << 30 };
        let most = if share { 700 } else { 1_100 };
        let site = Site::with(options, config).await;
        let mut client = site.open_polling().await;
        let peer = site.peer();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let text = "x".repeat(1000);
        let sender = tokio::spawn(async move {
            for _ in 0..3_000 {
                peer.notify("tick", (&text,)).await.unwrap();
                counter.fetch_add(1, SeqCst);
            }
        });
        // It comes to a halt, and stays so.
        let stalled = tokio::time::timeout(ms(500), async {
            loop {
                tokio::task::yield_now().await;
                if sender.is_finished() {
                    return;
                }
            }
        });
        assert!(stalled.await.is_err(), "it never waits");
        let halted = sent.load(SeqCst);
        assert!(halted < most, "{halted} KB have gone somewhere");
        let mut cursor = 0;
        while cursor < 3_000 {
            let reply = client.poll(cursor).await;
            assert_eq!(reply.status, 200);
            cursor = reply.json()["cursor"].as_u64().unwrap();
        }
        within(sender).await.unwrap();
    }
}

#[tokio::test]
async fn an_event_stream_that_is_not_read_is_bounded_too() {
    let mut config = Config::default();
    config.limits.output = 10_000;
    let site = Site::with(Options::default(), config).await;
    let client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let peer = site.peer();
    let text = "x".repeat(100_000);
    let sender = tokio::spawn(async move {
        for _ in 0..300 {
            peer.notify("tick", (&text,)).await.unwrap();
        }
    });
    let stalled = tokio::time::timeout(ms(1000), async {
        while !sender.is_finished() {
            tokio::time::sleep(ms(5)).await;
        }
    });
    assert!(stalled.await.is_err(), "30 MB are in nobody's memory");
    for n in 1..=300 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    within(sender).await.unwrap();
}

// The end.

#[tokio::test]
async fn a_shutdown_loses_no_answer() {
    let site = Site::new().await;
    let mut streams = site.open().await;
    let mut events = site.listen(&streams, None).await;
    let mut polls = site.open_polling().await;
    let mut waits = site.open().await;
    let mut late = site.open().await;
    let (hold, server) = (call(1, "hold", json!([])), site.server.clone());
    assert_eq!(streams.post(&[ASYNC], &hold).await.status, 202);
    let mut posts = site.again(&polls).await;
    for _ in 0..2 {
        assert_eq!(posts.post(&[ASYNC], &hold).await.status, 202);
    }
    polls.send("GET", "/", &[ACCEPT_JSON], "").await;
    waits
        .send("POST", "/", &[ACCEPT_JSON], &hold.to_string())
        .await;
    late.send("POST", "/", &[ACCEPT_BOTH], &hold.to_string())
        .await;
    assert!(late.raw.head().await.is_stream());
    eventually("all run", || server.stats().in_flight == 5).await;
    let end = tokio::spawn(async move { server.shutdown(Duration::from_secs(20)).await });
    events.silence().await;
    polls.raw.silence().await;
    site.gate.add_permits(5);
    let held = ok(1, json!("held"));
    assert_eq!(events.event().await.unwrap().json(), held);
    assert_eq!(events.event().await, None);
    assert_eq!(waits.raw.reply().await.json(), held);
    assert_eq!(late.raw.event().await.unwrap().json(), held);
    assert_eq!(late.raw.event().await, None);
    let page = polls.raw.reply().await.json();
    assert_eq!(page, json!({"cursor": 2, "messages": [held, held]}));
    within(end).await.unwrap();
}

#[tokio::test]
async fn idle_sessions_do_not_hold_up_the_end() {
    let site = Site::new().await;
    let client = site.open().await;
    let mut polls = site.open_polling().await;
    polls.send("GET", "/", &[ACCEPT_JSON], "").await;
    let mut events = site.listen(&client, None).await;
    events.silence().await;
    let start = Instant::now();
    within(site.server.shutdown(Duration::from_secs(600))).await;
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(events.event().await, None);
    assert_eq!(polls.raw.reply().await.status, 204);
}

#[tokio::test]
async fn when_the_application_closes_a_session_its_streams_end() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let hold = call(1, "hold", json!([])).to_string();
    let mut waits = site.again(&client).await;
    waits.send("POST", "/", &[], &hold).await;
    let peer = site.peer();
    eventually("it runs", || peer.stats().in_flight == 1).await;
    peer.notify("tick", (1,)).await.unwrap();
    peer.close();
    assert_eq!(events.event().await.unwrap().json(), tick(1));
    assert_eq!(events.event().await, None);
    assert_eq!(waits.raw.reply().await.status, 404);
    assert_eq!(client.poll(0).await.status, 404);
}

#[tokio::test]
async fn no_session_is_opened_while_the_server_stops() {
    let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
    let request = |verb: &str, accept: &str| {
        http::Request::builder()
            .method(verb)
            .uri("http://localhost/")
            .header("accept", accept)
            .header("content-type", "application/json")
            .body(INITIALIZE.to_owned())
            .unwrap()
    };
    let opened = http.answer(request("POST", "application/json")).await;
    assert_eq!(opened.status(), 200);
    assert_eq!(http.peers().len(), 1);
    within(http.shutdown(Duration::from_secs(20))).await;
    for (verb, accept) in [
        ("POST", "application/json"),
        ("GET", "application/json"),
        ("GET", "text/event-stream"),
    ] {
        let refused = http.answer(request(verb, accept)).await;
        assert_eq!(refused.status(), 503, "{verb} {accept}");
    }
}

#[tokio::test]
async fn sessions_end_with_the_service() {
    let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
    let request = http::Request::get("http://localhost/")
        .header("accept", "application/json")
        .body(String::new())
        .unwrap();
    let opened = http.answer(request).await;
    assert_eq!(opened.status(), 200);
    let peer = http.peers().pop().unwrap();
    assert!(!peer.state().is_closed());
    drop(http);
    eventually("it is closed", || peer.state().is_closed()).await;
}

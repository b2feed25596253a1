//! Servers and clients: connections come and go, and are closed in good order.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use caudal::{
    Address, CallError, Config, ConnectionState, Context, ErrorCode, Event, JsonRpcError, Method,
    Peer, Router, Server, connect, serve,
};
use serde_json::{Value, json};
use socket2::SockRef;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::support::{eventually, ms, within};

const ANY: &str = "tcp://127.0.0.1:0";

/// What handlers have done, and what they wait for.
#[derive(Clone)]
struct Seen {
    started: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    notes: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            started: Arc::default(),
            dropped: Arc::default(),
            notes: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn methods(seen: &Seen) -> Router {
    let Seen {
        started,
        dropped,
        notes,
        gate,
    } = seen.clone();
    let (begun, held) = (Arc::clone(&started), Arc::clone(&started));
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("fail", || Err::<(), _>(JsonRpcError::new(1, "no")))
        .method("slow", move |(ms,): (u64,)| {
            begun.fetch_add(1, SeqCst);
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(ms)
            }
        })
        .method("held", move || {
            held.fetch_add(1, SeqCst);
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(7)
            }
        })
        .method("hang", move || {
            started.fetch_add(1, SeqCst);
            let guard = Guard(Arc::clone(&dropped));
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
                Ok(())
            }
        })
        .method("ask_later", |cx: Context, (ms,): (u64,)| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let answer: i64 = cx.peer().call("answer", ()).await?;
            Ok(answer)
        })
        .method("note", move |_: Option<Value>| {
            notes.fetch_add(1, SeqCst);
        })
}

async fn server(seen: &Seen) -> Server {
    serve(ANY, methods(seen)).await.unwrap()
}

fn port(server: &Server) -> u16 {
    match server.endpoint().address() {
        Address::Tcp { port, .. } => *port,
        other => panic!("{other:?}"),
    }
}

async fn raw(server: &Server) -> BufReader<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port(server))).await;
    BufReader::new(socket.unwrap())
}

async fn say(raw: &mut BufReader<TcpStream>, line: &str) {
    within(raw.write_all(format!("{line}\n").as_bytes()))
        .await
        .unwrap();
}

/// The next message; `None` at the end.
async fn hear(raw: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut line = String::new();
    let read = within(raw.read_line(&mut line)).await.unwrap();
    (read > 0).then(|| serde_json::from_str(&line).unwrap())
}

async fn add(peer: &Peer) -> Result<i64, CallError> {
    within(peer.call("add", (1, 2))).await
}

// ---- a server ----

#[tokio::test]
async fn only_what_can_be_served_is_proposed() {
    for (address, proposed) in [
        ("nonsense", "tcp://"),
        ("./serve -p a:1", "tcp://"),
        ("cmb:pylsp", "tcp://"),
        ("ftp://a", "tcp://"),
        ("cmd:", "tcp://"),
        ("cmd:a 'b", "tcp://"),
        ("/tmp/a.sock", "`unix:/tmp/a.sock`"),
        ("localhost:4017", "`tcp://localhost:4017`"),
    ] {
        let error = caudal::serve(address, Router::new()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("`{address}`")), "{text}");
        assert!(text.contains(proposed), "{text}");
        assert_eq!(
            text.matches("cmd:").count(),
            address.matches("cmd:").count(),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_server_says_which_port_it_has() {
    let server = server(&Seen::default()).await;
    assert_ne!(port(&server), 0);
    let peer = connect(server.endpoint()).await.unwrap();
    assert_eq!(add(&peer).await.unwrap(), 3);
    assert_eq!((server.connections(), server.accepted()), (1, 1));
    assert!(format!("{server:?}").contains("connections: 1"));
}

#[tokio::test]
async fn a_server_goes_on_when_its_handle_is_dropped() {
    let server = server(&Seen::default()).await;
    let endpoint = server.endpoint().clone();
    drop(server);
    let peer = connect(endpoint).await.unwrap();
    assert_eq!(add(&peer).await.unwrap(), 3);
}

/// Proves: A91
#[tokio::test]
async fn a_connection_beyond_the_limit_is_told_so_and_the_others_go_on() {
    let server = serve(ANY, methods(&Seen::default()))
        .limits(caudal::ServerLimits::default().connections(2))
        .await
        .unwrap();
    let one = connect(server.endpoint()).await.unwrap();
    let two = connect(server.endpoint()).await.unwrap();
    assert_eq!((add(&one).await.unwrap(), add(&two).await.unwrap()), (3, 3));
    for _ in 0..5 {
        let (mut third, mut told) = (raw(&server).await, String::new());
        within(third.read_to_string(&mut told)).await.unwrap();
        assert!(told.ends_with('\n'), "{told:?}");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["error"]["code"], -32000);
        assert!(told["id"].is_null());
        let why = told["error"]["data"]["reason"].as_str().unwrap();
        assert!(why.contains("limited to 2 in all"), "{why}");
        let third = connect(server.endpoint()).await.unwrap();
        within(third.closed()).await;
    }
    assert_eq!((add(&one).await.unwrap(), add(&two).await.unwrap()), (3, 3));
    assert_eq!((server.connections(), server.accepted()), (2, 2));
    drop(one);
    eventually("it has left", || server.connections() == 1).await;
    let next = connect(server.endpoint()).await.unwrap();
    assert_eq!(
        (add(&next).await.unwrap(), add(&two).await.unwrap()),
        (3, 3)
    );
}

/// Proves: A28
#[tokio::test]
async fn a_hundred_connections_are_served_at_once() {
    let all = Arc::new(tokio::sync::Barrier::new(100));
    let router = Router::new().method("meet", move || {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok(())
        }
    });
    let server = serve(ANY, router).await.unwrap();
    let mut peers = Vec::new();
    for _ in 0..100 {
        peers.push(connect(server.endpoint()).await.unwrap());
    }
    // None is answered before all have come.
    let tasks: Vec<_> = peers
        .iter()
        .cloned()
        .map(|peer| tokio::spawn(async move { peer.call::<()>("meet", ()).await }))
        .collect();
    for task in tasks {
        within(task).await.unwrap().unwrap();
    }
    assert_eq!(server.connections(), 100);
    drop(peers);
    eventually("all have left", || server.connections() == 0).await;
}

#[tokio::test]
async fn a_server_counts_what_it_does() {
    let seen = Seen::default();
    let server = server(&seen).await;
    assert_eq!(server.stats(), caudal::Stats::default());
    let mut raw = raw(&server).await;
    let calls = [
        r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"fail"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"nope"}"#,
    ];
    let (mut sent, mut received) = (0, 0);
    for call in calls {
        say(&mut raw, call).await;
        sent += call.len() as u64;
        received += hear(&mut raw).await.unwrap().to_string().len() as u64 + 1;
    }
    let stats = server.stats();
    assert_eq!((stats.requests_served, stats.errors), (3, 2));
    // Newlines are counted on the way out; on the way in they may be.
    assert_eq!(stats.bytes_sent, received);
    assert!(
        (sent..=sent + 3).contains(&stats.bytes_received),
        "{stats:?}"
    );
    say(&mut raw, r#"{"jsonrpc":"2.0","method":"note"}"#).await;
    say(&mut raw, r#"{"jsonrpc":"2.0","id":77,"result":null}"#).await;
    say(&mut raw, "garbage").await;
    assert_eq!(hear(&mut raw).await.unwrap()["error"]["code"], -32700);
    let stats = server.stats();
    assert_eq!(
        (
            stats.notifications_served,
            stats.late_replies,
            stats.invalid
        ),
        (1, 1, 1)
    );
    say(
        &mut raw,
        r#"{"jsonrpc":"2.0","id":4,"method":"slow","params":[100]}"#,
    )
    .await;
    eventually("in flight", || server.stats().in_flight == 1).await;
    assert_eq!(hear(&mut raw).await.unwrap()["result"], 100);
    eventually("done", || server.stats().in_flight == 0).await;
    let before = server.stats();
    assert_eq!(before.requests_served, 4);
    drop(raw);
    eventually("it has left", || server.connections() == 0).await;
    // What the closed ones have done still counts.
    assert_eq!(server.stats(), before);
}

/// Each once, though its caller may look when the connection is gone.
#[tokio::test]
async fn a_server_counts_calls_that_fail_with_their_connection() {
    let server = server(&Seen::default()).await;
    let raw = raw(&server).await;
    eventually("it is served", || !server.peers().is_empty()).await;
    let peer = server.peers().remove(0);
    let asks = || {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call::<()>("x", ()).await })
    };
    let (waits, given_up) = (asks(), asks());
    eventually("they wait", || server.stats().pending == 2).await;
    given_up.abort();
    eventually("it is given up", || server.stats().calls_failed == 1).await;
    drop(raw);
    eventually("it has ended", || server.connections() == 0).await;
    assert!(within(waits).await.unwrap().is_err());
    for stats in [peer.stats(), server.stats()] {
        assert_eq!((stats.calls, stats.calls_failed), (2, 2));
    }
}

#[tokio::test]
async fn a_client_counts_what_it_does() {
    let server = server(&Seen::default()).await;
    let peer = connect(server.endpoint()).await.unwrap();
    add(&peer).await.unwrap();
    within(peer.call::<()>("fail", ())).await.unwrap_err();
    let late = peer.call::<u64>("slow", (100,)).timeout(ms(20));
    assert!(matches!(within(late).await, Err(CallError::Timeout)));
    peer.notify("note", ()).await.unwrap();
    eventually("the answer came", || peer.stats().late_replies == 1).await;
    let stats = peer.stats();
    assert_eq!(
        (stats.calls, stats.calls_failed, stats.notifications),
        (3, 2, 1)
    );
    assert_eq!(stats.pending, 0);
    assert!(stats.bytes_sent > 0 && stats.bytes_received > 0);
}

/// Proves: A33
#[tokio::test]
async fn a_server_tells_all_its_peers() {
    let server = server(&Seen::default()).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut peers = Vec::new();
    for n in 0..5 {
        let tell = tell.clone();
        let router = Router::new()
            .method("tick", move |(tick,): (u32,)| tell.send((n, tick)).unwrap())
            .method("number", move || Ok(n));
        let peer = connect(server.endpoint()).router(router).await.unwrap();
        add(&peer).await.unwrap();
        peers.push(peer);
    }
    let event = Event::new("tick", (1,)).unwrap();
    assert_eq!(server.peers().len(), 5);
    for peer in server.peers() {
        peer.publish(&event).await.unwrap();
    }
    let mut heard = Vec::new();
    for _ in 0..5 {
        heard.push(within(told.recv()).await.unwrap());
    }
    heard.sort_unstable();
    assert_eq!(heard, [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    let mut numbers = Vec::new();
    for peer in server.peers() {
        numbers.push(within(peer.call::<i32>("number", ())).await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    // Such a handle does not keep a connection, and outlives it.
    let handle = server.peers().remove(0);
    drop(peers);
    within(handle.closed()).await;
    assert!(matches!(
        handle.notify("tick", (2,)).await,
        Err(CallError::AlreadyClosed(_))
    ));
}

#[tokio::test]
async fn a_server_can_close_one_connection() {
    let server = server(&Seen::default()).await;
    let one = connect(server.endpoint()).await.unwrap();
    add(&one).await.unwrap();
    server.peers()[0].close();
    let reason = within(one.closed()).await;
    assert!(reason.is_remote(), "{reason:?}");
    let two = connect(server.endpoint()).await.unwrap();
    assert_eq!(add(&two).await.unwrap(), 3);
}

// ---- the end of a server ----

/// Proves: A52, A53
#[tokio::test]
async fn a_server_that_shuts_down_finishes_what_runs_and_refuses_the_rest() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let mut raw = raw(&server).await;
    let peer = connect(server.endpoint()).await.unwrap();
    say(&mut raw, r#"{"jsonrpc":"2.0","id":1,"method":"held"}"#).await;
    let call = {
        let peer = peer.clone();
        tokio::spawn(async move { peer.call::<u64>("held", ()).await })
    };
    eventually("both run", || seen.started.load(SeqCst) == 2).await;
    let idle = connect(server.endpoint()).await.unwrap();
    eventually("all are there", || server.connections() == 3).await;

    let waiting = tokio::spawn({
        let server = server.clone();
        async move { server.wait().await }
    });
    let ending = tokio::spawn({
        let server = server.clone();
        async move { server.shutdown(Duration::from_secs(600)).await }
    });
    // Who has nothing to wait for is let go at once.
    assert!(within(idle.closed()).await.is_remote());
    assert!(!ending.is_finished() && !waiting.is_finished());
    assert!(matches!(
        server.peers()[0].state(),
        ConnectionState::Draining
    ));
    let refused = connect(server.endpoint()).await;
    assert!(
        matches!(refused, Err(caudal::Error::Connect { .. })),
        "{refused:?}"
    );
    say(
        &mut raw,
        r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}"#,
    )
    .await;
    let answer = hear(&mut raw).await.unwrap();
    assert_eq!(answer["id"], 2);
    assert_eq!(
        answer["error"],
        json!({ "code": -32010, "message": "Server is shutting down" })
    );
    let error = within(peer.call::<i64>("add", (1, 2))).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(error) if error.code == ErrorCode::SHUTTING_DOWN));

    seen.gate.add_permits(2);
    let answer = hear(&mut raw).await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]), (&json!(1), &json!(7)));
    assert_eq!(hear(&mut raw).await, None);
    assert_eq!(within(call).await.unwrap().unwrap(), 7);
    assert!(within(peer.closed()).await.is_remote());
    within(ending).await.unwrap();
    within(waiting).await.unwrap();
    assert_eq!(server.connections(), 0);
    // Once more changes nothing.
    within(server.shutdown(Duration::ZERO)).await;
    within(server.wait()).await;
}

#[tokio::test]
async fn a_batch_is_refused_too_while_a_server_shuts_down() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let mut raw = raw(&server).await;
    say(
        &mut raw,
        r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[500]}"#,
    )
    .await;
    eventually("it runs", || seen.started.load(SeqCst) == 1).await;
    let ending = tokio::spawn({
        let server = server.clone();
        async move { server.shutdown(Duration::from_secs(10)).await }
    });
    let draining = || matches!(server.peers()[0].state(), ConnectionState::Draining);
    eventually("it drains", draining).await;
    say(
        &mut raw,
        r#"[{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]},{"jsonrpc":"2.0","id":3,"method":"add","params":[1,2]}]"#,
    )
    .await;
    let answer = hear(&mut raw).await.unwrap();
    assert_eq!(
        answer[0]["error"]["message"], "Server is shutting down",
        "{answer}"
    );
    assert_eq!(
        answer[1]["error"]["message"], "Server is shutting down",
        "{answer}"
    );
    within(ending).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_runs_may_still_ask_its_caller_while_the_server_shuts_down() {
    let server = server(&Seen::default()).await;
    let router = Router::new().method("answer", || Ok(42));
    let peer = connect(server.endpoint()).router(router).await.unwrap();
    let call = tokio::spawn(async move { peer.call::<i64>("ask_later", (200,)).await });
    eventually("it runs", || server.stats().in_flight == 1).await;
    within(server.shutdown(Duration::from_secs(10))).await;
    assert_eq!(within(call).await.unwrap().unwrap(), 42);
}

/// Proves: A53, A54
#[tokio::test]
async fn what_is_not_done_at_the_deadline_is_cancelled() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let peer = connect(server.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { peer.call::<()>("hang", ()).await });
    eventually("it runs", || seen.started.load(SeqCst) == 1).await;
    within(server.shutdown(ms(300))).await;
    eventually("cancelled", || seen.dropped.load(SeqCst) == 1).await;
    let error = within(call).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, CallError::Closed(reason) if reason.is_remote()),
        "{error:?}"
    );
    assert!(error.may_have_run() && error.is_fatal());
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_second_shutdown_may_be_more_impatient() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let peer = connect(server.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { peer.call::<()>("hang", ()).await });
    eventually("it runs", || seen.started.load(SeqCst) == 1).await;
    let patient = tokio::spawn({
        let server = server.clone();
        async move { server.shutdown(Duration::from_secs(600)).await }
    });
    eventually("it waits", || {
        matches!(server.peers()[0].state(), ConnectionState::Draining)
    })
    .await;
    within(server.shutdown(ms(100))).await;
    within(patient).await.unwrap();
    within(call).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_hold_up_the_end() {
    let router = Router::new().method("big", |(n,): (usize,)| Ok("x".repeat(n)));
    let server = serve(ANY, router).await.unwrap();
    let mut raw = raw(&server).await;
    for id in 0..40 {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"big","params":[900000]}}"#);
        let line = format!("{call}\n");
        let _ = tokio::time::timeout(ms(200), raw.write_all(line.as_bytes())).await;
    }
    tokio::time::sleep(ms(200)).await;
    within(server.shutdown(ms(300))).await;
}

#[tokio::test]
async fn a_server_without_connections_ends_at_once() {
    let server = server(&Seen::default()).await;
    within(server.shutdown(Duration::from_secs(600))).await;
    within(server.wait()).await;
}

// ---- a client ----

fn name(state: &ConnectionState) -> &'static str {
    match state {
        ConnectionState::Connecting => "connecting",
        ConnectionState::Connected => "connected",
        ConnectionState::Draining => "draining",
        ConnectionState::Closed(_) => "closed",
        _ => "unknown",
    }
}

/// Proves: A55, A100, A103
#[tokio::test]
async fn the_states_of_a_connection_can_be_watched() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let peer = connect(server.endpoint()).await.unwrap();
    let mut states = peer.watch();
    assert_eq!(name(&states.now()), "connected");
    assert_eq!(name(&peer.state()), "connected");
    peer.close();
    assert_eq!(name(&within(states.changed()).await.unwrap()), "draining");
    assert_eq!(name(&within(states.changed()).await.unwrap()), "closed");
    assert!(within(states.changed()).await.is_none());
    assert!(peer.state().is_closed());

    // The server's end of a connection that its client has ended half of.
    let mut raw = raw(&server).await;
    say(
        &mut raw,
        r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[200]}"#,
    )
    .await;
    eventually("it runs", || seen.started.load(SeqCst) == 1).await;
    let peer = server.peers().remove(0);
    let mut states = peer.watch();
    assert_eq!(name(&states.now()), "connected");
    raw.shutdown().await.unwrap();
    assert_eq!(name(&within(states.changed()).await.unwrap()), "draining");
    assert_eq!(hear(&mut raw).await.unwrap()["result"], 200);
    assert_eq!(name(&within(states.changed()).await.unwrap()), "closed");
}

/// Proves: A52
#[tokio::test]
async fn the_reason_says_who_closed_the_connection() {
    let server = server(&Seen::default()).await;
    let peer = connect(server.endpoint()).await.unwrap();
    peer.close();
    let reason = within(peer.closed()).await;
    assert!(reason.is_local() && reason.to_string() == "closed by this side");

    let peer = connect(server.endpoint()).await.unwrap();
    let reason = within(peer.shutdown(Duration::from_secs(1))).await;
    assert!(reason.is_local());

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let peer = connect(&endpoint).await.unwrap();
    drop(listener.accept().await.unwrap());
    let reason = within(peer.closed()).await;
    assert!(reason.is_remote() && reason.to_string() == "closed by the other side");

    let peer = connect(&endpoint).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    SockRef::from(&socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(socket);
    let reason = within(peer.closed()).await;
    assert!(!reason.is_remote() && !reason.is_local());
    assert_eq!(reason.to_string(), "the connection failed");
    assert!(
        reason.source().unwrap().to_string().contains("reset"),
        "{reason:?}"
    );
}

/// Proves: A53
#[tokio::test]
async fn every_call_that_waits_fails_when_the_connection_ends() {
    let seen = Seen::default();
    let mut config = Config::default();
    config.drain_timeout = ms(200);
    let server = serve(ANY, methods(&seen)).config(config).await.unwrap();
    for (how, started) in [("local", 50), ("remote", 100)] {
        let peer = connect(server.endpoint()).await.unwrap();
        add(&peer).await.unwrap();
        let calls: Vec<_> = (0..50)
            .map(|_| {
                let peer = peer.clone();
                tokio::spawn(async move { peer.call::<()>("hang", ()).await })
            })
            .collect();
        eventually("all wait", || seen.started.load(SeqCst) == started).await;
        match how {
            "local" => peer.close(),
            _ => server.peers()[0].close(),
        }
        for call in calls {
            match within(call).await.unwrap().unwrap_err() {
                CallError::Closed(reason) => assert_eq!(reason.is_local(), how == "local"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(peer.stats().pending, 0);
        eventually("gone", || server.connections() == 0).await;
    }
    eventually("all are cancelled", || seen.dropped.load(SeqCst) == 100).await;
}

/// Proves: A102
#[tokio::test]
async fn nothing_can_be_done_with_a_closed_connection() {
    let server = server(&Seen::default()).await;
    let peer = connect(server.endpoint()).await.unwrap();
    peer.close();
    // At once, not only when it has ended.
    for _ in 0..2 {
        let error = peer.call::<i64>("add", (1, 2)).await.unwrap_err();
        assert!(matches!(&error, CallError::AlreadyClosed(reason) if reason.is_local()));
        assert!(!error.may_have_run() && error.is_fatal());
        let error = peer.notify("note", ()).await.unwrap_err();
        assert!(matches!(error, CallError::AlreadyClosed(_)));
        let event = Event::new("note", ()).unwrap();
        assert!(matches!(
            peer.publish(&event).await,
            Err(CallError::AlreadyClosed(_))
        ));
        assert!(matches!(
            peer.try_publish(&event),
            Err(CallError::AlreadyClosed(_))
        ));
        let mut batch = peer.batch();
        assert!(matches!(
            batch.call::<()>("add", ()),
            Err(CallError::AlreadyClosed(_))
        ));
        batch.notify("note", ()).unwrap();
        assert!(matches!(
            batch.send().await,
            Err(CallError::AlreadyClosed(_))
        ));
        within(peer.closed()).await;
    }
    // Nor with one that the other side has closed.
    let peer = connect(server.endpoint()).await.unwrap();
    add(&peer).await.unwrap();
    server.peers()[0].close();
    within(peer.closed()).await;
    let error = peer.call::<i64>("add", (1, 2)).await.unwrap_err();
    assert!(matches!(&error, CallError::AlreadyClosed(reason) if reason.is_remote()));
    peer.close();
    assert!(within(peer.closed()).await.is_remote());
}

/// Proves: A54, A74
#[tokio::test]
async fn a_connection_ends_with_its_last_handle() {
    let server = server(&Seen::default()).await;
    let peer = connect(server.endpoint()).await.unwrap();
    let clone = peer.clone();
    let mut states = peer.watch();
    add(&peer).await.unwrap();
    drop(peer);
    assert_eq!(add(&clone).await.unwrap(), 3);
    assert_eq!(server.connections(), 1);
    drop(clone);
    eventually("the server has seen it", || server.connections() == 0).await;
    while let Some(state) = within(states.changed()).await {
        println!("{state:?}");
    }
    assert!(matches!(states.now(), ConnectionState::Closed(reason) if reason.is_local()));
}

#[tokio::test]
async fn what_was_sent_before_the_last_handle_is_dropped_arrives() {
    let seen = Seen::default();
    let server = server(&seen).await;
    for n in 1..=50 {
        let peer = connect(server.endpoint()).await.unwrap();
        peer.notify("note", (n,)).await.unwrap();
        drop(peer);
        eventually("it came", || seen.notes.load(SeqCst) == n).await;
    }
    // Also when it is more than a socket takes at once.
    let peer = connect(server.endpoint()).await.unwrap();
    for _ in 0..4 {
        peer.notify("note", ("x".repeat(1_000_000),)).await.unwrap();
    }
    drop(peer);
    eventually("all came", || seen.notes.load(SeqCst) == 54).await;
    eventually("gone", || server.connections() == 0).await;
}

#[tokio::test]
async fn a_client_that_shuts_down_finishes_what_it_serves() {
    let router = Router::new().method("start", |cx: Context| async move {
        let peer = cx.peer().clone();
        tokio::spawn(async move { peer.call::<u64>("work", ()).await });
        Ok(())
    });
    let server = serve(ANY, router).await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let (finished, opens) = (Arc::clone(&done), Arc::clone(&gate));
    let work = move || {
        let (finished, gate) = (Arc::clone(&finished), Arc::clone(&gate));
        async move {
            gate.acquire().await.unwrap().forget();
            finished.fetch_add(1, SeqCst);
            Ok(1)
        }
    };
    let client = Router::new().method("work", work);
    let peer = connect(server.endpoint()).router(client).await.unwrap();
    within(peer.call::<()>("start", ())).await.unwrap();
    eventually("it works", || peer.stats().in_flight == 1).await;
    let ending = tokio::spawn({
        let peer = peer.clone();
        async move { peer.shutdown(Duration::from_secs(20)).await }
    });
    eventually("it ends", || {
        matches!(peer.state(), ConnectionState::Draining)
    })
    .await;
    opens.add_permits(1);
    let reason = within(ending).await.unwrap();
    assert!(reason.is_local());
    assert_eq!(done.load(SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_shuts_down_waits_for_its_answers() {
    let seen = Seen::default();
    let server = server(&seen).await;
    let peer = connect(server.endpoint()).await.unwrap();
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<u64>("slow", (200,)).await }
    });
    eventually("it runs", || seen.started.load(SeqCst) == 1).await;
    within(peer.shutdown(Duration::from_secs(5))).await;
    assert_eq!(within(call).await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn who_chose_to_finish_does_so_when_the_connection_ends() {
    let seen = Seen::default();
    let finished = Arc::clone(&seen.notes);
    let stubborn = Method::new(move |cx: Context| {
        let finished = Arc::clone(&finished);
        async move {
            cx.cancelled().await;
            tokio::time::sleep(ms(50)).await;
            finished.fetch_add(1, SeqCst);
            Ok(())
        }
    });
    let router = Router::new().method("stubborn", stubborn.finish_when_cancelled());
    let mut config = Config::default();
    config.drain_timeout = ms(200);
    let server = serve(ANY, router).config(config).await.unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    let call = tokio::spawn(async move { peer.call::<()>("stubborn", ()).timeout(ms(100)).await });
    within(call).await.unwrap().unwrap_err();
    eventually("it has finished", || seen.notes.load(SeqCst) == 1).await;
    eventually("gone", || server.connections() == 0).await;
}

#[tokio::test]
async fn what_runs_for_a_client_that_left_is_cancelled_after_a_while() {
    let seen = Seen::default();
    let mut config = Config::default();
    config.drain_timeout = ms(200);
    let server = serve(ANY, methods(&seen)).config(config).await.unwrap();
    let mut raw = raw(&server).await;
    say(&mut raw, r#"{"jsonrpc":"2.0","id":1,"method":"hang"}"#).await;
    raw.shutdown().await.unwrap();
    assert_eq!(hear(&mut raw).await, None);
    eventually("cancelled", || seen.dropped.load(SeqCst) == 1).await;
}

#[tokio::test]
async fn a_connection_that_is_idle_for_too_long_is_closed() {
    let mut config = Config::default();
    config.idle_timeout = Some(ms(200));
    let seen = Seen::default();
    let server = serve(ANY, methods(&seen)).config(config).await.unwrap();
    let mut raw = raw(&server).await;
    // What runs is not idle.
    say(
        &mut raw,
        r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[500]}"#,
    )
    .await;
    assert_eq!(hear(&mut raw).await.unwrap()["result"], 500);
    assert_eq!(hear(&mut raw).await, None);
}

/// What a server has answered arrives, though the client goes on sending while it shuts down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_before_a_shutdown_arrives() {
    let big = "x".repeat(700_000);
    let router = Router::new()
        .method("big", move || Ok(big.clone()))
        .method("nothing", || ());
    let server = caudal::serve("tcp://127.0.0.1:0", router).await.unwrap();
    let address = server.endpoint().to_string().replace("tcp://", "");
    let socket = std::net::TcpStream::connect(&address).unwrap();
    let mut writer = socket.try_clone().unwrap();
    use std::io::{Read, Write};
    writer
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n")
        .unwrap();
    eventually("it is sent", || server.stats().bytes_sent > 700_000).await;
    let sent = server.stats().bytes_sent;
    // It sends until the server stops, and once more, and then reads.
    let stops = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stops);
    let client = std::thread::spawn(move || {
        let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"nothing\"}\n".repeat(50);
        loop {
            let is_last = stopped.load(SeqCst);
            if writer.write_all(&line).is_err() || is_last {
                break;
            }
        }
        let mut all = Vec::new();
        let mut socket = socket;
        let _ = socket.read_to_end(&mut all);
        all.len()
    });
    eventually("it sends", || server.stats().notifications_served > 0).await;
    let peer = server.peers().remove(0);
    let ending = tokio::spawn(async move { server.shutdown(Duration::from_secs(5)).await });
    eventually("it stops", || {
        !matches!(peer.state(), ConnectionState::Connected)
    })
    .await;
    stops.store(true, SeqCst);
    within(ending).await.unwrap();
    let got = client.join().unwrap();
    assert_eq!(got as u64, sent);
}

//! A lost connection is made again: what fails, what waits, what is repeated.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use caudal::{
    Backoff, CallError, Config, Connect, ConnectionGap, ConnectionState, Context, Endpoint, Error,
    Method, Peer, Router, Server, StateWatch, connect, serve,
};
use serde_json::{Value, json};
use socket2::SockRef;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::{eventually, ms, stays_pending, within};

fn quick() -> Backoff {
    let mut backoff = Backoff::default();
    backoff.first = ms(20);
    backoff.longest = ms(50);
    backoff
}

/// Starts a connection that is made again, and hears of every gap.
fn again(endpoint: impl Into<Endpoint>) -> (Connect, mpsc::UnboundedReceiver<ConnectionGap>) {
    let (tell, told) = mpsc::unbounded_channel();
    let connecting = connect(endpoint.into()).reconnect(quick());
    let connecting = connecting.on_reconnect(move |_, gap| {
        let _ = tell.send(gap);
        async {}
    });
    (connecting, told)
}

async fn until(
    states: &mut StateWatch,
    is_so: impl Fn(&ConnectionState) -> bool,
) -> ConnectionState {
    loop {
        let state = states.now();
        if is_so(&state) {
            return state;
        }
        within(states.changed()).await.expect("it has ended");
    }
}

fn is_connecting(state: &ConnectionState) -> bool {
    matches!(state, ConnectionState::Connecting)
}

fn is_connected(state: &ConnectionState) -> bool {
    matches!(state, ConnectionState::Connected)
}

// ---- a server that comes and goes ----

fn methods(calls: &Arc<AtomicUsize>) -> Router {
    let (one, two) = (Arc::clone(calls), Arc::clone(calls));
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("count", move || Ok(one.fetch_add(1, SeqCst)))
        .method("hang", move || {
            two.fetch_add(1, SeqCst);
            async {
                std::future::pending::<()>().await;
                Ok(())
            }
        })
}

async fn start(endpoint: &Endpoint, router: Router) -> Server {
    let started = async {
        loop {
            // The one before may not be gone yet.
            if let Ok(server) = serve(endpoint, router.clone()).await {
                return server;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    within(started).await
}

async fn stop(server: Server) {
    within(server.shutdown(Duration::ZERO)).await;
}

// ---- a server whose every word is ours ----

/// Listens on one port, whatever becomes of its connections.
struct Puppet {
    address: SocketAddr,
    listener: Option<TcpListener>,
}

type Line = BufReader<TcpStream>;

impl Puppet {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            address: listener.local_addr().unwrap(),
            listener: Some(listener),
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::tcp("127.0.0.1", self.address.port())
    }

    /// Lets nobody in.
    fn leave(&mut self) {
        self.listener = None;
    }

    async fn come_back(&mut self) {
        self.listener = Some(TcpListener::bind(self.address).await.unwrap());
    }

    async fn accept(&self) -> Line {
        let accepted = within(self.listener.as_ref().unwrap().accept()).await;
        BufReader::new(accepted.unwrap().0)
    }
}

async fn hear(line: &mut Line) -> Value {
    let mut text = String::new();
    assert_ne!(
        within(line.read_line(&mut text)).await.unwrap(),
        0,
        "it has ended"
    );
    serde_json::from_str(&text).unwrap()
}

async fn say(line: &mut Line, message: Value) {
    within(line.write_all(format!("{message}\n").as_bytes()))
        .await
        .unwrap();
}

async fn answer(line: &mut Line, request: &Value, result: Value) {
    let response = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    say(line, response).await;
}

/// Nothing more was said: what is said now comes next.
async fn hear_no_more(peer: &Peer, line: &mut Line) {
    peer.notify("no_more", ()).await.unwrap();
    assert_eq!(hear(line).await["method"], "no_more");
}

fn reset(line: Line) {
    let socket = line.into_inner();
    SockRef::from(&socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
}

type Answer<T> = tokio::task::JoinHandle<Result<T, CallError>>;

fn call(peer: &Peer, method: &'static str) -> Answer<Value> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.call(method, ()).await })
}

fn idempotent(peer: &Peer, method: &'static str) -> Answer<Value> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.call(method, ()).idempotent().await })
}

/// A client and the line it is on.
async fn linked(puppet: &Puppet) -> (Peer, Line, mpsc::UnboundedReceiver<ConnectionGap>) {
    let (connecting, told) = again(puppet.endpoint());
    let peer = connecting.await.unwrap();
    let line = puppet.accept().await;
    (peer, line, told)
}

/// A client that has lost its line and finds nobody.
async fn lost(puppet: &mut Puppet) -> (Peer, mpsc::UnboundedReceiver<ConnectionGap>) {
    let (peer, line, told) = linked(puppet).await;
    puppet.leave();
    drop(line);
    until(&mut peer.watch(), is_connecting).await;
    (peer, told)
}

// ---- the tests ----

/// Proves: A85, A100, A55
#[tokio::test]
async fn a_client_comes_back_to_a_server_that_was_restarted() {
    #[cfg(unix)]
    let directory = tempfile::tempdir().unwrap();
    let endpoints = [
        Endpoint::tcp("127.0.0.1", 0),
        #[cfg(unix)]
        Endpoint::unix(directory.path().join("socket")),
    ];
    for endpoint in endpoints {
        println!("{endpoint}");
        let calls = Arc::default();
        let mut server = start(&endpoint, methods(&calls)).await;
        let endpoint = server.endpoint().clone();
        let (connecting, mut told) = again(endpoint.clone());
        let peer = connecting.await.unwrap();
        let mut states = peer.watch();
        for _ in 0..3 {
            let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
            assert_eq!(sum, 3);
            stop(server).await;
            until(&mut states, is_connecting).await;
            server = start(&endpoint, methods(&calls)).await;
            until(&mut states, is_connected).await;
            let gap = within(told.recv()).await.unwrap();
            assert!(gap.attempts >= 1 && gap.failed == 0, "{gap:?}");
            assert!(gap.lasted < Duration::from_secs(10));
        }
        let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
        assert_eq!(sum, 3);
        drop(peer);
        eventually("it has left", || server.connections() == 0).await;
        stop(server).await;
    }
}

#[cfg(all(feature = "sse", feature = "polling"))]
#[tokio::test]
async fn a_session_is_opened_again_with_a_server_that_was_restarted() {
    for kind in ["#sse", "#poll"] {
        let calls = Arc::default();
        let listen: Endpoint = "http://127.0.0.1:0/rpc".parse().unwrap();
        let mut server = start(&listen, methods(&calls)).await;
        let listen = server.endpoint().clone();
        let endpoint: Endpoint = format!("{listen}{kind}").parse().unwrap();
        let (connecting, mut told) = again(endpoint);
        let peer = connecting.await.unwrap();
        let mut states = peer.watch();
        for round in 1..=2 {
            let hangs = call(&peer, "hang");
            eventually("it runs", || calls.load(SeqCst) == round).await;
            stop(server).await;
            assert!(within(hangs).await.unwrap().is_err(), "{kind}");
            until(&mut states, is_connecting).await;
            server = start(&listen, methods(&calls)).await;
            until(&mut states, is_connected).await;
            assert_eq!(within(told.recv()).await.unwrap().failed, 1, "{kind}");
            let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
            assert_eq!(sum, 3, "{kind}");
        }
    }
}

/// Proves: A53
#[tokio::test]
async fn a_call_that_was_sent_fails_and_may_have_run() {
    for gently in [true, false] {
        let puppet = Puppet::new().await;
        let (peer, mut line, mut told) = linked(&puppet).await;
        let (one, two) = (call(&peer, "one"), call(&peer, "two"));
        hear(&mut line).await;
        hear(&mut line).await;
        if gently {
            drop(line);
        } else {
            reset(line);
        }
        for call in [one, two] {
            let error = within(call).await.unwrap().unwrap_err();
            let CallError::Closed(reason) = &error else {
                panic!("{error:?}");
            };
            assert_eq!(reason.is_remote(), gently, "{reason:?}");
            // The connection is made again.
            assert!(error.may_have_run() && !error.is_fatal());
        }
        let mut line = puppet.accept().await;
        let gap = within(told.recv()).await.unwrap();
        assert_eq!(gap.failed, 2);
        let next = call(&peer, "next");
        let request = hear(&mut line).await;
        assert_eq!(request["method"], "next");
        answer(&mut line, &request, json!(7)).await;
        assert_eq!(within(next).await.unwrap().unwrap(), 7);
        assert_eq!(peer.stats().pending, 0);
    }
}

#[tokio::test]
async fn an_idempotent_call_is_sent_again_exactly_once() {
    let puppet = Puppet::new().await;
    let (peer, mut line, mut told) = linked(&puppet).await;
    let other = call(&peer, "other");
    hear(&mut line).await;
    let call = idempotent(&peer, "twice");
    let first = hear(&mut line).await;
    drop(line);
    let mut line = puppet.accept().await;
    let second = hear(&mut line).await;
    assert_eq!(first, second);
    hear_no_more(&peer, &mut line).await;
    answer(&mut line, &second, json!("done")).await;
    assert_eq!(within(call).await.unwrap().unwrap(), "done");
    within(other).await.unwrap().unwrap_err();
    assert_eq!(within(told.recv()).await.unwrap().failed, 1);
}

/// Proves: A85
#[tokio::test]
async fn an_idempotent_call_is_answered_by_the_server_that_came_after() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let server = start(&Endpoint::tcp("127.0.0.1", 0), methods(&calls)).await;
    let endpoint = server.endpoint().clone();
    let (connecting, mut told) = again(endpoint.clone());
    let peer = connecting.await.unwrap();
    let waiting = idempotent(&peer, "hang");
    eventually("it runs", || calls.load(SeqCst) == 1).await;
    stop(server).await;
    let other: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&other);
    let router = Router::new().method("hang", move || Ok(counted.fetch_add(1, SeqCst)));
    let _server = start(&endpoint, router).await;
    within(told.recv()).await.unwrap();
    eventually("it runs again", || other.load(SeqCst) == 1).await;
    // Whatever is sent makes the driver look.
    peer.notify("nothing", ()).await.unwrap();
    assert_eq!(within(waiting).await.unwrap().unwrap(), 0);
    assert_eq!((calls.load(SeqCst), other.load(SeqCst)), (1, 1));
}

#[tokio::test]
async fn an_idempotent_call_survives_many_losses() {
    let puppet = Puppet::new().await;
    let (peer, mut line, _told) = linked(&puppet).await;
    let call = idempotent(&peer, "persist");
    for _ in 0..5 {
        assert_eq!(hear(&mut line).await["method"], "persist");
        reset(line);
        line = puppet.accept().await;
    }
    let request = hear(&mut line).await;
    answer(&mut line, &request, json!(1)).await;
    assert_eq!(within(call).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn calls_made_without_a_connection_wait_and_are_answered_in_order() {
    let mut puppet = Puppet::new().await;
    let (peer, mut told) = lost(&mut puppet).await;
    let mut calls = Vec::new();
    for method in ["a", "b", "c"] {
        calls.push(call(&peer, method));
        eventually("it waits", || peer.stats().pending == calls.len() as u64).await;
    }
    assert!(calls.iter().all(|call| !call.is_finished()));
    assert_eq!(peer.stats().pending, 3);
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    for method in ["a", "b", "c"] {
        let request = hear(&mut line).await;
        assert_eq!(request["method"], method);
        answer(&mut line, &request, json!(method)).await;
    }
    for (call, method) in calls.into_iter().zip(["a", "b", "c"]) {
        assert_eq!(within(call).await.unwrap().unwrap(), method);
    }
    assert_eq!(within(told.recv()).await.unwrap().failed, 0);
}

/// The same as above, with something that happens after the connection is made
/// again.
#[tokio::test]
async fn calls_made_without_a_connection_are_sent_with_the_next_one_after() {
    let mut puppet = Puppet::new().await;
    let (peer, mut told) = lost(&mut puppet).await;
    let waiting = call(&peer, "a");
    let mut batch = peer.batch();
    let in_batch = batch.call::<Value>("b", ()).unwrap();
    within(batch.send()).await.unwrap();
    eventually("both wait", || peer.stats().pending == 2).await;
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    let after = call(&peer, "c");
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(hear(&mut line).await);
    }
    assert!(requests.iter().any(Value::is_array), "{requests:?}");
    for request in requests {
        let single = if request.is_array() {
            &request[0]
        } else {
            &request
        };
        let result = single["method"].clone();
        let response = json!({ "jsonrpc": "2.0", "id": single["id"], "result": result });
        say(
            &mut line,
            if request.is_array() {
                json!([response])
            } else {
                response
            },
        )
        .await;
    }
    assert_eq!(within(waiting).await.unwrap().unwrap(), "a");
    assert_eq!(within(in_batch).await.unwrap(), "b");
    assert_eq!(within(after).await.unwrap().unwrap(), "c");
}

/// Proves: A55
#[tokio::test]
async fn the_application_is_told_of_the_gap() {
    let mut puppet = Puppet::new().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let connecting = connect(puppet.endpoint()).reconnect(quick());
    let connecting = connecting.on_reconnect(move |peer, gap| {
        let tell = tell.clone();
        async move {
            tell.send(gap).unwrap();
            peer.notify("subscribe", ("ticks",)).await.unwrap();
        }
    });
    let peer = connecting.await.unwrap();
    let mut line = puppet.accept().await;
    let calls: Vec<_> = (0..3).map(|_| call(&peer, "x")).collect();
    for _ in 0..3 {
        hear(&mut line).await;
    }
    puppet.leave();
    drop(line);
    until(&mut peer.watch(), is_connecting).await;
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    let gap = within(told.recv()).await.unwrap();
    assert_eq!(gap.failed, 3);
    assert!(gap.attempts >= 1 && !gap.lasted.is_zero(), "{gap:?}");
    let subscribe = hear(&mut line).await;
    assert_eq!(subscribe["method"], "subscribe");
    for call in calls {
        within(call).await.unwrap().unwrap_err();
    }
}

/// Proves: A83
#[tokio::test]
async fn the_last_try_ends_it_with_the_reason() {
    let mut puppet = Puppet::new().await;
    let mut backoff = quick();
    backoff.tries = Some(3);
    let peer = connect(puppet.endpoint()).reconnect(backoff).await.unwrap();
    let line = puppet.accept().await;
    puppet.leave();
    drop(line);
    until(&mut peer.watch(), is_connecting).await;
    let waiting = call(&peer, "never");
    let reason = within(peer.closed()).await;
    assert!(!reason.is_local() && !reason.is_remote(), "{reason:?}");
    let source = reason.source().unwrap();
    let error = source.downcast_ref::<Error>().unwrap();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.source().unwrap().to_string().contains("refused"));
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    let error = peer.call::<()>("x", ()).await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)));
}

/// Proves: A37, A38
#[tokio::test]
async fn time_runs_out_without_a_connection_too() {
    let mut puppet = Puppet::new().await;
    let (peer, _told) = lost(&mut puppet).await;
    for limit in [50, 200] {
        let call = peer.call::<()>("x", ()).timeout(ms(limit));
        let error = within(call).await.unwrap_err();
        assert!(matches!(error, CallError::Timeout), "{error:?}");
    }
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test]
async fn a_call_that_was_given_up_before_it_was_sent_is_never_sent() {
    let mut puppet = Puppet::new().await;
    let (peer, mut told) = lost(&mut puppet).await;
    let call = peer.call::<()>("timed_out", ()).timeout(ms(50));
    within(call).await.unwrap_err();
    let dropped = peer.call::<()>("dropped", ()).into_future();
    tokio::time::timeout(ms(50), dropped).await.unwrap_err();
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    peer.notify("after", ()).await.unwrap();
    assert_eq!(hear(&mut line).await["method"], "after");
}

#[tokio::test]
async fn a_call_that_was_given_up_leaves_its_room_to_others() {
    let mut puppet = Puppet::new().await;
    let (connecting, _told) = again(puppet.endpoint());
    let mut config = Config::default();
    config.output = 100;
    let peer = connecting.config(config).await.unwrap();
    let line = puppet.accept().await;
    puppet.leave();
    drop(line);
    until(&mut peer.watch(), is_connecting).await;
    let large = "x".repeat(200);
    for times_out in [true, false] {
        let (calls, large) = (peer.clone(), large.clone());
        let large = tokio::spawn(async move {
            let call = calls.call::<()>("large", (large,)).timeout(ms(500));
            call.await
        });
        while peer.stats().pending == 0 {
            tokio::task::yield_now().await;
        }
        let waits = peer.clone();
        let waits = tokio::spawn(async move { waits.notify("note", ()).await });
        // It is polled once.
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        if !times_out {
            large.abort();
        }
        within(waits).await.unwrap().unwrap();
        assert_eq!(peer.stats().pending, 0);
    }
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    for _ in 0..2 {
        assert_eq!(hear(&mut line).await["method"], "note");
    }
}

/// Those whose time is up together are cut out together, between others that stay.
#[tokio::test]
async fn calls_that_stay_are_sent_whole_when_others_are_given_up() {
    let mut puppet = Puppet::new().await;
    let (peer, _told) = lost(&mut puppet).await;
    let (mut late, mut gone) = (Vec::new(), Vec::new());
    for number in 0..60 {
        let of = |method, limit| {
            let peer = peer.clone();
            let call = async move { peer.call::<()>(method, (number,)).timeout(limit).await };
            tokio::spawn(call)
        };
        match number % 3 {
            0 => late.push(of("late", ms(200))),
            1 => gone.push(of("gone", ms(60_000))),
            _ => drop(of("stays", ms(60_000))),
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(peer.stats().pending, 60);
    for call in late {
        let error = within(call).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Timeout), "{error:?}");
    }
    assert_eq!(peer.stats().pending, 40);
    for call in gone {
        call.abort();
        within(call).await.unwrap_err();
    }
    assert_eq!(peer.stats().pending, 20);
    puppet.come_back().await;
    let mut line = puppet.accept().await;
    for number in (2..60).step_by(3) {
        let request = hear(&mut line).await;
        assert_eq!(
            (&request["method"], &request["params"]),
            (&json!("stays"), &json!([number]))
        );
    }
    hear_no_more(&peer, &mut line).await;
}

#[tokio::test]
async fn a_client_that_looks_for_its_server_can_be_closed_at_once() {
    let mut puppet = Puppet::new().await;
    for how in ["close", "shutdown", "drop"] {
        println!("{how}");
        // It sleeps for a long time between two tries.
        let mut backoff = Backoff::default();
        backoff.first = Duration::from_secs(600);
        backoff.longest = Duration::from_secs(600);
        let peer = connect(puppet.endpoint()).reconnect(backoff).await.unwrap();
        let line = puppet.accept().await;
        puppet.leave();
        drop(line);
        let mut states = peer.watch();
        until(&mut states, is_connecting).await;
        let waiting = call(&peer, "never");
        eventually("it waits", || peer.stats().pending == 1).await;
        match how {
            "close" => peer.close(),
            "shutdown" => assert!(within(peer.shutdown(ms(500))).await.is_local()),
            _ => waiting.abort(),
        }
        if how == "drop" {
            let _ = waiting.await;
            drop(peer);
        } else {
            let error = within(waiting).await.unwrap().unwrap_err();
            assert!(
                matches!(&error, CallError::AlreadyClosed(reason) if reason.is_local()),
                "{error:?}"
            );
        }
        let end = until(&mut states, ConnectionState::is_closed).await;
        assert!(matches!(end, ConnectionState::Closed(reason) if reason.is_local()));
        puppet.come_back().await;
    }
}

#[tokio::test]
async fn an_answer_goes_to_the_connection_that_asked_or_nowhere() {
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    let stubborn = Method::new(move |_: Context| {
        let counted = Arc::clone(&counted);
        async move {
            tokio::time::sleep(ms(400)).await;
            counted.fetch_add(1, SeqCst);
            Ok("late")
        }
    });
    let router = Router::new()
        .method("stubborn", stubborn.finish_when_cancelled())
        .method("slow", || async {
            tokio::time::sleep(ms(400)).await;
            Ok("late")
        })
        .method("ping", || Ok("pong"));
    let puppet = Puppet::new().await;
    let (connecting, mut told) = again(puppet.endpoint());
    let peer = connecting.router(router).await.unwrap();
    let mut line = puppet.accept().await;
    say(
        &mut line,
        json!({ "jsonrpc": "2.0", "id": 1, "method": "stubborn" }),
    )
    .await;
    say(
        &mut line,
        json!({ "jsonrpc": "2.0", "id": 2, "method": "slow" }),
    )
    .await;
    say(
        &mut line,
        json!([{ "jsonrpc": "2.0", "id": 3, "method": "stubborn" }, { "jsonrpc": "2.0", "id": 4, "method": "ping" }]),
    )
    .await;
    eventually("all run", || peer.stats().in_flight == 3).await;
    drop(line);
    let mut line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    eventually("they have finished", || finished.load(SeqCst) == 2).await;
    eventually("nothing runs", || peer.stats().in_flight == 0).await;
    say(
        &mut line,
        json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
    )
    .await;
    let pong = hear(&mut line).await;
    assert_eq!(pong, json!({ "jsonrpc": "2.0", "id": 1, "result": "pong" }));
}

#[tokio::test]
async fn an_answer_of_the_old_connection_settles_nothing_on_the_new_one() {
    let puppet = Puppet::new().await;
    let (peer, mut line, mut told) = linked(&puppet).await;
    let lost = call(&peer, "lost");
    let old = hear(&mut line).await;
    drop(line);
    within(lost).await.unwrap().unwrap_err();
    let mut line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    let new = call(&peer, "new");
    let request = hear(&mut line).await;
    assert_ne!(request["id"], old["id"]);
    answer(&mut line, &old, json!("stale")).await;
    answer(&mut line, &request, json!("fresh")).await;
    assert_eq!(within(new).await.unwrap().unwrap(), "fresh");
    assert_eq!(peer.stats().late_replies, 1);
}

#[tokio::test]
async fn the_time_of_a_repeated_call_runs_out_on_the_new_connection() {
    let puppet = Puppet::new().await;
    let (peer, mut line, mut told) = linked(&puppet).await;
    let waiting = tokio::spawn({
        let peer = peer.clone();
        async move {
            peer.call::<Value>("x", ())
                .idempotent()
                .timeout(ms(600))
                .await
        }
    });
    hear(&mut line).await;
    drop(line);
    let _line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Timeout), "{error:?}");
}

#[tokio::test]
async fn a_client_serves_on_every_connection_it_makes() {
    let router = Router::new().method("ping", || Ok("pong"));
    let puppet = Puppet::new().await;
    let (connecting, _told) = again(puppet.endpoint());
    let peer = connecting.router(router).await.unwrap();
    peer.extensions().insert(42_u32);
    for n in 0..3 {
        let mut line = puppet.accept().await;
        say(
            &mut line,
            json!({ "jsonrpc": "2.0", "id": n, "method": "ping" }),
        )
        .await;
        assert_eq!(hear(&mut line).await["result"], "pong");
    }
    assert_eq!(peer.extensions().get::<u32>().map(|n| *n), Some(42));
}

#[tokio::test]
async fn a_first_connection_that_fails_is_not_retried() {
    let mut puppet = Puppet::new().await;
    puppet.leave();
    let error = within(connect(puppet.endpoint()).reconnect(quick()))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Connect { .. }) && error.is_recoverable());
}

#[tokio::test]
async fn who_closes_the_connection_itself_does_not_come_back() {
    let puppet = Puppet::new().await;
    let (peer, line, _told) = linked(&puppet).await;
    peer.close();
    assert!(within(peer.closed()).await.is_local());
    drop(line);
    stays_pending("a connection", puppet.accept()).await;
}

#[tokio::test]
async fn a_call_that_was_never_sent_has_not_run() {
    let mut puppet = Puppet::new().await;
    let (peer, _told) = lost(&mut puppet).await;
    let waiting = call(&peer, "never");
    eventually("it waits", || peer.stats().pending == 1).await;
    peer.close();
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(!error.may_have_run(), "{error:?}");
}

/// It was sent before the gap, though not again.
#[tokio::test]
async fn an_idempotent_call_that_was_sent_once_may_have_run() {
    for closes in [false, true] {
        let mut puppet = Puppet::new().await;
        let mut backoff = quick();
        backoff.tries = (!closes).then_some(2);
        let connecting = connect(puppet.endpoint()).reconnect(backoff);
        let peer = connecting.await.unwrap();
        let mut line = puppet.accept().await;
        let waiting = idempotent(&peer, "transfer");
        hear(&mut line).await;
        puppet.leave();
        drop(line);
        if closes {
            until(&mut peer.watch(), is_connecting).await;
            peer.close();
        }
        let error = within(waiting).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_gap_counts_only_calls_that_may_have_run() {
    let puppet = Puppet::new().await;
    let (peer, line, mut told) = linked(&puppet).await;
    let mut batch = peer.batch();
    let reply = batch.call::<()>("x", ()).unwrap();
    drop(line);
    let _line = puppet.accept().await;
    let gap = within(told.recv()).await.unwrap();
    let error = within(reply).await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    assert_eq!(gap.failed, 0);
}

#[tokio::test]
async fn what_was_written_in_a_gap_and_never_sent_is_counted() {
    let mut puppet = Puppet::new().await;
    let (peer, _told) = lost(&mut puppet).await;
    let waiting = call(&peer, "never");
    eventually("it waits", || peer.stats().pending == 1).await;
    peer.notify("note", ()).await.unwrap();
    peer.close();
    let reason = within(peer.closed()).await;
    assert!(!reason.is_local(), "{reason:?}");
    // The call has failed, and so is not lost.
    assert_eq!(peer.stats().dropped, 1);
    within(waiting).await.unwrap().unwrap_err();

    let mut puppet = Puppet::new().await;
    let mut backoff = quick();
    (backoff.first, backoff.tries) = (ms(200), Some(1));
    let connecting = connect(puppet.endpoint()).reconnect(backoff);
    let peer = connecting.await.unwrap();
    drop(puppet.accept().await);
    puppet.leave();
    until(&mut peer.watch(), is_connecting).await;
    peer.notify("note", ()).await.unwrap();
    within(peer.closed()).await;
    assert_eq!(peer.stats().dropped, 1);
}

#[tokio::test]
async fn a_batch_begun_before_a_gap_was_not_sent() {
    let puppet = Puppet::new().await;
    let (peer, line, mut told) = linked(&puppet).await;
    let mut batch = peer.batch();
    let one = batch.call::<()>("x", ()).unwrap();
    drop(line);
    let _line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    let two = batch.call::<()>("y", ()).unwrap();
    let sent = within(batch.send()).await;
    for ended in [sent, within(one).await, within(two).await] {
        let error = ended.unwrap_err();
        assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    }
}

/// Whoever shuts the reading half of a Unix socket is written to in vain, and can answer.
#[cfg(unix)]
#[tokio::test]
async fn calls_made_when_nothing_can_be_sent_wait_for_the_next_connection() {
    let path = std::env::temp_dir().join(format!("caudal-deaf-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let (connecting, mut told) = again(Endpoint::unix(&path));
    let peer = connecting.await.unwrap();
    let mut line = BufReader::new(within(listener.accept()).await.unwrap().0);
    let sent = call(&peer, "sent");
    let mut text = String::new();
    within(line.read_line(&mut text)).await.unwrap();
    SockRef::from(line.get_ref())
        .shutdown(std::net::Shutdown::Read)
        .unwrap();
    peer.notify("lost", ()).await.unwrap();
    eventually("it is lost", || peer.stats().dropped == 1).await;
    let waiting = call(&peer, "waiting");
    eventually("it waits", || peer.stats().pending == 2).await;
    let request: Value = serde_json::from_str(&text).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": 1 });
    line.write_all(format!("{answer}\n").as_bytes())
        .await
        .unwrap();
    assert_eq!(within(sent).await.unwrap().unwrap(), 1);
    let mut line = BufReader::new(within(listener.accept()).await.unwrap().0);
    let gap = within(told.recv()).await.unwrap();
    assert_eq!(gap.failed, 0);
    text.clear();
    within(line.read_line(&mut text)).await.unwrap();
    let request: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(request["method"], "waiting");
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": 2 });
    line.write_all(format!("{answer}\n").as_bytes())
        .await
        .unwrap();
    assert_eq!(within(waiting).await.unwrap().unwrap(), 2);
    let _ = std::fs::remove_file(path);
}

#[tokio::test]
async fn messages_that_are_lost_with_a_connection_are_counted() {
    let puppet = Puppet::new().await;
    let (peer, line, mut told) = linked(&puppet).await;
    // More than the sockets take, so that some is not sent yet.
    let big = "x".repeat(1_000_000);
    for _ in 0..100 {
        if tokio::time::timeout(ms(200), peer.notify("note", (&big,)))
            .await
            .is_err()
        {
            break;
        }
    }
    reset(line);
    let _line = puppet.accept().await;
    within(told.recv()).await.unwrap();
    assert!(peer.stats().dropped > 0, "{:?}", peer.stats());
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_not_called_ever_more_often() {
    let puppet = Puppet::new().await;
    let mut backoff = Backoff::default();
    backoff.first = ms(20);
    backoff.longest = Duration::from_secs(10);
    let (tell, mut told) = mpsc::unbounded_channel();
    let connecting = connect(puppet.endpoint()).reconnect(backoff);
    let connecting = connecting.on_reconnect(move |_, gap| {
        let _ = tell.send(gap.lasted);
        async {}
    });
    let _peer = connecting.await.unwrap();
    // 20, 40, 80 … ms, each at least half of it.
    drop(puppet.accept().await);
    for least in [10, 20, 40, 80, 160] {
        let line = puppet.accept().await;
        let lasted = within(told.recv()).await.unwrap();
        assert!(lasted >= ms(least), "{lasted:?}");
        drop(line);
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_because_it_was_idle_is_not_made_again_at_once() {
    let puppet = Puppet::new().await;
    let mut config = caudal::Config::default();
    config.idle_timeout = Some(ms(100));
    let (connecting, _told) = again(puppet.endpoint());
    let _peer = connecting.config(config).await.unwrap();
    let mut first = puppet.accept().await;
    let end = within(first.read_line(&mut String::new())).await;
    assert_eq!(end.unwrap(), 0);
    stays_pending("a connection", puppet.accept()).await;
}

/// Who is told of a gap may panic; the connection goes on.
#[tokio::test]
async fn a_panic_of_who_is_told_of_a_gap_does_not_end_the_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("tcp://{}", listener.local_addr().unwrap());
    let mut backoff = caudal::Backoff::default();
    backoff.first = Duration::from_millis(1);
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&panics);
    let told = move |_: Peer, gap: caudal::ConnectionGap| {
        counted.fetch_add(1, SeqCst);
        assert!(gap.attempts > 1_000, "told");
        async {}
    };
    let peer = caudal::connect(&*endpoint)
        .reconnect(backoff)
        .on_reconnect(told)
        .await
        .unwrap();
    drop(listener.accept().await.unwrap());
    let _again = listener.accept().await.unwrap();
    eventually("it panics", || panics.load(SeqCst) == 1).await;
    peer.notify("n", ()).await.unwrap();
    assert!(!peer.state().is_closed(), "{:?}", peer.state());
}

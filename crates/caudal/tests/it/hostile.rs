//! What others do wrong: panics in odd places, wakers that call back, absurd
//! numbers, readers that never read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{Log, Raw, eventually, stays_pending, within};
use caudal::{CallError, Config, Context, Dialect, Extensions, JsonRpcError, Method, Peer, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{sleep, timeout};

struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("on purpose")
    }
}

/// Its `Drop` panics when it has been serialised.
#[derive(Serialize)]
struct PanicsLater(u8);

impl Drop for PanicsLater {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose");
        }
    }
}

fn odd() -> Router {
    Router::new()
        .method("params", |_: Panics| Ok(()))
        .method("drop", || Ok(PanicsLater(1)))
        .method("drop_async", || async {
            tokio::task::yield_now().await;
            Ok(PanicsLater(1))
        })
        .method("ping", || Ok("pong"))
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_is_answered_once_and_the_connection_goes_on() {
    let (_server, mut raw) = Raw::serve(odd(), Config::default());
    for (method, result) in [("params", None), ("drop", Some(1)), ("drop_async", Some(1))] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":[]}}"#);
        raw.send(&call).await;
        let answer = raw.json().await;
        assert_eq!(answer["id"], 7);
        match result {
            Some(result) => assert_eq!(answer["result"], json!(result), "{answer}"),
            None => assert_eq!(answer["error"]["code"], -32603),
        }
        raw.send(&format!(
            r#"[{call},{{"jsonrpc":"2.0","id":8,"method":"ping"}}]"#
        ))
        .await;
        let answers = raw.json().await;
        assert_eq!(answers.as_array().unwrap().len(), 2, "{answers}");
        assert_eq!(answers[1]["result"], "pong");
        // As a notification.
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":[]}}"#
        ))
        .await;
        raw.send(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#)
            .await;
        assert_eq!(raw.json().await["result"], "pong");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tap_that_panics_loses_its_view_and_nothing_else() {
    let mut config = Config::default();
    config.tap = Some(Arc::new(|_, _: &[u8]| panic!("on purpose")));
    let (peer, _server) = Peer::pair_with(odd(), odd(), &config);
    assert_eq!(peer.call::<String>("ping", ()).await.unwrap(), "pong");
}

/// The runtime of a connection ends while somebody else waits for an answer.
#[test]
fn a_call_ends_when_the_runtime_of_its_connection_does() {
    let one = tokio::runtime::Runtime::new().unwrap();
    let two = tokio::runtime::Runtime::new().unwrap();
    let (peer, mut raw) = one.block_on(async { Raw::serve(Router::new(), Config::default()) });
    let call = two.spawn({
        let peer = peer.clone();
        async move { peer.call::<()>("never", ()).timeout(None).await }
    });
    // What was never sent would end otherwise.
    assert_eq!(one.block_on(raw.json())["method"], "never");
    drop(one);
    let outcome = two.block_on(within(call)).unwrap();
    assert!(matches!(outcome, Err(CallError::Closed(_))), "{outcome:?}");
    assert!(peer.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_there_is_is_for_ever() {
    let mut config = Config::default();
    config.call_timeout = Some(Duration::MAX);
    config.drain_timeout = Duration::MAX;
    config.idle_timeout = Some(Duration::MAX);
    config.dialect = Dialect::lsp();
    let slow = Method::new(|| async {
        tokio::task::yield_now().await;
        Ok(1)
    })
    .timeout(Duration::MAX);
    let (peer, server) = Peer::pair_with(Router::new(), odd().method("slow", slow), &config);
    let call = peer.call::<i64>("slow", ()).timeout(Duration::MAX);
    let call = call.extend_on_progress("t", Duration::MAX);
    assert_eq!(call.await.unwrap(), 1);
    let mut batch = peer.batch().timeout(Duration::MAX);
    let one = batch.call::<i64>("slow", ()).unwrap();
    batch.send().await.unwrap();
    assert_eq!(one.await.unwrap(), 1);
    assert!(peer.shutdown(Duration::MAX).await.is_local());
    server.closed().await;
}

/// A waker of somebody else's executor may do anything, also ask us something.
struct Nosy(Peer, AtomicUsize);

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        let _ = self.0.stats();
        let _ = self.0.state();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_call_back() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let nosy = Arc::new(Nosy(peer.clone(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&nosy));
    let mut cx = TaskContext::from_waker(&waker);
    let mut states = peer.watch();
    let mut changed = pin!(states.changed());
    let mut answered = pin!(peer.call::<i64>("m", ()).into_future());
    let mut expires = pin!(
        peer.call::<i64>("m", ())
            .timeout(Duration::from_millis(5))
            .into_future()
    );
    let mut closes = pin!(peer.call::<i64>("m", ()).into_future());
    assert!(changed.as_mut().poll(&mut cx).is_pending());
    for call in [answered.as_mut(), expires.as_mut(), closes.as_mut()] {
        assert!(call.poll(&mut cx).is_pending());
    }
    let id = raw.json().await["id"].clone();
    raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
        .await;
    sleep(Duration::from_millis(50)).await;
    peer.close();
    peer.closed().await;
    assert!(nosy.1.load(SeqCst) >= 4);
    for call in [answered, expires, closes] {
        assert!(timeout(Duration::from_secs(1), call).await.is_ok());
    }
}

/// Limits of zero are strict, not deadly.
#[tokio::test(start_paused = true)]
async fn limits_of_zero_leave_a_connection_alive() {
    for limit in ["queue", "output", "in_flight", "pending"] {
        let mut config = Config::default();
        match limit {
            "queue" => config.queue = 0,
            "output" => config.output = 0,
            "in_flight" => config.in_flight = 0,
            _ => config.pending = 0,
        }
        let router = odd().method("note", || async { tokio::task::yield_now().await });
        let (server, mut raw) = Raw::serve(router, config);
        raw.send(r#"{"jsonrpc":"2.0","method":"note"}"#).await;
        raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
            .await;
        let answer = raw.json().await;
        match limit {
            "in_flight" => assert_eq!(answer["error"]["code"], -32000),
            "queue" | "output" => assert!(answer.get("id").is_some(), "{answer}"),
            _ => assert_eq!(answer["result"], "pong"),
        }
        server.notify("hello", ()).await.unwrap();
        assert_eq!(raw.json().await["method"], "hello");
        raw.close_input().await;
        raw.end().await;
    }
}

/// Whoever sends and never reads gets no more of our memory than the limits say,
/// whatever it sends.
#[tokio::test(start_paused = true)]
async fn who_never_reads_is_not_written_to_without_end() {
    for line in [
        "x",
        r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#,
        r#"[1,{"jsonrpc":"2.0","id":1,"method":"wait"}]"#,
    ] {
        let mut config = Config::default();
        config.output = 50_000;
        config.queue = 50_000;
        config.in_flight = 20;
        let router = odd().method("wait", || async {
            std::future::pending::<()>().await;
            Ok(())
        });
        let (server, mut raw) = Raw::serve_through(4096, router, config);
        let mut sent = 0;
        while timeout(Duration::from_millis(300), raw.send(line))
            .await
            .is_ok()
        {
            sent += 1;
            assert!(sent < 20_000, "nothing stops the sender of {line}");
        }
        let answered =
            server.stats().invalid + server.stats().overloaded + server.stats().requests_served;
        assert!(answered < 2_000, "{answered} answers to {line}");
    }
}

/// A call that was answered long ago is no reason to drop what follows.
#[tokio::test(start_paused = true)]
async fn notifications_are_held_back_and_not_dropped_once_our_calls_are_answered() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let router = Router::new().method("note", move || {
        let count = Arc::clone(&count);
        async move {
            sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, SeqCst);
        }
    });
    let mut config = Config::default();
    config.in_flight = 4;
    let (one, two) = Peer::pair_with(odd(), router, &config);
    assert_eq!(two.call::<String>("ping", ()).await.unwrap(), "pong");
    for _ in 0..100 {
        one.notify("note", ()).await.unwrap();
    }
    while seen.load(SeqCst) < 100 {
        sleep(Duration::from_millis(1)).await;
        assert_eq!(two.stats().dropped, 0);
    }
}

/// Blocking work that nobody waits for any more counts all the same.
#[tokio::test]
async fn blocking_work_counts_until_it_ends() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, max) = (Arc::clone(&running), Arc::clone(&most));
    let work = Method::blocking(move || {
        max.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
        std::thread::sleep(Duration::from_millis(100));
        now.fetch_sub(1, SeqCst);
        Ok(())
    });
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    config.in_flight = 2;
    let (peer, server) =
        Peer::pair_with(Router::new(), Router::new().method("work", work), &config);
    for _ in 0..20 {
        let call = peer
            .call::<()>("work", ())
            .timeout(Duration::from_millis(5));
        assert!(call.await.is_err());
    }
    assert!(most.load(SeqCst) <= 2, "{} at once", most.load(SeqCst));
    while server.stats().in_flight > 0 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(running.load(SeqCst), 0);
}

/// Nobody waits for blocking work longer than it takes, also when its call is over.
#[tokio::test]
async fn a_shutdown_ends_with_the_blocking_work_that_was_left_behind() {
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(held);
    let work = Method::blocking(move || {
        begin.send(()).unwrap();
        let _ = held.lock().unwrap().recv();
        Ok(())
    });
    let work = work.timeout(Duration::from_millis(10));
    let (peer, server) = Peer::pair(Router::new(), Router::new().method("work", work));
    // On a busy machine its time may be up before it has begun.
    while begun.try_recv().is_err() {
        let late = peer.call::<()>("work", ()).await;
        assert!(matches!(late, Err(CallError::Remote(error)) if error.code == -32001));
    }
    assert!(server.stats().in_flight > 0);
    let shutdown = server.shutdown(Duration::from_secs(600));
    let mut shutdown = std::pin::pin!(shutdown);
    stays_pending("the end", &mut shutdown).await;
    drop(let_go);
    within(shutdown).await;
}

/// Work that never began because its time was up counts no more than any other.
#[test]
fn blocking_work_that_never_began_is_not_counted_for_ever() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let work = Method::blocking(|| Ok(())).timeout(Duration::from_millis(1));
        let (peer, server) = Peer::pair(Router::new(), Router::new().method("work", work));
        for _ in 0..3 {
            assert!(peer.call::<()>("work", ()).await.is_err());
        }
        let_go.send(()).unwrap();
        busy.await.unwrap().unwrap();
        eventually("none is counted", || server.stats().in_flight == 0).await;
    });
}

/// A future whose `Drop` panics after it was ready.
struct PanicsWhenDropped(bool);

impl Future for PanicsWhenDropped {
    type Output = Result<u8, JsonRpcError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if std::mem::take(&mut self.0) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(7))
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_panics_after_its_answer_is_answered_once() {
    for waits in [false, true] {
        let router = odd().method("odd", move || PanicsWhenDropped(waits));
        let (server, mut raw) = Raw::serve(router, Config::default());
        raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"odd","params":[]}"#)
            .await;
        assert_eq!(
            raw.json().await,
            json!({"jsonrpc": "2.0", "id": 1, "result": 7})
        );
        raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)
            .await;
        assert_eq!(raw.json().await["id"], 2);
        let stats = server.stats();
        assert_eq!((stats.requests_served, stats.notifications_served), (2, 0));
    }
}

/// Two sides that have more to say than either takes end, instead of waiting for one
/// another for ever.
#[tokio::test(start_paused = true)]
async fn who_sends_and_never_reads_is_given_up() {
    let serial = Method::new(|(text,): (String,)| async move {
        tokio::task::yield_now().await;
        Ok(text)
    });
    let router = odd().method("serial", serial.serial()).method(
        "back",
        |cx: Context, (text,): (String,)| async move {
            let _ = cx.peer().notify("back", (text,)).await;
        },
    );
    let long = "x".repeat(1000);
    for ask in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "nope", "params": [long]}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "serial", "params": [long]}),
        json!({"jsonrpc": "2.0", "method": "back", "params": [long]}),
    ] {
        let mut config = Config::default();
        config.output = 50_000;
        config.queue = 50_000;
        let (server, mut raw) = Raw::serve_through(4096, router.clone(), config);
        let (ask, second) = (ask.to_string(), Duration::from_secs(1));
        let mut sent = 0;
        while timeout(second, raw.send(&ask)).await.is_ok() {
            sent += 1;
            assert!(sent < 20_000, "nothing stops the sender");
        }
        let reason = timeout(second * 10_000, server.closed()).await;
        let reason = reason.expect("both wait for ever");
        let cause = std::error::Error::source(&reason).unwrap().to_string();
        assert!(cause.contains("did not read"), "{cause}");
    }
}

/// A flood in both directions comes to its end though little may wait to be sent: each side
/// has room for what the other may have under way, so it never stops reading.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_in_both_directions_comes_to_its_end() {
    let mut config = Config::default();
    config.output = 4 << 10;
    (config.in_flight, config.pending) = (10_000, 10_000);
    (config.call_timeout, config.message_timeout) = (None, None);
    let echo = || {
        Router::new()
            .method("echo", |(text,): (String,)| Ok(text))
            .method("note", |_: (String,)| ())
    };
    let (one, two) = Peer::pair_with(echo(), echo(), &config);
    let flood = |peer: Peer| async move {
        let text = "x".repeat(500);
        let mut calls = tokio::task::JoinSet::new();
        for turn in 0..2_000 {
            if turn % 3 == 0 {
                let _ = peer.notify("note", (&text,)).await;
            }
            let (peer, text) = (peer.clone(), text.clone());
            calls.spawn(async move { peer.call::<String>("echo", (text,)).await });
        }
        for outcome in calls.join_all().await {
            // There may be too many at once, and that is all.
            assert!(
                matches!(outcome, Ok(_) | Err(CallError::Remote(_))),
                "{outcome:?}"
            );
        }
    };
    let both = async { tokio::join!(flood(one.clone()), flood(two.clone())) };
    let ended = timeout(Duration::from_secs(200), both).await;
    ended.expect("both wait for ever");
    assert_eq!((one.stats().pending, two.stats().pending), (0, 0));
    assert_eq!(one.call::<String>("echo", ("x",)).await.unwrap(), "x");
}

/// What watches progress hears all of it, also while something is in the way.
#[tokio::test(start_paused = true)]
async fn progress_is_heard_behind_a_slow_notification() {
    let log = Log::default();
    let heard = log.clone();
    let router = Router::new()
        .method("$/progress", move |params: serde_json::Value| {
            heard.add(params["value"].to_string())
        })
        .method("slow", || sleep(Duration::from_millis(30)));
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    let (_peer, mut raw) = Raw::serve(router, config);
    raw.send(r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":1}}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"slow"}"#).await;
    raw.send(r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":1,"value":2}}"#)
        .await;
    while log.len() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(log.take(), ["1", "2"]);
}

/// Many who wait for room, some of whom give up.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_waits_for_room_is_let_in_one_by_one() {
    let mut config = Config::default();
    config.output = 1_000;
    let (peer, mut raw) = Raw::serve_through(1_000, Router::new(), config);
    let crowd: Vec<_> = (0..4_000)
        .map(|n| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.notify("n", (n, "x".repeat(100))).await })
        })
        .collect();
    tokio::task::yield_now().await;
    for waiter in crowd.iter().skip(2_000) {
        waiter.abort();
    }
    for _ in 0..2_000 {
        raw.line().await;
    }
    for waiter in crowd.into_iter().take(2_000) {
        waiter.await.unwrap().unwrap();
    }
}

/// What a handler has started learns of the end of its connection.
#[tokio::test(start_paused = true)]
async fn a_context_outlives_its_handler_and_learns_of_the_end() {
    let log = Log::default();
    let told = log.clone();
    let router = Router::new().method("subscribe", move |cx: Context| {
        let told = told.clone();
        tokio::spawn(async move {
            cx.cancelled().await;
            told.add("ended");
        });
        Ok(())
    });
    let (peer, _server) = Peer::pair(Router::new(), router);
    peer.call::<()>("subscribe", ()).await.unwrap();
    peer.close();
    while log.len() == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// A message that comes in slowly is no silence.
#[tokio::test(start_paused = true)]
async fn a_message_that_trickles_in_is_activity() {
    use tokio::io::AsyncWriteExt;
    let mut config = Config::default();
    config.idle_timeout = Some(Duration::from_millis(300));
    let (mut here, there) = tokio::io::duplex(1024);
    let stream = caudal::transport::Stream::new(there, caudal::Framing::Line);
    let server = Peer::start_with(stream, odd(), config);
    for byte in br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"# {
        here.write_all(&[*byte]).await.unwrap();
        sleep(Duration::from_millis(50)).await;
    }
    assert!(!server.state().is_closed());
    sleep(Duration::from_secs(1)).await;
    assert!(server.state().is_closed());
}

/// What somebody panics with may panic itself when it is dropped.
#[tokio::test]
async fn a_panic_within_a_panic_is_answered_once() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "on purpose");
        }
    }
    fn explode() -> Result<(), JsonRpcError> {
        std::panic::panic_any(Bomb)
    }
    let router = Router::new()
        .method("plain", explode)
        .method("ready", || async { explode() })
        .method("later", || async {
            tokio::task::yield_now().await;
            explode()
        })
        .method("blocking", Method::blocking(explode))
        .method("ping", || Ok("pong"));
    let mut config = Config::default();
    config.tap = Some(Arc::new(|_, _: &[u8]| std::panic::panic_any(Bomb)));
    let (peer, server) = Peer::pair_with(Router::new(), router, &config);
    for method in ["plain", "ready", "later", "blocking"] {
        let answer = peer.call::<()>(method, ()).await;
        assert!(
            matches!(&answer, Err(CallError::Remote(error)) if error.code == -32603),
            "{method}: {answer:?}"
        );
    }
    assert_eq!(peer.call::<String>("ping", ()).await.unwrap(), "pong");
    assert_eq!(server.stats().requests_served, 5);
}

/// A value that is replaced may look for others of its kind when it is dropped.
#[test]
fn a_value_that_is_replaced_may_look_at_the_others() {
    struct Nosy(Extensions, std::sync::mpsc::Sender<bool>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.get::<u32>().is_some());
        }
    }
    let (saw, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let extensions = Extensions::default();
        extensions.insert(7_u32);
        extensions.insert(Nosy(extensions.clone(), saw.clone()));
        extensions.insert(Nosy(Extensions::default(), saw));
    });
    assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok(true));
}

//! Two peers: calls in both directions, order, settling, cancelling, timeouts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use crate::support::{Log, Raw};
use caudal::{
    CallError, Cancel, Config, ConnectionState, Context, Dialect, IdFormat, JsonRpcError, Method,
    OldResponses, Peer, Router,
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

#[derive(Deserialize)]
struct Named {
    a: i64,
    b: i64,
}

fn calculator() -> Router {
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("add_async", |(a, b): (i64, i64)| async move { Ok(a + b) })
        .method("named", |p: Named| async move { Ok(p.a - p.b) })
        .method("named_sync", |cx: Context, p: Named| {
            Ok((cx.method().to_owned(), p.a - p.b))
        })
        .method("ping", || Ok("pong"))
        .method("ping_async", || async { Ok("pong") })
        .method("who", |cx: Context| async move {
            tokio::task::yield_now().await;
            Ok(cx.method().to_owned())
        })
        .method(
            "hash",
            Method::blocking(|(text,): (String,)| Ok(text.len())),
        )
        .method("slow", |(ms,): (u64,)| async move {
            sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
        .method("fail", || Err::<(), _>(JsonRpcError::new(1001, "no")))
        .method("panic", |(): ()| -> Result<(), JsonRpcError> {
            panic!("boom")
        })
        .method("log", |_: (String,)| ())
}

/// Proves: A32, A33, A35
#[tokio::test(start_paused = true)]
async fn every_shape_of_handler_answers() {
    let (peer, _server) = Peer::pair(Router::new(), calculator());
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    assert_eq!(peer.call::<i64>("add_async", (1, 2)).await.unwrap(), 3);
    let named = json!({"a": 5, "b": 3});
    assert_eq!(peer.call::<i64>("named", &named).await.unwrap(), 2);
    let sync: (String, i64) = peer.call("named_sync", &named).await.unwrap();
    assert_eq!(sync, ("named_sync".to_owned(), 2));
    assert_eq!(peer.call::<String>("ping", ()).await.unwrap(), "pong");
    assert_eq!(peer.call::<String>("ping_async", ()).await.unwrap(), "pong");
    assert_eq!(peer.call::<String>("who", ()).await.unwrap(), "who");
    assert_eq!(peer.call::<usize>("hash", ("abc",)).await.unwrap(), 3);
    assert_eq!(peer.call::<u64>("slow", (5,)).await.unwrap(), 5);
    let error = peer.call::<()>("fail", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.code == 1001));
    let error = peer.call::<()>("panic", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.code == -32603));
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    let error = peer.call::<()>("nope", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.message == "Method not found: nope"));
    let error = peer.call::<String>("add", (1, 2)).await.unwrap_err();
    assert!(matches!(error, CallError::Result(_)), "{error:?}");
    let error = peer.call::<()>("add", 7).await.unwrap_err();
    assert!(matches!(error, CallError::Encode(_)), "{error:?}");
}

/// Both sides call each other at once, under ids that are the same.
///
/// Proves: A27, A31, A34
#[tokio::test(start_paused = true)]
async fn ids_of_the_two_directions_never_mix() {
    let router = |name: &'static str| {
        Router::new().method("who", move |(n,): (usize,)| async move {
            tokio::task::yield_now().await;
            Ok((name, n))
        })
    };
    let (one, two) = Peer::pair(router("one"), router("two"));
    let calls = |peer: Peer, expected: &'static str| async move {
        let calls = (0..500).map(|n| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call::<(String, usize)>("who", (n,)).await })
        });
        for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), (expected.to_owned(), n));
        }
    };
    tokio::join!(calls(one.clone(), "two"), calls(two.clone(), "one"));
    assert_eq!((one.stats().pending, two.stats().pending), (0, 0));
    assert_eq!((one.stats().calls, one.stats().requests_served), (500, 500));
}

/// Proves: A30
#[tokio::test(start_paused = true)]
async fn handlers_call_back_and_back_again() {
    fn router() -> Router {
        Router::new().method("down", |cx: Context, (n,): (u32,)| async move {
            match n {
                0 => Ok(0),
                n => Ok(cx.peer().call::<u32>("down", (n - 1,)).await? + 1),
            }
        })
    }
    let (one, _two) = Peer::pair(router(), router());
    assert_eq!(one.call::<u32>("down", (200,)).await.unwrap(), 200);
}

/// A notification's handler that calls back holds up what follows it, but not the
/// answer that it waits for.
#[tokio::test(start_paused = true)]
async fn a_notification_may_call_back_while_others_wait_behind_it() {
    let log = Log::default();
    let (served, notified) = (log.clone(), log.clone());
    let server = Router::new()
        .method("note", move |cx: Context| {
            let notified = notified.clone();
            async move {
                let answer: String = cx.peer().call("ask", ()).await?;
                notified.add(format!("note {answer}"));
                Ok(())
            }
        })
        .method("next", move || {
            served.add("next");
            Ok(())
        });
    let client = Router::new().method("ask", || async {
        sleep(Duration::from_millis(20)).await;
        Ok("answer")
    });
    let (peer, _server) = Peer::pair(client, server);
    peer.notify("note", ()).await.unwrap();
    peer.call::<()>("next", ()).await.unwrap();
    assert_eq!(log.take(), ["note answer", "next"]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_finishes_before_any_later_message_starts() {
    let log = Log::default();
    let (n, r) = (log.clone(), log.clone());
    let router = Router::new()
        .method("note", move |(name, ms): (String, u64)| {
            let log = n.clone();
            async move {
                log.add(format!("{name} begins"));
                sleep(Duration::from_millis(ms)).await;
                log.add(format!("{name} ends"));
            }
        })
        .method("ask", move |(name, ms): (String, u64)| {
            let log = r.clone();
            async move {
                log.add(format!("{name} begins"));
                sleep(Duration::from_millis(ms)).await;
                log.add(format!("{name} ends"));
                Ok(())
            }
        });
    let (peer, _server) = Peer::pair(Router::new(), router);
    peer.notify("note", ("a", 30)).await.unwrap();
    peer.notify("note", ("b", 0)).await.unwrap();
    let mut batch = peer.batch();
    batch.notify("note", ("c", 20)).unwrap();
    let d = batch.call::<()>("ask", ("d", 5)).unwrap();
    batch.send().await.unwrap();
    let e = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<()>("ask", ("e", 10)).await }
    });
    let f = tokio::spawn({
        let peer = peer.clone();
        async move {
            tokio::task::yield_now().await;
            peer.call::<()>("ask", ("f", 1)).await
        }
    });
    d.await.unwrap();
    e.await.unwrap().unwrap();
    f.await.unwrap().unwrap();
    assert_eq!(
        log.take(),
        [
            "a begins", "a ends", "b begins", "b ends", "c begins", "d begins", "d ends", "c ends",
            "e begins", "f begins", "f ends", "e ends",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_serial_method_finishes_before_any_later_message_starts() {
    let log = Log::default();
    let (s, p) = (log.clone(), log.clone());
    let router = Router::new()
        .method(
            "initialize",
            Method::new(move || {
                let log = s.clone();
                async move {
                    sleep(Duration::from_millis(50)).await;
                    log.add("initialized");
                    Ok(())
                }
            })
            .serial(),
        )
        .method("ping", move || {
            p.add("ping");
            Ok(())
        });
    let (peer, _server) = Peer::pair(Router::new(), router);
    let (one, two) = tokio::join!(
        peer.call::<()>("initialize", ()).into_future(),
        peer.call::<()>("ping", ()).into_future()
    );
    one.unwrap();
    two.unwrap();
    assert_eq!(log.take(), ["initialized", "ping"]);
}

/// What a handler sends before it answers arrives before the answer, whether it
/// had to wait or not.
#[tokio::test(start_paused = true)]
async fn what_a_handler_sends_arrives_before_its_answer() {
    let count = |wait: bool| {
        move |cx: Context, (n,): (u32,)| async move {
            for i in 0..n {
                cx.peer().notify("tick", [i]).await?;
                if wait {
                    tokio::task::yield_now().await;
                }
            }
            Ok(n)
        }
    };
    let router = Router::new()
        .method("at_once", count(false))
        .method("later", count(true));
    let (_server, mut raw) = Raw::serve(router, Config::default());
    for method in ["at_once", "later"] {
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[3]}}"#
        ))
        .await;
        for i in 0..3 {
            assert_eq!(raw.json().await["params"], json!([i]));
        }
        assert_eq!(raw.json().await["result"], 3);
    }
}

/// Proves: A30
#[tokio::test(start_paused = true)]
async fn answers_pass_while_handlers_are_stuck() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let router = Router::new().method("stuck", move || {
        let held = Arc::clone(&held);
        async move {
            let _ = held.acquire().await;
            Ok(())
        }
    });
    let (one, two) = Peer::pair(router.clone(), calculator());
    let stuck: Vec<_> = (0..100)
        .map(|_| {
            let two = two.clone();
            tokio::spawn(async move { two.call::<()>("stuck", ()).await })
        })
        .collect();
    while one.stats().in_flight < 100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    gate.add_permits(1000);
    for call in stuck {
        call.await.unwrap().unwrap();
    }
    assert_eq!(one.stats().in_flight, 0);
}

/// Proves: A36, A38, A39
#[tokio::test(start_paused = true)]
async fn a_call_times_out_on_time_and_its_late_answer_is_harmless() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    for (timeout, expected) in [(None, 30_000), (Some(1), 1), (Some(1_234), 1_234)] {
        let begun = Instant::now();
        let call = peer.call::<()>("never", ());
        let call = match timeout {
            Some(ms) => call.timeout(Duration::from_millis(ms)),
            None => call,
        };
        let error = call.await.unwrap_err();
        assert!(matches!(error, CallError::Timeout));
        let took = begun.elapsed().as_millis();
        assert!(
            (expected..=expected + 5).contains(&took),
            "{took} ms, not {expected}"
        );
        assert_eq!(peer.stats().pending, 0);
        let id = raw.json().await["id"].clone();
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": null}).to_string())
            .await;
    }
    raw.send(r#"{"jsonrpc":"2.0","id":"stranger","result":1}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"?"}}"#)
        .await;
    let forever = peer.call::<i64>("wait", ()).timeout(None).into_future();
    let answer = async {
        let id = raw.json().await["id"].clone();
        sleep(Duration::from_secs(86_400)).await;
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 7}).to_string())
            .await;
    };
    let (result, ()) = tokio::join!(forever, answer);
    assert_eq!(result.unwrap(), 7);
    assert_eq!(peer.stats().late_replies, 5);
    assert!(matches!(peer.state(), ConnectionState::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_method_has_a_time_of_its_own() {
    let router = Router::new().method(
        "slow",
        Method::new(|cx: Context| async move {
            cx.cancelled().await;
            std::future::pending::<()>().await;
            Ok(())
        })
        .timeout(Duration::from_millis(100)),
    );
    let (peer, server) = Peer::pair(Router::new(), router);
    let begun = Instant::now();
    let error = peer.call::<()>("slow", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.code == -32001));
    assert!(begun.elapsed() < Duration::from_millis(110));
    let stats = server.stats();
    assert_eq!((stats.requests_served, stats.errors), (1, 1));
}

fn with_dialect(dialect: Dialect) -> Config {
    let mut config = Config::default();
    config.dialect = dialect;
    config
}

/// A drop that can be seen.
struct Dropped(Log, &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_forgotten_and_the_other_side_told() {
    for (dialect, method, member) in [
        (Dialect::lsp(), "$/cancelRequest", "id"),
        (Dialect::mcp(), "notifications/cancelled", "requestId"),
        (
            {
                let mut own = Dialect::default();
                own.cancel = Some(Cancel::new("abort", "call", None));
                own
            },
            "abort",
            "call",
        ),
    ] {
        let (peer, mut raw) = Raw::serve(Router::new(), with_dialect(dialect));
        let mut cx = TaskContext::from_waker(Waker::noop());
        let mut call = Box::pin(peer.call::<()>("work", ()).into_future());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        assert_eq!(peer.stats().pending, 1);
        let id = raw.json().await["id"].clone();
        drop(call);
        assert_eq!(peer.stats().pending, 0);
        let told = raw.json().await;
        assert_eq!(told["method"], method);
        assert_eq!(told["params"][member], id);
        // One that is dropped before it is sent is not sent at all.
        let mut call = Box::pin(peer.call::<()>("work", ()).into_future());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        drop(call);
        raw.silence().await;
    }
    // Without a scheme nothing is said.
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let call = peer.call::<()>("work", ()).into_future();
    let _ = tokio::time::timeout(Duration::from_millis(10), call).await;
    raw.json().await;
    raw.silence().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_dropped_and_answered() {
    let log = Log::default();
    let (dropped, finished) = (log.clone(), log.clone());
    let router = Router::new()
        .method("work", move || {
            let guard = Dropped(dropped.clone(), "dropped");
            async move {
                let _guard = guard;
                std::future::pending::<Result<(), JsonRpcError>>().await
            }
        })
        .method(
            "finishes",
            Method::new(move |cx: Context| {
                let log = finished.clone();
                async move {
                    cx.cancelled().await;
                    assert!(cx.is_cancelled());
                    log.add("told");
                    Ok("as far as it came")
                }
            })
            .finish_when_cancelled(),
        );
    let (server, mut raw) = Raw::serve(router.clone(), with_dialect(Dialect::lsp()));
    for (id, spelled) in [("1", "1"), ("1", "1.0"), (r#""a""#, r#""\u0061""#)] {
        raw.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work"}}"#))
            .await;
        raw.silence().await;
        let cancel = format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{spelled}}}}}"#
        );
        raw.send(&cancel).await;
        let answer = raw.json().await;
        assert_eq!(answer["error"]["code"], -32800);
        assert_eq!(log.take(), ["dropped"]);
        // Again, and for one that was never there: nothing happens.
        raw.send(&cancel).await;
        raw.silence().await;
    }
    let stats = server.stats();
    assert_eq!((stats.requests_served, stats.errors), (3, 3));
    raw.send(r#"{"jsonrpc":"2.0","id":7,"method":"finishes"}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}"#)
        .await;
    assert_eq!(raw.json().await["result"], "as far as it came");
    assert_eq!(log.take(), ["told"]);
    // MCP wants no answer.
    let (server, mut raw) = Raw::serve(router, with_dialect(Dialect::mcp()));
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .await;
    raw.silence().await;
    assert_eq!(log.take(), ["dropped"]);
    assert_eq!(server.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_its_turn_can_be_cancelled() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let router = calculator().method("hold", move || {
        let held = Arc::clone(&held);
        async move { held.notified().await }
    });
    let (server, mut raw) = Raw::serve(router, with_dialect(Dialect::lsp()));
    raw.send(r#"{"jsonrpc":"2.0","method":"hold"}"#).await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[3,4]}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#)
        .await;
    let answer = raw.json().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32800))
    );
    gate.notify_one();
    assert_eq!(raw.json().await["result"], 7);
    let stats = server.stats();
    assert_eq!(stats.in_flight, 0);
    assert_eq!((stats.requests_served, stats.errors), (2, 1));
}

/// The rest of the batch runs; what is cancelled is as soon as it has started.
#[tokio::test(start_paused = true)]
async fn a_request_of_a_batch_that_waits_its_turn_can_be_cancelled() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let router = calculator().method("hold", move || {
        let held = Arc::clone(&held);
        async move { held.acquire().await.unwrap().forget() }
    });
    let (server, mut raw) = Raw::serve(router, with_dialect(Dialect::lsp()));
    let hold = r#"{"jsonrpc":"2.0","method":"hold"}"#;
    raw.send(hold).await;
    let add = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[3,4]}"#;
    let slow = r#"{"jsonrpc":"2.0","id":2,"method":"slow","params":[600000]}"#;
    // Its own notification does not keep it from being cancelled.
    raw.send(&format!("[{hold},{add},{slow}]")).await;
    for id in ["2", "2", "3"] {
        let params = format!(r#"{{"id":{id}}}"#);
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{params}}}"#
        ))
        .await;
    }
    raw.silence().await;
    gate.add_permits(1);
    let answers = raw.json().await;
    assert_eq!(answers[0]["result"], 7);
    assert_eq!(answers[1]["error"]["code"], -32800);
    gate.add_permits(1);
    while server.stats().in_flight > 0 {
        tokio::task::yield_now().await;
    }
}

/// Proves: A54
#[tokio::test(start_paused = true)]
async fn handlers_are_dropped_when_the_connection_ends() {
    let log = Log::default();
    let dropped = log.clone();
    let router = Router::new().method("work", move |cx: Context| {
        let guard = Dropped(dropped.clone(), "dropped");
        async move {
            let _guard = guard;
            cx.cancelled().await;
            std::future::pending::<Result<(), JsonRpcError>>().await
        }
    });
    let (peer, server) = Peer::pair(Router::new(), router);
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<()>("work", ()).await }
    });
    while server.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    server.close();
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed(reason)) if reason.is_remote()));
    peer.closed().await;
    server.closed().await;
    while server.stats().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.take(), ["dropped"]);
}

/// Proves: A52, A55, A100, A101, A102, A103
#[tokio::test(start_paused = true)]
async fn the_state_is_seen_and_a_closed_peer_refuses_at_once() {
    let (peer, other) = Peer::pair(Router::new(), calculator());
    assert!(matches!(peer.state(), ConnectionState::Connected));
    let mut states = peer.watch();
    let waiting = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<u64>("slow", (300,)).await }
    });
    while peer.stats().pending == 0 {
        tokio::task::yield_now().await;
    }
    peer.close();
    // At once, before the connection's task has done anything.
    for _ in 0..2 {
        let error = peer.call::<()>("ping", ()).await.unwrap_err();
        assert!(
            matches!(&error, CallError::AlreadyClosed(reason) if reason.is_local()),
            "{error:?}"
        );
        assert!(error.is_fatal() && !error.may_have_run());
        let error = peer.notify("log", ("x",)).await.unwrap_err();
        assert!(matches!(error, CallError::AlreadyClosed(_)));
        assert!(peer.batch().call::<()>("ping", ()).is_err());
    }
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Closed(_))));
    let mut seen = Vec::new();
    while let Some(state) = states.changed().await {
        seen.push(format!("{state:?}").split('(').next().unwrap().to_owned());
    }
    assert_eq!(seen.last().unwrap(), "Closed");
    assert!(peer.closed().await.is_local());
    assert!(other.closed().await.is_remote());
    assert!(peer.state().is_closed() && other.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_the_last_handle_is_dropped_arrives() {
    let log = Log::default();
    let seen = log.clone();
    let router = Router::new().method("log", move |(line,): (String,)| seen.add(line));
    let (peer, server) = Peer::pair(Router::new(), router);
    for n in 0..100 {
        peer.notify("log", (n.to_string(),)).await.unwrap();
    }
    drop(peer);
    assert!(server.closed().await.is_remote());
    assert_eq!(log.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_what_runs_finish_and_refuses_the_rest() {
    let (_client, mut raw);
    let router = calculator();
    (_client, raw) = Raw::serve(router, Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[100]}"#)
        .await;
    while _client.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    let stopping = tokio::spawn({
        let server = _client.clone();
        async move { server.shutdown(Duration::from_secs(10)).await }
    });
    while !matches!(_client.state(), ConnectionState::Draining) {
        tokio::task::yield_now().await;
    }
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}"#)
        .await;
    let refused = raw.json().await;
    assert_eq!(refused["error"]["message"], "Server is shutting down");
    assert_eq!(refused["error"]["code"], -32010);
    assert_eq!(raw.json().await["result"], 100);
    raw.end().await;
    assert!(stopping.await.unwrap().is_local());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_limit() {
    let (peer, server) = Peer::pair(Router::new(), calculator());
    let call = tokio::spawn(async move { peer.call::<u64>("slow", (20_000,)).await });
    while server.stats().in_flight == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    server.shutdown(Duration::from_secs(2)).await;
    assert!(begun.elapsed() < Duration::from_millis(2_010));
    assert!(call.await.unwrap().is_err());
}

/// The end of input lets what was asked finish: `printf … | server`.
#[tokio::test(start_paused = true)]
async fn the_end_of_input_lets_what_was_asked_finish() {
    let (server, mut raw) = Raw::serve(calculator(), Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[50]}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":2,"method":"add","params":[1,2]}"#)
        .await;
    raw.close_input().await;
    assert_eq!(raw.json().await["result"], 3);
    assert_eq!(raw.json().await["result"], 50);
    raw.end().await;
    assert!(server.closed().await.is_remote());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_input_does_not_wait_for_ever() {
    let (server, mut raw) = Raw::serve(calculator(), Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[3600000]}"#)
        .await;
    raw.close_input().await;
    let begun = Instant::now();
    raw.end().await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    server.closed().await;
}

/// A driver that wakes itself all the time keeps the clock from going on.
#[test]
fn what_is_late_while_it_ends_does_not_keep_it_busy() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut config = Config::default();
            config.message_timeout = Some(Duration::from_secs(1));
            let (server, mut raw) = Raw::serve(calculator(), config);
            raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[10000]}"#)
                .await;
            raw.begin(r#"{"jsonrpc":"2.0","#).await;
            while server.stats().in_flight == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            server.shutdown(Duration::from_secs(60)).await;
            assert_eq!(raw.json().await["result"], 10_000);
        });
        done.send(()).unwrap();
    });
    let waited = is_done.recv_timeout(Duration::from_secs(20));
    assert_eq!(waited, Ok(()), "time stands still");
}

/// Never without a message.
struct Flood {
    frame: String,
    received: Arc<AtomicUsize>,
}

impl Flood {
    fn of(bytes: usize) -> Self {
        let params = json!(["x".repeat(bytes)]);
        Self {
            frame: json!({"jsonrpc": "2.0", "method": "log", "params": params}).to_string(),
            received: Arc::default(),
        }
    }
}

impl caudal::transport::Transport for Flood {
    fn poll_receive(
        &mut self,
        _: &mut TaskContext<'_>,
    ) -> std::task::Poll<Result<Option<&[u8]>, caudal::transport::ReceiveError>> {
        self.received.fetch_add(self.frame.len(), Ordering::Relaxed);
        std::task::Poll::Ready(Ok(Some(self.frame.as_bytes())))
    }

    fn poll_send(
        &mut self,
        _: &mut TaskContext<'_>,
        out: &mut caudal::transport::BytesMut,
    ) -> std::task::Poll<std::io::Result<()>> {
        out.clear();
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_call_times_out_though_the_other_side_never_pauses() {
    let peer = Peer::start(Flood::of(1), calculator());
    for _ in 0..2 {
        let call = peer.call::<()>("x", ()).timeout(Duration::from_millis(20));
        let ended = tokio::time::timeout(Duration::from_secs(20), call.into_future()).await;
        assert!(matches!(ended, Ok(Err(CallError::Timeout))), "{ended:?}");
    }
    assert_eq!(peer.stats().pending, 0);
}

/// Even if the clock stands still, so that no turn takes any time.
#[tokio::test(start_paused = true)]
async fn a_connection_that_never_pauses_lets_others_have_their_turn() {
    let flood = Flood::of(1000);
    let (received, length) = (Arc::clone(&flood.received), flood.frame.len());
    let peer = Peer::start(flood, calculator());
    let other = tokio::spawn(async move {
        let mut most = 0;
        for _ in 0..20 {
            let before = received.load(Ordering::Relaxed);
            tokio::task::yield_now().await;
            most = most.max(received.load(Ordering::Relaxed) - before);
        }
        most
    });
    let most = other.await.unwrap() / length;
    assert!((1..=20_000).contains(&most), "{most} messages in two turns");
    peer.close();
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_deadline_up_to_a_ceiling() {
    let report = |steps: u64| {
        move |cx: Context, (token,): (String,)| async move {
            for value in 0..steps {
                sleep(Duration::from_millis(80)).await;
                let progress = json!({"token": token, "value": value});
                cx.peer().notify("$/progress", progress).await?;
            }
            sleep(Duration::from_millis(80)).await;
            Ok(steps)
        }
    };
    let router = Router::new()
        .method("short", report(10))
        .method("long", report(1_000));
    let log = Log::default();
    let heard = log.clone();
    let client = Router::new().method("$/progress", move |_: serde_json::Value| {
        heard.add("progress")
    });
    let (peer, _server) = Peer::pair_with(client, router, &with_dialect(Dialect::lsp()));
    let call = |method| {
        peer.call::<u64>(method, ("t",))
            .timeout(Duration::from_millis(100))
            .extend_on_progress("t", Duration::from_secs(2))
    };
    assert_eq!(call("short").await.unwrap(), 10);
    assert_eq!(log.take().len(), 10);
    let begun = Instant::now();
    assert!(matches!(call("long").await, Err(CallError::Timeout)));
    let took = begun.elapsed().as_millis();
    assert!((2_000..=2_005).contains(&took), "{took}");
    // Without progress the time is as it was.
    let begun = Instant::now();
    assert!(
        peer.call::<u64>("long", ("u",))
            .timeout(Duration::from_millis(50))
            .await
            .is_err()
    );
    assert!(begun.elapsed().as_millis() <= 55);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_calls_is_one_message_and_each_has_its_answer() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let mut batch = peer.batch();
    let one = batch.call::<i64>("a", (1,)).unwrap();
    batch.notify("n", ()).unwrap();
    assert!(batch.call::<i64>("bad", 7).is_err());
    let two = batch.call::<i64>("b", ()).unwrap();
    batch.send().await.unwrap();
    let sent = raw.json().await;
    assert_eq!(sent.as_array().unwrap().len(), 3);
    assert!(sent[1].get("id").is_none());
    let answers = json!([
        {"jsonrpc": "2.0", "id": sent[2]["id"], "error": {"code": 5, "message": "no"}},
        {"jsonrpc": "2.0", "id": sent[0]["id"], "result": 11},
    ]);
    raw.send(&answers.to_string()).await;
    assert_eq!(one.await.unwrap(), 11);
    assert!(matches!(two.await, Err(CallError::Remote(e)) if e.code == 5));
    // One that is not sent fails its calls; an empty one sends nothing.
    let mut batch = peer.batch();
    let lost = batch.call::<i64>("a", ()).unwrap();
    let dropped = batch.call::<i64>("a", ()).unwrap();
    drop(dropped);
    drop(batch);
    assert!(matches!(lost.await, Err(CallError::Cancelled)));
    peer.batch().send().await.unwrap();
    raw.silence().await;
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_sent_in_time_is_never_sent() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let mut batch = peer.batch().timeout(Duration::from_millis(50));
    let first = batch.call::<i64>("a", ()).unwrap();
    let mut batch = batch.timeout(None);
    let second = batch.call::<i64>("b", ()).unwrap();
    assert!(matches!(first.await, Err(CallError::Timeout)));
    assert!(matches!(batch.send().await, Err(CallError::Timeout)));
    assert!(matches!(second.await, Err(CallError::Timeout)));
    raw.silence().await;
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_finds_no_room_times_out() {
    let mut config = Config::default();
    config.output = 100;
    let (peer, mut raw) = Raw::serve_through(16, Router::new(), config);
    let full = peer.notify("fills", ("x".repeat(200),)).await;
    full.unwrap();
    let mut batch = peer.batch().timeout(Duration::from_secs(5));
    let reply = batch.call::<i64>("a", ()).unwrap();
    let (sent, reply) = tokio::join!(batch.send(), reply);
    assert!(matches!(sent, Err(CallError::Timeout)), "{sent:?}");
    assert!(matches!(reply, Err(CallError::Timeout)), "{reply:?}");
    assert_eq!(raw.json().await["method"], "fills");
    raw.silence().await;
}

#[tokio::test(start_paused = true)]
async fn the_other_side_hears_nothing_of_calls_that_were_never_sent() {
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    let (peer, mut raw) = Raw::serve(Router::new(), config);
    let mut batch = peer.batch();
    assert!(batch.call::<i64>(" ", ()).is_err());
    drop(batch.call::<i64>("a", ()).unwrap());
    let left = batch.call::<i64>("b", ()).unwrap();
    drop(batch);
    assert!(matches!(left.await, Err(CallError::Cancelled)));
    raw.silence().await;
    // One that is sent, and that nobody waits for any more, is cancelled.
    let mut batch = peer.batch();
    let reply = batch.call::<i64>("c", ()).unwrap();
    batch.send().await.unwrap();
    let sent = raw.json().await;
    drop(reply);
    let told = raw.json().await;
    assert_eq!(told["method"], "$/cancelRequest");
    assert_eq!(told["params"]["id"], sent[0]["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_not_sent_has_not_run() {
    let (peer, _raw) = Raw::serve(Router::new(), Config::default());
    let mut batch = peer.batch();
    let reply = batch.call::<i64>("a", ()).unwrap();
    peer.close();
    let error = reply.await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    assert!(!error.may_have_run());
    assert!(batch.send().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_calls_have_ended_is_not_sent() {
    let (peer, mut raw) = Raw::serve(calculator(), Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[200]}"#)
        .await;
    let mut batch = peer.batch();
    let reply = batch.call::<i64>("a", ()).unwrap();
    raw.close_input().await;
    let error = reply.await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    // What can still be sent is, but no call.
    let error = batch.send().await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    peer.notify("note", ()).await.unwrap();
    assert_eq!(raw.json().await["method"], "note");
    assert_eq!(raw.json().await["result"], 200);
    raw.end().await;
}

/// What may have been sent may have run, and what has not run was not sent.
#[tokio::test(start_paused = true)]
async fn who_closes_after_sending_hears_what_may_have_run() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let mut batch = peer.batch();
    let sent = batch.call::<i64>("batched", ()).unwrap();
    let mut alone = std::pin::pin!(peer.call::<i64>("alone", ()).into_future());
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(alone.as_mut().poll(&mut cx).is_pending());
    batch.send().await.unwrap();
    peer.notify("note", ()).await.unwrap();
    peer.close();
    let (sent, alone) = (sent.await.unwrap_err(), alone.await.unwrap_err());
    assert!(matches!(sent, CallError::Closed(_)), "{sent:?}");
    assert!(matches!(alone, CallError::AlreadyClosed(_)), "{alone:?}");
    // What is written is sent, but for the call that was taken back.
    assert_eq!(raw.json().await[0]["method"], "batched");
    assert_eq!(raw.json().await["method"], "note");
    raw.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_fails_its_call_and_no_other() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    let good = peer.call::<i64>("good", ()).into_future();
    let bad = peer.call::<i64>("bad", ()).into_future();
    let answer = async {
        let (good, bad) = (
            raw.json().await["id"].clone(),
            raw.json().await["id"].clone(),
        );
        raw.send(
            &json!({"jsonrpc": "2.0", "id": bad, "result": 1, "error": {"code": 1, "message": ""}})
                .to_string(),
        )
        .await;
        raw.send("garbage").await;
        raw.send(&json!({"jsonrpc": "2.0", "id": good, "result": 1}).to_string())
            .await;
    };
    let (good, bad, ()) = tokio::join!(good, bad, answer);
    assert!(matches!(bad, Err(CallError::Response(_))), "{bad:?}");
    assert_eq!(good.unwrap(), 1);
}

/// Two old answers, one with a result and one with an error, and what becomes of the calls.
async fn answered_as_of_old(config: Config) -> [Result<i64, CallError>; 2] {
    let (peer, mut raw) = Raw::serve(Router::new(), config);
    let short = Duration::from_secs(1);
    let one = peer.call::<i64>("one", ()).timeout(short).into_future();
    let two = peer.call::<i64>("two", ()).timeout(short).into_future();
    let answer = async {
        let ids = [raw.json().await, raw.json().await].map(|call| {
            let id = call["id"].clone();
            id.as_str().map_or_else(|| id.to_string(), str::to_owned)
        });
        let error = json!({"code": 1, "message": "no"});
        let answers = json!([
            {"jsonrpc": "2.0", "id": ids[0], "result": 3, "error": null},
            {"jsonrpc": "2.0", "id": ids[1], "result": null, "error": error},
        ]);
        raw.send(&answers.to_string()).await;
    };
    let (one, two, ()) = tokio::join!(one, two, answer);
    [one, two]
}

#[tokio::test(start_paused = true)]
async fn old_responses_end_their_calls_by_policy_only() {
    for format in [IdFormat::Integer, IdFormat::Uuid] {
        let mut config = Config::default();
        config.id_format = format;
        let strict = answered_as_of_old(config.clone()).await;
        for refused in strict {
            let error = refused.unwrap_err();
            match format {
                // Its id is a string in any case: it is ours.
                IdFormat::Uuid => assert!(matches!(error, CallError::Response(_)), "{error:?}"),
                _ => assert!(matches!(error, CallError::Timeout), "{error:?}"),
            }
        }
        config.policy.old_responses = OldResponses::Accept;
        let [one, two] = answered_as_of_old(config).await;
        assert_eq!(one.unwrap(), 3);
        let Err(CallError::Remote(error)) = two else {
            panic!("{two:?}");
        };
        assert_eq!(error.code, 1);
    }
}

/// Its first bytes tell whose answer it is.
#[tokio::test(start_paused = true)]
async fn an_old_response_that_is_too_large_fails_its_call() {
    let mut config = Config::default();
    config.policy.max_message = 100;
    config.policy.old_responses = OldResponses::Accept;
    let (peer, mut raw) = Raw::serve(Router::new(), config);
    let call = peer.call::<String>("m", ()).into_future();
    let answer = async {
        assert_eq!(raw.json().await["id"], 1);
        let long = "x".repeat(100);
        raw.send(&json!({"jsonrpc": "2.0", "id": "1", "error": null, "result": long}).to_string())
            .await;
    };
    let error = tokio::join!(call, answer).0.unwrap_err();
    assert!(
        matches!(error, CallError::TooLarge { limit: 100 }),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn ids_can_be_uuids() {
    let mut config = Config::default();
    config.id_format = IdFormat::Uuid;
    let (peer, mut raw) = Raw::serve(Router::new(), config);
    let call = peer.call::<i64>("m", ()).into_future();
    let answer = async {
        let id = raw.json().await["id"].clone();
        assert_eq!(id.as_str().unwrap().len(), 36);
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
            .await;
    };
    assert_eq!(tokio::join!(call, answer).0.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn duplicate_ids_in_flight_are_both_served() {
    let (_server, mut raw) = Raw::serve(calculator(), Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[20]}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[10]}"#)
        .await;
    assert_eq!(raw.json().await["result"], 10);
    assert_eq!(raw.json().await["result"], 20);
}

/// Work that is told to run at once in a task of its own does not hold up others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spawned_method_leaves_the_connection_free() {
    let spins = Arc::new(AtomicUsize::new(0));
    let spin = Arc::clone(&spins);
    let router = calculator().method(
        "spin",
        Method::new(move || {
            let spin = Arc::clone(&spin);
            async move {
                // It computes until the other call has been answered.
                while spin.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                Ok(())
            }
        })
        .spawn(),
    );
    let (peer, _server) = Peer::pair(Router::new(), router);
    let spinning = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<()>("spin", ()).await }
    });
    while peer.stats().pending == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    spins.store(1, Ordering::SeqCst);
    spinning.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn notifications_of_a_batch_are_counted_when_they_are_sent() {
    let (peer, server) = Peer::pair(Router::new(), calculator());
    let mut batch = peer.batch();
    batch.notify("log", ("one",)).unwrap();
    batch.notify("log", ("two",)).unwrap();
    assert_eq!(peer.stats().notifications, 0);
    batch.send().await.unwrap();
    assert_eq!(peer.stats().notifications, 2);
    peer.call::<i64>("add", (1, 2)).await.unwrap();
    assert_eq!(server.stats().notifications_served, 2);
}

/// A batch that comes while the peer shuts down is refused entry by entry; what asks for
/// nothing is served, as it is alone.
#[tokio::test(start_paused = true)]
async fn a_batch_during_a_shutdown_is_refused_as_a_batch() {
    let log = Log::default();
    let logged = log.clone();
    let router = calculator().method("note", move |(text,): (String,)| logged.add(text));
    let (server, mut raw) = Raw::serve(router, Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"slow","params":[50]}"#)
        .await;
    while server.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    let stopping = server.clone();
    let stopping = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(10)).await });
    while !matches!(server.state(), ConnectionState::Draining) {
        tokio::task::yield_now().await;
    }
    raw.send(r#"[{"jsonrpc":"2.0","id":2,"method":"ping"},{"jsonrpc":"2.0","method":"note","params":["x"]},{"jsonrpc":"2.0","id":3,"method":"ping"}]"#).await;
    let refused = raw.json().await;
    assert_eq!(refused.as_array().unwrap().len(), 2);
    assert_eq!(refused[1]["error"]["message"], "Server is shutting down");
    raw.send(r#"{"jsonrpc":"2.0","method":"note","params":["y"]}"#)
        .await;
    assert_eq!(raw.json().await["result"], 50);
    raw.end().await;
    stopping.await.unwrap();
    assert_eq!(log.take(), ["x", "y"]);
    assert_eq!(server.stats().dropped, 0);
}

/// The causes of the end, as they are told.
fn told(reason: &caudal::CloseReason) -> (bool, Option<std::io::ErrorKind>) {
    let cause = std::error::Error::source(reason);
    let cause = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
    (reason.is_local(), cause.map(std::io::Error::kind))
}

const LATE: (bool, Option<std::io::ErrorKind>) = (false, Some(std::io::ErrorKind::TimedOut));

#[tokio::test(start_paused = true)]
async fn a_close_that_could_not_send_everything_says_so() {
    for close in [true, false] {
        let (here, _there) = tokio::io::duplex(16);
        let stream = caudal::transport::Stream::new(here, caudal::Framing::Line);
        let peer = Peer::start(stream, Router::new());
        peer.notify("log", ("this does not fit",)).await.unwrap();
        let reason = match close {
            true => {
                peer.close();
                peer.closed().await
            }
            false => peer.shutdown(Duration::from_secs(1)).await,
        };
        assert_eq!(told(&reason), LATE, "{reason:?}");
        let error = peer.notify("log", ("more",)).await.unwrap_err();
        assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    }
}

/// Takes everything, and never closes.
struct Lasting;

impl caudal::transport::Transport for Lasting {
    fn poll_receive(
        &mut self,
        _: &mut TaskContext<'_>,
    ) -> std::task::Poll<Result<Option<&[u8]>, caudal::transport::ReceiveError>> {
        std::task::Poll::Pending
    }

    fn poll_send(
        &mut self,
        _: &mut TaskContext<'_>,
        out: &mut caudal::transport::BytesMut,
    ) -> std::task::Poll<std::io::Result<()>> {
        out.clear();
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_close(
        &mut self,
        _: &mut TaskContext<'_>,
        _: &caudal::CloseReason,
    ) -> std::task::Poll<Option<caudal::CloseReason>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_does_not_close_is_let_go_and_that_is_told() {
    let peer = Peer::start(Lasting, Router::new());
    peer.notify("log", ("a",)).await.unwrap();
    peer.close();
    assert_eq!(told(&peer.closed().await), LATE);
}

/// A connection whose other side is the test: frames one by one, and each send whole.
struct ByHand {
    frames: tokio::sync::mpsc::UnboundedReceiver<String>,
    frame: String,
    sends: Log,
    /// How often it was asked to send since it is stuck, if it is.
    stuck: Arc<Mutex<Option<usize>>>,
}

impl ByHand {
    fn start(router: Router) -> (Peer, tokio::sync::mpsc::UnboundedSender<String>, Log) {
        let (peer, frame, sends, _) = Self::start_with(router, Config::default());
        (peer, frame, sends)
    }

    fn start_with(
        router: Router,
        config: Config,
    ) -> (
        Peer,
        tokio::sync::mpsc::UnboundedSender<String>,
        Log,
        Arc<Mutex<Option<usize>>>,
    ) {
        let (frame, frames) = tokio::sync::mpsc::unbounded_channel();
        let (sends, stuck) = (Log::default(), Arc::default());
        let transport = Self {
            frames,
            frame: String::new(),
            sends: sends.clone(),
            stuck: Arc::clone(&stuck),
        };
        let peer = Peer::start_with(transport, router, config);
        (peer, frame, sends, stuck)
    }
}

impl caudal::transport::Transport for ByHand {
    fn poll_receive(
        &mut self,
        cx: &mut TaskContext<'_>,
    ) -> std::task::Poll<Result<Option<&[u8]>, caudal::transport::ReceiveError>> {
        self.frames.poll_recv(cx).map(|frame| {
            self.frame = frame.unwrap_or_default();
            Ok(Some(self.frame.as_bytes()))
        })
    }

    fn poll_send(
        &mut self,
        _: &mut TaskContext<'_>,
        out: &mut caudal::transport::BytesMut,
    ) -> std::task::Poll<std::io::Result<()>> {
        if let Some(asked) = &mut *self.stuck.lock().unwrap() {
            *asked += 1;
            return std::task::Poll::Pending;
        }
        if !out.is_empty() {
            self.sends.add(std::str::from_utf8(out).unwrap());
        }
        out.clear();
        std::task::Poll::Ready(Ok(()))
    }
}

/// How many messages each send had, once nothing is left to do.
async fn messages_sent(sends: &Log) -> (Vec<usize>, Vec<String>) {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    let sends = sends.take();
    let counts = sends.iter().map(|send| send.lines().count()).collect();
    let lines = sends.iter().flat_map(|send| send.lines());
    (counts, lines.map(str::to_owned).collect())
}

#[tokio::test(start_paused = true)]
async fn the_replies_to_a_burst_are_one_send() {
    let (peer, frame, sends) = ByHand::start(calculator());
    for _ in 0..2 {
        for _ in 0..128 {
            let request = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
            frame.send(request.to_owned()).unwrap();
        }
        assert_eq!(messages_sent(&sends).await.0, [128]);
    }
    peer.close();
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_made_at_once_are_one_send() {
    let (peer, frame, sends) = ByHand::start(Router::new());
    for _ in 0..128 {
        let peer = peer.clone();
        tokio::spawn(async move { while peer.call::<i64>("next", ()).await.is_ok() {} });
    }
    for _ in 0..2 {
        let (counts, calls) = messages_sent(&sends).await;
        assert_eq!(counts, [128]);
        for call in calls {
            let call: serde_json::Value = serde_json::from_str(&call).unwrap();
            let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": 0});
            frame.send(answer.to_string()).unwrap();
        }
    }
    peer.close();
}

#[tokio::test(start_paused = true)]
async fn a_side_that_stops_reading_amid_a_burst_is_waited_for() {
    let mut config = Config::default();
    config.output = 1024;
    config.queue = 8;
    let (peer, frame, sends, stuck) = ByHand::start_with(calculator(), config);
    let caller = peer.clone();
    let waiting = tokio::spawn(async move { caller.call::<i64>("never", ()).await });
    assert_eq!(messages_sent(&sends).await.0, [1]);
    let burst = |count| {
        for _ in 0..count {
            let request = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
            frame.send(request.to_owned()).unwrap();
        }
    };
    let mut counts = Vec::new();
    for _ in 0..4 {
        burst(64);
        counts = messages_sent(&sends).await.0;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(counts.len() > 1, "the last one was not early: {counts:?}");
    *stuck.lock().unwrap() = Some(0);
    burst(1000);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let asked = stuck.lock().unwrap().take().unwrap();
    assert!(asked < 100, "it was asked to send {asked} times");
    waiting.abort();
    peer.close();
}

/// A waker that is replaced may call back when it is dropped.
#[test]
fn a_waker_may_call_back_when_it_is_dropped() {
    use std::task::Wake;
    struct Own(Peer);
    impl Wake for Own {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Own {
        fn drop(&mut self) {
            let _ = self.0.stats();
        }
    }
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let router = Router::new().method("wait", || {
                std::future::pending::<Result<(), caudal::JsonRpcError>>()
            });
            let (peer, _server) = Peer::pair(Router::new(), router);
            let mut call = std::pin::pin!(peer.call::<()>("wait", ()).into_future());
            {
                let waker = Waker::from(Arc::new(Own(peer.clone())));
                assert!(
                    Future::poll(call.as_mut(), &mut TaskContext::from_waker(&waker)).is_pending()
                );
            }
            assert!(
                Future::poll(call.as_mut(), &mut TaskContext::from_waker(Waker::noop()))
                    .is_pending()
            );
        });
        done.send(()).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(5))
        .expect("it hangs");
}

/// Who comes to look when all is over is told how it ended.
#[tokio::test(start_paused = true)]
async fn the_end_is_seen_by_who_looks_after_the_connection_is_gone() {
    let (peer, other) = Peer::pair(Router::new(), Router::new());
    let mut states = peer.watch();
    peer.close();
    peer.closed().await;
    drop((peer, other));
    // Until its task is gone too.
    sleep(Duration::from_millis(50)).await;
    assert!(matches!(
        states.changed().await,
        Some(ConnectionState::Closed(_))
    ));
    assert!(states.changed().await.is_none());
}

/// As for `close`: no time to finish is none to lose what was said.
#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_shutdown_without_time_arrives() {
    let (peer, mut raw) = Raw::serve(Router::new(), Config::default());
    peer.notify("goodbye", ()).await.unwrap();
    assert!(peer.shutdown(Duration::ZERO).await.is_local());
    assert_eq!(raw.json().await["method"], "goodbye");
    raw.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_below_the_timeout_is_one() {
    let router = Router::new().method("never", || async {
        std::future::pending::<()>().await;
        Ok(())
    });
    let (peer, _server) = Peer::pair_with(Router::new(), router, &with_dialect(Dialect::lsp()));
    let begun = Instant::now();
    let call = peer
        .call::<()>("never", ())
        .timeout(Duration::from_secs(2))
        .extend_on_progress("t", Duration::from_secs(1));
    assert!(matches!(call.await, Err(CallError::Timeout)));
    assert!(begun.elapsed() <= Duration::from_millis(1_005));
}

#[tokio::test(start_paused = true)]
async fn progress_moves_the_calls_of_its_token_and_no_other() {
    let (peer, mut raw) = Raw::serve(Router::new(), with_dialect(Dialect::lsp()));
    let call = |token: &'static str| {
        peer.call::<u64>("slow", ())
            .timeout(Duration::from_millis(100))
            .extend_on_progress(token, Duration::from_secs(2))
    };
    // Whose caller has gone, another may have its place, and not its token.
    let gone = tokio::time::timeout(Duration::from_millis(10), call("gone").into_future()).await;
    assert!(gone.is_err());
    assert_eq!(raw.json().await["method"], "slow");
    assert_eq!(raw.json().await["method"], "$/cancelRequest");
    let begun = Instant::now();
    let ended = async {
        let other = async {
            assert!(matches!(call("other").await, Err(CallError::Timeout)));
            assert!(begun.elapsed() <= Duration::from_millis(105));
        };
        let ((), one, two) = tokio::join!(other, call("t"), call("t"));
        (one, two)
    };
    let reports = async {
        assert_eq!(raw.json().await["method"], "slow");
        let ids = [raw.json().await, raw.json().await].map(|call| call["id"].clone());
        for token in ["gone", "t", "nobody's"] {
            sleep(Duration::from_millis(40)).await;
            let params = json!({"token": token, "value": 1});
            let report = json!({"jsonrpc": "2.0", "method": "$/progress", "params": params});
            raw.send(&report.to_string()).await;
        }
        // Late for whoever has heard nothing.
        sleep(Duration::from_millis(40)).await;
        for id in ids {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": 7});
            raw.send(&answer.to_string()).await;
        }
    };
    let (ended, ()) = tokio::join!(ended, reports);
    assert!(matches!(ended, (Ok(7), Ok(7))), "{ended:?}");
    assert!(begun.elapsed() >= Duration::from_millis(160));
}

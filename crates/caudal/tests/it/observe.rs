//! What is seen from outside: spans, logs, figures, the wire, statistics.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Log, Raw};
use caudal::transport::Stream;
use caudal::{Config, Direction, Framing, JsonRpcError, Peer, Redacted, Router};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// Writes down spans and events as one line each.
struct Recorder(Log, Mutex<Vec<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("caudal")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = span.metadata().name().to_owned();
        span.record(&mut Line(&mut line));
        let mut spans = self.1.lock().unwrap();
        spans.push(line);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.1.lock().unwrap();
        values.record(&mut Line(&mut spans[span.into_u64() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = event.metadata().level().to_string();
        event.record(&mut Line(&mut line));
        self.0.add(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What is logged on this thread, while the guard lives.
///
/// Every test of this file listens. A place that logs is looked at once, when a thread
/// first comes to it; if nobody listened then, and somebody begins to at that very moment,
/// it may stay silent for good.
fn listen() -> (Log, DefaultGuard) {
    let log = Log::default();
    let recorder = Recorder(log.clone(), Mutex::default());
    (log, tracing::subscriber::set_default(recorder))
}

/// Proves: A39, A82
#[tokio::test(start_paused = true)]
async fn spans_and_logs_say_what_happened() {
    let log = Log::default();
    let recorder = Arc::new(Recorder(log.clone(), Mutex::default()));
    let guard = tracing::subscriber::set_default(Arc::clone(&recorder));
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("later", || async {
            tokio::task::yield_now().await;
            Ok(())
        })
        .method("panic", |(): ()| -> Result<(), JsonRpcError> {
            panic!("secret")
        });
    let (peer, server) = Peer::pair(Router::new(), router);
    peer.call::<i64>("add", (1, 2)).await.unwrap();
    peer.call::<()>("later", ()).await.unwrap();
    let error = peer.call::<()>("panic", ()).await.unwrap_err();
    let caudal::CallError::Remote(error) = error else {
        panic!("{error:?}")
    };
    let correlation = error.data.unwrap()["correlation"]
        .as_str()
        .unwrap()
        .to_owned();
    let late = peer
        .call::<()>("add", (1,))
        .timeout(Duration::from_millis(1))
        .await;
    assert!(late.is_err());
    drop((peer, server));
    drop(guard);
    let spans = recorder.1.lock().unwrap().clone();
    let has = |parts: &[&str]| {
        spans
            .iter()
            .any(|span| parts.iter().all(|part| span.contains(part)))
    };
    assert!(has(&["connection", r#"remote="memory""#]), "{spans:?}");
    assert!(
        has(&["call", r#"method="add""#, r#"id="1""#, r#"outcome="ok""#]),
        "{spans:?}"
    );
    assert!(
        has(&["call", r#"method="later""#, r#"outcome="ok""#]),
        "{spans:?}"
    );
    assert!(
        has(&["call", r#"method="panic""#, r#"outcome="error""#]),
        "{spans:?}"
    );
    // The log has the cause under the number that was sent.
    let events = log.take();
    let logged = events
        .iter()
        .find(|event| event.contains(&correlation))
        .unwrap();
    assert!(
        logged.starts_with("ERROR") && logged.contains("panic: secret"),
        "{logged}"
    );
    // The span of a call is for DEBUG alone.
    assert!(logged.contains(r#"method="panic""#), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn an_internal_error_is_logged_with_all_its_sources() {
    #[derive(Debug, thiserror::Error)]
    #[error("the order could not be stored")]
    struct StoreError(#[source] std::io::Error);
    struct Bad;
    impl serde::Serialize for Bad {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no such shape"))
        }
    }
    let (log, _guard) = listen();
    let router = Router::new()
        .method("store", || {
            let disk = std::io::Error::other("disk 7 is gone");
            Err::<(), _>(caudal::internal(StoreError(disk)))
        })
        .method("bad", || Ok(Bad))
        .method("late", || async {
            tokio::task::yield_now().await;
            Ok(Bad)
        });
    let (peer, _server) = Peer::pair(Router::new(), router);
    for (method, cause) in [
        (
            "store",
            "cause=the order could not be stored: disk 7 is gone",
        ),
        (
            "bad",
            "cause=the value could not be serialised: no such shape",
        ),
        (
            "late",
            "cause=the value could not be serialised: no such shape",
        ),
    ] {
        let error = peer.call::<()>(method, ()).await.unwrap_err();
        let caudal::CallError::Remote(error) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.code, -32603);
        let number = error.data.unwrap()["correlation"].to_string();
        let events = log.take();
        let logged = events
            .iter()
            .find(|event| event.starts_with("ERROR"))
            .unwrap();
        assert!(logged.contains(number.trim_matches('"')), "{logged}");
        assert!(logged.contains(cause), "{logged}");
        // A constructor cannot know for whom it is called; who answers with it does.
        let names = |event: &&String| {
            event.starts_with("ERROR")
                && event.contains(number.trim_matches('"'))
                && event.contains(&format!("method={method:?}"))
                && event.contains("id=\"")
        };
        assert_eq!(events.iter().filter(names).count(), 1, "{events:?}");
        let errors = events.iter().filter(|event| event.starts_with("ERROR"));
        assert_eq!(
            errors.count(),
            1 + usize::from(method == "store"),
            "{events:?}"
        );
    }
}

/// The same where layers have seen the result, and where nobody is answered.
#[tokio::test(start_paused = true)]
async fn who_has_failed_is_logged_whatever_came_between() {
    let (log, _guard) = listen();
    let fails = |_: [String; 1]| Err::<(), _>(caudal::internal("disk 7 is gone"));
    let router = Router::new()
        .method("layered", fails)
        .method("told", fails)
        .layer(caudal::middleware::from_fn(
            |call, next: caudal::middleware::Next| next.run(call),
        ));
    let (peer, _server) = Peer::pair(Router::new(), router);
    peer.notify("told", ["secret"]).await.unwrap();
    peer.call::<()>("layered", ["secret"]).await.unwrap_err();
    let events = log.take();
    for method in ["layered", "told"] {
        let method = format!("method={method:?}");
        let named = |event: &&String| event.starts_with("ERROR") && event.contains(&method);
        assert_eq!(events.iter().filter(named).count(), 1, "{events:?}");
    }
    assert!(!events.iter().any(|event| event.contains("secret")));
}

/// Nobody answers a notification, so the log is where its fault is found; but its
/// sender cannot make the log loud.
#[tokio::test(start_paused = true)]
async fn a_notification_that_failed_is_logged_with_the_reason() {
    let (log, _guard) = listen();
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("refuse", || Err::<(), _>(JsonRpcError::new(7, "not today")));
    let mut config = Config::default();
    config.policy.error_detail = caudal::ErrorDetail::Minimal;
    let (peer, mut raw) = Raw::serve(router, config);
    let long = "x".repeat(200);
    for (method, params) in [("add", "[1]"), ("refuse", "[]"), (&*long, "[]")] {
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#
        ))
        .await;
    }
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#)
        .await;
    raw.line().await;
    drop(peer);
    let events = log.take();
    let has = |method: &str, reason: &str| {
        events.iter().any(|event| {
            event.starts_with("DEBUG")
                && event.contains(&format!("method={method:?}"))
                && event.contains(reason)
        })
    };
    assert!(has("add", "expected 2 params, found 1"), "{events:?}");
    assert!(has("refuse", "not today (code 7)"), "{events:?}");
    assert!(has(&"x".repeat(128), "Method not found"), "{events:?}");
    assert!(!events.iter().any(|event| event.starts_with("WARN")));
}

/// Proves: A39
#[tokio::test(start_paused = true)]
async fn a_timeout_is_logged() {
    let (log, _guard) = listen();
    let (peer, _raw) = Raw::serve(Router::new(), Config::default());
    peer.call::<()>("never", ()).await.unwrap_err();
    let events = log.take();
    assert!(
        events
            .iter()
            .any(|e| e.contains("no response came in time") && e.contains("id=1")),
        "{events:?}"
    );
    let named = |e: &String| e.contains("no answer came in time") && e.contains("never");
    assert!(events.iter().any(named), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_tap_sees_every_message_and_no_secret() {
    let _listening = listen();
    let log = Log::default();
    let seen = log.clone();
    let mut config = Config::default();
    config.tap = Some(Arc::new(Redacted::new(
        ["password"],
        move |direction: Direction, message: &str| {
            seen.add(format!("{direction} {message}"));
        },
    )));
    let router = Router::new().method("login", |_: serde_json::Value| async {
        tokio::task::yield_now().await;
        Ok("in")
    });
    let (peer, mut raw) = Raw::serve(router, config);
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"login","params":{"password":"hunter2","n":[{"password":7}]}}"#).await;
    raw.line().await;
    raw.send("not json").await;
    raw.line().await;
    peer.notify("n", json!({"password": "x"})).await.unwrap();
    raw.line().await;
    let call = peer.call::<i64>("m", ());
    let answer = async {
        let id = raw.json().await["id"].clone();
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
            .await;
    };
    tokio::join!(call.into_future(), answer).0.unwrap();
    let lines = log.take();
    assert_eq!(
        lines[0],
        r#"<-- {"id":1,"jsonrpc":"2.0","method":"login","params":{"n":[{"password":"***"}],"password":"***"}}"#
    );
    assert_eq!(lines[1], r#"--> {"id":1,"jsonrpc":"2.0","result":"in"}"#);
    assert_eq!(lines[2], "<-- (8 bytes, not JSON)");
    assert!(lines[3].starts_with("--> ") && lines[3].contains("-32700"));
    assert_eq!(
        lines[4],
        r#"--> {"jsonrpc":"2.0","method":"n","params":{"password":"***"}}"#
    );
    assert_eq!(lines[5], r#"--> {"id":1,"jsonrpc":"2.0","method":"m"}"#);
    assert_eq!(lines[6], r#"<-- {"id":1,"jsonrpc":"2.0","result":1}"#);
    assert_eq!(lines.len(), 7);
}

use std::future::IntoFuture;

/// Proves: A75
#[tokio::test(start_paused = true)]
async fn statistics_count_what_was_done() {
    let _listening = listen();
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("n", || ());
    let (server, mut raw) = Raw::serve(router, Config::default());
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#)
        .await;
    raw.send(r#"{"jsonrpc":"2.0","method":"n"}"#).await;
    raw.send("garbage").await;
    raw.send(r#"{"jsonrpc":"2.0","id":9,"result":1}"#).await;
    for _ in 0..3 {
        raw.line().await;
    }
    server.notify("hello", ()).await.unwrap();
    raw.line().await;
    let stats = server.stats();
    assert_eq!((stats.requests_served, stats.notifications_served), (2, 1));
    assert_eq!((stats.errors, stats.invalid, stats.late_replies), (1, 1, 1));
    assert_eq!((stats.notifications, stats.calls), (1, 0));
    assert!(
        stats.bytes_received > 150 && stats.bytes_sent > 150,
        "{stats:?}"
    );
}

struct Bad;
impl serde::Serialize for Bad {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}
struct Panics;
impl serde::Serialize for Panics {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("no")
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_serialise_is_one_request_and_one_error() {
    let _listening = listen();
    for method in ["bad", "panics"] {
        let router = Router::new()
            .method("bad", || Ok(Bad))
            .method("panics", || Ok(Panics));
        let (peer, server) = Peer::pair(Router::new(), router);
        let failed: Result<(), _> = peer.call(method, ()).await;
        failed.unwrap_err();
        let stats = server.stats();
        assert_eq!((stats.requests_served, stats.errors), (1, 1), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_result_is_of_another_type_has_failed() {
    let _listening = listen();
    let (peer, _server) = Peer::pair(Router::new(), Router::new().method("text", || Ok("text")));
    let number: Result<u32, _> = peer.call("text", ()).await;
    number.unwrap_err();
    assert_eq!((peer.stats().calls, peer.stats().calls_failed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn messages_behind_one_that_was_partly_sent_are_counted_as_dropped() {
    let _listening = listen();
    for framing in [Framing::Line, Framing::Header] {
        let (here, _there) = tokio::io::duplex(16);
        let peer = Peer::start(Stream::new(here, framing), Router::new());
        for _ in 0..10 {
            peer.notify("lost", ()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        peer.close();
        peer.closed().await;
        assert_eq!(peer.stats().dropped, 10, "{framing:?}");
    }
}

/// The number of the report that a reply names, and how many were not logged for it.
async fn failure(peer: &Peer, method: &str) -> (String, Option<u64>) {
    let error = peer.call::<()>(method, ()).await.unwrap_err();
    let caudal::CallError::Remote(error) = error else {
        panic!("{error:?}")
    };
    assert_eq!(error.code, -32603);
    assert_eq!(error.message, "Internal error");
    let data = error.data.unwrap();
    let number = data["correlation"].as_str().unwrap().to_owned();
    let suppressed = data.get("suppressed").map(|count| count.as_u64().unwrap());
    (number, suppressed)
}

fn errors(log: &Log) -> Vec<String> {
    let mut events = log.take();
    events.retain(|event| event.starts_with("ERROR"));
    events
}

const CALLS: u64 = 10_000;
/// Reports for one cause in one second.
const REPORTS: u64 = 10;

#[tokio::test(start_paused = true)]
async fn a_method_that_always_panics_is_reported_now_and_then_and_each_reply_names_a_report() {
    static HOOKED: AtomicU64 = AtomicU64::new(0);
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        match panic.payload_as_str() {
            Some("flood") => _ = HOOKED.fetch_add(1, Relaxed),
            _ => others(panic),
        };
    }));
    let (log, _guard) = listen();
    let router = Router::new().method("flood", |(): ()| -> Result<(), JsonRpcError> {
        panic!("flood")
    });
    let (peer, _server) = Peer::pair(Router::new(), router);
    let mut replies = Vec::new();
    for _ in 0..CALLS {
        replies.push(failure(&peer, "flood").await);
    }
    let logged = errors(&log);
    assert_eq!(logged.len() as u64, REPORTS);
    for (nth, (number, suppressed)) in (1..).zip(&replies) {
        assert_eq!(*suppressed, (nth > REPORTS).then(|| nth - REPORTS));
        assert!(
            logged.iter().any(|event| event.contains(number)),
            "{number}"
        );
    }
    // The hook is the application's, and hears of all.
    assert_eq!(HOOKED.load(Relaxed), CALLS);

    tokio::time::advance(Duration::from_secs(1)).await;
    let (number, suppressed) = failure(&peer, "flood").await;
    assert_eq!(suppressed, None);
    let logged = errors(&log);
    assert_eq!(logged.len(), 1);
    assert!(logged[0].contains(&number), "{logged:?}");
    let count = format!("suppressed={}", CALLS - REPORTS);
    assert!(logged[0].contains(&count), "{logged:?}");
    // It is said once.
    failure(&peer, "flood").await;
    assert!(!errors(&log)[0].contains("suppressed"), "{logged:?}");
}

/// Defines an error type of its own: reports are limited for each type.
macro_rules! cause {
    ($name:ident) => {
        #[derive(Debug)]
        struct $name;

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl std::error::Error for $name {}
    };
}

#[tokio::test(start_paused = true)]
async fn a_cause_that_comes_often_takes_no_report_from_another() {
    cause!(DiskIsGone);
    cause!(NoSuchKey);
    let (log, _guard) = listen();
    let router = Router::new()
        .method("often", |(): ()| Err::<(), _>(caudal::internal(DiskIsGone)))
        .method("once", |(): ()| Err::<(), _>(caudal::internal(NoSuchKey)));
    let (peer, _server) = Peer::pair(Router::new(), router);
    let mut replies = Vec::new();
    for _ in 0..100 {
        replies.push(failure(&peer, "often").await);
    }
    let logged = errors(&log);
    // With each, the method that replied with it.
    for text in ["DiskIsGone", "method=\"often\""] {
        let events = logged.iter().filter(|event| event.contains(text));
        assert_eq!(events.count() as u64, REPORTS, "{logged:?}");
    }
    for (nth, (number, suppressed)) in (1..).zip(&replies) {
        assert_eq!(*suppressed, (nth > REPORTS).then(|| nth - REPORTS));
        let event = |event: &String| event.contains(number) && event.contains("often");
        assert!(logged.iter().any(event), "{number}: {logged:?}");
    }
    let (number, suppressed) = failure(&peer, "once").await;
    assert_eq!(suppressed, None);
    let logged = errors(&log);
    let event = |event: &String| event.contains(&number) && event.contains("NoSuchKey");
    assert!(logged.iter().any(event), "{logged:?}");
}

/// A proxy passes on numbers that others have logged.
#[tokio::test(start_paused = true)]
async fn numbers_of_others_do_not_fill_the_log() {
    let (log, _guard) = listen();
    let router = Router::new().method("proxied", |(): ()| {
        let data = json!({"correlation": "0123456789abcdef"});
        Err::<(), _>(JsonRpcError::internal_error().and_data(data))
    });
    let (peer, _server) = Peer::pair(Router::new(), router);
    for _ in 0..100 {
        let (number, suppressed) = failure(&peer, "proxied").await;
        assert_eq!((&*number, suppressed), ("0123456789abcdef", None));
    }
    assert_eq!(errors(&log).len() as u64, REPORTS);
    tokio::time::advance(Duration::from_secs(1)).await;
    failure(&peer, "proxied").await;
    assert!(errors(&log)[0].contains("suppressed=90"));
}

#[test]
fn an_internal_error_needs_no_runtime() {
    let (log, _guard) = listen();
    let numbers: Vec<_> = (0..100)
        .map(|_| caudal::internal(std::fmt::Error).data.unwrap())
        .collect();
    let logged = errors(&log);
    assert!(logged.len() < 50, "{}", logged.len());
    for number in numbers {
        let number = number["correlation"].as_str().unwrap();
        assert!(logged.iter().any(|event| event.contains(number)));
    }
}

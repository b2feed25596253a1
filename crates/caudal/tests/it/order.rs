//! What starts before what, and what is never left waiting: by hand, message by message.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::support::{Log, Raw, eventually, within};
use caudal::transport::{BytesMut, ReceiveError, Stream, Transport};
use caudal::{CallError, Config, Context, Dialect, Event, Framing, Method, Peer, Router};
use tokio::sync::Notify;
use tokio::time::sleep;

fn request(id: usize, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

fn lsp() -> Config {
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    config
}

/// A notification that holds up what follows until it is let go.
fn gated() -> (Router, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let opens = Arc::clone(&gate);
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("hold", move || {
            let gate = Arc::clone(&gate);
            async move { gate.notified().await }
        });
    (router, opens)
}

#[tokio::test(start_paused = true)]
async fn spawned_calls_start_in_the_order_in_which_they_came() {
    let log = Log::default();
    let (spawned, notified) = (log.clone(), log.clone());
    let method = Method::new(move |cx: Context| {
        let log = spawned.clone();
        async move {
            log.add(cx.id().unwrap().to_string());
            tokio::task::yield_now().await;
            Ok(())
        }
    });
    let router = Router::new()
        .method("spawned", method.spawn())
        .method("changed", move || notified.add("changed"));
    let (_server, mut raw) = Raw::serve(router, Config::default());
    let mut burst: Vec<String> = (0..8).map(|id| request(id, "spawned")).collect();
    burst.push(notification("changed", "[]"));
    burst.push(request(8, "spawned"));
    raw.send(&burst.join("\n")).await;
    for _ in 0..9 {
        raw.line().await;
    }
    let expected = ["0", "1", "2", "3", "4", "5", "6", "7", "changed", "8"];
    assert_eq!(log.take(), expected);
}

/// One blocking call that runs until it is told to end, and whether it runs.
fn held(timeout: Option<Duration>) -> (Router, mpsc::Sender<()>, Arc<AtomicBool>) {
    let (end, ended) = mpsc::channel();
    let ended = std::sync::Mutex::new(ended);
    let running = Arc::new(AtomicBool::new(false));
    let (sets, asks) = (Arc::clone(&running), Arc::clone(&running));
    let work = move || {
        sets.store(true, SeqCst);
        ended.lock().unwrap().recv().unwrap();
        sets.store(false, SeqCst);
        Ok(())
    };
    let router = Router::new()
        .method("work", Method::blocking(work).serial().timeout(timeout))
        .method("is_running", move || Ok(asks.load(SeqCst)));
    (router, end, running)
}

#[tokio::test]
async fn serial_blocking_work_is_alone_until_it_ends_though_its_call_was_given_up() {
    // Cancelled by the other side; out of time, as a request and as a notification.
    let timeout = Some(Duration::from_millis(20));
    let cancel = notification("$/cancelRequest", r#"{"id":1}"#);
    let as_notification = r#"{"jsonrpc":"2.0","method":"work"}"#;
    for (limit, first, then) in [
        (None, request(1, "work"), Some(cancel)),
        (timeout, request(1, "work"), None),
        (timeout, as_notification.to_owned(), None),
    ] {
        let (router, end, running) = held(limit);
        let (_server, mut raw) = Raw::serve(router, lsp());
        raw.send(&first).await;
        eventually("it runs", || running.load(SeqCst)).await;
        raw.send(&then.unwrap_or_default()).await;
        if first != as_notification {
            let given_up = raw.line().await;
            assert!(given_up.contains("error"), "{given_up}");
        }
        raw.send(&request(2, "is_running")).await;
        raw.silence().await;
        end.send(()).unwrap();
        let answer = raw.line().await;
        assert!(answer.contains(r#""id":2,"result":false"#), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_may_cancel_what_is_in_it() {
    let router = Router::new()
        .method("wait", std::future::pending::<Result<(), _>>)
        .method("add", |(a, b): (i64, i64)| Ok(a + b));
    let (_server, mut raw) = Raw::serve(router, lsp());
    let cancel = notification("$/cancelRequest", r#"{"id":1}"#);
    raw.send(&format!("[{},{cancel}]", request(1, "wait")))
        .await;
    let answer = raw.line().await;
    assert!(
        answer.starts_with('[') && answer.contains("-32800"),
        "{answer}"
    );
    // What was begun before it, too; however its id is spelled.
    raw.send(&request(7, "wait")).await;
    raw.send(&format!(
        "[{}]",
        notification("$/cancelRequest", r#"{"id":7.0}"#)
    ))
    .await;
    let answer = raw.line().await;
    assert!(
        answer.contains(r#""id":7"#) && answer.contains("-32800"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_and_is_cancelled_is_answered_under_its_own_spelling() {
    let (router, opens) = gated();
    let (_server, mut raw) = Raw::serve(router, lsp());
    raw.send(&notification("hold", "[]")).await;
    raw.send(r#"{"jsonrpc":"2.0","id":"\u0061","method":"hold"}"#)
        .await;
    raw.send(&notification("$/cancelRequest", r#"{"id":"a"}"#))
        .await;
    let answer = raw.line().await;
    assert!(answer.contains(r#""id":"\u0061""#), "{answer}");
    assert!(answer.contains("-32800"), "{answer}");
    opens.notify_one();
}

/// The entries of a batch count, so that few bytes do not make many ids to look through.
#[tokio::test(start_paused = true)]
async fn a_batch_waits_its_turn_as_what_is_in_it() {
    let (router, opens) = gated();
    let mut config = lsp();
    config.in_flight = 10;
    let (_server, mut raw) = Raw::serve_through(1000, router, config);
    raw.send(&notification("hold", "[]")).await;
    let add = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
    let batch = format!("[{}]", [add; 10].join(","));
    raw.send(&batch).await;
    // There is no room for another: it is not even read.
    let sent = tokio::time::timeout(Duration::from_millis(100), async {
        for _ in 0..10 {
            raw.send(&batch).await;
        }
    });
    assert!(sent.await.is_err(), "ten batches of ten were taken in");
    opens.notify_one();
    let answer = raw.line().await;
    assert_eq!(answer.matches(r#""result":3"#).count(), 10, "{answer}");
}

/// Takes one message at a time if it takes any, and says at once that it may take more.
struct OneByOne {
    sent: Option<Log>,
}

impl Transport for OneByOne {
    fn poll_receive(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        Poll::Pending
    }

    fn poll_send(
        &mut self,
        _: &mut std::task::Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<std::io::Result<()>> {
        if let Some(sent) = &self.sent
            && let Some(end) = out.iter().position(|byte| *byte == b'\n')
        {
            sent.add(std::str::from_utf8(&out.split_to(end + 1)).unwrap());
        }
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_may_take_a_part_and_wait_for_nothing() {
    let sent = Log::default();
    let transport = OneByOne {
        sent: Some(sent.clone()),
    };
    let peer = Peer::start_with(transport, Router::new(), Config::default());
    for number in 0..5 {
        peer.notify("tick", [number]).await.unwrap();
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sent.len(), 5, "{:?}", sent.take());
}

#[tokio::test(start_paused = true)]
async fn a_transport_that_takes_nothing_and_waits_for_nothing_is_broken() {
    let transport = OneByOne { sent: None };
    let peer = Peer::start_with(transport, Router::new(), Config::default());
    peer.notify("tick", [1]).await.unwrap();
    let reason = within(peer.closed()).await;
    let cause = std::error::Error::source(&reason).unwrap();
    let cause = cause.downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::WriteZero);
}

/// Fails each call twice, and one that nobody made.
#[derive(Default)]
struct Failing {
    failures: Vec<ReceiveError>,
    reader: Option<Waker>,
}

impl Transport for Failing {
    fn poll_receive(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.reader = Some(cx.waker().clone());
        match self.failures.pop() {
            Some(failure) => Poll::Ready(Err(failure)),
            None => Poll::Pending,
        }
    }

    fn poll_send(
        &mut self,
        _: &mut std::task::Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<std::io::Result<()>> {
        for line in std::str::from_utf8(out).unwrap().lines() {
            let call: serde_json::Value = serde_json::from_str(line).unwrap();
            let id = call.get("id").and_then(serde_json::Value::as_i64);
            for id in [id.unwrap(), id.unwrap(), 999] {
                let (id, error) = (id.into(), CallError::TooLarge { limit: 7 });
                self.failures.push(ReceiveError::CallFailed { id, error });
            }
        }
        out.clear();
        self.reader.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_transport_fails_one_call_once() {
    let peer = Peer::start_with(Failing::default(), Router::new(), Config::default());
    for calls in 1..=3 {
        let call = peer.call::<i64>("n", ()).timeout(None);
        let error = tokio::time::timeout(Duration::from_secs(30), call).await;
        let error = error.expect("it waits").unwrap_err();
        assert!(
            matches!(error, CallError::TooLarge { limit: 7 }),
            "{error:?}"
        );
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        let stats = peer.stats();
        assert_eq!((stats.calls_failed, stats.pending), (calls, 0));
        assert_eq!(stats.late_replies, 2 * calls);
    }
    assert!(!peer.state().is_closed());
}

/// Counts how often it is asked for input, and has none.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<(usize, Option<Waker>)>>);

impl Transport for Asked {
    fn poll_receive(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        let mut asked = self.0.lock().unwrap();
        asked.0 += 1;
        asked.1 = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_send(
        &mut self,
        _: &mut std::task::Context<'_>,
        out: &mut BytesMut,
    ) -> Poll<std::io::Result<()>> {
        out.clear();
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_no_input_is_asked_again_when_it_says_so() {
    let asked = Asked::default();
    let peer = Peer::start_with(asked.clone(), Router::new(), Config::default());
    let settle = async || {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        asked.0.lock().unwrap().0
    };
    assert_eq!(settle().await, 1);
    for number in 0..5 {
        peer.notify("tick", [number]).await.unwrap();
        assert_eq!(settle().await, 1, "there was nothing new");
    }
    for times in 2..5 {
        asked.0.lock().unwrap().1.take().unwrap().wake();
        assert_eq!(settle().await, times);
    }
    assert_eq!(peer.stats().notifications, 5);
}

#[tokio::test(start_paused = true)]
async fn whoever_publishes_to_many_lets_others_have_their_turn() {
    let done = Arc::new(AtomicBool::new(false));
    let other = tokio::spawn({
        let done = Arc::clone(&done);
        async move { assert!(!done.load(SeqCst), "all were told before") }
    });
    let peers: Vec<_> = (0..1000)
        .map(|_| Peer::pair(Router::new(), Router::new()))
        .collect();
    let event = Event::new("tick", ()).unwrap();
    for (peer, _) in &peers {
        peer.publish(&event).await.unwrap();
    }
    done.store(true, SeqCst);
    other.await.unwrap();
}

/// Whoever is not read is not late.
#[tokio::test(start_paused = true)]
async fn a_message_whose_rest_nobody_reads_is_not_late() {
    let (router, opens) = gated();
    let mut config = Config::default();
    config.in_flight = 2;
    config.message_timeout = Some(Duration::from_secs(10));
    let (server, mut raw) = Raw::serve(router, config);
    raw.send(&notification("hold", "[]")).await;
    // While a call of ours waits, reading goes on, whatever is in the way.
    let calling = tokio::spawn({
        let server = server.clone();
        async move {
            let call = server.call::<()>("ask", ());
            call.timeout(Duration::from_secs(5)).await
        }
    });
    raw.line().await;
    for id in 1..=2 {
        raw.send(&request(id, "add")).await;
    }
    let add = r#"{"jsonrpc":"2.0","id":3,"method":"add","params":[1,2]}"#;
    let (begin, end) = add.split_at(20);
    raw.begin(begin).await;
    sleep(Duration::from_secs(1)).await;
    assert!(calling.await.unwrap().is_err());
    raw.send(end).await;
    sleep(Duration::from_secs(60)).await;
    assert!(!server.state().is_closed(), "{:?}", server.state());
    opens.notify_one();
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(raw.line().await);
    }
    assert!(
        answers
            .iter()
            .any(|answer| answer.contains(r#""id":3,"result":3"#))
    );
}

/// A side that reads again when the other shuts down is told that it is too late.
#[tokio::test(start_paused = true)]
async fn what_comes_too_late_is_refused_though_there_was_no_room_to_say_so() {
    let ran = Log::default();
    let runs = ran.clone();
    let router = Router::new()
        .method("big", || Ok("x".repeat(3000)))
        .method("late", move || {
            runs.add("ran");
            Ok(())
        });
    let mut config = Config::default();
    config.output = 1000;
    let (server, mut raw) = Raw::serve_through(64, router, config);
    raw.send(&request(1, "big")).await;
    raw.send(&request(2, "big")).await;
    sleep(Duration::from_millis(50)).await;
    let ending = tokio::spawn({
        let server = server.clone();
        async move { server.shutdown(Duration::from_secs(20)).await }
    });
    while !matches!(server.state(), caudal::ConnectionState::Draining) {
        tokio::task::yield_now().await;
    }
    raw.send(&request(3, "late")).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(raw.line().await);
    }
    let late = answers.iter().find(|answer| answer.contains(r#""id":3"#));
    assert!(late.unwrap().contains("-32010"), "{late:?}");
    ending.await.unwrap();
    assert_eq!(ran.len(), 0);
}

/// Two sides that understand nothing of each other do not tell each other so for ever.
#[tokio::test(start_paused = true)]
async fn two_framings_on_one_connection_come_to_rest() {
    let (here, there) = tokio::io::duplex(1 << 16);
    let line = Stream::new(here, Framing::Line);
    let header = Stream::new(there, Framing::Header);
    let one = Peer::start_with(line, Router::new(), Config::default());
    let two = Peer::start_with(header, Router::new(), Config::default());
    for peer in [&one, &two] {
        let call = peer.call::<()>("add", ());
        assert!(call.timeout(Duration::from_millis(300)).await.is_err());
    }
    let mut before = (one.stats(), two.stats());
    for _ in 0..100 {
        sleep(Duration::from_millis(100)).await;
        let now = (one.stats(), two.stats());
        if now == before {
            return;
        }
        before = now;
    }
    panic!("they still answer each other: {before:?}");
}

/// Who has been understood once is answered again.
#[tokio::test(start_paused = true)]
async fn garbage_is_answered_again_after_something_better() {
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let (_server, mut raw) = Raw::serve(router, Config::default());
    for _ in 0..1000 {
        raw.send("garbage").await;
        assert!(raw.line().await.contains("-32700"));
    }
    // This one is not answered, and what follows is.
    raw.send("garbage").await;
    raw.send(r#"{"jsonrpc":"2.0","id":3,"method":"add","params":[1,2]}"#)
        .await;
    assert!(raw.line().await.contains(r#""result":3"#));
    raw.send("garbage").await;
    assert!(raw.line().await.contains("-32700"));
}

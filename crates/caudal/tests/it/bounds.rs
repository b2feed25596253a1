//! What a connection may hold: at each limit, and past it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use crate::support::{Raw, within};
use caudal::transport::Stream;
use caudal::{
    CallError, Config, Context, Dialect, Event, Framing, JsonRpcError, Method, Peer, Router,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// A method that waits for a permit, and the permits.
fn gated() -> (Router, Arc<Semaphore>, Arc<AtomicUsize>) {
    let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (held, count) = (Arc::clone(&gate), Arc::clone(&started));
    let wait = move || {
        let held = Arc::clone(&held);
        count.fetch_add(1, SeqCst);
        async move {
            held.acquire().await.unwrap().forget();
            Ok(1)
        }
    };
    let router = Router::new()
        .method("wait", wait.clone())
        .method("hold", wait)
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("big", |(bytes,): (usize,)| Ok("x".repeat(bytes)));
    (router, gate, started)
}

fn call(id: usize, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// Proves: A88, A89, A90, A91
#[tokio::test(start_paused = true)]
async fn requests_beyond_the_limit_are_refused_and_the_rest_goes_on() {
    let (router, gate, _) = gated();
    let mut config = Config::default();
    config.in_flight = 8;
    let (server, mut raw) = Raw::serve(router, config);
    for id in 0..8 {
        raw.send(&call(id, "wait", "[]")).await;
    }
    while server.stats().in_flight < 8 {
        tokio::task::yield_now().await;
    }
    // The ninth, alone and in a batch; a notification is none.
    raw.send(&call(8, "wait", "[]")).await;
    let refused = raw.json().await;
    assert_eq!(
        refused["error"],
        json!({"code": -32000, "message": "Server overloaded"})
    );
    assert_eq!(refused["id"], 8);
    raw.send(&format!(
        "[{},{}]",
        call(9, "wait", "[]"),
        call(10, "add", "[1,2]")
    ))
    .await;
    let refused = raw.json().await;
    assert_eq!(refused[0]["error"]["code"], -32000);
    assert_eq!(refused[1]["error"]["code"], -32000);
    assert_eq!(server.stats().overloaded, 3);
    // One place is free again, and is taken.
    gate.add_permits(1);
    assert_eq!(raw.json().await["result"], 1);
    raw.send(&call(11, "add", "[1,2]")).await;
    assert_eq!(raw.json().await["result"], 3);
    gate.add_permits(7);
    for _ in 0..7 {
        assert_eq!(raw.json().await["result"], 1);
    }
}

/// A batch does not get more than its share either.
#[tokio::test(start_paused = true)]
async fn a_batch_counts_as_its_entries() {
    let (router, gate, _) = gated();
    let mut config = Config::default();
    config.in_flight = 8;
    let (server, mut raw) = Raw::serve(router, config);
    let calls: Vec<_> = (0..12).map(|id| call(id, "wait", "[]")).collect();
    raw.send(&format!("[{}]", calls.join(","))).await;
    while server.stats().in_flight < 8 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(8);
    let answers = raw.json().await;
    let refused = answers
        .as_array()
        .unwrap()
        .iter()
        .filter(|a| a["error"]["code"] == -32000);
    assert_eq!(refused.count(), 4);
    assert_eq!(answers[0]["result"], 1);
    assert_eq!(answers[11]["id"], 11);
}

#[tokio::test(start_paused = true)]
async fn our_own_calls_are_bounded_too() {
    let (peer, mut raw) = {
        let mut config = Config::default();
        config.pending = 4;
        Raw::serve(Router::new(), config)
    };
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call::<i64>("m", ()).await })
        })
        .collect();
    while peer.stats().pending < 4 {
        tokio::task::yield_now().await;
    }
    let error = peer.call::<i64>("m", ()).await.unwrap_err();
    assert!(matches!(error, CallError::TooManyPending { limit: 4 }));
    assert!(!error.is_fatal() && !error.may_have_run());
    for call in waiting {
        let id = raw.json().await["id"].clone();
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
            .await;
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
    while peer.stats().pending > 0 {
        tokio::task::yield_now().await;
    }
    let more = peer.call::<i64>("m", ()).into_future();
    let answer = async {
        let id = raw.json().await["id"].clone();
        raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 2}).to_string())
            .await;
    };
    assert_eq!(tokio::join!(more, answer).0.unwrap(), 2);
}

/// The other side asks for a lot and reads nothing. We stop, hold no more than the
/// limits say, serve others, and go on when it reads again: nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_stalled_reader_stops_us_from_growing_and_loses_nothing() {
    const ANSWER: usize = 10_000;
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let router = Router::new().method("big", move || {
        count.fetch_add(1, SeqCst);
        Ok("x".repeat(ANSWER))
    });
    let mut config = Config::default();
    config.output = 100_000;
    config.queue = 20_000;
    config.in_flight = 50;
    let (server, mut raw) = Raw::serve_through(4096, router.clone(), config);
    // Far more than fits anywhere: the writer is stopped in its turn.
    let mut sent = 0;
    loop {
        let message = call(sent, "big", "[]");
        if timeout(Duration::from_millis(300), raw.send(&message))
            .await
            .is_err()
        {
            break;
        }
        sent += 1;
        assert!(sent < 10_000, "nothing stops the sender");
    }
    let held = served.load(SeqCst);
    assert!(held <= 100_000 / ANSWER + 2, "{held} answers are held");
    assert!(server.stats().in_flight <= 50);
    // Others do not notice.
    let (peer, _other) = Peer::pair(Router::new(), router);
    assert_eq!(peer.call::<String>("big", ()).await.unwrap().len(), ANSWER);
    // It reads again: every request that was sent is answered, in order. (The
    // last one was cut off by the time limit above.)
    for id in 0..sent {
        let answer = raw.json().await;
        match answer.get("error") {
            Some(error) => assert_eq!(error["code"], -32000, "{id}"),
            None => assert_eq!(answer["result"].as_str().unwrap().len(), ANSWER),
        }
    }
}

/// Callers wait for room instead of filling memory.
#[tokio::test(start_paused = true)]
async fn senders_wait_for_room_and_all_arrives_in_order() {
    let mut config = Config::default();
    config.output = 10_000;
    let (peer, mut raw) = Raw::serve_through(1024, Router::new(), config);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let sender = tokio::spawn(async move {
        for n in 0..1_000 {
            peer.notify("n", (n, "x".repeat(100))).await.unwrap();
            count.fetch_add(1, SeqCst);
        }
        peer
    });
    sleep(Duration::from_millis(50)).await;
    let held = sent.load(SeqCst);
    assert!(held < 120, "{held} notifications of 150 bytes are held");
    for n in 0..1_000 {
        assert_eq!(raw.json().await["params"][0], n);
    }
    sender.await.unwrap();
}

/// Whoever does not read misses events, and nobody waits for it.
#[tokio::test(start_paused = true)]
async fn one_who_does_not_read_misses_events_and_the_others_get_all() {
    const EVENTS: u64 = 300;
    const LIMIT: usize = 10_000;
    let mut config = Config::default();
    config.output = LIMIT;
    let serve = || Raw::serve_through(1024, Router::new(), config.clone());
    let ((slow, mut unread), (fast, mut read)) = (serve(), serve());
    let mut queued = Vec::new();
    for n in 0..EVENTS {
        let event = Event::new("n", (n, "x".repeat(100))).unwrap();
        match slow.try_publish(&event) {
            Ok(()) => queued.push(n),
            Err(CallError::OutputFull { limit: LIMIT }) => {}
            Err(other) => panic!("{other}"),
        }
        fast.try_publish(&event).unwrap();
        assert_eq!(read.json().await["params"][0], n);
    }
    let some = 50..100;
    assert!(some.contains(&queued.len()), "{queued:?}");
    assert_eq!(slow.stats().notifications, queued.len() as u64);
    assert_eq!(fast.stats().notifications, EVENTS);

    // It reads after all, and gets what was queued and what comes then.
    for n in &queued {
        assert_eq!(unread.json().await["params"][0], *n);
    }
    slow.try_publish(&Event::new("n", ["again"]).unwrap())
        .unwrap();
    assert_eq!(unread.json().await["params"][0], "again");
    // What was refused was never taken.
    assert_eq!(slow.stats().dropped, 0);

    // What was queued, and is lost with the connection, is counted.
    while slow
        .try_publish(&Event::new("n", ["lost"]).unwrap())
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    drop(unread);
    slow.closed().await;
    assert!(slow.stats().dropped > 0);
    let event = Event::new("n", ["late"]).unwrap();
    let late = slow.try_publish(&event).unwrap_err();
    assert!(matches!(late, CallError::AlreadyClosed(_)));
}

/// Messages behind a slow notification are held up to a limit, then the sender
/// waits; none is lost.
#[tokio::test(start_paused = true)]
async fn messages_that_wait_their_turn_are_bounded_and_not_lost() {
    let (router, gate, started) = gated();
    let mut config = Config::default();
    config.queue = 1_000;
    config.in_flight = 10_000;
    let (server, mut raw) = Raw::serve_through(512, router, config);
    let mut sent = 0;
    loop {
        let hold = raw.send(r#"{"jsonrpc":"2.0","method":"hold"}"#);
        if timeout(Duration::from_millis(200), hold).await.is_err() {
            break;
        }
        sent += 1;
        assert!(sent < 1_000, "nothing stops the sender");
    }
    assert_eq!(started.load(SeqCst), 1);
    gate.add_permits(10_000);
    // The last line was cut off by the time limit: its rest is the next line.
    raw.send("").await;
    while started.load(SeqCst) < sent {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stats().dropped, 0);
}

/// While a call of ours waits, its answer must be found behind whatever comes: then
/// what has no room is refused or dropped, and counted.
#[tokio::test(start_paused = true)]
async fn an_answer_is_found_behind_more_than_fits() {
    let mut config = Config::default();
    config.in_flight = 10;
    let router = Router::new()
        .method("ask_back", |cx: Context| async move {
            let _: i64 = cx.peer().call("question", ()).await?;
            Ok(())
        })
        .method("add", |(a, b): (i64, i64)| Ok(a + b));
    let (server, mut raw) = Raw::serve(router, config);
    raw.send(r#"{"jsonrpc":"2.0","method":"ask_back"}"#).await;
    let id = raw.json().await["id"].clone();
    for n in 0..30 {
        raw.send(&call(n, "add", "[1,2]")).await;
        raw.send(r#"{"jsonrpc":"2.0","method":"tick"}"#).await;
    }
    raw.send(&json!({"jsonrpc": "2.0", "id": id, "result": 1}).to_string())
        .await;
    let mut answers = (0, 0);
    for _ in 0..30 {
        match raw.json().await.get("error") {
            Some(error) if error["code"] == -32000 => answers.1 += 1,
            _ => answers.0 += 1,
        }
    }
    assert!(answers.0 > 0 && answers.1 > 0, "{answers:?}");
    assert!(server.stats().dropped > 0);
    raw.send(&call(99, "add", "[1,2]")).await;
    assert_eq!(raw.json().await["result"], 3);
}

/// A short batch cannot ask for more than may be held.
#[tokio::test(start_paused = true)]
async fn the_answers_to_one_batch_are_bounded() {
    let (router, _, _) = gated();
    let mut config = Config::default();
    config.output = 50_000;
    let (_server, mut raw) = Raw::serve(router, config);
    let calls: Vec<_> = (0..100).map(|id| call(id, "big", "[10000]")).collect();
    raw.send(&format!("[{}]", calls.join(","))).await;
    let line = raw.line().await;
    assert!(line.len() < 80_000, "{} bytes", line.len());
    let answers: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 100);
    assert_eq!(answers[0]["result"].as_str().unwrap().len(), 10_000);
    assert_eq!(answers[99]["error"]["code"], -32000);
}

/// Nor can many batches, each of which waits for one of its calls.
#[tokio::test(start_paused = true)]
async fn answers_that_wait_for_the_rest_of_their_batch_are_bounded() {
    let (router, gate, _) = gated();
    let late = |(bytes,): (usize,)| async move {
        tokio::task::yield_now().await;
        Ok("x".repeat(bytes))
    };
    let router = router.method("late", late);
    let mut config = Config::default();
    config.output = 50_000;
    let (server, mut raw) = Raw::serve(router, config);
    for (id, method) in [(10, "late"), (20, "big")] {
        let big = call(id + 1, method, "[30000]");
        raw.send(&format!("[{},{big}]", call(id, "wait", "[]")))
            .await;
        let sent = (id / 10) as u64;
        while server.stats().in_flight < sent || server.stats().requests_served < sent {
            tokio::task::yield_now().await;
        }
    }
    let batch = format!("[{}]", call(3, "big", "[1]"));
    raw.send(&batch).await;
    assert_eq!(raw.json().await[0]["error"]["code"], -32000);
    // What is no batch is served.
    raw.send(&call(4, "big", "[1]")).await;
    assert_eq!(raw.json().await["result"], "x");
    gate.add_permits(2);
    for _ in 0..2 {
        let answers = raw.json().await;
        assert_eq!(answers[0]["result"], 1);
        assert_eq!(answers[1]["result"].as_str().unwrap().len(), 30_000);
    }
    raw.send(&batch).await;
    assert_eq!(raw.json().await[0]["result"], "x");
}

/// Proves: A92
#[tokio::test(start_paused = true)]
async fn a_message_of_the_limit_is_read_and_one_byte_more_is_refused() {
    let mut config = Config::default();
    config.policy.max_message = 1_000;
    let router = Router::new().method("len", |(text,): (String,)| Ok(text.len()));
    let (_server, mut raw) = Raw::serve(router, config);
    let around = call(1, "len", r#"[""]"#).len();
    let fits = "x".repeat(1_000 - around);
    raw.send(&call(1, "len", &format!(r#"["{fits}"]"#))).await;
    assert_eq!(raw.json().await["result"], fits.len());
    raw.send(&call(1, "len", &format!(r#"["{fits}x"]"#))).await;
    let refused = raw.json().await;
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["message"], "Request payload too large");
    assert_eq!(refused["id"], json!(null));
    raw.send(&call(2, "len", r#"["abc"]"#)).await;
    assert_eq!(raw.json().await["result"], 3);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_if_so_wanted_and_a_busy_one_is_not() {
    let (router, gate, _) = gated();
    let mut config = Config::default();
    config.idle_timeout = Some(Duration::from_secs(5));
    let (server, mut raw) = Raw::serve(router, config);
    raw.send(&call(1, "wait", "[]")).await;
    sleep(Duration::from_secs(60)).await;
    assert!(!server.state().is_closed(), "a handler runs");
    gate.add_permits(1);
    assert_eq!(raw.json().await["result"], 1);
    sleep(Duration::from_secs(4)).await;
    raw.send(&call(2, "add", "[1,2]")).await;
    assert_eq!(raw.json().await["result"], 3);
    sleep(Duration::from_secs(4)).await;
    assert!(!server.state().is_closed(), "it was used since");
    sleep(Duration::from_secs(2)).await;
    raw.end().await;
    let reason = server.closed().await;
    let cause = std::error::Error::source(&reason).unwrap().to_string();
    assert_eq!(cause, "nothing was sent or received for too long");
}

/// A call that cannot even be sent fails in time too.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_room_times_out_on_time() {
    let mut config = Config::default();
    config.output = 1_000;
    let (peer, _raw) = Raw::serve_through(100, Router::new(), config);
    for _ in 0..2 {
        let big = "x".repeat(2_000);
        let notify = timeout(Duration::from_secs(1), peer.notify("n", (big,))).await;
        let _ = notify;
    }
    let begun = tokio::time::Instant::now();
    let call = peer.call::<()>("m", ()).timeout(Duration::from_millis(500));
    assert!(matches!(call.await, Err(CallError::Timeout)));
    assert!(begun.elapsed() <= Duration::from_millis(505));
    assert_eq!(peer.stats().pending, 0);
}

/// While the output is full nothing starts; what has come goes on once it drains,
/// without anything else having to happen.
#[tokio::test(start_paused = true)]
async fn what_waited_for_the_output_to_drain_goes_on_by_itself() {
    let router = Router::new()
        .method("big", |(bytes,): (usize,)| Ok("x".repeat(bytes)))
        .method("add", |(a, b): (i64, i64)| Ok(a + b));
    let mut config = Config::default();
    config.output = 1_000;
    let (_server, mut raw) = Raw::serve_through(256, router, config);
    raw.send(&call(1, "big", "[5000]")).await;
    for id in 2..4 {
        raw.send(&call(id, "add", "[1,2]")).await;
    }
    sleep(Duration::from_millis(50)).await;
    assert_eq!(raw.json().await["result"].as_str().unwrap().len(), 5_000);
    for id in 2..4 {
        assert_eq!(raw.json().await["id"], id);
    }
}

/// Half a message is not waited for without end; a slow one is.
#[tokio::test(start_paused = true)]
async fn a_message_must_come_to_its_end_in_time() {
    use tokio::io::AsyncWriteExt;
    for (pause, lives) in [(59, true), (61, false)] {
        let (mut here, there) = tokio::io::duplex(1024);
        let stream = caudal::transport::Stream::new(there, caudal::Framing::Header);
        let server = Peer::start_with(stream, gated().0, Config::default());
        let message = call(1, "add", "[1,2]");
        let frame = format!("Content-Length: {}\r\n\r\n{message}", message.len());
        let (begin, end) = frame.split_at(30);
        sleep(Duration::from_secs(1_000)).await;
        here.write_all(begin.as_bytes()).await.unwrap();
        sleep(Duration::from_secs(pause)).await;
        let _ = here.write_all(end.as_bytes()).await;
        sleep(Duration::from_secs(1_000)).await;
        assert_eq!(server.state().is_closed(), !lives, "{pause} s");
        assert_eq!(server.stats().requests_served, u64::from(lives));
    }
}

/// Refusals that nobody reads fill the output; what then waits is refused in its turn.
#[tokio::test(start_paused = true)]
async fn who_does_not_read_refusals_starts_no_more_than_the_limit() {
    const LIMIT: usize = 4;
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let router = Router::new().method("wait", move || {
        count.fetch_add(1, SeqCst);
        std::future::pending::<Result<(), JsonRpcError>>()
    });
    let mut config = Config::default();
    config.in_flight = LIMIT;
    config.output = 1024;
    let (here, there) = tokio::io::duplex(256);
    let transport = Stream::new(there, Framing::Line);
    let _peer = Peer::start_with(transport, router, config);
    let (mut read, mut write) = tokio::io::split(here);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\"}\n";
    let mut refused = 0;
    for _ in 0..10 {
        // Nothing is read until nothing more is taken.
        let flood = async {
            loop {
                write.write_all(request).await.unwrap();
            }
        };
        timeout(Duration::from_secs(1), flood).await.unwrap_err();
        let mut bytes = vec![0; 4096];
        while let Ok(count) = timeout(Duration::from_secs(1), read.read(&mut bytes)).await {
            let text = String::from_utf8_lossy(&bytes[..count.unwrap()]).into_owned();
            refused += text.matches("-32000").count();
        }
        // The one that was cut off.
        write.write_all(b"\n").await.unwrap();
    }
    assert_eq!(running.load(SeqCst), LIMIT);
    assert!(refused > 10 * LIMIT, "{refused}");
}

/// A client that calls and leaves, over and over, fills no pool of threads.
#[tokio::test]
async fn blocking_work_that_outlives_its_connection_is_bounded() {
    const LIMIT: usize = 2;
    let running = Arc::new(AtomicUsize::new(0));
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let router = Router::new().method(
        "block",
        Method::blocking({
            let running = Arc::clone(&running);
            move || {
                running.fetch_add(1, SeqCst);
                let _ = gate.lock().unwrap().recv();
                Ok(())
            }
        }),
    );
    let mut config = Config::default();
    config.in_flight = LIMIT;
    config.drain_timeout = Duration::ZERO;
    let server = caudal::serve("tcp://127.0.0.1:0", router)
        .config(config)
        .await
        .unwrap();
    for _ in 0..10 {
        let peer = caudal::connect(server.endpoint()).await.unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..LIMIT {
            let peer = peer.clone();
            calls.spawn(async move {
                let _: Result<(), _> = peer.call("block", ()).await;
            });
        }
        sleep(Duration::from_millis(20)).await;
        peer.close();
        peer.closed().await;
    }
    while server.connections() > 0 {
        sleep(Duration::from_millis(5)).await;
    }
    let left = running.load(SeqCst);
    drop(open);
    assert!(left <= 2 * LIMIT, "{left} go on");
}

/// No answer can come any more: nobody need wait for room to ask.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_room_ends_with_the_input() {
    let mut config = Config::default();
    config.output = 1;
    let (peer, mut raw) = Raw::serve_through(64, Router::new(), config);
    peer.notify("n", ("x".repeat(1_000),)).await.unwrap();
    let mut waits = Box::pin(peer.call::<()>("m", ()).into_future());
    assert!(
        timeout(Duration::from_millis(50), &mut waits)
            .await
            .is_err()
    );
    raw.close_input().await;
    let begun = tokio::time::Instant::now();
    assert!(matches!(waits.await, Err(CallError::AlreadyClosed(_))));
    let later = peer.call::<()>("m", ()).await;
    assert!(matches!(later, Err(CallError::AlreadyClosed(_))));
    assert!(begun.elapsed() < Duration::from_secs(1));
}

/// What is given up unsent is cut out of the output, and the rest is not moved for each:
/// that would take minutes.
#[tokio::test]
async fn many_unsent_calls_may_be_given_up_at_once() {
    const CALLS: usize = 50_000;
    let (io, _other) = tokio::io::duplex(1);
    let mut config = Config::default();
    config.pending = CALLS;
    let stream = Stream::new(io, Framing::Line);
    let peer = Peer::start_with(stream, Router::new(), config);
    let waiting = begin(&peer, "m", CALLS);
    // Nothing of this runtime runs meanwhile: the calls stay where they were written.
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(waiting);
        done.send(()).unwrap();
    });
    is_done.recv_timeout(MINUTE).unwrap();
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn notifications_of_a_batch_are_no_requests_in_flight() {
    let (router, gate, _) = gated();
    let mut config = Config::default();
    config.in_flight = 2;
    let (_server, mut raw) = Raw::serve(router, config);
    let hold = r#"{"jsonrpc":"2.0","method":"hold"}"#;
    raw.send(&format!("[{hold},{hold},{}]", call(1, "add", "[1,2]")))
        .await;
    assert_eq!(raw.json().await[0]["result"], 3);
    gate.add_permits(2);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_does_not_wait_for_room() {
    let mut config = Config::default();
    config.output = 1000;
    let (peer, mut raw) = Raw::serve_through(100, Router::new(), config);
    let waiting = peer.clone();
    let waiting = tokio::spawn(async move { waiting.call::<i64>("x", ()).await });
    let id = raw.json().await["id"].clone();
    peer.notify("fills", ("x".repeat(5000),)).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    let error = json!({"code": 1, "message": "both"});
    let both = json!({"jsonrpc": "2.0", "id": id, "result": 1, "error": error});
    raw.send(&both.to_string()).await;
    let error = within(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Response(_)), "{error:?}");
}

/// Each client has one call at a time, and gives none up.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn blocking_work_that_has_ended_outlives_nothing() {
    let mut config = Config::default();
    config.in_flight = 1;
    let router = Router::new().method("quick", Method::blocking(|| Ok(1)));
    let serving = caudal::serve("tcp://127.0.0.1:0", router).config(config);
    let server = serving.await.unwrap();
    let clients = (0..4).map(|_| {
        let endpoint = server.endpoint().clone();
        tokio::spawn(async move {
            let peer = caudal::connect(endpoint).await.unwrap();
            for _ in 0..1000 {
                peer.call::<i64>("quick", ()).await.unwrap();
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

/// An answer frees the place of its request before it can be read; that too late is rare, and
/// seen in `link/incoming.rs`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_keeps_to_the_limit_is_not_refused() {
    let quick = || async {
        tokio::task::yield_now().await;
        Ok(1)
    };
    let router = Router::new().method("quick", quick);
    let mut config = Config::default();
    config.in_flight = 2;
    let serving = caudal::serve("tcp://127.0.0.1:0", router).config(config);
    let server = serving.await.unwrap();
    let peer = caudal::connect(server.endpoint().clone()).await.unwrap();
    let calls = async |count| {
        for _ in 0..count {
            peer.call::<i64>("quick", ()).await.unwrap();
        }
    };
    tokio::join!(calls(2000), calls(2000));
    for _ in 0..1000 {
        let mut batch = peer.batch();
        let one = batch.call::<i64>("quick", ()).unwrap();
        let two = batch.call::<i64>("quick", ()).unwrap();
        batch.send().await.unwrap();
        assert_eq!((one.await.unwrap(), two.await.unwrap()), (1, 1));
    }
}

/// A call is found by its id, however many run; to look at each would take minutes.
#[tokio::test(start_paused = true)]
async fn many_calls_may_be_cancelled_at_once() {
    const CALLS: usize = 40_000;
    let router = Router::new()
        .method("never", || async {
            std::future::pending::<()>().await;
            Ok(())
        })
        .method("ping", || Ok("pong"));
    let mut config = Config::default();
    (config.pending, config.in_flight) = (2 * CALLS, 2 * CALLS);
    config.dialect = Dialect::lsp();
    let (peer, server) = Peer::pair_with(Router::new(), router, &config);
    let waiting = begin(&peer, "never", CALLS);
    peer.call::<String>("ping", ()).await.unwrap();
    assert_eq!(server.stats().in_flight, CALLS as u64);
    drop(waiting);
    let cancelled = async {
        while server.stats().in_flight > 0 {
            peer.call::<String>("ping", ()).await.unwrap();
        }
    };
    within(cancelled).await;
}

/// Nothing takes so long here that takes its time in proportion.
const MINUTE: Duration = Duration::from_secs(60);

type Begun = Pin<Box<dyn Future<Output = Result<(), CallError>> + Send>>;

/// Makes so many calls, which wait.
fn begin(peer: &Peer, method: &'static str, calls: usize) -> Vec<Begun> {
    let mut cx = TaskContext::from_waker(Waker::noop());
    let begun = (0..calls).map(|_| {
        let peer = peer.clone();
        let mut call: Begun = Box::pin(async move { peer.call(method, ()).await });
        assert!(call.as_mut().poll(&mut cx).is_pending());
        call
    });
    begun.collect()
}

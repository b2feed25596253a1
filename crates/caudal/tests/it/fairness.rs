//! A connection that is always busy leaves others their share of a worker.
//!
//! Each request costs 100 µs of a clock that stands still otherwise, and a turn is 200 µs:
//! the tests count how many requests are served before somebody else has a turn.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::Raw;
use caudal::{Config, Router};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::advance;

/// Requests that fit into one turn, the one that passes its length, and one that a poll
/// begins with.
const TURN: usize = 4;

/// A router whose method `work` takes 100 µs, and the number of its calls.
fn router() -> (Router, Arc<AtomicUsize>) {
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let work = move || {
        // The clock moves at the first poll.
        let moved = pin!(advance(Duration::from_micros(100)));
        let _ = moved.poll(&mut Context::from_waker(Waker::noop()));
        count.fetch_add(1, SeqCst);
        Ok(())
    };
    let router = Router::new()
        .method("work", work)
        .method("ping", || Ok("pong"))
        .method("wait", || async {
            for _ in 0..100 {
                yield_now().await;
            }
        });
    (router, served)
}

fn request(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work"}}"#)
}

fn batch(entries: usize) -> String {
    let entries: Vec<_> = (0..entries).map(request).collect();
    format!("[{}]", entries.join(","))
}

/// The most calls that are served between two turns of another task, as long as this task
/// runs.
fn most_between_turns(served: &Arc<AtomicUsize>) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let (served, most) = (Arc::clone(served), Arc::new(AtomicUsize::new(0)));
    let found = Arc::clone(&most);
    let task = tokio::spawn(async move {
        let mut before = served.load(SeqCst);
        loop {
            yield_now().await;
            let now = served.load(SeqCst);
            most.fetch_max(now - before, SeqCst);
            before = now;
        }
    });
    (task, found)
}

#[tokio::test(start_paused = true)]
async fn requests_in_a_row_leave_others_their_turn() {
    let (router, served) = router();
    let (_server, mut raw) = Raw::serve(router, Config::default());
    let (other, most) = most_between_turns(&served);
    let all: Vec<_> = (0..500).map(request).collect();
    raw.send(&all.join("\n")).await;
    for id in 0..500 {
        assert_eq!(raw.json().await["id"], id);
    }
    other.abort();
    assert!((1..=TURN).contains(&most.load(SeqCst)), "{most:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_waited_leave_others_their_turn() {
    let (router, served) = router();
    let (_server, mut raw) = Raw::serve(router, Config::default());
    let (other, most) = most_between_turns(&served);
    let all: Vec<_> = (0..500).map(request).collect();
    raw.send(r#"{"jsonrpc":"2.0","method":"wait"}"#).await;
    raw.send(&all.join("\n")).await;
    for id in 0..500 {
        assert_eq!(raw.json().await["id"], id);
    }
    other.abort();
    assert!((1..=TURN).contains(&most.load(SeqCst)), "{most:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_batch_leaves_others_their_turn_and_what_follows_waits_for_it() {
    let (router, served) = router();
    let (_server, mut raw) = Raw::serve(router, Config::default());
    let (other, most) = most_between_turns(&served);
    let ping = r#"{"jsonrpc":"2.0","id":"after","method":"ping"}"#;
    raw.send(&format!("{}\n{ping}", batch(1_000))).await;
    let replies = raw.json().await;
    let ids = replies.as_array().unwrap().iter().map(|reply| &reply["id"]);
    assert!(
        ids.eq(&(0..1_000)
            .map(Into::into)
            .collect::<Vec<serde_json::Value>>())
    );
    assert_eq!(raw.json().await["id"], "after");
    other.abort();
    assert!((1..=TURN).contains(&most.load(SeqCst)), "{most:?}");
}

/// What a batch does besides is done whether it pauses or not.
#[tokio::test(start_paused = true)]
async fn a_batch_that_pauses_has_the_replies_of_one_that_does_not() {
    let (router, _) = router();
    let router = router.method("later", || async {
        yield_now().await;
        Ok("later")
    });
    let entries = [
        &*request(1),
        r#"{"jsonrpc":"2.0","id":2,"method":"later"}"#,
        r#"{"jsonrpc":"2.0","method":"work"}"#,
        "[]",
        r#"{"jsonrpc":"2.0","id":77,"result":"nobody waits for this"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
    ];
    let long = format!("[{}]", vec![entries.join(","); 50].join(" , "));
    let (_server, mut raw) = Raw::serve(router.clone(), Config::default());
    raw.send(&long).await;
    let replies = raw.json().await;
    let one = serde_json::json!([
        {"jsonrpc": "2.0", "id": 1, "result": null},
        {"jsonrpc": "2.0", "id": 2, "result": "later"},
        {"jsonrpc": "2.0", "id": null, "error": replies[2]["error"]},
        {"jsonrpc": "2.0", "id": 3, "result": "pong"},
    ]);
    let all = vec![one.as_array().unwrap().clone(); 50].concat();
    assert_eq!(replies, serde_json::Value::from(all));
    assert_eq!(replies[2]["error"]["code"], -32600);
    let lone = router.handle(long.as_bytes()).await.unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&lone).unwrap(),
        replies
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_batch_without_a_connection_leaves_others_their_turn() {
    let (router, served) = router();
    let (other, most) = most_between_turns(&served);
    let replies = router.handle(batch(1_000).as_bytes()).await.unwrap();
    let replies: Vec<serde_json::Value> = serde_json::from_slice(&replies).unwrap();
    assert_eq!(replies.len(), 1_000);
    other.abort();
    assert!((1..=TURN).contains(&most.load(SeqCst)), "{most:?}");
}

/// What is cancelled behind a batch that still runs finds the calls of that batch.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_batch_that_pauses_can_be_cancelled() {
    let (router, _) = router();
    let router = router.method("forever", std::future::pending::<Result<(), _>>);
    let mut config = Config::default();
    config.dialect = caudal::Dialect::lsp();
    let (_server, mut raw) = Raw::serve(router, config);
    let forever = r#"{"jsonrpc":"2.0","id":"f","method":"forever"}"#;
    let work: Vec<_> = (0..100).map(request).collect();
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"f"}}"#;
    raw.send(&format!("[{forever},{}]\n{cancel}", work.join(",")))
        .await;
    let replies = raw.json().await;
    assert_eq!(replies.as_array().unwrap().len(), 101);
    assert_eq!(replies[0]["error"]["code"], -32800);
    // The same where the cancellation comes while the batch waits for its turn.
    raw.send(r#"{"jsonrpc":"2.0","method":"wait"}"#).await;
    raw.send(&format!("[{forever},{}]\n{cancel}", work.join(",")))
        .await;
    let replies = raw.json().await;
    assert_eq!(replies.as_array().unwrap().len(), 101);
    assert_eq!(replies[0]["error"]["code"], -32800);
}

/// A worker looks for the input of others between two turns, and not after 61 of them.
#[tokio::test(start_paused = true)]
async fn a_caller_on_another_socket_waits_for_few_requests_of_a_busy_one() {
    let (router, served) = router();
    let server = caudal::serve("tcp://127.0.0.1:0", router).await.unwrap();
    let address = server.endpoint().to_string();
    let address = address.strip_prefix("tcp://").unwrap();
    let mut busy = TcpStream::connect(address).await.unwrap();
    let honest = TcpStream::connect(address).await.unwrap();
    let mut honest = BufReader::new(honest);
    // While somebody is always ready the clock moves only by what the requests take.
    let (other, _) = most_between_turns(&served);
    let all: Vec<_> = (0..2_000).map(request).collect();
    busy.write_all(format!("{}\n", all.join("\n")).as_bytes())
        .await
        .unwrap();
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let mut most = 0;
    for _ in 0..10 {
        let before = served.load(SeqCst);
        honest.write_all(ping).await.unwrap();
        let mut reply = String::new();
        honest.read_line(&mut reply).await.unwrap();
        assert!(reply.contains("pong"));
        most = most.max(served.load(SeqCst) - before);
    }
    assert!((1..=10 * TURN).contains(&most), "{most}");
    let mut replies = BufReader::new(busy).lines();
    for _ in 0..2_000 {
        replies.next_line().await.unwrap().unwrap();
    }
    other.abort();
}

//! The demo methods: what they count, and their ticks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::time::Duration;

use caudal::{CallError, Peer, Router};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// A peer that hears ticks, and the server's end.
fn connected() -> (Peer, Peer, mpsc::UnboundedReceiver<u32>) {
    let (heard, ticks) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (u32,)| {
        let _ = heard.send(n);
    });
    let (peer, server) = Peer::pair(router, caudal_cli::demo::router());
    (peer, server, ticks)
}

async fn heard(ticks: &mut mpsc::UnboundedReceiver<u32>) -> Vec<u32> {
    let mut all = Vec::new();
    // The clock is paused: this passes when nothing else is under way.
    while let Ok(Some(n)) = tokio::time::timeout(Duration::from_secs(7200), ticks.recv()).await {
        all.push(n);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn ticks_are_counted() {
    let (peer, _server, mut ticks) = connected();
    let start = json!({ "every_ms": 50, "count": 3 });
    let answer: Value = peer.call("ticks.start", &start).await.unwrap();
    assert_eq!(answer, start);
    assert_eq!(heard(&mut ticks).await, [1, 2, 3]);
    assert!(!peer.call::<bool>("ticks.stop", ()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_wait_for_the_last_tick() {
    let (peer, _server, mut ticks) = connected();
    let start = json!({ "every_ms": 1000, "count": 3, "wait": true });
    let answer: Value = peer.call("ticks.start", start).await.unwrap();
    assert_eq!(answer, json!({ "ticks": 3 }));
    let mut all = Vec::new();
    ticks.recv_many(&mut all, 10).await;
    assert_eq!(all, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn ticks_are_stopped() {
    let (peer, _server, mut ticks) = connected();
    let _: Value = peer.call("ticks.start", ()).await.unwrap();
    assert_eq!(ticks.recv().await, Some(1));
    assert!(peer.call::<bool>("ticks.stop", ()).await.unwrap());
    assert!(!peer.call::<bool>("ticks.stop", ()).await.unwrap());
    assert!(heard(&mut ticks).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_start_ends_the_old_one() {
    let (peer, _server, mut ticks) = connected();
    let slow = json!({ "every_ms": 1000, "count": 5 });
    let _: Value = peer.call("ticks.start", slow).await.unwrap();
    assert_eq!(ticks.recv().await, Some(1));
    let fast = json!({ "every_ms": 1, "count": 2 });
    let _: Value = peer.call("ticks.start", fast).await.unwrap();
    assert_eq!(heard(&mut ticks).await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn ticks_end_with_their_connection() {
    let (peer, server, mut ticks) = connected();
    let endless = json!({ "every_ms": 1000, "count": 100_000 });
    let _: Value = peer.call("ticks.start", endless).await.unwrap();
    assert_eq!(ticks.recv().await, Some(1));
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    peer.close();
    server.closed().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    // The two connections, and the ticks.
    assert_eq!(before, 3);
    assert_eq!(after, 0);
}

#[tokio::test(start_paused = true)]
async fn limits_hold_at_and_past() {
    let (peer, _server, _ticks) = connected();
    let good = [
        json!({ "every_ms": 1, "count": 1 }),
        json!({ "every_ms": 3_600_000, "count": 100_000 }),
    ];
    for params in good {
        let _: Value = peer.call("ticks.start", params).await.unwrap();
    }
    let bad = [
        json!({ "every_ms": 0 }),
        json!({ "every_ms": 3_600_001 }),
        json!({ "count": 0 }),
        json!({ "count": 100_001 }),
        json!({ "evry_ms": 1 }),
    ];
    for params in bad {
        let answer: Result<Value, _> = peer.call("ticks.start", &params).await;
        let Err(CallError::Remote(error)) = answer else {
            panic!("{params} is accepted");
        };
        assert_eq!(error.code, -32602, "{params}");
    }
    let sum: Result<i64, _> = peer.call("add", (i64::MAX, 1)).await;
    assert!(matches!(sum, Err(CallError::Remote(error)) if error.code == -32602));
}

#[tokio::test]
async fn whole_numbers_are_counted_to_the_last_digit() {
    let (peer, _server, _ticks) = connected();
    for (method, params, result) in [
        ("subtract", "[9007199254740994,1]", "9007199254740993"),
        (
            "subtract",
            "[-9223372036854775807,1]",
            "-9223372036854775808",
        ),
        ("subtract", "[2.5,0.5]", "2"),
        ("subtract", r#"{"minuend":2.5,"subtrahend":2}"#, "0.5"),
        ("sum", "[9223372036854775807,1,-2]", "9223372036854775806"),
        ("sum", "[9223372036854775807,1]", "9.223372036854775808e18"),
        ("sum", "[]", "0"),
    ] {
        let params: Value = serde_json::from_str(params).unwrap();
        let expected: Value = serde_json::from_str(result).unwrap();
        let answer: Value = peer.call(method, &params).await.unwrap();
        assert_eq!(answer, expected, "{method} {params}");
    }
    for params in [json!([1e308, 1e308]), json!([1, "2"])] {
        let refused = peer.call::<Value>("sum", &params).await;
        let CallError::Remote(error) = refused.unwrap_err() else {
            panic!("{params} is answered with an error");
        };
        assert_eq!(error.code, -32602, "{params}");
    }
}

#[tokio::test]
async fn params_that_do_not_fit_are_told_what_would() {
    let (peer, _server, _ticks) = connected();
    for params in [json!({ "minuend": 5 }), json!([1]), json!(["a", 1])] {
        let refused = peer.call::<Value>("subtract", &params).await;
        let CallError::Remote(error) = refused.unwrap_err() else {
            panic!("{params} is answered with an error");
        };
        let wanted = r#"two numbers are wanted: [a,b] or {"minuend":a,"subtrahend":b}"#;
        assert_eq!(error.data, Some(json!(wanted)), "{params}");
    }
}

//! Sessions whose server speaks when it is asked, over a server that is spoken for
//! by hand.

use caudal::{CallError, Peer, Router};
use tokio::sync::mpsc;

use super::chain;
use crate::support::fake::Fake;

/// A client that has opened its session, and what it is told.
async fn open(fake: &mut Fake) -> (Peer, mpsc::UnboundedReceiver<i64>) {
    let (told, heard) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (i64,)| {
        told.send(n).unwrap();
        Ok(())
    });
    let connect = caudal::connect(&*fake.url("?a=b#poll")).router(router);
    let connecting = tokio::spawn(connect.into_future());
    let opened = fake.expect("GET").await;
    assert_eq!(opened.line, "GET /rpc?a=b");
    assert_eq!(opened.header("accept"), Some("application/json"));
    let headers = "Mcp-Session-Id: abc\r\n";
    opened.answer("200 OK", headers, r#"{"cursor":0,"messages":[]}"#);
    (connecting.await.unwrap().unwrap(), heard)
}

fn ticks(cursor: u64, ticks: &[i64]) -> String {
    let tick = |n: &i64| format!(r#"{{"jsonrpc":"2.0","method":"tick","params":[{n}]}}"#);
    let ticks: Vec<_> = ticks.iter().map(tick).collect();
    format!(r#"{{"cursor":{cursor},"messages":[{}]}}"#, ticks.join(","))
}

#[tokio::test]
async fn messages_come_by_polling_and_are_acknowledged() {
    let mut fake = Fake::start().await;
    let (peer, mut heard) = open(&mut fake).await;
    let poll = fake.expect("GET").await;
    assert_eq!(poll.line, "GET /rpc?a=b&cursor=0");
    assert_eq!(poll.header("mcp-session-id"), Some("abc"));
    assert_eq!(poll.header("prefer"), Some("wait=25"));
    poll.answer_json(&ticks(2, &[1, 2]));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
    let poll = fake.expect("GET").await;
    assert_eq!(poll.line, "GET /rpc?a=b&cursor=2");
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    let posted = fake.expect("POST").await;
    assert_eq!(posted.header("prefer"), Some("respond-async"));
    let id = posted.json()["id"].clone();
    posted.accept();
    poll.answer_json(&format!(
        r#"{{"cursor":3,"messages":[{{"jsonrpc":"2.0","id":{id},"result":7}}]}}"#
    ));
    assert_eq!(call.await.unwrap().unwrap(), 7);
    let poll = fake.expect("GET").await;
    assert_eq!(poll.line, "GET /rpc?a=b&cursor=3");
    peer.close();
    poll.gone().await;
    fake.expect("DELETE").await.answer("204 No Content", "", "");
    assert!(peer.closed().await.is_local());
}

#[tokio::test]
async fn what_comes_again_is_passed_over_and_what_was_lost_comes_again() {
    let mut fake = Fake::start().await;
    let (_peer, mut heard) = open(&mut fake).await;
    fake.expect("GET").await.answer_json(&ticks(2, &[1, 2]));
    fake.expect("GET").await.answer_json(&ticks(3, &[1, 2, 3]));
    fake.expect("GET").await.answer_json(&ticks(1, &[1]));
    // An answer that breaks off, and one that does not come at all.
    let poll = fake.expect("GET").await;
    poll.raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{");
    drop(poll);
    drop(fake.expect("GET").await);
    fake.expect("GET")
        .await
        .answer("503 Service Unavailable", "", "");
    let poll = fake.expect("GET").await;
    assert_eq!(poll.line, "GET /rpc?a=b&cursor=3");
    poll.answer("204 No Content", "", "");
    let poll = fake.expect("GET").await;
    assert_eq!(poll.line, "GET /rpc?a=b&cursor=3");
    poll.answer_json(&ticks(4, &[4]));
    let mut all = Vec::new();
    while all.len() < 4 {
        all.push(heard.recv().await.unwrap());
    }
    assert_eq!(all, [1, 2, 3, 4]);
}

#[tokio::test]
async fn messages_that_are_missing_end_the_session() {
    let mut fake = Fake::start().await;
    let (peer, mut heard) = open(&mut fake).await;
    fake.expect("GET").await.answer_json(&ticks(1, &[1]));
    assert_eq!(heard.recv().await, Some(1));
    fake.expect("GET").await.answer_json(&ticks(7, &[6, 7]));
    fake.expect("DELETE").await.accept();
    let reason = chain(&peer.closed().await);
    assert!(
        reason.contains("4 messages of the server were lost"),
        "{reason}"
    );
}

#[tokio::test]
async fn a_session_that_is_gone_ends() {
    let mut fake = Fake::start().await;
    let (peer, _heard) = open(&mut fake).await;
    let poll = fake.expect("GET").await;
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    fake.expect("POST").await.accept();
    poll.answer("404 Not Found", "", "");
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed(_))));
    assert!(chain(&peer.closed().await).contains("the session is gone"));
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_ends_the_session() {
    for text in [
        "",
        "[]",
        r#"{"cursor":-1,"messages":[]}"#,
        r#"{"cursor":1}"#,
        "{\"cursor\":1",
    ] {
        let mut fake = Fake::start().await;
        let (peer, _heard) = open(&mut fake).await;
        fake.expect("GET").await.answer_json(text);
        fake.expect("DELETE").await.accept();
        let reason = chain(&peer.closed().await);
        assert!(reason.contains("could not be received"), "{reason}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_wait_is_not_asked_without_a_pause() {
    let mut fake = Fake::start().await;
    let (_peer, _heard) = open(&mut fake).await;
    for _ in 0..5 {
        fake.expect("GET").await.answer("204 No Content", "", "");
        fake.silence().await;
    }
}

#[tokio::test]
async fn what_is_too_large_and_no_page_ends_the_session() {
    let mut fake = Fake::start().await;
    let (peer, _heard) = open(&mut fake).await;
    let poll = fake.expect("GET").await;
    let begin = "x".repeat(3 << 20);
    poll.raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n{begin}"
    ));
    fake.expect("DELETE").await.accept();
    let reason = chain(&peer.closed().await);
    assert!(reason.contains("too large"), "{reason}");
}

#[tokio::test]
async fn an_answer_that_is_too_large_ends_its_call_and_no_other() {
    for (size, chunked) in [(1_500_000, false), (3_000_000, false), (3_000_000, true)] {
        let mut fake = Fake::start().await;
        let (peer, mut heard) = open(&mut fake).await;
        let poll = fake.expect("GET").await;
        let call = tokio::spawn({
            let peer = peer.clone();
            async move { peer.call::<String>("n", ()).await }
        });
        let posted = fake.expect("POST").await;
        let id = posted.json()["id"].clone();
        posted.accept();
        let text = ticks(3, &[1, 2]);
        let (before, fill) = (text.strip_suffix("]}").unwrap(), "x".repeat(size));
        let text = format!(r#"{before},{{"jsonrpc":"2.0","id":{id},"result":"{fill}"}}]}}"#);
        match chunked {
            false => poll.answer_json(&text),
            true => {
                poll.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                poll.events(&text);
                poll.end_events();
            }
        }
        assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::TooLarge { limit: 1_048_576 }));
        let poll = fake.expect("GET").await;
        assert_eq!(poll.line, "GET /rpc?a=b&cursor=3");
        // A notification ends nothing.
        let text = format!(
            r#"{{"cursor":4,"messages":[{{"jsonrpc":"2.0","method":"tick","params":["{fill}"]}}]}}"#
        );
        poll.answer_json(&text);
        let poll = fake.expect("GET").await;
        assert_eq!(poll.line, "GET /rpc?a=b&cursor=4");
        poll.answer_json(&ticks(5, &[5]));
        assert_eq!(heard.recv().await, Some(5));
        assert_eq!(peer.stats().dropped, 1);
    }
}

#[tokio::test]
async fn a_gap_is_noticed_though_the_answer_is_too_large() {
    let mut fake = Fake::start().await;
    let (peer, _heard) = open(&mut fake).await;
    let fill = "x".repeat(3_000_000);
    let text = format!(r#"{{"cursor":3,"messages":[{{"id":1,"result":"{fill}"}}]}}"#);
    fake.expect("GET").await.answer_json(&text);
    fake.expect("DELETE").await.accept();
    let reason = chain(&peer.closed().await);
    assert!(
        reason.contains("2 messages of the server were lost"),
        "{reason}"
    );
}

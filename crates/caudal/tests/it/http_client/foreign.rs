//! A server of another make: it answers a call on its POST, and may call back before
//! that.

use std::time::Duration;

use caudal::http::ClientOptions;
use caudal::{Config, Peer, Router};

use super::sse::{SESSION, answer, call};
use crate::support::fake::{Asked, Fake};

/// What the server asks its client on the stream of a call.
const ASK: &str = "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ask\"}\n\n";

/// A client that has so many calls open at once.
async fn open(fake: &mut Fake, connections: usize) -> Peer {
    open_with(fake, connections, Config::default()).await
}

async fn open_with(fake: &mut Fake, connections: usize, mut config: Config) -> Peer {
    config.call_timeout = Some(Duration::from_secs(300));
    let mut options = ClientOptions::default();
    options.connections = connections;
    let connect = caudal::connect(&*fake.url("#sse"))
        .config(config)
        .http(options)
        .router(Router::new().method("ask", || Ok(5)));
    let connecting = tokio::spawn(connect.into_future());
    let asked = fake.expect("GET").await;
    asked.answer("405 Method Not Allowed", "", "");
    connecting.await.unwrap().unwrap()
}

/// The client's answer comes.
async fn answered(fake: &mut Fake) {
    let posted = fake.expect("POST").await;
    assert_eq!(posted.body, r#"{"jsonrpc":"2.0","id":"q","result":5}"#);
    posted.accept();
}

/// The next call, which is that of this method.
async fn called(fake: &mut Fake, method: &str) -> Asked {
    let posted = fake.expect("POST").await;
    assert_eq!(posted.json()["method"], method);
    posted
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_call_that_needs_it() {
    let mut fake = Fake::start().await;
    let peer = open(&mut fake, 1).await;
    for n in 0..2 {
        let outer = call(&peer, "outer");
        let posted = called(&mut fake, "outer").await;
        posted.begin_events("");
        posted.events(ASK);
        answered(&mut fake).await;
        posted.events(&answer(&posted, 1, n));
        posted.end_events();
        assert_eq!(outer.await.unwrap().unwrap(), n);
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_behind_a_call_that_waits_for_room() {
    let mut fake = Fake::start().await;
    let peer = open(&mut fake, 2).await;
    let first = call(&peer, "first");
    let one = called(&mut fake, "first").await;
    one.begin_events("");
    let second = call(&peer, "second");
    let two = called(&mut fake, "second").await;
    let third = call(&peer, "third");
    fake.silence().await;
    one.events(ASK);
    answered(&mut fake).await;
    peer.notify("tell", ()).await.unwrap();
    called(&mut fake, "tell").await.accept();
    fake.silence().await;
    one.events(&answer(&one, 1, 1));
    one.end_events();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    called(&mut fake, "third").await.result("3");
    assert_eq!(third.await.unwrap().unwrap(), 3);
    two.result("2");
    assert_eq!(second.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn calls_that_wait_for_room_are_sent_in_order_and_none_that_is_given_up() {
    let mut fake = Fake::start().await;
    let peer = open(&mut fake, 1).await;
    let first = call(&peer, "first");
    let posted = called(&mut fake, "first").await;
    posted.begin_events("");
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|method| call(&peer, method));
    fake.silence().await;
    b.abort();
    fake.silence().await;
    posted.events(&answer(&posted, 1, 1));
    posted.end_events();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    for (method, call) in [("a", a), ("c", c), ("d", d)] {
        let posted = called(&mut fake, method).await;
        fake.silence().await;
        posted.result("2");
        assert_eq!(call.await.unwrap().unwrap(), 2);
    }
    fake.silence().await;
}

#[tokio::test]
async fn calls_that_are_answered_before_they_are_sent_do_not_pile_up() {
    let mut fake = Fake::start().await;
    let mut config = Config::default();
    config.pending = 2;
    let peer = open_with(&mut fake, 1, config).await;
    let first = call(&peer, "first");
    let posted = called(&mut fake, "first").await;
    posted.begin_events("");
    let id = posted.json()["id"].as_i64().unwrap();
    for n in 1..=4 {
        let early = call(&peer, "early");
        fake.silence().await;
        let text = answer(&posted, 1, n);
        let (own, guessed) = (format!("\"id\":{id}"), format!("\"id\":{}", id + n));
        posted.events(&text.replace(&own, &guessed));
        assert_eq!(early.await.unwrap().unwrap(), n);
    }
    // There are as many as there may be, so nothing more is taken.
    peer.notify("tell", ()).await.unwrap();
    fake.silence().await;
    posted.events(&answer(&posted, 1, 1));
    posted.end_events();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    let mut told = 0;
    for _ in 0..5 {
        let posted = fake.expect("POST").await;
        told += usize::from(posted.json()["method"] == "tell");
        posted.accept();
    }
    assert_eq!(told, 1);
}

#[tokio::test]
async fn of_responses_that_no_call_waits_for_the_oldest_is_given_up() {
    let mut fake = Fake::start().await;
    let peer = open(&mut fake, 2).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        peer.notify("tell", ()).await.unwrap();
        let posted = called(&mut fake, "tell").await;
        posted.begin_events("");
        open.push(posted);
    }
    open[0].gone().await;
    // The others are still heard.
    open[1].events(ASK);
    answered(&mut fake).await;
    open[2].events(ASK);
    answered(&mut fake).await;
}

#[tokio::test]
async fn a_server_is_not_asked_for_an_event_that_it_never_named() {
    let mut fake = Fake::start().await;
    let peer = open(&mut fake, 8).await;
    let first = call(&peer, "initialize");
    let posted = called(&mut fake, "initialize").await;
    posted.begin_events(SESSION);
    posted.events(&answer(&posted, 1, 1));
    posted.end_events();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    for _ in 0..3 {
        let stream = fake.expect("GET").await;
        assert_eq!(stream.header("mcp-session-id"), Some("abc"));
        assert_eq!(stream.header("last-event-id"), None);
        stream.begin_events("");
    }

    // Nor one that has a stream for everybody, and no sessions.
    let mut fake = Fake::start().await;
    let connecting = tokio::spawn(caudal::connect(&*fake.url("#sse")).into_future());
    fake.expect("GET").await.begin_events("");
    let _peer = connecting.await.unwrap().unwrap();
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), None);
}

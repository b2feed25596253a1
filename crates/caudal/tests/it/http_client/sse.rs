//! Sessions whose server speaks by events, over a server that is spoken for by hand.

use std::time::Duration;

use caudal::http::ClientOptions;
use caudal::{Backoff, CallError, Config, Error, Peer, Router};
use tokio::sync::mpsc;

use super::{chain, remote};
use crate::support::fake::{Asked, Fake};
use crate::support::within;

pub(crate) const SESSION: &str = "Mcp-Session-Id: abc\r\n";

/// A client that has opened its session, and the stream that it listens to.
async fn open(fake: &mut Fake, router: Router) -> (Peer, Asked) {
    let connecting = tokio::spawn(
        caudal::connect(&*fake.url("#sse"))
            .router(router)
            .into_future(),
    );
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("accept"), Some("text/event-stream"));
    assert_eq!(stream.header("mcp-session-id"), None);
    stream.begin_events(SESSION);
    stream.events("retry: 10\n\nevent: session\ndata: abc\n\n");
    (connecting.await.unwrap().unwrap(), stream)
}

pub(crate) fn call(
    peer: &Peer,
    method: &'static str,
) -> tokio::task::JoinHandle<Result<i64, CallError>> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.call(method, ()).await })
}

/// A router that passes on what it is told.
fn listening() -> (Router, mpsc::UnboundedReceiver<i64>) {
    let (told, heard) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (i64,)| {
        told.send(n).unwrap();
        Ok(())
    });
    (router, heard)
}

fn tick(id: u64, n: i64) -> String {
    format!("id: {id}\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[{n}]}}\n\n")
}

pub(crate) fn answer(asked: &Asked, event: u64, result: i64) -> String {
    let id = &asked.json()["id"];
    format!("id: {event}\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n\n")
}

#[tokio::test]
async fn calls_go_up_by_post_and_answers_come_down_as_events() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let router = router.method("ask", || Ok(5));
    let (peer, stream) = open(&mut fake, router).await;
    let first = call(&peer, "first");
    let posted = fake.expect("POST").await;
    assert_eq!(posted.header("mcp-session-id"), Some("abc"));
    assert_eq!(posted.header("prefer"), Some("respond-async"));
    let text = answer(&posted, 1, 7);
    posted.accept();
    stream.events(&text);
    assert_eq!(first.await.unwrap().unwrap(), 7);
    stream.events(&tick(2, 1));
    assert_eq!(heard.recv().await, Some(1));
    stream.events("id: 3\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ask\"}\n\n");
    let posted = fake.expect("POST").await;
    assert_eq!(posted.body, r#"{"jsonrpc":"2.0","id":"q","result":5}"#);
    assert_eq!(posted.header("prefer"), None);
    posted.accept();
    peer.close();
    let deleted = fake.expect("DELETE").await;
    assert_eq!(deleted.header("mcp-session-id"), Some("abc"));
    deleted.answer("204 No Content", "", "");
    assert!(peer.closed().await.is_local());
    stream.gone().await;
}

#[tokio::test]
async fn ids_that_name_the_session_go_back_as_they_came() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let (peer, stream) = open(&mut fake, router).await;
    let named = |n: u64| tick(n, n as i64).replace("id: ", "id: abc.");
    stream.events(&named(1));
    stream.events(&named(2));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
    drop(stream);
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), Some("abc.2"));
    stream.begin_events("");
    // Whichever way they are written, none is taken twice.
    for text in [named(2), tick(2, 2), tick(3, 3), named(3), named(4)] {
        stream.events(&text);
    }
    assert_eq!((heard.recv().await, heard.recv().await), (Some(3), Some(4)));
    drop(peer);
}

#[tokio::test]
async fn a_message_waits_until_the_one_before_it_is_accepted() {
    let mut fake = Fake::start().await;
    let (peer, stream) = open(&mut fake, Router::new()).await;
    for n in 0..5 {
        peer.notify("n", (n,)).await.unwrap();
    }
    for n in 0..5 {
        let posted = fake.expect("POST").await;
        assert_eq!(posted.json()["params"][0], n);
        fake.silence().await;
        posted.accept();
    }
    drop(stream);
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_where_it_was() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let (peer, stream) = open(&mut fake, router).await;
    stream.events(&tick(1, 1));
    stream.events(&tick(2, 2));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
    drop(stream);
    // A server that cannot answer yet is asked again.
    for _ in 0..2 {
        let again = fake.expect("GET").await;
        assert_eq!(again.header("last-event-id"), Some("2"));
        assert_eq!(again.header("mcp-session-id"), Some("abc"));
        again.answer("503 Service Unavailable", "", "");
    }
    let stream = fake.expect("GET").await;
    stream.begin_events("");
    for n in [1, 2, 3] {
        stream.events(&tick(n, n as i64));
    }
    assert_eq!(heard.recv().await, Some(3));
    stream.end_events();
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), Some("3"));
    stream.begin_events("");
    stream.events(&tick(4, 4));
    assert_eq!(heard.recv().await, Some(4));
    assert!(!peer.state().is_closed());
}

#[tokio::test]
async fn a_stream_that_breaks_before_its_first_event_goes_on_from_the_start() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let connect = caudal::connect(&*fake.url("#sse")).router(router);
    let connecting = tokio::spawn(connect.into_future());
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), None);
    stream.begin_events(SESSION);
    let _peer = connecting.await.unwrap().unwrap();
    drop(stream);
    // The server may have sent something, and without an id it would not come again.
    for _ in 0..2 {
        let stream = fake.expect("GET").await;
        assert_eq!(stream.header("mcp-session-id"), Some("abc"));
        assert_eq!(stream.header("last-event-id"), Some("0"));
        stream.begin_events("");
    }
    let stream = fake.expect("GET").await;
    stream.begin_events("");
    stream.events(&tick(1, 1));
    stream.events(&tick(2, 2));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
    drop(stream);
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), Some("2"));
}

#[tokio::test]
async fn a_gap_ends_the_session_and_is_reported_when_there_is_a_new_one() {
    let mut fake = Fake::start().await;
    let (told, mut gaps) = mpsc::unbounded_channel();
    let connect = caudal::connect(&*fake.url("#sse"))
        .reconnect(Backoff::default())
        .on_reconnect(move |_, gap| {
            told.send(gap.failed).unwrap();
            async {}
        });
    let connecting = tokio::spawn(connect.into_future());
    let stream = fake.expect("GET").await;
    stream.begin_events(SESSION);
    let peer = connecting.await.unwrap().unwrap();
    let lost = call(&peer, "lost");
    fake.expect("POST").await.accept();
    stream.events("event: gap\ndata: {\"missed\":3}\n\n");
    let Err(CallError::Closed(reason)) = lost.await.unwrap() else {
        panic!("it was sent, and nobody knows more");
    };
    assert!(
        chain(&reason).contains("3 messages of the server were lost"),
        "{}",
        chain(&reason)
    );
    // The old session is ended, and a new one begun, in either order.
    let (mut old, mut new) = (None, None);
    while old.is_none() || new.is_none() {
        let asked = fake.next().await;
        match asked.line.starts_with("DELETE") {
            true => old = Some(asked),
            false => new = Some(asked),
        }
    }
    let new = new.unwrap();
    assert_eq!(new.header("mcp-session-id"), None);
    new.begin_events("Mcp-Session-Id: def\r\n");
    assert_eq!(gaps.recv().await, Some(1));
    peer.notify("n", ()).await.unwrap();
    let posted = fake.expect("POST").await;
    assert_eq!(posted.header("mcp-session-id"), Some("def"));
}

#[tokio::test]
async fn a_session_that_is_gone_ends() {
    let mut fake = Fake::start().await;
    let (peer, _stream) = open(&mut fake, Router::new()).await;
    let lost = call(&peer, "n");
    fake.expect("POST").await.answer("404 Not Found", "", "");
    assert!(matches!(lost.await.unwrap(), Err(CallError::Closed(_))));
    assert!(chain(&peer.closed().await).contains("the session is gone"));

    let (peer, stream) = open(&mut fake, Router::new()).await;
    drop(stream);
    fake.expect("GET").await.answer("404 Not Found", "", "");
    assert!(chain(&peer.closed().await).contains("the session is gone"));
    fake.silence().await;
}

#[tokio::test]
async fn a_post_that_is_lost_is_not_sent_again_and_ends_the_session() {
    let mut fake = Fake::start().await;
    let (peer, _stream) = open(&mut fake, Router::new()).await;
    let lost = call(&peer, "n");
    drop(fake.expect("POST").await);
    fake.expect("DELETE").await.accept();
    let error = lost.await.unwrap().unwrap_err();
    assert!(error.may_have_run() && error.is_fatal(), "{error:?}");
    assert!(
        chain(&error).contains("may or may not"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_post_that_is_never_accepted_ends_the_session() {
    let mut fake = Fake::start().await;
    let mut config = Config::default();
    config.message_timeout = Some(Duration::from_millis(200));
    let connect = caudal::connect(&*fake.url("#sse")).config(config);
    let connecting = tokio::spawn(connect.into_future());
    let stream = fake.expect("GET").await;
    stream.begin_events(SESSION);
    let peer = connecting.await.unwrap().unwrap();
    peer.notify("n", ()).await.unwrap();
    let _posted = fake.expect("POST").await;
    fake.expect("DELETE").await.accept();
    assert!(chain(&peer.closed().await).contains("not accepted in time"));
}

#[tokio::test]
async fn a_status_fails_the_call_and_the_session_goes_on() {
    let mut fake = Fake::start().await;
    let (peer, stream) = open(&mut fake, Router::new()).await;
    let large = call(&peer, "n");
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too large"}}"#;
    fake.expect("POST")
        .await
        .answer("413 Payload Too Large", "", error);
    assert_eq!(remote(large.await.unwrap().unwrap_err()).code, -32600);
    let full = call(&peer, "n");
    fake.expect("POST")
        .await
        .answer("503 Service Unavailable", "", "");
    let error = full.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::UnexpectedResponse(response) if response.status == 503));
    let refused = call(&peer, "n");
    fake.expect("POST").await.answer("403 Forbidden", "", "");
    let error = refused.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Refused(response) if response.status == 403));
    let good = call(&peer, "n");
    let posted = fake.expect("POST").await;
    let text = answer(&posted, 1, 7);
    posted.accept();
    stream.events(&text);
    assert_eq!(good.await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn who_is_not_let_in_cannot_connect() {
    let mut fake = Fake::start().await;
    for kind in ["#sse", "#poll"] {
        for status in ["401 Unauthorized", "403 Forbidden"] {
            let mut options = ClientOptions::default();
            options.token = Some("wrong".into());
            let connect = caudal::connect(&*fake.url(kind)).http(options);
            let connecting = tokio::spawn(connect.into_future());
            let asked = fake.expect("GET").await;
            assert_eq!(asked.header("authorization"), Some("Bearer wrong"));
            asked.answer(status, "", "");
            let Err(Error::Connect { cause, .. }) = connecting.await.unwrap() else {
                panic!("it is not let in");
            };
            assert_eq!(cause.kind(), std::io::ErrorKind::PermissionDenied);
            assert_eq!(cause.to_string(), format!("HTTP {status}"));
        }
    }
}

#[tokio::test]
async fn an_event_past_the_limit_is_dropped_and_one_at_it_is_not() {
    for (length, passes) in [(200, true), (201, false)] {
        let mut fake = Fake::start().await;
        let mut config = Config::default();
        config.policy.max_message = 200;
        let (router, mut heard) = listening();
        let connect = caudal::connect(&*fake.url("#sse"))
            .config(config)
            .router(router);
        let connecting = tokio::spawn(connect.into_future());
        let stream = fake.expect("GET").await;
        stream.begin_events(SESSION);
        let peer = connecting.await.unwrap().unwrap();
        let mut text = r#"{"jsonrpc":"2.0","method":"tick","params":[1"#.to_owned();
        text += &" ".repeat(length - text.len() - 2);
        text += "]}";
        stream.events(&format!("id: 1\ndata: {text}\n\n"));
        if passes {
            assert_eq!(heard.recv().await, Some(1));
        }
        stream.events(&tick(2, 2));
        assert_eq!(heard.recv().await, Some(2));
        assert_eq!(peer.stats().dropped, u64::from(!passes));
    }
}

/// An answer with so much in it.
fn large(asked: &Asked, event: u64, size: usize) -> String {
    let (id, fill) = (&asked.json()["id"], "x".repeat(size));
    format!("id: {event}\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"{fill}\"}}\n\n")
}

#[tokio::test]
async fn an_answer_that_is_too_large_ends_its_call_and_no_other() {
    let mut fake = Fake::start().await;
    let (peer, stream) = open(&mut fake, Router::new()).await;
    let (first, second) = (call(&peer, "a"), fake.expect("POST").await);
    let text = large(&second, 1, 3_000_000);
    second.accept();
    let other = call(&peer, "b");
    let posted = fake.expect("POST").await;
    let answered = answer(&posted, 2, 7);
    posted.accept();
    // It need not come to its end for that.
    let (begin, end) = text.split_at(2_000_000);
    stream.events(begin);
    let error = first.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::TooLarge { limit: 1_048_576 }));
    assert_eq!(error.to_string(), "the answer is larger than 1048576 bytes");
    stream.events(end);
    stream.events(&answered);
    assert_eq!(other.await.unwrap().unwrap(), 7);
    // What was passed over is not asked for again.
    let third = call(&peer, "c");
    let posted = fake.expect("POST").await;
    let text = large(&posted, 3, 2_000_000);
    posted.accept();
    stream.events(&text);
    assert!(third.await.unwrap().is_err());
    drop(stream);
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), Some("3"));
    assert_eq!(peer.stats().dropped, 0);
}

#[tokio::test]
async fn events_that_are_no_messages_are_passed_over() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let (_peer, stream) = open(&mut fake, router).await;
    stream.events("data: <html>\n\ndata\n\ndata: []\n\nevent: odd\ndata: {}\n\n");
    stream.events(&tick(1, 1));
    assert_eq!(heard.recv().await, Some(1));
    fake.silence().await;
}

/// A server as MCP has it: no session before `initialize`, answers as JSON or as
/// events, and perhaps no way back.
#[tokio::test]
async fn a_server_of_another_make_is_understood() {
    for (kind, refusal) in [
        ("#sse", "405 Method Not Allowed"),
        ("#poll", "400 Bad Request"),
    ] {
        let mut fake = Fake::start().await;
        let router = Router::new().method("ask", || Ok(5));
        let connect = caudal::connect(&*fake.url(kind)).router(router);
        let connecting = tokio::spawn(connect.into_future());
        fake.expect("GET").await.answer(refusal, "", "no\n");
        let peer = connecting.await.unwrap().unwrap();
        let first = call(&peer, "initialize");
        let posted = fake.expect("POST").await;
        assert_eq!(posted.header("mcp-session-id"), None);
        let id = posted.json()["id"].clone();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#);
        posted.answer(
            "200 OK",
            &format!("Content-Type: application/json\r\n{SESSION}"),
            &body,
        );
        assert_eq!(first.await.unwrap().unwrap(), 1);
        let listens = fake.expect("GET").await;
        assert_eq!(listens.header("mcp-session-id"), Some("abc"));
        listens.answer("405 Method Not Allowed", "", "");
        // An answer as events, which ask something first.
        let second = call(&peer, "second");
        let posted = fake.expect("POST").await;
        assert_eq!(posted.header("mcp-session-id"), Some("abc"));
        let text = answer(&posted, 1, 2);
        posted.begin_events("");
        posted.events("data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ask\"}\n\n");
        let answered = fake.expect("POST").await;
        assert_eq!(answered.body, r#"{"jsonrpc":"2.0","id":"q","result":5}"#);
        answered.accept();
        // A call that is answered while the other is still open.
        let third = call(&peer, "third");
        fake.expect("POST").await.result("3");
        assert_eq!(third.await.unwrap().unwrap(), 3);
        posted.events(&text);
        assert_eq!(second.await.unwrap().unwrap(), 2);
        posted.end_events();
        // One that breaks off: there is no other way for its answer to come.
        let fourth = call(&peer, "fourth");
        let posted = fake.expect("POST").await;
        posted.begin_events("");
        drop(posted);
        let error = fourth.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)) && !error.is_fatal());
        // One that nobody waits for.
        let fifth = call(&peer, "fifth");
        let posted = fake.expect("POST").await;
        fifth.abort();
        posted.gone().await;
        peer.close();
        fake.expect("DELETE")
            .await
            .answer("405 Method Not Allowed", "", "");
        assert!(peer.closed().await.is_local());
    }
}

#[tokio::test]
async fn a_server_of_another_make_may_have_a_way_back() {
    let mut fake = Fake::start().await;
    let (router, mut heard) = listening();
    let connect = caudal::connect(&*fake.url("#sse")).router(router);
    let connecting = tokio::spawn(connect.into_future());
    fake.expect("GET").await.answer("400 Bad Request", "", "");
    let peer = connecting.await.unwrap().unwrap();
    let first = call(&peer, "initialize");
    let posted = fake.expect("POST").await;
    let text = answer(&posted, 1, 1);
    posted.begin_events(SESSION);
    posted.events(&text);
    posted.end_events();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    let stream = fake.expect("GET").await;
    stream.begin_events("");
    // Its ids need not grow.
    stream.events(&tick(9, 1));
    stream.events(&tick(3, 2));
    assert_eq!((heard.recv().await, heard.recv().await), (Some(1), Some(2)));
    // An answer that broke off does not come this way.
    let lost = call(&peer, "lost");
    let posted = fake.expect("POST").await;
    posted.begin_events("");
    drop(posted);
    let error = lost.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Closed(_)) && !error.is_fatal());
    drop(stream);
    let stream = fake.expect("GET").await;
    assert_eq!(stream.header("last-event-id"), Some("3"));
}

#[tokio::test]
async fn who_is_not_let_in_any_more_can_tell() {
    let mut fake = Fake::start().await;
    let (peer, stream) = open(&mut fake, Router::new()).await;
    drop(stream);
    fake.expect("GET")
        .await
        .answer("401 Unauthorized", "", "log in\n");
    fake.expect("DELETE").await.accept();
    let reason = peer.closed().await;
    let cause = std::error::Error::source(&reason).unwrap();
    let cause = cause.downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(cause.to_string(), "HTTP 401 Unauthorized: log in");
}

/// A client of a server of another make, which has no way back.
async fn open_foreign(fake: &mut Fake, config: Config, connections: usize) -> Peer {
    let mut options = ClientOptions::default();
    options.connections = connections;
    let connect = caudal::connect(&*fake.url("#sse")).config(config);
    let connecting = tokio::spawn(connect.http(options).into_future());
    let asked = fake.expect("GET").await;
    asked.answer("405 Method Not Allowed", "", "");
    connecting.await.unwrap().unwrap()
}

#[tokio::test]
async fn events_that_are_left_open_do_not_keep_others_waiting() {
    let mut fake = Fake::start().await;
    let mut config = Config::default();
    config.call_timeout = Some(Duration::from_secs(2));
    let peer = open_foreign(&mut fake, config, 1).await;
    let patient = |method: &'static str| {
        let peer = peer.clone();
        tokio::spawn(async move {
            let call = peer.call::<i64>(method, ());
            call.timeout(Duration::from_secs(60)).await
        })
    };
    let mut open = Vec::new();
    for n in 0..3 {
        let asked = patient("n");
        let posted = fake.expect("POST").await;
        posted.begin_events("");
        posted.events(&answer(&posted, 1, n));
        open.push(posted);
        assert_eq!(asked.await.unwrap().unwrap(), n);
        // One that no call waits for.
        peer.notify("tell", ()).await.unwrap();
        let posted = fake.expect("POST").await;
        posted.begin_events("");
        open.push(posted);
    }
    for posted in open {
        posted.gone().await;
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_before_it_is_sent_never_is() {
    let mut fake = Fake::start().await;
    let (peer, _stream) = open(&mut fake, Router::new()).await;
    peer.notify("first", ()).await.unwrap();
    let first = fake.expect("POST").await;
    for _ in 0..4 {
        let late = peer.call::<i64>("late", ());
        let late = late.timeout(Duration::from_millis(50)).await;
        assert!(matches!(late, Err(CallError::Timeout)));
    }
    peer.notify("last", ()).await.unwrap();
    first.accept();
    let last = fake.expect("POST").await;
    assert_eq!(last.json()["method"], "last");
    last.accept();
}

#[tokio::test]
async fn a_batch_that_nobody_waits_for_is_given_up() {
    let mut fake = Fake::start().await;
    let peer = open_foreign(&mut fake, Config::default(), 8).await;
    let mut batch = peer.batch();
    let one = batch.call::<i64>("one", ()).unwrap();
    let two = batch.call::<i64>("two", ()).unwrap();
    batch.send().await.unwrap();
    let posted = fake.expect("POST").await;
    drop(one);
    fake.silence().await;
    assert!(!posted.is_gone());
    drop(two);
    posted.gone().await;
}

#[tokio::test]
async fn the_first_call_takes_the_time_of_a_call() {
    let mut fake = Fake::start().await;
    let mut config = Config::default();
    config.message_timeout = Some(Duration::from_millis(100));
    let peer = open_foreign(&mut fake, config, 8).await;
    // Given up, it is not waited for, and the next one is the first.
    let given_up = call(&peer, "initialize");
    let posted = fake.expect("POST").await;
    given_up.abort();
    posted.gone().await;
    let first = call(&peer, "initialize");
    let posted = fake.expect("POST").await;
    let second = call(&peer, "second");
    tokio::time::sleep(Duration::from_millis(300)).await;
    fake.silence().await;
    let id = posted.json()["id"].clone();
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#);
    posted.answer("200 OK", "", &body);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    fake.expect("POST").await.result("2");
    assert_eq!(second.await.unwrap().unwrap(), 2);
}

/// What the end of a session says about a notification that was answered so. A server
/// of another make opens none before that.
async fn told(foreign: bool, answer: impl FnOnce(Asked)) -> String {
    let mut fake = Fake::start().await;
    let (peer, _stream) = match foreign {
        true => (open_foreign(&mut fake, Config::default(), 1).await, None),
        false => {
            let (peer, stream) = open(&mut fake, Router::new()).await;
            (peer, Some(stream))
        }
    };
    peer.notify("tell", ()).await.unwrap();
    let asked = fake.expect("POST").await;
    peer.close();
    answer(asked);
    tokio::spawn(async move {
        loop {
            fake.expect("DELETE").await.accept();
        }
    });
    chain(&peer.closed().await)
}

#[tokio::test]
async fn a_notification_that_is_not_accepted_is_the_reason_of_the_end() {
    let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too much"}}"#;
    for foreign in [true, false] {
        assert_eq!(told(foreign, Asked::accept).await, "closed by this side");
        for (status, body, part) in [
            ("401 Unauthorized", "", "HTTP 401"),
            ("500 Internal Server Error", "no", "HTTP 500"),
            ("200 OK", "<html>", "HTTP 200"),
            ("200 OK", null, "too much"),
        ] {
            let heard = told(foreign, |asked| asked.answer(status, "", body)).await;
            assert!(heard.contains(part), "{part}: {heard}");
            assert!(heard.starts_with("the connection failed"), "{heard}");
        }
        let heard = told(foreign, drop).await;
        assert!(heard.contains("may or may not"), "{heard}");
    }
    let not_found = |asked: Asked| asked.answer("404 Not Found", "", "");
    assert!(told(true, not_found).await.contains("HTTP 404"));
    assert!(told(false, not_found).await.contains("is gone"));
}

#[tokio::test]
async fn a_notification_before_the_last_may_be_the_one_that_is_not_accepted() {
    let mut fake = Fake::start().await;
    let peer = open_foreign(&mut fake, Config::default(), 1).await;
    peer.notify("first", ()).await.unwrap();
    peer.notify("last", ()).await.unwrap();
    let first = fake.expect("POST").await;
    first.answer("500 Internal Server Error", "", "no");
    fake.expect("POST").await.accept();
    peer.close();
    let heard = chain(&peer.closed().await);
    assert!(heard.contains("HTTP 500"), "{heard}");
}

#[tokio::test]
async fn a_notification_that_is_not_accepted_in_time_is_the_reason_too() {
    let mut fake = Fake::start().await;
    let (peer, _stream) = open(&mut fake, Router::new()).await;
    peer.notify("tell", ()).await.unwrap();
    let _asked = fake.expect("POST").await;
    peer.close();
    // The session ends all the same.
    fake.expect("DELETE").await.accept();
    let reason = peer.closed().await;
    let cause = std::error::Error::source(&reason).unwrap();
    let cause: &std::io::Error = cause.downcast_ref().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_goodbye_that_takes_long_is_no_failure_of_what_was_told() {
    let mut fake = Fake::start().await;
    let (peer, _stream) = open(&mut fake, Router::new()).await;
    peer.notify("tell", ()).await.unwrap();
    let asked = fake.expect("POST").await;
    peer.close();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    asked.accept();
    let _goodbye = fake.expect("DELETE").await;
    assert!(peer.closed().await.is_local());
}

#[tokio::test]
async fn a_connection_whose_server_reads_no_more_is_not_waited_for() {
    let (posted, mut posts) = mpsc::unbounded_channel();
    let port = super::single::hasty(move |head| match head.starts_with("GET") {
        true => {
            let kind = "Content-Type: text/event-stream\r\n";
            format!("HTTP/1.1 200 OK\r\n{SESSION}{kind}\r\n")
        }
        false => {
            let _ = posted.send(());
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
    })
    .await;
    let url = format!("http://127.0.0.1:{port}/#sse");
    let peer = caudal::connect(&*url).await.unwrap();
    for _ in 0..2 {
        // More than sockets have room for.
        peer.notify("n", ("x".repeat(16 << 20),)).await.unwrap();
        within(posts.recv()).await.unwrap();
    }
}

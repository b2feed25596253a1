//! A POST of each message.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;

use caudal::http::ClientOptions;
use caudal::{CallError, Config, Context, Error, Peer, Router, Server};
use tokio::sync::{Barrier, mpsc};

use super::{chain, remote, response};
use crate::support::fake::Fake;
use crate::support::within;

fn router() -> Router {
    Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b))
}

async fn serve(router: Router) -> Server {
    caudal::serve("http://127.0.0.1:0/rpc", router)
        .await
        .unwrap()
}

async fn connect(url: &str) -> Peer {
    caudal::connect(url).await.unwrap()
}

async fn connect_with(url: &str, connections: usize) -> Peer {
    let mut options = ClientOptions::default();
    options.connections = connections;
    caudal::connect(url).http(options).await.unwrap()
}

#[tokio::test]
async fn calls_notifications_and_batches_are_single_requests() {
    let (told, mut heard) = mpsc::unbounded_channel();
    let router = router().method("tell", move |(what,): (String,)| {
        told.send(what).unwrap();
        Ok(())
    });
    let server = serve(router).await;
    let peer = connect(&server.endpoint().to_string()).await;
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    peer.notify("tell", ("one",)).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "one");
    let mut batch = peer.batch();
    let one = batch.call::<i64>("add", (1, 2)).unwrap();
    let two = batch.call::<i64>("nothing", ()).unwrap();
    let three = batch.call::<i64>("add", (3, 4)).unwrap();
    batch.notify("tell", ("two",)).unwrap();
    batch.send().await.unwrap();
    assert_eq!(one.await.unwrap(), 3);
    assert_eq!(remote(two.await.unwrap_err()).code, -32601);
    assert_eq!(three.await.unwrap(), 7);
    assert_eq!(heard.recv().await.unwrap(), "two");
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test]
async fn sixty_four_calls_run_at_once() {
    let barrier = Arc::new(Barrier::new(64));
    let router = Router::new().method("meet", move |(n,): (usize,)| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(n)
        }
    });
    let server = serve(router).await;
    let peer = connect(&server.endpoint().to_string()).await;
    for _ in 0..3 {
        let calls = (0..64).map(|n| {
            let peer = peer.clone();
            tokio::spawn(async move { (n, peer.call::<usize>("meet", (n,)).await.unwrap()) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (sent, received) = call.await.unwrap();
            assert_eq!(sent, received);
        }
    }
    // Connections are used again.
    assert!(server.accepted() <= 64, "{}", server.accepted());
}

#[tokio::test]
async fn no_more_connections_are_made_than_allowed_and_order_is_kept() {
    let mut fake = Fake::start().await;
    let peer = connect_with(&fake.url(""), 2).await;
    let calls: Vec<_> = (0..6)
        .map(|n| {
            let peer = peer.clone();
            tokio::spawn(async move { peer.call::<i64>("n", (n,)).await })
        })
        .collect();
    let mut waiting = vec![fake.next().await, fake.next().await];
    fake.silence().await;
    let mut seen = Vec::new();
    for n in 2..8 {
        let asked = waiting.remove(0);
        assert!(asked.connection < 2, "{asked:?}");
        seen.push(asked.json()["id"].as_i64().unwrap());
        asked.result("1");
        if n < 6 {
            waiting.push(fake.next().await);
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), 1);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    struct Gone(mpsc::UnboundedSender<()>);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (entered, mut running) = mpsc::unbounded_channel();
    let (left, mut gone) = mpsc::unbounded_channel();
    let router = router().method("wait", move || {
        let guard = Gone(left.clone());
        entered.send(()).unwrap();
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(())
        }
    });
    let server = serve(router).await;
    let peer = connect_with(&server.endpoint().to_string(), 1).await;
    let timed = peer
        .call::<()>("wait", ())
        .timeout(Duration::from_millis(50));
    assert!(matches!(timed.await, Err(CallError::Timeout)));
    running.recv().await.unwrap();
    gone.recv().await.unwrap();
    let dropped = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<()>("wait", ()).await }
    });
    running.recv().await.unwrap();
    dropped.abort();
    gone.recv().await.unwrap();
    // The only connection is free again.
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
}

#[tokio::test]
async fn a_call_that_is_given_up_while_it_waits_is_never_sent() {
    let mut fake = Fake::start().await;
    let peer = connect_with(&fake.url(""), 1).await;
    let first = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("first", ()).await }
    });
    let asked = fake.next().await;
    let late = peer
        .call::<()>("late", ())
        .timeout(Duration::from_millis(50));
    assert!(matches!(late.await, Err(CallError::Timeout)));
    let last = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("last", ()).await }
    });
    asked.result("1");
    assert_eq!(first.await.unwrap().unwrap(), 1);
    let asked = fake.next().await;
    assert_eq!(asked.json()["method"], "last");
    asked.result("2");
    assert_eq!(last.await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn nobody_there_is_found_when_connecting() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for kind in ["", "#sse", "#poll"] {
        let error = caudal::connect(&*format!("http://127.0.0.1:{port}/{kind}")).await;
        let Err(Error::Connect { cause, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(
            cause.kind(),
            std::io::ErrorKind::ConnectionRefused,
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_server_may_go_and_come_back() {
    let server = serve(router()).await;
    let url = server.endpoint().to_string();
    let peer = connect(&url).await;
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    server.shutdown(Duration::from_secs(5)).await;
    server.wait().await;
    let error = peer.call::<i64>("add", (1, 2)).await.unwrap_err();
    assert!(matches!(error, CallError::AlreadyClosed(_)), "{error:?}");
    assert!(!error.may_have_run() && !error.is_fatal());
    let _server = caudal::serve(&*url, router()).await.unwrap();
    assert_eq!(peer.call::<i64>("add", (3, 4)).await.unwrap(), 7);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    for n in 0..3 {
        let call = tokio::spawn({
            let peer = peer.clone();
            async move { peer.call::<i64>("n", ()).await }
        });
        let asked = fake.next().await;
        assert_eq!(asked.connection, n);
        let id = asked.json()["id"].clone();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{n}}}"#);
        // The server says so beforehand, or just does it.
        let said = if n == 0 { "Connection: close\r\n" } else { "" };
        asked.raw(format!(
            "HTTP/1.1 200 OK\r\n{said}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(call.await.unwrap().unwrap(), n as i64);
        drop(asked);
        // Nobody can see when the client has learnt of it.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_closed_and_not_used_again() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    for (n, pause) in [(0, 0), (0, 120), (1, 120), (2, 0)] {
        let call = tokio::spawn({
            let peer = peer.clone();
            async move { peer.call::<i64>("n", ()).await }
        });
        let asked = fake.next().await;
        assert_eq!(asked.connection, n);
        asked.result("1");
        assert_eq!(call.await.unwrap().unwrap(), 1);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(pause)).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_lost_request_fails_its_call_is_not_repeated_and_the_peer_goes_on() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    for begun in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "this is not HTTP\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    ] {
        let call = tokio::spawn({
            let peer = peer.clone();
            async move { peer.call::<i64>("n", ()).await }
        });
        let asked = fake.next().await;
        asked.raw(begun);
        drop(asked);
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{error:?}");
        assert!(error.may_have_run() && !error.is_fatal());
        let is_strange = chain(&error).contains("not HTTP");
        assert_eq!(is_strange, begun.starts_with("this"), "{error:?}");
        fake.silence().await;
    }
    let call = tokio::spawn(async move { peer.call::<i64>("n", ()).await });
    fake.next().await.result("1");
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

/// The error of a call that is answered so.
async fn failed(
    fake: &mut Fake,
    peer: &Peer,
    status: &str,
    headers: &str,
    body: &str,
) -> CallError {
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    fake.next().await.answer(status, headers, body);
    call.await.unwrap().unwrap_err()
}

#[tokio::test]
async fn whatever_is_answered_ends_the_call_and_says_why() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    let html = "Content-Type: text/html\r\n";
    for (status, body, refused, may_have_run) in [
        ("502 Bad Gateway", "<h1>no</h1>", false, true),
        ("200 OK", "<h1>hello</h1>", false, true),
        ("302 Found", "", false, false),
        ("404 Not Found", "no", false, false),
        ("401 Unauthorized", "who?", true, false),
        ("403 Forbidden", "you!", true, false),
        ("407 Proxy Authentication Required", "", true, false),
        ("599 Odd", "odd", false, true),
    ] {
        let error = failed(&mut fake, &peer, status, html, body).await;
        assert_eq!(matches!(error, CallError::Refused(_)), refused, "{error:?}");
        assert_eq!(error.may_have_run(), may_have_run, "{error:?}");
        assert!(!error.is_fatal());
        let response = response(error);
        assert_eq!(response.status.to_string(), status[..3]);
        assert_eq!(response.body, body);
        let shown = format!("HTTP {}", status.trim_end_matches(" Odd"));
        assert!(response.to_string().starts_with(&shown), "{response}");
    }
    let error = failed(&mut fake, &peer, "204 No Content", "", "").await;
    assert_eq!(response(error).status, 204);
    let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#;
    for status in ["200 OK", "400 Bad Request", "413 Payload Too Large"] {
        let error = failed(&mut fake, &peer, status, "", null).await;
        assert_eq!(remote(error).code, -32700);
    }
    assert_eq!(peer.stats().pending, 0);
}

#[tokio::test]
async fn what_is_no_answer_though_all_is_well_says_why() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    for (status, body, reason) in [
        (
            "200 OK",
            r#"{"jsonrpc":"2.0","id":999,"result":3}"#,
            "it answers a call with the id 999",
        ),
        ("200 OK", "<h1>hello</h1>", "not JSON at byte 0"),
        (
            "200 OK",
            r#"{"jsonrpc":"2.0","method":"tick"}"#,
            "it is no response",
        ),
        ("200 OK", "", "the body is empty"),
        ("204 No Content", "", "the body is empty"),
    ] {
        let error = failed(&mut fake, &peer, status, "", body).await;
        let said = response(error).reason.unwrap();
        assert!(said.starts_with(reason), "{body}: {said}");
    }
    let error = failed(&mut fake, &peer, "502 Bad Gateway", "", "no").await;
    assert_eq!(response(error).reason, None);
}

#[tokio::test]
async fn an_answer_at_the_limit_passes_and_one_past_it_does_not() {
    let mut fake = Fake::start().await;
    let mut config = Config::default();
    config.policy.max_message = 1000;
    let peer = caudal::connect(&*fake.url(""))
        .config(config)
        .await
        .unwrap();
    for (length, chunked) in [(1000, false), (1001, false), (1000, true), (1001, true)] {
        let call = tokio::spawn({
            let peer = peer.clone();
            async move { peer.call::<String>("n", ()).await }
        });
        let asked = fake.next().await;
        let head = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":""#,
            asked.json()["id"]
        );
        let fill = "x".repeat(length - head.len() - 2);
        let body = format!("{head}{fill}\"}}");
        assert_eq!(body.len(), length);
        if chunked {
            asked.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            asked.events(&body[..500]);
            asked.events(&body[500..]);
            asked.end_events();
        } else {
            asked.answer_json(&body);
        }
        match call.await.unwrap() {
            Ok(result) => assert_eq!((result, length), (fill, 1000)),
            Err(error) => {
                assert_eq!(length, 1001, "{error:?}");
                assert!(matches!(error, CallError::TooLarge { limit: 1000 }));
            }
        }
    }
}

#[tokio::test]
async fn a_response_may_be_events() {
    let mut fake = Fake::start().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (i64,)| {
        told.send(n).unwrap();
        Ok(())
    });
    let mut options = ClientOptions::default();
    options.connections = 1;
    let connect = caudal::connect(&*fake.url("")).router(router);
    let peer = connect.http(options).await.unwrap();
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    let asked = fake.next().await;
    asked.begin_events("");
    asked.events(": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[1]}\n\n");
    assert_eq!(heard.recv().await, Some(1));
    let id = asked.json()["id"].clone();
    asked.events("data: {\"jsonrpc\":\"2.0\",\r\n");
    asked.events(&format!("data: \"id\":{id},\"result\":7}}\r\n\r\n"));
    assert_eq!(call.await.unwrap().unwrap(), 7);
    asked.end_events();

    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    let asked = fake.next().await;
    assert_eq!(asked.connection, 0);
    asked.begin_events("");
    asked.end_events();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Closed(_)), "{error:?}");
}

#[tokio::test]
async fn every_request_says_what_the_application_wants() {
    let mut fake = Fake::start().await;
    let mut options = ClientOptions::default();
    options.token = Some("s3cret".into());
    options.headers.insert("x-tenant", "blue".parse().unwrap());
    let url = fake.url("?a=b");
    let peer = caudal::connect(&*url).http(options).await.unwrap();
    peer.notify("n", ()).await.unwrap();
    let asked = fake.next().await;
    assert_eq!(asked.line, "POST /rpc?a=b");
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(asked.header("x-tenant"), Some("blue"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    let accepted = "application/json, text/event-stream";
    assert_eq!(asked.header("accept"), Some(accepted));
    let host = format!("127.0.0.1:{}", fake.port);
    assert_eq!(asked.header("host"), Some(&*host));
}

#[tokio::test]
async fn a_token_that_no_header_can_carry_is_an_error() {
    let fake = Fake::start().await;
    let mut options = ClientOptions::default();
    options.token = Some("line\nbreak".into());
    let connected = caudal::connect(&*fake.url("")).http(options).await;
    let error = connected.unwrap_err();
    assert!(!error.is_recoverable(), "{}", chain(&error));
}

#[tokio::test]
async fn what_was_told_is_accepted_before_the_end_and_calls_are_not_waited_for() {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    peer.notify("tell", ()).await.unwrap();
    let call = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call::<i64>("n", ()).await }
    });
    let (told, asked) = (fake.next().await, fake.next().await);
    peer.close();
    assert!(matches!(call.await.unwrap(), Err(CallError::Closed(_))));
    asked.gone().await;
    assert!(!peer.state().is_closed());
    told.answer("204 No Content", "", "");
    assert!(peer.closed().await.is_local());
}

#[tokio::test]
async fn what_waits_for_a_connection_is_sent_before_the_end() {
    let mut fake = Fake::start().await;
    let peer = connect_with(&fake.url(""), 1).await;
    for n in 0..5 {
        peer.notify("tell", (n,)).await.unwrap();
    }
    let first = fake.next().await;
    peer.close();
    first.accept();
    for n in 1..5 {
        let told = fake.next().await;
        assert_eq!(told.json()["params"][0], n);
        told.accept();
    }
    assert!(peer.closed().await.is_local());
}

#[tokio::test]
async fn a_notification_that_is_never_accepted_does_not_stay() {
    let mut fake = Fake::start().await;
    let mut options = ClientOptions::default();
    options.connections = 1;
    let mut config = Config::default();
    config.call_timeout = Some(Duration::from_millis(300));
    let connect = caudal::connect(&*fake.url("")).http(options);
    let peer = connect.config(config).await.unwrap();
    peer.notify("tell", ()).await.unwrap();
    let asked = fake.next().await;
    asked.gone().await;
    let call = tokio::spawn(async move {
        let call = peer.call::<i64>("n", ());
        call.timeout(Duration::from_secs(60)).await
    });
    fake.next().await.result("1");
    assert_eq!(call.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_handler_that_calls_back_is_told_that_there_is_no_way() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let router = Router::new().method("back", move |ctx: Context| {
        counted.fetch_add(1, Relaxed);
        async move {
            let back = ctx.peer().call::<i64>("n", ()).await;
            Ok(matches!(back, Err(CallError::AlreadyClosed(_))))
        }
    });
    let server = serve(router).await;
    let peer = connect(&server.endpoint().to_string()).await;
    assert!(peer.call::<bool>("back", ()).await.unwrap());
    assert_eq!(calls.load(Relaxed), 1);
}

/// What the end of a peer says about a notification that was answered so; `None` if
/// it says nothing.
async fn told(answer: impl FnOnce(crate::support::fake::Asked)) -> Option<std::io::ErrorKind> {
    let mut fake = Fake::start().await;
    let peer = connect(&fake.url("")).await;
    peer.notify("tell", ()).await.unwrap();
    let asked = fake.next().await;
    peer.close();
    answer(asked);
    let reason = peer.closed().await;
    let cause = std::error::Error::source(&reason)?;
    Some(cause.downcast_ref::<std::io::Error>().unwrap().kind())
}

#[tokio::test]
async fn a_notification_that_is_not_accepted_is_the_reason_of_the_end() {
    use std::io::ErrorKind::*;
    assert_eq!(told(crate::support::fake::Asked::accept).await, None);
    for (status, body, kind) in [
        ("401 Unauthorized", "", PermissionDenied),
        ("403 Forbidden", "", PermissionDenied),
        ("404 Not Found", "no", InvalidData),
        ("501 Not Implemented", "<html>", InvalidData),
        ("200 OK", "<html>", InvalidData),
    ] {
        let heard = told(|asked| asked.answer(status, "", body)).await;
        assert_eq!(heard, Some(kind), "{status}");
    }
    assert_eq!(told(drop).await, Some(ConnectionReset));
}

/// A server that speaks first, and not HTTP.
async fn banner() -> u16 {
    use tokio::io::AsyncWriteExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
            open.push(socket);
        }
    });
    port
}

#[tokio::test]
async fn who_speaks_no_http_is_told_apart_from_nobody() {
    let port = banner().await;
    let url = format!("http://127.0.0.1:{port}/");
    // What is said may come before the request or after it.
    for pause in [0, 50] {
        let peer = connect(&url).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let error = peer.call::<i64>("n", ()).await.unwrap_err();
        assert!(!error.is_fatal(), "{error:?}");
        assert!(
            chain(&error).ends_with("what the server says is not HTTP"),
            "{error:?}"
        );
        peer.notify("tell", ()).await.unwrap();
        peer.close();
        let reason = peer.closed().await;
        let cause = std::error::Error::source(&reason).expect("it was not accepted");
        let cause = cause.downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(cause.kind(), std::io::ErrorKind::InvalidData);
    }
    for kind in ["#sse", "#poll"] {
        let Err(Error::Connect { cause, .. }) = caudal::connect(&*format!("{url}{kind}")).await
        else {
            panic!("it is no HTTP server");
        };
        assert_eq!(cause.kind(), std::io::ErrorKind::InvalidData, "{kind}");
    }
}

/// A server that answers each first request of a connection before it has read it, and
/// never reads on. `answer` is given its head.
pub(crate) async fn hasty(answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            let answer = answer(std::str::from_utf8(&head).unwrap());
            let _ = socket.write_all(answer.as_bytes()).await;
            open.push(socket);
        }
    });
    port
}

#[tokio::test]
async fn a_connection_whose_server_reads_no_more_is_replaced() {
    let refusal = "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n";
    let port = hasty(|_| refusal.to_owned()).await;
    let peer = connect_with(&format!("http://127.0.0.1:{port}/"), 1).await;
    for _ in 0..2 {
        // More than sockets have room for.
        let call = peer.call::<i64>("n", ("x".repeat(16 << 20),));
        let error = within(call).await.unwrap_err();
        assert_eq!(response(error).status, 413);
    }
}

//! Sessions over HTTP/2.
#![cfg(feature = "http2")]

use super::end::answer_at_the_end;
use super::limits::slow_batch;
use super::*;

/// A connection of HTTP/2 whose client takes one byte of each response.
async fn unread_http2(site: &Site) -> hyper::client::conn::http2::SendRequest<String> {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", site.port)).await;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(1);
    let opened = builder.handshake(TokioIo::new(socket.unwrap())).await;
    let (sender, connection) = opened.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn a_caller_that_asks_again_and_does_not_read_stops_no_other_session() {
    let mut options = Options::default();
    options.session_bytes = 400_000;
    let site = Site::with(options, Config::default()).await;
    let mut greedy = site.open_polling().await;
    let large = call(1, "large", json!([50_000]));
    assert_eq!(greedy.post(&[ASYNC], &large).await.status, 202);
    let mut sender = unread_http2(&site).await;
    let mut unread = Vec::new();
    for _ in 0..20 {
        let request = http::Request::get("http://localhost/")
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &greedy.session)
            .header("last-event-id", "0")
            .body(String::new())
            .unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        assert_eq!(response.status(), 200);
        unread.push(response);
        tokio::time::sleep(ms(20)).await;
    }
    let mut other = site.open().await;
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(within(other.post(&[], &add)).await.json(), ok(1, json!(3)));
    let mut events = site.listen(&other, None).await;
    assert_eq!(other.post(&[ASYNC], &add).await.status, 202);
    assert_eq!(
        within(events.event()).await.unwrap().json(),
        ok(1, json!(3))
    );
}

#[tokio::test]
async fn a_page_that_is_cut_is_a_stream_that_is_reset() {
    use http_body_util::BodyExt as _;
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    let large = call(1, "large", json!([1 << 20]));
    assert_eq!(client.post(&[ASYNC], &large).await.status, 202);
    let mut sender = unread_http2(&site).await;
    let request = http::Request::get("http://localhost/")
        .header("accept", "application/json")
        .header("mcp-session-id", &client.session)
        .body(String::new())
        .unwrap();
    let response = within(sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(within(client.poll(0)).await.status, 200, "it takes over");
    let error = within(response.into_body().collect()).await.unwrap_err();
    let error = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.contains("internal error"), "{error}");
}

#[tokio::test]
async fn refusals_of_posts_that_nobody_takes_are_bounded_too() {
    let mut config = Config::default();
    config.output = 1 << 20;
    let site = Site::with(Options::default(), config).await;
    let client = site.open().await;
    // So many wait that no more may.
    let mut open = Vec::new();
    for place in 1..=16 {
        let mut one = site.again(&client).await;
        let body = slow_batch(place * 1000).to_string();
        one.send("POST", "/", &[], &body).await;
        // It is refused, or it runs.
        tokio::select! {
            _ = one.raw.reply() => break,
            () = eventually("it runs", || site.running() > open.len()) => {}
        }
        open.push(one);
    }
    let id = "x".repeat(900);
    let one = json!({"jsonrpc": "2.0", "id": id, "method": "add", "params": [1, 2]});
    let body = Value::Array(vec![one; 1000]).to_string();
    let mut sender = unread_http2(&site).await;
    let (mut unread, mut size) = (Vec::new(), 0);
    for _ in 0..20 {
        let request = http::Request::post("http://localhost/")
            .header("content-type", "application/json")
            .header("mcp-session-id", &client.session)
            .body(body.clone())
            .unwrap();
        let response = within(sender.send_request(request)).await.unwrap();
        let length = response.headers().get("content-length").unwrap();
        size += length.to_str().unwrap().parse::<usize>().unwrap();
        unread.push(response);
    }
    assert!(size < 4 << 20, "{size} bytes wait, and 1 MiB may");
}

/// A connection of HTTP/1.1 has one request then. One of HTTP/2 may stay open for more.
#[tokio::test]
async fn who_comes_late_over_http2_does_not_hold_up_the_end() {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let site = Site::new().await;
    let client = site.open_polling().await;
    let end = answer_at_the_end(&site, &client, Duration::from_secs(600)).await;
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", site.port)).await;
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let opened = builder.handshake(TokioIo::new(socket.unwrap())).await;
    let (mut sender, connection) = opened.unwrap();
    tokio::spawn(connection);
    for (cursor, status) in [(0, 200), (1, 410)] {
        let request = http::Request::get(format!("http://localhost/?cursor={cursor}"))
            .header("accept", "application/json")
            .header("mcp-session-id", &client.session)
            .body(String::new());
        let response = within(sender.send_request(request.unwrap())).await;
        assert_eq!(response.unwrap().status(), status);
    }
    within(end).await.unwrap();
}

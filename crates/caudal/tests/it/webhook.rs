//! The receiver of webhooks as an application sees it.
#![cfg(feature = "webhook")]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use caudal::http::Options;
use caudal::webhook::{Receiver, UrlError};
use caudal::{CallError, Config, Router};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

/// Any service can be mounted that has this shape.
async fn call<S>(service: &mut S, request: Request<String>) -> Response<caudal::http::Body>
where
    S: Service<Request<String>, Response = Response<caudal::http::Body>, Error = Infallible>,
{
    std::future::poll_fn(|cx| service.poll_ready(cx))
        .await
        .unwrap();
    service.call(request).await.unwrap()
}

#[tokio::test]
async fn a_receiver_is_a_service() {
    let mut receiver = Receiver::new("https://app.example.com/hook").unwrap();
    assert_eq!(receiver.url(), "https://app.example.com/hook");
    let get = Request::get("/hook").body(String::new()).unwrap();
    let response = call(&mut receiver, get).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()["allow"], "POST");
    for url in [
        "/hook",
        "/hook?hook=",
        "/hook?hook=0123",
        "/hook?x&hook=%00",
    ] {
        let post = Request::post(url).body("{}".to_owned()).unwrap();
        let response = call(&mut receiver, post).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{url}");
    }
}

/// A receiver on an address of its own.
async fn mounted() -> (Receiver, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = Receiver::new(&format!("http://{address}/hook")).unwrap();
    let served = receiver.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let receiver = served.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let mut receiver = receiver.clone();
                async move { receiver.call(request).await }
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(socket), service));
        }
    });
    (receiver, address)
}

#[tokio::test]
async fn a_receiver_mounts_into_hyper() {
    let (_receiver, address) = mounted().await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = "POST /hook?hook=x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                   content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn an_answer_that_is_too_large_ends_its_call_and_no_other() {
    let router = Router::new()
        .method("large", |(size,): (usize,)| Ok("x".repeat(size)))
        .method("add", |(a, b): (i64, i64)| Ok(a + b));
    let mut options = Options::default();
    options.private_webhooks = true;
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router).http(options);
    let server = serve.await.unwrap();
    let (receiver, _) = mounted().await;
    let mut config = Config::default();
    config.policy.max_message = 10_000;
    let url = server.endpoint().to_string();
    let peer = caudal::connect(&*url).config(config).webhook(&receiver);
    let peer = peer.await.unwrap();
    for size in [10_000, 3_000_000] {
        let large = peer.call::<String>("large", (size,));
        let error = large.timeout(Duration::from_secs(20)).await.unwrap_err();
        assert!(
            matches!(error, CallError::TooLarge { limit: 10_000 }),
            "{error:?}"
        );
        assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    }
}

#[test]
fn a_receiver_needs_a_url_that_a_server_would_call() {
    for (url, error) in [
        ("ftp://a/", UrlError::Scheme),
        ("https://user:word@a/", UrlError::User),
        ("https://a/#x", UrlError::Fragment),
        ("https://a b/", UrlError::Malformed),
    ] {
        assert_eq!(Receiver::new(url).unwrap_err(), error, "{url}");
    }
    let receiver = Receiver::new("https://a/?token=s3cret").unwrap();
    assert!(!format!("{receiver:?}").contains("s3cret"));
}

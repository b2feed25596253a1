//! The receiver of webhooks as an application sees it.
#![cfg(feature = "webhook")]

use std::convert::Infallible;

use caudal::webhook::{Receiver, UrlError};
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

#[tokio::test]
async fn a_receiver_mounts_into_hyper() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = Receiver::new(&format!("http://{address}/hook")).unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let service = service_fn(move |request: Request<Incoming>| {
            let mut receiver = receiver.clone();
            async move { receiver.call(request).await }
        });
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(TokioIo::new(socket), service).await;
    });
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = "POST /hook?hook=x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
                   content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
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

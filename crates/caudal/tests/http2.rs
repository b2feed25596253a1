//! A router over HTTP/2, by a client of another make.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use caudal::http::{Allowed, Options};
use caudal::{Router, Server};
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::Log;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

async fn within<F: IntoFuture>(work: F) -> F::Output {
    let limited = tokio::time::timeout(Duration::from_secs(30), work).await;
    limited.expect("it took longer than 30 s")
}

async fn until(done: impl Fn() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(wait).await;
}

/// Says when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// What waits for the gate says when it has begun, and when it was dropped.
fn router(gate: &Arc<Semaphore>, log: &Log) -> Router {
    let (gate, log) = (Arc::clone(gate), log.clone());
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("hold", move || {
            let (gate, log) = (Arc::clone(&gate), log.clone());
            async move {
                log.add("begun");
                let dropped = Dropped(log);
                gate.acquire().await.unwrap().forget();
                drop(dropped);
                Ok("held")
            }
        })
}

async fn start(router: Router, options: Options) -> Server {
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router);
    serve.http(options).await.unwrap()
}

fn address(server: &Server) -> String {
    let text = server.endpoint().to_string();
    text.split('/').nth(2).unwrap().to_owned()
}

/// A connection, and the task that runs it.
async fn open(server: &Server) -> (SendRequest<String>, JoinHandle<hyper::Result<()>>) {
    let socket = TcpStream::connect(address(server)).await.unwrap();
    let socket = TokioIo::new(socket);
    let opened = http2::handshake(TokioExecutor::new(), socket).await;
    let (sender, connection) = opened.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(method: Method, host: &str, call: &str) -> Request<String> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,{call}}}"#);
    Request::builder()
        .method(method)
        .uri(format!("http://{host}/rpc"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

fn post(call: &str) -> Request<String> {
    request(Method::POST, "localhost", call)
}

const ADD: &str = r#""method":"add","params":[1,2]"#;
const HOLD: &str = r#""method":"hold""#;

#[tokio::test]
async fn the_authority_is_the_host() {
    let mut options = Options::default();
    options.hosts = Allowed::of(["api.example.com"]);
    let router = router(&Arc::new(Semaphore::new(0)), &Log::default());
    let server = start(router, options).await;
    for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT] {
        for (host, refused) in [
            ("localhost", false),
            ("api.example.com", false),
            ("api.example.com:8443", false),
            ("evil.example.com", true),
            ("localhost.evil.com", true),
        ] {
            // A connection is judged by each of its requests; a header is no way around.
            let (mut sender, _) = open(&server).await;
            for host in ["localhost", host] {
                let mut request = request(method.clone(), host, ADD);
                let allowed = "localhost".parse().unwrap();
                request.headers_mut().insert("host", allowed);
                let response = within(sender.send_request(request)).await.unwrap();
                let refused = refused && host != "localhost";
                assert_eq!(response.status() == 403, refused, "{method} {host}");
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_cancels_its_handler_and_no_other() {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let server = start(router(&gate, &log), Options::default()).await;
    let (mut sender, _connection) = open(&server).await;
    let stays = tokio::spawn(sender.send_request(post(HOLD)));
    until(|| log.len() == 1).await;
    // hyper resets the stream of a response that nobody waits for.
    let goes = tokio::spawn(sender.send_request(post(HOLD)));
    until(|| log.len() == 2).await;
    goes.abort();
    until(|| log.len() == 3).await;
    assert_eq!(log.take(), ["begun", "begun", "dropped"]);
    assert_eq!(server.stats().in_flight, 1);
    gate.add_permits(1);
    let response = within(stays).await.unwrap().unwrap();
    let body = within(response.collect()).await.unwrap().to_bytes();
    assert!(body.ends_with(br#""result":"held"}"#), "{body:?}");
}

#[tokio::test]
async fn shutdown_answers_what_was_accepted() {
    let (gate, log) = (Arc::new(Semaphore::new(0)), Log::default());
    let server = start(router(&gate, &log), Options::default()).await;
    let (mut sender, connection) = open(&server).await;
    let calls: Vec<_> = (0..10)
        .map(|_| tokio::spawn(sender.send_request(post(HOLD))))
        .collect();
    until(|| log.len() == 10).await;
    let stopping = server.clone();
    let end = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(20)).await });
    let no_more = async { while TcpStream::connect(address(&server)).await.is_ok() {} };
    within(no_more).await;
    assert!(!end.is_finished(), "it waits for those that are under way");
    gate.add_permits(10);
    for call in calls {
        let response = within(call).await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        let body = within(response.collect()).await.unwrap().to_bytes();
        assert!(body.ends_with(br#""result":"held"}"#), "{body:?}");
    }
    within(end).await.unwrap();
    within(connection).await.unwrap().unwrap();
    assert_eq!(server.connections(), 0);
}

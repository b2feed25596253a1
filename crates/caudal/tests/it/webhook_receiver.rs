//! Deliveries that a receiver accepts and refuses, signed by hand.
#![cfg(feature = "webhook")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use caudal::webhook::Receiver;
use caudal::{Config, Peer, Router};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderName, Method, Request};
use sha2::Sha256;
use tokio::sync::{Semaphore, mpsc};

use crate::support::fake::{Asked, Fake};

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Session whose server is this test.
struct Session {
    receiver: Receiver,
    /// Path of the deliveries.
    path: String,
    key: [u8; 32],
    /// The request that opens the session, until it is answered.
    put: Option<Asked>,
    peer: tokio::task::JoinHandle<Peer>,
    ticks: mpsc::UnboundedReceiver<u64>,
    gate: Arc<Semaphore>,
    _server: Fake,
}

impl Session {
    async fn open(config: Config) -> Self {
        let mut session = Self::begin(config).await;
        session.answer(0).await;
        session
    }

    /// A session whose `PUT` is not answered yet.
    async fn begin(config: Config) -> Self {
        let receiver = Receiver::new("http://app.example.com/hook?hook=mine").unwrap();
        Self::with(receiver, config).await
    }

    async fn with(receiver: Receiver, config: Config) -> Self {
        let mut server = Fake::start().await;
        let (ticked, ticks) = mpsc::unbounded_channel();
        let gate = Arc::new(Semaphore::new(0));
        let blocked = Arc::clone(&gate);
        let router = Router::new()
            .method("tick", move |(n,): (u64,)| {
                ticked.send(n).unwrap();
                Ok(())
            })
            .method("wait", move || {
                let gate = Arc::clone(&blocked);
                async move { gate.acquire().await.unwrap().forget() }
            });
        let connect = caudal::connect(&*server.url("")).router(router);
        let connect = connect.config(config).webhook(&receiver);
        let peer = tokio::spawn(async move { connect.await.unwrap() });
        let put = server.expect("PUT").await;
        let url = put.json()["url"].as_str().unwrap().to_owned();
        let path = url.strip_prefix("http://app.example.com").unwrap();
        Self {
            receiver,
            path: path.to_owned(),
            key: [7; 32],
            put: Some(put),
            peer,
            ticks,
            gate,
            _server: server,
        }
    }

    /// Answers the `PUT`.
    async fn answer(&mut self, cursor: u64) {
        let secret = format!("whsec_{}", STANDARD.encode(self.key));
        let body = serde_json::json!({ "secret": secret, "cursor": cursor });
        let headers = "Mcp-Session-Id: abc\r\nContent-Type: application/json\r\n";
        let put = self.put.take().unwrap();
        put.answer("201 Created", headers, &body.to_string());
    }

    fn sign(&self, key: &[u8], id: &str, time: u64, body: &str) -> String {
        let _ = self;
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(format!("{id}.{time}.{body}").as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }

    fn request(&self, id: &str, time: u64, signature: &str, body: &str) -> Request<String> {
        Request::post(&self.path)
            .header("content-type", "application/json; charset=utf-8")
            .header(ID, id)
            .header(TIMESTAMP, time)
            .header(SIGNATURE, signature)
            .body(body.to_owned())
            .unwrap()
    }

    fn signed_at(&self, number: u64, time: u64, body: &str) -> Request<String> {
        let id = format!("msg_x_{number}");
        let signature = self.sign(&self.key, &id, time, body);
        self.request(&id, time, &signature, body)
    }

    fn signed(&self, number: u64, body: &str) -> Request<String> {
        self.signed_at(number, now(), body)
    }

    async fn status(&self, request: Request<String>) -> u16 {
        self.receiver.answer(request).await.status().as_u16()
    }

    async fn post(&self, number: u64, n: u64) -> u16 {
        self.status(self.signed(number, &tick(n))).await
    }

    /// The ticks that are handled next are these, and no others.
    async fn has(&mut self, ticks: &[u64]) {
        for n in ticks {
            assert_eq!(self.ticks.recv().await, Some(*n));
        }
        assert!(self.ticks.try_recv().is_err());
    }
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn tick(n: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"tick","params":[{n}]}}"#)
}

#[tokio::test]
async fn messages_come_in_order_and_once() {
    let mut session = Session::open(Config::default()).await;
    assert_eq!(session.post(1, 1).await, 204);
    assert_eq!(session.post(3, 3).await, 409);
    assert_eq!(session.post(u64::MAX, 9).await, 409);
    assert_eq!(session.post(2, 2).await, 204);
    // An answer that was lost: the message was accepted before.
    assert_eq!(session.post(2, 2).await, 204);
    assert_eq!(session.post(1, 1).await, 204);
    assert_eq!(session.post(0, 0).await, 204);
    assert_eq!(session.post(3, 3).await, 204);
    session.has(&[1, 2, 3]).await;
}

#[tokio::test]
async fn it_goes_on_after_the_cursor_of_the_registration() {
    let mut session = Session::begin(Config::default()).await;
    session.answer(7).await;
    assert_eq!(session.post(7, 7).await, 204);
    assert_eq!(session.post(9, 9).await, 409);
    assert_eq!(session.post(8, 8).await, 204);
    session.has(&[8]).await;
}

#[tokio::test]
async fn a_delivery_that_is_not_signed_is_refused() {
    let mut session = Session::open(Config::default()).await;
    let (now, text) = (now(), tick(1));
    let good = session.sign(&session.key, "msg_x_1", now, &text);
    let other = session.sign(&[8; 32], "msg_x_1", now, &text);
    for request in [
        session.request("msg_x_1", now, &good, &tick(2)),
        session.request("msg_x_2", now, &good, &text),
        session.request("msg_x_1", now - 1, &good, &text),
        session.request("msg_x_1", now, &other, &text),
        session.request("msg_x_1", now, "", &text),
    ] {
        assert_eq!(session.status(request).await, 401);
    }
    for header in [ID, TIMESTAMP, SIGNATURE] {
        let mut request = session.signed(1, &text);
        request.headers_mut().remove(&header);
        assert_eq!(session.status(request).await, 401, "without {header}");
        let mut request = session.signed(1, &text);
        let value = request.headers()[&header].clone();
        request.headers_mut().append(&header, value);
        assert_eq!(session.status(request).await, 401, "two of {header}");
    }
    for id in ["msg_1", "1", "msg_x_", "msg_x_y", "msg_x_+1", "x_x_1"] {
        let signature = session.sign(&session.key, id, now, &text);
        let request = session.request(id, now, &signature, &text);
        assert_eq!(session.status(request).await, 400, "{id}");
    }
    let several = format!("v1,AAAA {good} v2,x");
    let request = session.request("msg_x_1", now, &several, &text);
    assert_eq!(session.status(request).await, 204, "one is right");
    session.has(&[1]).await;
}

#[tokio::test]
async fn a_delivery_more_than_five_minutes_off_is_refused() {
    let mut session = Session::open(Config::default()).await;
    let now = now();
    // Time may pass meanwhile.
    for (time, status) in [
        (now + 310, 401),
        (now - 310, 401),
        (now + 290, 204),
        (now - 290, 204),
    ] {
        let request = session.signed_at(1, time, &tick(1));
        assert_eq!(session.status(request).await, status, "{time}");
    }
    session.has(&[1]).await;
}

#[tokio::test]
async fn a_request_that_is_no_webhook_is_refused() {
    let mut session = Session::open(Config::default()).await;
    let mut request = session.signed(1, &tick(1));
    *request.method_mut() = Method::GET;
    assert_eq!(session.status(request).await, 405);
    let mut request = session.signed(1, &tick(1));
    request.headers_mut().remove("content-type");
    assert_eq!(session.status(request).await, 415);
    for path in ["/", "/?hook", "/?hook=", "/?hook=mine", "/?hook=mine&x=y"] {
        let mut request = session.signed(1, &tick(1));
        *request.uri_mut() = path.parse().unwrap();
        assert_eq!(session.status(request).await, 404, "{path}");
    }
    assert_eq!(session.post(1, 1).await, 204);
    session.has(&[1]).await;
}

#[tokio::test]
async fn a_message_that_is_too_large_is_passed_over_if_it_is_signed() {
    let mut config = Config::default();
    config.policy.max_message = 100;
    let mut session = Session::open(config).await;
    let large = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(5000));
    let now = now();
    let other = session.sign(&[8; 32], "msg_x_1", now, &large);
    let forged = session.request("msg_x_1", now, &other, &large);
    assert_eq!(session.status(forged).await, 401);
    let accepted = session.signed(1, &large);
    assert_eq!(session.status(accepted).await, 204);
    assert_eq!(session.post(2, 2).await, 204);
    session.has(&[2]).await;
    let peer = session.peer.await.unwrap();
    assert_eq!(peer.stats().dropped, 1);
}

#[tokio::test]
async fn a_delivery_waits_for_its_secret() {
    let mut session = Session::begin(Config::default()).await;
    let (receiver, request) = (session.receiver.clone(), session.signed(1, &tick(1)));
    let waits = tokio::spawn(async move { receiver.answer(request).await });
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    session.answer(0).await;
    assert_eq!(waits.await.unwrap().status().as_u16(), 204);
    session.has(&[1]).await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_refused_if_its_secret_does_not_come() {
    let session = Session::begin(Config::default()).await;
    assert_eq!(session.post(1, 1).await, 503);
}

#[tokio::test]
async fn a_receiver_that_is_full_takes_deliveries_when_there_is_room() {
    let mut config = Config::default();
    config.queue = 2000;
    let mut session = Session::open(config).await;
    let wait = r#"{"jsonrpc":"2.0","method":"wait"}"#;
    assert_eq!(session.status(session.signed(1, wait)).await, 204);
    // All that comes after it waits: in the connection, before it, and at last here.
    let mut number = 2;
    let waits = loop {
        assert!(number < 1000, "it is never full");
        let (receiver, request) = (
            session.receiver.clone(),
            session.signed(number, &tick(number)),
        );
        let mut answer = tokio::spawn(async move { receiver.answer(request).await });
        match tokio::time::timeout(Duration::from_millis(100), &mut answer).await {
            Ok(response) => assert_eq!(response.unwrap().status().as_u16(), 204),
            Err(_) => break answer,
        }
        number += 1;
    };
    session.gate.add_permits(1);
    assert_eq!(waits.await.unwrap().status().as_u16(), 204);
    session.has(&(2..=number).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn both_ends_may_end_it() {
    let mut session = Session::open(Config::default()).await;
    assert_eq!(session.post(1, 1).await, 204);
    session.has(&[1]).await;
    let request = session.signed(2, &tick(2));
    let peer = session.peer.await.unwrap();
    peer.close();
    peer.closed().await;
    let response = session.receiver.answer(request).await;
    assert_eq!(response.status().as_u16(), 404);

    let session = Session::open(Config::default()).await;
    let peer = session.peer.await.unwrap();
    drop(session.receiver);
    let reason = peer.closed().await;
    let reason = std::error::Error::source(&reason).unwrap().to_string();
    assert!(reason.contains("receiver was dropped"), "{reason}");
}

#[tokio::test]
async fn sessions_of_one_receiver_do_not_mix() {
    let mut one = Session::open(Config::default()).await;
    let mut two = Session::with(one.receiver.clone(), Config::default()).await;
    two.key = [9; 32];
    two.answer(0).await;
    assert_eq!(one.post(1, 1).await, 204);
    assert_eq!(two.post(1, 2).await, 204);
    // The right signature in the wrong place.
    let mut request = one.signed(2, &tick(3));
    *request.uri_mut() = two.path.parse().unwrap();
    assert_eq!(one.status(request).await, 401);
    one.has(&[1]).await;
    two.has(&[2]).await;
}

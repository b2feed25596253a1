//! Delivery of a session's messages to a webhook, over sockets, with a clock that the test
//! moves.
#![cfg(feature = "webhook")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{eventually_now, pass_time, while_time_passes};
use caudal::http::{Http, Options};
use caudal::webhook::Receiver;
use caudal::{Config, Peer, Router};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Reaction of the web server to one request.
#[derive(Clone, Debug)]
enum Reply {
    /// A response, after which the connection goes on.
    Send(String),
    /// A response, after which it is closed.
    SendAndClose(String),
    /// A response, after which nothing happens.
    SendAndWait(Vec<u8>),
    /// A response after three seconds.
    SendLate(String),
}

fn status(status: u16) -> Reply {
    Reply::Send(format!(
        "HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n"
    ))
}

/// Request that a web server got.
#[derive(Clone, Debug)]
struct Delivery {
    path: String,
    headers: HashMap<String, String>,
    body: String,
    /// Number of its connection.
    connection: usize,
}

/// Web server that replies by a script, and then accepts everything.
struct WebServer {
    url: String,
    deliveries: mpsc::UnboundedReceiver<Delivery>,
    /// Numbers of the connections that the other side has closed.
    closed: Arc<Mutex<Vec<usize>>>,
}

impl WebServer {
    async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), script)
    }

    fn on(listener: TcpListener, script: impl IntoIterator<Item = Reply>) -> Self {
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let script: VecDeque<_> = script.into_iter().collect();
        let script = Arc::new(Mutex::new(script));
        let (sender, deliveries) = mpsc::unbounded_channel();
        let closed = Arc::<Mutex<Vec<usize>>>::default();
        let ended = Arc::clone(&closed);
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                let (script, sender) = (Arc::clone(&script), sender.clone());
                let ended = Arc::clone(&ended);
                tokio::spawn(async move {
                    serve(socket, connection, &script, &sender).await;
                    ended.lock().unwrap().push(connection);
                });
            }
        });
        Self {
            url,
            deliveries,
            closed,
        }
    }

    /// The next delivery, whatever time must pass until it comes.
    async fn next(&mut self) -> Delivery {
        while_time_passes(self.deliveries.recv()).await.unwrap()
    }
}

async fn serve(
    socket: TcpStream,
    connection: usize,
    script: &Mutex<VecDeque<Reply>>,
    deliveries: &mpsc::UnboundedSender<Delivery>,
) {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut headers, mut line) = (HashMap::new(), String::new());
        if socket.read_line(&mut line).await.unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap().to_owned();
        loop {
            line.clear();
            socket.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length");
        let mut body = vec![0; length.map_or(0, |length: &String| length.parse().unwrap())];
        socket.read_exact(&mut body).await.unwrap();
        let body = String::from_utf8(body).unwrap();
        let _ = deliveries.send(Delivery {
            path,
            headers,
            body,
            connection,
        });
        let reply = script.lock().unwrap().pop_front();
        let socket = socket.get_mut();
        // The other side need not read it all.
        match reply.unwrap_or_else(|| status(204)) {
            Reply::Send(text) => drop(socket.write_all(text.as_bytes()).await),
            Reply::SendLate(text) => {
                tokio::time::sleep(Duration::from_secs(3)).await;
                let _ = socket.write_all(text.as_bytes()).await;
            }
            Reply::SendAndClose(text) => return drop(socket.write_all(text.as_bytes()).await),
            Reply::SendAndWait(text) => {
                let _ = socket.write_all(&text).await;
                let mut rest = Vec::new();
                let _ = socket.read_to_end(&mut rest).await;
                return;
            }
        }
    }
}

/// A session with a webhook, without any server but this service.
struct Session {
    http: Http,
    peer: Peer,
    id: String,
    /// Response to the `PUT`.
    registered: serde_json::Value,
}

impl Session {
    async fn with(url: &str) -> Self {
        let mut options = Options::default();
        options.private_webhooks = true;
        Self::with_options(url, options).await
    }

    async fn with_options(url: &str, options: Options) -> Self {
        let http = Http::with(Router::new(), Config::default(), options);
        let body = serde_json::json!({ "url": url }).to_string();
        let response = put(&http, body).await;
        assert_eq!(response.status(), StatusCode::CREATED);
        let id = response.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        let peer = http.peers().pop().unwrap();
        Self {
            peer,
            id,
            registered: serde_json::from_slice(&text).unwrap(),
            http,
        }
    }

    async fn tick(&self, n: u64) {
        self.peer.notify("tick", (n,)).await.unwrap();
    }

    /// Asks whether the session is there.
    async fn head(&self) -> StatusCode {
        let request = Request::head("http://localhost/").header("mcp-session-id", &self.id);
        let response = self.http.answer(request.body(String::new()).unwrap()).await;
        response.status()
    }

    async fn closed(&self) {
        while !self.http.peers().is_empty() {
            pass_time().await;
        }
    }
}

async fn put(http: &Http, body: String) -> http::Response<caudal::http::Body> {
    let request = Request::put("http://localhost/")
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    http.answer(request).await
}

fn tick(n: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"tick","params":[{n}]}}"#)
}

#[tokio::test(start_paused = true)]
async fn messages_are_delivered_in_order_on_one_connection() {
    let mut server = WebServer::start([]).await;
    let session = Session::with(&server.url).await;
    for n in 1..=50 {
        session.tick(n).await;
    }
    for n in 1..=50 {
        let delivery = server.next().await;
        assert_eq!((delivery.body, delivery.connection), (tick(n), 0));
        let id = &delivery.headers["webhook-id"];
        assert!(id.ends_with(&format!("_{n}")), "{id}");
        assert_eq!(delivery.headers["content-type"], "application/json");
        let host = server.url.split('/').nth(2).unwrap();
        assert_eq!(delivery.headers["host"], host);
    }
    let large = "x".repeat(1 << 20);
    session.peer.notify("large", (&large,)).await.unwrap();
    assert!(server.next().await.body.contains(&large));
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_fails_is_tried_again_with_the_same_id() {
    let script = [
        status(500),
        status(302),
        Reply::SendAndClose(String::new()),
        Reply::SendAndClose("nonsense\r\n\r\n".to_owned()),
        Reply::SendAndClose("HTTP/1.1 xyz\r\n\r\n".to_owned()),
        // Longer than a response may take.
        Reply::SendAndWait(Vec::new()),
        status(204),
        status(429),
    ];
    let mut server = WebServer::start(script).await;
    let session = Session::with(&server.url).await;
    session.tick(1).await;
    session.tick(2).await;
    let first = server.next().await;
    for _ in 0..6 {
        let again = server.next().await;
        assert_eq!(again.body, tick(1));
        assert_eq!(again.headers["webhook-id"], first.headers["webhook-id"]);
    }
    for _ in 0..2 {
        let next = server.next().await;
        assert_eq!(next.body, tick(2));
        assert_ne!(next.headers["webhook-id"], first.headers["webhook-id"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_not_there_yet_is_waited_for() {
    // Bound and not listening: connections are refused.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    let session = Session::with(&url).await;
    session.tick(1).await;
    for _ in 0..8 {
        pass_time().await;
    }
    let mut server = WebServer::on(socket.listen(16).unwrap(), []);
    assert_eq!(server.next().await.body, tick(1));
}

#[tokio::test(start_paused = true)]
async fn a_redirect_is_not_followed_and_after_eight_attempts_the_session_ends() {
    let mut elsewhere = WebServer::start([]).await;
    let redirect = format!(
        "HTTP/1.1 307 Moved\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
        elsewhere.url
    );
    let mut server = WebServer::start(vec![Reply::Send(redirect); 20]).await;
    let session = Session::with(&server.url).await;
    session.tick(1).await;
    let begun = tokio::time::Instant::now();
    for _ in 0..8 {
        assert_eq!(server.next().await.body, tick(1));
    }
    let took = begun.elapsed();
    // 1, 2, 4, 8, 16, 32 and 60 s, or down to half of that.
    assert!(took >= Duration::from_secs(61), "{took:?}");
    session.closed().await;
    assert!(server.deliveries.try_recv().is_err());
    assert!(elsewhere.deliveries.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_private_address_may_not_be_registered() {
    let mut server = WebServer::start([]).await;
    let http = Http::new(Router::new());
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"] {
        let body = serde_json::json!({ "url": format!("http://{host}:{port}") });
        let refused = put(&http, body.to_string()).await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{host}");
    }
    assert!(http.peers().is_empty());
    assert!(server.deliveries.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_meanwhile_is_not_a_failure() {
    let accept = Reply::SendAndClose("HTTP/1.1 204 No Content\r\n\r\n".to_owned());
    let mut server = WebServer::start(vec![accept; 5]).await;
    let session = Session::with(&server.url).await;
    for n in 1..=5 {
        session.tick(n).await;
    }
    for n in 1..=5 {
        assert_eq!(server.next().await.body, tick(n), "none comes twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_if_its_response_was_read() {
    let with_body = |size| {
        let body = "x".repeat(size);
        Reply::Send(format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{body}"
        ))
    };
    for (size, connection) in [(0, 0), (4096, 0), (4097, 1)] {
        let mut server = WebServer::start([with_body(size)]).await;
        let session = Session::with(&server.url).await;
        session.tick(1).await;
        session.tick(2).await;
        assert_eq!(server.next().await.connection, 0);
        let second = server.next().await;
        assert_eq!((second.body, second.connection), (tick(2), connection));
    }
}

#[tokio::test(start_paused = true)]
async fn only_so_much_of_a_response_is_read() {
    // The status counts, whatever comes behind it and however long it takes.
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n".to_vec();
    let endless = [endless, vec![b'x'; 1 << 20]].concat();
    let announced = b"HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n".to_vec();
    for text in [endless, announced] {
        let mut server = WebServer::start([Reply::SendAndWait(text)]).await;
        let session = Session::with(&server.url).await;
        session.tick(1).await;
        session.tick(2).await;
        assert_eq!(server.next().await.body, tick(1));
        let second = server.next().await;
        assert_eq!((second.body, second.connection), (tick(2), 1));
    }
    for (size, next) in [(7_000, 2), (9_000, 1), (1 << 20, 1)] {
        let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(size));
        let mut server = WebServer::start([Reply::SendAndClose(head)]).await;
        let session = Session::with(&server.url).await;
        session.tick(1).await;
        session.tick(2).await;
        assert_eq!(server.next().await.body, tick(1));
        assert_eq!(server.next().await.body, tick(next), "{size}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_idle_is_closed() {
    let mut server = WebServer::start([]).await;
    let session = Session::with(&server.url).await;
    session.tick(1).await;
    server.next().await;
    let begun = tokio::time::Instant::now();
    while server.closed.lock().unwrap().is_empty() {
        pass_time().await;
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(29), "{took:?}");
    session.tick(2).await;
    let second = server.next().await;
    assert_eq!((second.body, second.connection), (tick(2), 1));
}

#[tokio::test(start_paused = true)]
async fn every_registration_has_its_own_secret_and_names() {
    let mut server = WebServer::start([]).await;
    let (one, other) = (
        Session::with(&server.url).await,
        Session::with(&server.url).await,
    );
    assert_ne!(one.registered["secret"], other.registered["secret"]);
    assert_eq!(one.registered["cursor"], 0);
    one.tick(1).await;
    let first = server.next().await.headers["webhook-id"].clone();
    other.tick(1).await;
    assert_ne!(server.next().await.headers["webhook-id"], first);
}

#[cfg(feature = "tls")]
#[tokio::test(start_paused = true)]
async fn a_receiver_with_tls_is_called_if_its_certificate_is_trusted() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let shown = params.self_signed(&key).unwrap().pem();
    // Another server of JSON-RPC answers a notification with 204, too.
    let (ticked, mut ticks) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (u64,)| {
        ticked.send(n).unwrap();
        Ok(())
    });
    let mut served = Options::default();
    served.tls = Some(caudal::tls::ServerTls::new(shown.clone(), key.serialize_pem()).unwrap());
    let serve = caudal::serve("https://127.0.0.1:0/", router).http(served);
    let server = serve.await.unwrap();
    let url = server.endpoint().to_string();
    for trusted in [false, true] {
        let mut options = Options::default();
        options.private_webhooks = true;
        let roots = caudal::tls::ClientTls::with_roots(shown.clone()).unwrap();
        options.webhook_tls = trusted.then_some(roots);
        let session = Session::with_options(&url, options).await;
        session.tick(u64::from(trusted)).await;
        if !trusted {
            session.closed().await;
            continue;
        }
        let first = while_time_passes(ticks.recv()).await;
        assert_eq!(first, Some(1), "nothing was said to whom nobody trusts");
    }
}

/// Serves sessions on a socket; with the number of its responses.
async fn mount(http: &Http) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let responses = Arc::<AtomicUsize>::default();
    let (http, counted) = (http.clone(), Arc::clone(&responses));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (http, counted) = (http.clone(), Arc::clone(&counted));
            let service = hyper::service::service_fn(move |request| {
                let (http, counted) = (http.clone(), Arc::clone(&counted));
                async move {
                    let response = http.answer(request).await;
                    counted.fetch_add(1, SeqCst);
                    Ok::<_, std::convert::Infallible>(response)
                }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            let io = hyper_util::rt::TokioIo::new(socket);
            tokio::spawn(builder.serve_connection(io, service));
        }
    });
    (address, responses)
}

/// Options of a server whose sessions last for half a minute.
fn half_a_minute() -> Options {
    let mut options = Options::default();
    options.private_webhooks = true;
    options.session_timeout = Some(Duration::from_secs(30));
    options
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_accepts_and_head_keep_a_session() {
    let mut server = WebServer::start([]).await;
    let session = Session::with_options(&server.url, half_a_minute()).await;
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(session.head().await, StatusCode::NO_CONTENT);
    }
    for n in 1..=5 {
        tokio::time::advance(Duration::from_secs(20)).await;
        session.tick(n).await;
        assert_eq!(server.next().await.body, tick(n));
        // It is accepted.
        pass_time().await;
    }
    assert!(!session.peer.state().is_closed());
    tokio::time::advance(Duration::from_secs(31)).await;
    session.closed().await;
    assert_eq!(session.head().await, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_keeps_its_session() {
    let http = Http::with(Router::new(), Config::default(), half_a_minute());
    let (address, responses) = mount(&http).await;
    let receiver = Receiver::new("http://127.0.0.1:9/hook").unwrap();
    let peer = caudal::connect(&*address).webhook(&receiver).await.unwrap();
    // It has begun to wait.
    pass_time().await;
    // It asks whether its session is there three times as often as it must.
    for n in 2..20 {
        let responses = Arc::clone(&responses);
        tokio::time::advance(Duration::from_secs(10)).await;
        eventually_now("it asks", move || responses.load(SeqCst) == n).await;
        // It reads the response.
        pass_time().await;
    }
    assert!(!http.peers()[0].state().is_closed() && !peer.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_what_a_receiver_is_owed() {
    let late =
        |status| Reply::SendLate(format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n"));
    let mut server = WebServer::start([late(503), late(204), late(204)]).await;
    let session = Session::with(&server.url).await;
    session.tick(1).await;
    assert_eq!(server.next().await.body, tick(1));
    let http = session.http.clone();
    let end = tokio::spawn(async move { http.shutdown(Duration::from_secs(25)).await });
    assert_eq!(server.next().await.body, tick(1), "it is wanted again");
    assert!(!end.is_finished(), "it was not accepted");
    assert_eq!(server.next().await.body, "", "the last delivery is empty");
    assert!(!end.is_finished(), "it was not accepted");
    while_time_passes(end).await.unwrap();
}

/// Sends what was overheard.
async fn replay(receiver: &Receiver, delivery: &Delivery) -> StatusCode {
    let mut request = Request::post(&delivery.path);
    for (name, value) in &delivery.headers {
        request = request.header(name, value);
    }
    let request = request.body(delivery.body.clone()).unwrap();
    receiver.answer(request).await.status()
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_is_replayed_or_changed_comes_to_nothing() {
    let mut server = WebServer::start([]).await;
    let mut options = Options::default();
    options.private_webhooks = true;
    let http = Http::with(Router::new(), Config::default(), options);
    // The receiver is reached by hand, through what the web server has overheard.
    let receiver = Receiver::new(&server.url).unwrap();
    let (address, _) = mount(&http).await;
    let (ticked, mut ticks) = mpsc::unbounded_channel();
    let router = Router::new().method("tick", move |(n,): (u64,)| {
        ticked.send(n).unwrap();
        Ok(())
    });
    let connect = caudal::connect(&*address).router(router);
    let _peer = connect.webhook(&receiver).await.unwrap();
    let peers = http.peers();
    peers[0].notify("tick", (1,)).await.unwrap();
    let delivery = server.next().await;
    assert_eq!(replay(&receiver, &delivery).await, StatusCode::NO_CONTENT);
    assert_eq!(ticks.recv().await, Some(1));
    assert_eq!(
        replay(&receiver, &delivery).await,
        StatusCode::NO_CONTENT,
        "it was accepted before"
    );
    let mut changed = delivery.clone();
    changed.body = changed.body.replace("[1]", "[2]");
    assert_eq!(replay(&receiver, &changed).await, StatusCode::UNAUTHORIZED);
    let mut renumbered = delivery.clone();
    let id = renumbered.headers["webhook-id"].replace("_1", "_2");
    renumbered.headers.insert("webhook-id".to_owned(), id);
    assert_eq!(
        replay(&receiver, &renumbered).await,
        StatusCode::UNAUTHORIZED
    );
    assert!(ticks.try_recv().is_err());
}

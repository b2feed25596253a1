//! Tests: delivery over sockets of this machine, to a receiver that fails at will.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::deliver::DeliveryError;
use super::receiver::Hook;
use super::register::random_name;
use super::target::TargetError;
use super::*;
use crate::config::Config;
use crate::http::{Body, ClientOptions, Options, dial_at, read};
use crate::peer::Backoff;

/// What the web server of a client does with one request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Pass,
    Answer(u16),
    /// Accepts it, with so many bytes in the response.
    Say(usize),
    /// The receiver gets it, and its answer is lost.
    PassAndHangUp,
    HangUp,
}

/// What was seen of one request.
type Seen = (HeaderMap, Bytes);

/// The web server of a client.
struct Site {
    address: SocketAddr,
    script: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

impl Site {
    async fn start(receiver: Option<Receiver>, script: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, receiver, script)
    }

    fn on(listener: TcpListener, receiver: Option<Receiver>, script: &[Act]) -> Self {
        let site = Self {
            address: listener.local_addr().unwrap(),
            script: Arc::new(Mutex::new(script.iter().copied().collect())),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let (script, seen) = (Arc::clone(&site.script), Arc::clone(&site.seen));
        let connections = Arc::clone(&site.connections);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                *connections.lock().unwrap() += 1;
                let receiver = receiver.clone();
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                let service = service_fn(move |request| {
                    serve(request, receiver.clone(), script.clone(), seen.clone())
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(async move {
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        site
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
struct Cut;

async fn serve(
    request: Request<Incoming>,
    receiver: Option<Receiver>,
    script: Arc<Mutex<VecDeque<Act>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let body = read(body, 1 << 20, Duration::ZERO).await.map_err(|_| Cut)?;
    seen.lock()
        .unwrap()
        .push((head.headers.clone(), body.clone()));
    let act = script.lock().unwrap().pop_front().unwrap_or(Act::Pass);
    let pass = async {
        let request = Request::from_parts(head, Body::whole(body));
        let receiver = receiver.expect("there is a receiver");
        receiver.answer(request).await
    };
    match act {
        Act::Pass => Ok(pass.await),
        Act::PassAndHangUp => {
            assert_eq!(pass.await.status(), StatusCode::NO_CONTENT);
            Err(Cut)
        }
        Act::HangUp => Err(Cut),
        Act::Say(size) => Ok(Response::new(Body::whole(vec![b'x'; size]))),
        Act::Answer(status) => {
            let response = Response::builder().status(status);
            Ok(response.body(Body::whole("no")).unwrap())
        }
    }
}

/// Messages to be sent, and the numbers of those that arrived.
struct List {
    messages: VecDeque<(u64, Bytes)>,
    acknowledged: Arc<Mutex<Vec<u64>>>,
    /// Whether it goes on when all are sent.
    endless: bool,
}

impl List {
    fn of(count: u64) -> Self {
        let message = |n| (n, format!(r#"{{"jsonrpc":"2.0","method":"{n}"}}"#).into());
        Self {
            messages: (1..=count).map(message).collect(),
            acknowledged: Arc::default(),
            endless: false,
        }
    }

    fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.lock().unwrap().clone()
    }
}

impl Outbox for List {
    async fn next(&mut self) -> Option<(u64, Bytes)> {
        match self.messages.front() {
            Some(message) => Some(message.clone()),
            None if self.endless => pending().await,
            None => None,
        }
    }

    fn acknowledge(&mut self, number: u64) {
        self.messages.retain(|(n, _)| *n > number);
        self.acknowledged.lock().unwrap().push(number);
    }
}

/// Tries so often again, at once.
fn pace(tries: u32) -> Pace {
    Pace {
        backoff: Backoff {
            first: Duration::from_millis(2),
            factor: 1.0,
            longest: Duration::from_millis(2),
            tries: Some(tries),
        },
        attempt: Duration::from_secs(30),
        idle: Duration::from_secs(30),
    }
}

fn private() -> Options {
    Options {
        private_webhooks: true,
        ..Options::default()
    }
}

async fn registered(url: &str) -> Registration {
    let options = private();
    let body = serde_json::json!({ "url": url }).to_string();
    register(body.as_bytes(), &options, &Lookup::default())
        .await
        .unwrap()
}

/// A registration whose receiver is not caudal's.
async fn registered_at(address: SocketAddr) -> Registration {
    registered(&format!("http://{address}/hook")).await
}

/// Client and server, joined.
struct Pair {
    site: Site,
    hook: Hook,
    registration: Registration,
}

impl Pair {
    async fn new(script: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script).await
    }

    async fn on(listener: TcpListener, script: &[Act]) -> Self {
        let address = listener.local_addr().unwrap();
        let receiver = Receiver::new(&format!("http://{address}/hook")).unwrap();
        let hook = receiver.open(&Config::default()).unwrap();
        let options = private();
        let registration = register(&hook.ask(), &options, &Lookup::default())
            .await
            .unwrap();
        hook.begin(&registration.answer(0, &options)).unwrap();
        Self {
            site: Site::on(listener, Some(receiver), script),
            hook,
            registration,
        }
    }

    async fn deliver(&self, list: &mut List, tries: u32) -> Ended {
        run(&self.registration, list, &pace(tries)).await
    }

    async fn has(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for n in numbers {
            let frame = poll_fn(|cx| self.hook.poll_frame(cx));
            let frame = timeout(Duration::from_secs(60), frame).await;
            let frame = frame.expect("a message is missing").unwrap();
            assert_eq!(frame, format!(r#"{{"jsonrpc":"2.0","method":"{n}"}}"#));
        }
    }

    async fn has_no_more(&mut self) {
        let frame = poll_fn(|cx| self.hook.poll_frame(cx));
        let frame = timeout(Duration::from_millis(20), frame).await;
        assert!(frame.is_err(), "{frame:?}");
    }
}

async fn run(to: &Registration, list: &mut List, pace: &Pace) -> Ended {
    let delivered = deliver(to, list, pace);
    let ended = timeout(Duration::from_secs(120), delivered).await;
    ended.expect("it does not end")
}

#[tokio::test]
async fn messages_arrive_in_order_on_one_connection() {
    let mut pair = Pair::new(&[]).await;
    let mut list = List::of(50);
    assert!(matches!(pair.deliver(&mut list, 0).await, Ended::Empty));
    assert_eq!(list.acknowledged(), (1..=50).collect::<Vec<_>>());
    pair.has(1..=50).await;
    pair.has_no_more().await;
    assert_eq!(pair.site.connections(), 1);
    let (head, body) = &pair.site.seen()[1];
    assert_eq!(head["content-type"], "application/json");
    assert_eq!(head["host"], pair.site.address.to_string());
    assert!(head["webhook-id"].to_str().unwrap().ends_with("_2"));
    assert_eq!(head["content-length"], body.len().to_string());
}

#[tokio::test]
async fn a_delivery_that_fails_is_tried_again() {
    use Act::*;
    let script = [
        Answer(500),
        Answer(503),
        Answer(302),
        Pass,
        HangUp,
        Answer(404),
        Pass,
        PassAndHangUp,
        Answer(429),
    ];
    let mut pair = Pair::new(&script).await;
    let mut list = List::of(5);
    assert!(matches!(pair.deliver(&mut list, 3).await, Ended::Empty));
    assert_eq!(list.acknowledged(), [1, 2, 3, 4, 5]);
    pair.has(1..=5).await;
    pair.has_no_more().await;
    let id = |n: usize| pair.site.seen()[n].0["webhook-id"].clone();
    assert_eq!(id(0), id(3));
    assert_ne!(id(3), id(4));
}

#[tokio::test]
async fn a_receiver_that_is_not_there_yet_is_waited_for() {
    // Bound and not listening: connections are refused, and nobody else gets it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let receiver = Receiver::new(&format!("http://{address}/hook")).unwrap();
    let mut hook = receiver.open(&Config::default()).unwrap();
    let options = private();
    let registration = register(&hook.ask(), &options, &Lookup::default())
        .await
        .unwrap();
    hook.begin(&registration.answer(0, &options)).unwrap();

    let refused = run(&registration, &mut List::of(1), &pace(2)).await;
    assert!(matches!(refused, Ended::Failed(DeliveryError::Dial(_))));

    let delivery = tokio::spawn(async move {
        let mut list = List::of(3);
        let ended = run(&registration, &mut list, &pace(100_000)).await;
        (matches!(ended, Ended::Empty), list.acknowledged())
    });
    sleep(Duration::from_millis(30)).await;
    assert!(!delivery.is_finished());
    let _site = Site::on(socket.listen(16).unwrap(), Some(receiver), &[]);
    assert_eq!(delivery.await.unwrap(), (true, vec![1, 2, 3]));
    let first = poll_fn(|cx| hook.poll_frame(cx)).await.unwrap();
    assert_eq!(first, r#"{"jsonrpc":"2.0","method":"1"}"#);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Site::start(None, &[]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let there = format!("http://{}/", elsewhere.address);
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (there, count) = (there.clone(), Arc::clone(&count));
            let service = service_fn(move |_: Request<Incoming>| {
                *count.lock().unwrap() += 1;
                let response = Response::builder().status(307).header(LOCATION, &there);
                let response = response.body(Body::empty()).unwrap();
                async { Ok::<_, Infallible>(response) }
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(socket), service));
        }
    });
    let registration = registered_at(address).await;
    let mut list = List::of(2);
    let ended = run(&registration, &mut list, &pace(2)).await;
    let Ended::Failed(DeliveryError::Status(status)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(status, 307);
    assert_eq!(*asked.lock().unwrap(), 3);
    assert_eq!(elsewhere.connections(), 0);
    assert!(list.acknowledged().is_empty());
}

#[tokio::test]
async fn an_inner_address_is_not_even_dialled() {
    let site = Site::start(None, &[]).await;
    let port = site.address.port();
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        // As if it had been public when it was registered.
        let mut registration = registered(&format!("http://{host}:{port}/")).await;
        registration.private = false;
        let ended = run(&registration, &mut List::of(1), &pace(1)).await;
        assert!(
            matches!(
                ended,
                Ended::Failed(DeliveryError::Target(TargetError::Private))
            ),
            "{host}: {ended:?}"
        );
    }
    assert_eq!(site.connections(), 0);
}

#[tokio::test]
async fn the_address_that_was_checked_is_the_one_that_is_called() {
    let site = Site::start(Some(Receiver::new("http://a/").unwrap()), &[]).await;
    // A second look at this name would find nothing.
    let url = target::HookUrl::parse("http://name.invalid:1/").unwrap();
    let options = ClientOptions::default();
    let mut socket = dial_at(site.address, &url.target(), &options)
        .await
        .unwrap();
    let request = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert_eq!(site.seen().len(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_that_never_answers_leaves_time_for_the_next() {
    // Where nobody accepts, connections wait in a short line, and those after them
    // get no answer.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let silent = socket.listen(1).unwrap();
    let silent_at = silent.local_addr().unwrap();
    let mut line = Vec::new();
    while let Ok(connected) =
        timeout(Duration::from_millis(500), TcpStream::connect(silent_at)).await
    {
        line.push(connected.unwrap());
        assert!(line.len() < 100, "it answers");
    }
    let site = Site::start(None, &[]).await;
    let url = target::HookUrl::parse("http://name.invalid:1/").unwrap();
    let options = ClientOptions::default();
    let time = Duration::from_secs(4);
    let dialled = |addresses: Vec<SocketAddr>| {
        let (url, options) = (&url, &options);
        async move {
            let target = url.target();
            let dialled = crate::http::session::webhook::deliver::dial_any(
                &addresses, &target, options, time,
            );
            timeout(time, dialled).await
        }
    };
    assert!(
        dialled(vec![silent_at, site.address])
            .await
            .unwrap()
            .is_ok()
    );
    let two = vec![silent_at, silent_at, site.address];
    assert!(dialled(two).await.unwrap().is_ok());
    assert!(!matches!(dialled(vec![silent_at]).await, Ok(Ok(_))));
}

#[tokio::test]
async fn large_messages_arrive_whole() {
    let mut pair = Pair::new(&[]).await;
    let large = Bytes::from(vec![b'x'; 1 << 20]);
    let mut list = List::of(0);
    list.messages = (1..=3).map(|n| (n, large.clone())).collect();
    assert!(matches!(pair.deliver(&mut list, 0).await, Ended::Empty));
    for _ in 1..=3 {
        let frame = poll_fn(|cx| pair.hook.poll_frame(cx)).await.unwrap();
        assert!(frame == large);
    }
}

#[tokio::test]
async fn gone_ends_it_at_once() {
    let site = Site::start(None, &[Act::Answer(410)]).await;
    let registration = registered_at(site.address).await;
    let ended = run(&registration, &mut List::of(2), &pace(7)).await;
    assert!(matches!(
        ended,
        Ended::Failed(DeliveryError::Status(StatusCode::GONE))
    ));
    assert_eq!(site.seen().len(), 1);
}

#[tokio::test]
async fn it_is_given_up_after_eight_tries() {
    let site = Site::start(None, &[Act::Answer(500); 100]).await;
    let registration = registered_at(site.address).await;
    let tries = Pace::default().backoff.tries.unwrap();
    let mut list = List::of(2);
    let ended = run(&registration, &mut list, &pace(tries)).await;
    assert!(matches!(ended, Ended::Failed(DeliveryError::Status(_))));
    assert_eq!(site.seen().len(), 8);
    assert!(list.acknowledged().is_empty());
}

#[tokio::test]
async fn a_lost_answer_does_not_make_two_messages() {
    use Act::*;
    let script = [PassAndHangUp, PassAndHangUp, Pass, PassAndHangUp];
    let mut pair = Pair::new(&script).await;
    assert!(matches!(
        pair.deliver(&mut List::of(3), 5).await,
        Ended::Empty
    ));
    pair.has(1..=3).await;
    pair.has_no_more().await;
    assert!(pair.site.seen().len() > 3);
}

#[tokio::test]
async fn a_replayed_or_changed_delivery_comes_to_nothing() {
    let mut pair = Pair::new(&[]).await;
    pair.deliver(&mut List::of(2), 0).await;
    pair.has(1..=2).await;
    let url = pair.registration.url.as_str().to_owned();
    for (head, body) in pair.site.seen() {
        assert_eq!(replay(&url, &head, &body).await, 204);
        let changed = Bytes::from(body.to_ascii_uppercase());
        assert_eq!(replay(&url, &head, &changed).await, 401);
    }
    let (mut head, body) = pair.site.seen().remove(1);
    let id = head["webhook-id"].to_str().unwrap();
    let next = id.strip_suffix('2').unwrap().to_owned() + "3";
    head.insert("webhook-id", next.parse().unwrap());
    assert_eq!(replay(&url, &head, &body).await, 401);
    pair.has_no_more().await;
}

/// Sends what was overheard, by hand.
async fn replay(url: &str, head: &HeaderMap, body: &[u8]) -> u16 {
    let (host, path) = url
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let mut text = format!("POST /{path} HTTP/1.1\r\nconnection: close\r\n");
    for (name, value) in head {
        text += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    let mut socket = TcpStream::connect(host).await.unwrap();
    let text = [text.as_bytes(), b"\r\n", body].concat();
    socket.write_all(&text).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

/// A server that reads one request of a connection, says `answer`, and then closes
/// it or does nothing. Tells how many connections there were.
async fn raw(answer: Vec<u8>, close: bool) -> (SocketAddr, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(Mutex::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            *count.lock().unwrap() += 1;
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"}") {
                    socket.read_buf(&mut request).await.unwrap();
                }
                // The other side need not read it all.
                let _ = socket.write_all(&answer).await;
                if !close {
                    pending::<()>().await;
                }
            });
        }
    });
    (address, connections)
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_a_failure() {
    let (address, connections) = raw(b"HTTP/1.1 204 No Content\r\n\r\n".into(), true).await;
    let registration = registered_at(address).await;
    let mut list = List::of(5);
    let ended = run(&registration, &mut list, &pace(0)).await;
    assert!(matches!(ended, Ended::Empty), "{ended:?}");
    assert_eq!(list.acknowledged().len(), 5);
    assert_eq!(*connections.lock().unwrap(), 5);
}

#[tokio::test]
async fn only_so_much_of_a_response_is_read() {
    let with = |body: usize| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {body}\r\n\r\n");
        head.into_bytes()
    };
    // Its status counts, whatever comes behind it and however long it takes.
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n".to_vec();
    let endless = [endless, vec![b'x'; 1 << 20]].concat();
    for answer in [with(1 << 40), with(100), endless] {
        let (address, connections) = raw(answer, false).await;
        let registration = registered_at(address).await;
        let ended = run(&registration, &mut List::of(2), &pace(0)).await;
        assert!(matches!(ended, Ended::Empty), "{ended:?}");
        assert_eq!(*connections.lock().unwrap(), 2);
    }
    let head = |size| format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(size));
    for (size, fits) in [(7_000, true), (9_000, false), (1 << 20, false)] {
        let (address, _) = raw(head(size).into_bytes(), true).await;
        let registration = registered_at(address).await;
        let ended = run(&registration, &mut List::of(1), &pace(0)).await;
        assert_eq!(matches!(ended, Ended::Empty), fits, "{size}: {ended:?}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_if_its_response_was_read() {
    for (size, connections) in [(0, 1), (4096, 1), (4097, 2)] {
        let site = Site::start(None, &[Act::Say(size), Act::Say(0)]).await;
        let registration = registered_at(site.address).await;
        let ended = run(&registration, &mut List::of(2), &pace(0)).await;
        assert!(matches!(ended, Ended::Empty), "{ended:?}");
        assert_eq!(site.connections(), connections, "{size}");
    }
}

#[tokio::test]
async fn a_receiver_that_does_not_answer_is_late() {
    let (address, connections) = raw(Vec::new(), false).await;
    let registration = registered_at(address).await;
    let mut pace = pace(1);
    pace.attempt = Duration::from_millis(50);
    let ended = run(&registration, &mut List::of(1), &pace).await;
    assert!(
        matches!(ended, Ended::Failed(DeliveryError::Late)),
        "{ended:?}"
    );
    assert_eq!(*connections.lock().unwrap(), 2);
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    for answer in ["", "nonsense\r\n\r\n", "HTTP/1.1 xyz\r\n\r\n"] {
        let (address, _) = raw(answer.into(), true).await;
        let registration = registered_at(address).await;
        let ended = run(&registration, &mut List::of(1), &pace(1)).await;
        assert!(
            matches!(ended, Ended::Failed(DeliveryError::Http(_))),
            "{answer}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn delivery_may_be_stopped_and_begun_again() {
    let mut pair = Pair::new(&[]).await;
    let mut list = List::of(3);
    list.endless = true;
    let stopped = timeout(Duration::from_millis(50), pair.deliver(&mut list, 0)).await;
    assert!(stopped.is_err());
    // Some or all of them have arrived; all do in the end, and none twice.
    list.endless = false;
    assert!(matches!(pair.deliver(&mut list, 0).await, Ended::Empty));
    pair.has(1..=3).await;
    pair.has_no_more().await;
}

/// Has a second message only when the connection of the first has ended.
struct Patient {
    list: List,
    closed: Arc<tokio::sync::Semaphore>,
}

impl Outbox for Patient {
    async fn next(&mut self) -> Option<(u64, Bytes)> {
        let (number, message) = self.list.next().await?;
        if number == 2 {
            let _ = self.closed.acquire().await.unwrap();
        }
        Some((number, message))
    }

    fn acknowledge(&mut self, number: u64) {
        self.list.acknowledge(number);
    }
}

#[tokio::test]
async fn a_connection_that_is_not_used_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closed = Arc::new(tokio::sync::Semaphore::new(0));
    let mut outbox = Patient {
        list: List::of(2),
        closed: Arc::clone(&closed),
    };
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                socket.read_buf(&mut request).await.unwrap();
            }
            let answer = b"HTTP/1.1 204 No Content\r\n\r\n";
            socket.write_all(answer).await.unwrap();
            // Until the other side closes it.
            let _ = socket.read_to_end(&mut request).await;
            closed.add_permits(1);
        }
    });
    let registration = registered_at(address).await;
    let mut pace = pace(0);
    pace.idle = Duration::from_millis(10);
    let ended = timeout(
        Duration::from_secs(60),
        deliver(&registration, &mut outbox, &pace),
    );
    assert!(matches!(ended.await, Ok(Ended::Empty)));
    assert_eq!(outbox.list.acknowledged(), [1, 2]);
}

/// TLS in front of a site: its address, and the certificate that it shows.
#[cfg(feature = "tls")]
async fn with_tls(site: &Site) -> (SocketAddr, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let shown = params.self_signed(&key).unwrap().pem();
    let tls = crate::tls::ServerTls::new(shown.clone(), key.serialize_pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, behind) = (listener.local_addr().unwrap(), site.address);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let Ok((mut secured, _)) = tls.accept(socket).await else {
                continue;
            };
            let mut plain = TcpStream::connect(behind).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut secured, &mut plain).await;
            });
        }
    });
    (address, shown)
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_receiver_with_tls_is_called_if_its_certificate_is_believed() {
    let site = Site::start(None, &[Act::Answer(204), Act::Answer(204)]).await;
    let (address, shown) = with_tls(&site).await;
    let body = serde_json::json!({ "url": format!("https://{address}/") }).to_string();
    let mut options = private();
    let unknown = register(body.as_bytes(), &options, &Lookup::default())
        .await
        .unwrap();
    let ended = run(&unknown, &mut List::of(2), &pace(0)).await;
    assert!(matches!(ended, Ended::Failed(DeliveryError::Dial(_))));
    assert!(site.seen().is_empty());
    options.webhook_tls = Some(crate::tls::ClientTls::with_roots(shown).unwrap());
    let known = register(body.as_bytes(), &options, &Lookup::default())
        .await
        .unwrap();
    let mut list = List::of(2);
    assert!(matches!(
        run(&known, &mut list, &pace(0)).await,
        Ended::Empty
    ));
    assert_eq!(list.acknowledged(), [1, 2]);
    assert_eq!(site.seen().len(), 2);
}

#[test]
fn names_are_random() {
    let (one, two) = (random_name().unwrap(), random_name().unwrap());
    assert!(one.len() == 32 && one != two);
}

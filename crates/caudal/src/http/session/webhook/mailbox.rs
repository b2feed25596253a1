//! Deliveries on their way from the web server to the connection that they are for.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Response, StatusCode};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use super::sign::{ID, Key, SIGNATURE, Signed, Sum, TIMESTAMP, digits};
use crate::config::Config;
use crate::http::session::client::HEAD;
use crate::http::{Body, has_json, plain};

/// How long a delivery waits for room, or for the secret.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a message costs on top of its bytes.
const OVERHEAD: usize = 64;

/// Messages between the web server and the connection that they are for.
pub(super) struct Mailbox {
    largest: usize,
    slowest: Duration,
    room: usize,
    state: Mutex<State>,
    /// The secret is here, there is room, or it has ended.
    changed: Notify,
}

#[derive(Default)]
struct State {
    key: Option<Key>,
    /// The number of the last message that was accepted. It is all the memory that
    /// is needed against replays: nothing up to it is accepted again.
    last: u64,
    queue: VecDeque<Letter>,
    held: usize,
    ended: bool,
    waker: Option<Waker>,
}

/// A message.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    pub(super) text: Bytes,
    /// Whether it is larger than messages may be: then these are its first bytes.
    pub(super) is_cut: bool,
}

/// What has come of a delivery.
enum Read {
    Whole(Bytes),
    /// The first bytes of one that is too large, and what all of it is signed by.
    Cut(Bytes, [u8; 32]),
}

/// Why a delivery is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unknown,
    Type,
    Slow,
    Broken,
    Forged,
    Id,
    Order,
    Full,
}

impl Mailbox {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            largest: config.policy.max_message,
            slowest: config.message_timeout,
            room: config.limits.queue,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// From now on deliveries can be checked; the first has the number after `last`.
    pub(super) fn begin(&self, key: Key, last: u64) {
        let mut state = lock(&self.state);
        state.key = Some(key);
        state.last = last;
        drop(state);
        self.changed.notify_waiters();
    }

    /// The next message; `None` at the end.
    pub(super) fn poll_letter(&self, cx: &mut Context<'_>) -> Poll<Option<Letter>> {
        let mut state = lock(&self.state);
        let Some(letter) = state.queue.pop_front() else {
            if state.ended {
                return Poll::Ready(None);
            }
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.held -= letter.text.len() + OVERHEAD;
        drop(state);
        self.changed.notify_waiters();
        Poll::Ready(Some(letter))
    }

    /// Reads a delivery, checks it, and puts it into the queue; waits a while if
    /// there is no room.
    pub(super) async fn take<B>(
        &self,
        headers: &HeaderMap,
        body: B,
        now: u64,
    ) -> Result<(), Refusal>
    where
        B: http_body::Body,
    {
        if !has_json(headers) {
            return Err(Refusal::Type);
        }
        let id = only(headers, &ID)?;
        let timestamp = only(headers, &TIMESTAMP)?;
        let signatures = only(headers, &SIGNATURE)?;
        let signed = Signed {
            id,
            timestamp,
            signatures,
        };
        let body = pin!(body);
        let read = self.read(body, &signed);
        let read = match self.slowest.is_zero() {
            true => read.await?,
            false => timeout(self.slowest, read)
                .await
                .map_err(|_| Refusal::Slow)??,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if lock(&self.state).offer(&signed, &read, self.room, now)? {
                return Ok(());
            }
            if timeout_at(until, changed).await.is_err() {
                return Err(Refusal::Full);
            }
        }
    }

    /// Reads a body to its end. What is too large would be sent again and again if it
    /// was refused, and nothing after it: so it is passed over, if it is signed.
    async fn read<B: http_body::Body>(
        &self,
        mut body: Pin<&mut B>,
        signed: &Signed<'_>,
    ) -> Result<Read, Refusal> {
        let (mut text, mut sum): (_, Option<Sum>) = (BytesMut::new(), None);
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let Ok(mut data) = frame.map_err(|_| Refusal::Broken)?.into_data() else {
                continue;
            };
            if sum.is_none() && text.len() + data.remaining() > self.largest {
                let state = lock(&self.state);
                let key = state.key.as_ref().ok_or(Refusal::Full)?;
                let mut begun = key.begin(signed.id, signed.timestamp);
                begun.add(&text);
                sum = Some(begun);
                text = BytesMut::from(text.get(..HEAD).unwrap_or(&text));
            }
            let Some(sum) = &mut sum else {
                text.put(data);
                continue;
            };
            while data.has_remaining() {
                let piece = data.chunk();
                sum.add(piece);
                let room = HEAD.saturating_sub(text.len());
                text.extend_from_slice(piece.get(..room).unwrap_or(piece));
                let size = piece.len();
                data.advance(size);
            }
        }
        Ok(match sum {
            Some(sum) => Read::Cut(text.freeze(), sum.finish()),
            None => Read::Whole(text.freeze()),
        })
    }

    /// Nothing is accepted any more.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        state.wake();
        drop(state);
        self.changed.notify_waiters();
    }
}

impl State {
    /// Accepts a delivery; `false` if it has to wait.
    fn offer(
        &mut self,
        signed: &Signed<'_>,
        read: &Read,
        room: usize,
        now: u64,
    ) -> Result<bool, Refusal> {
        if self.ended {
            return Err(Refusal::Unknown);
        }
        let Some(key) = &self.key else {
            return Ok(false);
        };
        let mac = || match read {
            Read::Whole(body) => {
                let mut sum = key.begin(signed.id, signed.timestamp);
                sum.add(body);
                sum.finish()
            }
            Read::Cut(_, mac) => *mac,
        };
        signed.verify(now, mac).map_err(|_| Refusal::Forged)?;
        let number = number(signed.id).ok_or(Refusal::Id)?;
        if number <= self.last {
            return Ok(true);
        }
        if number - self.last > 1 {
            return Err(Refusal::Order);
        }
        let (text, is_cut) = match read {
            Read::Whole(text) => (text, false),
            Read::Cut(head, _) => (head, true),
        };
        let size = text.len() + OVERHEAD;
        // One message may pass the limit, so that none is too large.
        if self.held > 0 && self.held + size > room {
            return Ok(false);
        }
        self.last = number;
        self.held += size;
        // A copy, because what was read may be a small part of a large buffer.
        let text = Bytes::copy_from_slice(text);
        self.queue.push_back(Letter { text, is_cut });
        self.wake();
        Ok(true)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The one value of a header: of two, nobody knows which one was meant.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a [u8], Refusal> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => Ok(value.as_bytes()),
        _ => Err(Refusal::Forged),
    }
}

/// The number in `msg_RANDOM_N`.
fn number(id: &[u8]) -> Option<u64> {
    let rest = id.strip_prefix(b"msg_")?;
    let mut parts = rest.rsplitn(2, |byte| *byte == b'_');
    let number = digits(parts.next()?)?;
    parts.next()?;
    Some(number)
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Self {
        let (status, text) = match refusal {
            Refusal::Unknown => (StatusCode::NOT_FOUND, "nobody waits for this\n"),
            Refusal::Type => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send JSON, with `Content-Type: application/json`\n",
            ),
            Refusal::Slow => (StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
            Refusal::Broken => (StatusCode::BAD_REQUEST, "the body could not be read\n"),
            Refusal::Forged => (
                StatusCode::UNAUTHORIZED,
                "the signature or its time is not right\n",
            ),
            Refusal::Id => (StatusCode::BAD_REQUEST, "the id has no number\n"),
            Refusal::Order => (StatusCode::CONFLICT, "a message before this is missing\n"),
            Refusal::Full => (StatusCode::SERVICE_UNAVAILABLE, "try again later\n"),
        };
        plain(status, text)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http::Request;
    use http::header::CONTENT_TYPE;

    use super::*;
    use crate::http::session::webhook::Receiver;
    use crate::http::session::webhook::receiver::Hook;

    const NOW: u64 = 1_700_000_000;

    /// A server that signs by hand, and the client's side.
    struct Setup {
        receiver: Receiver,
        hook: Hook,
        url: String,
        key: Key,
    }

    impl Setup {
        fn new(config: &Config) -> Self {
            let setup = Self::early(config);
            setup.begin();
            setup
        }

        /// The answer to the `PUT` is still on its way.
        fn early(config: &Config) -> Self {
            let receiver = Receiver::new("http://127.0.0.1/hook?hook=mine").unwrap();
            let hook = receiver.open(config).unwrap();
            let ask: serde_json::Value = serde_json::from_slice(&hook.ask()).unwrap();
            Self {
                receiver,
                hook,
                url: ask["url"].as_str().unwrap().to_owned(),
                key: Key::random().unwrap(),
            }
        }

        fn begin(&self) {
            let answer = serde_json::json!({ "secret": self.key.reveal() }).to_string();
            self.hook.begin(answer.as_bytes()).unwrap();
        }

        fn signed(&self, number: u64, body: &str) -> Request<Body> {
            let id = format!("msg_x_{number}");
            let signature = self.key.sign(&id, NOW, body.as_bytes());
            self.request(&id, NOW, &signature, body)
        }

        fn request(&self, id: &str, time: u64, signature: &str, body: &str) -> Request<Body> {
            Request::post(&self.url)
                .header(CONTENT_TYPE, "application/json; charset=utf-8")
                .header(ID, id)
                .header(TIMESTAMP, time)
                .header(SIGNATURE, signature)
                .body(Body::whole(body.to_owned()))
                .unwrap()
        }

        async fn status(&self, request: Request<Body>) -> u16 {
            let response = self.receiver.answer_at(request, NOW).await;
            response.status().as_u16()
        }

        async fn post(&self, number: u64, body: &str) -> u16 {
            self.status(self.signed(number, body)).await
        }

        fn frame(&mut self) -> Poll<Option<Bytes>> {
            let waker = Waker::noop();
            self.hook.poll_frame(&mut Context::from_waker(waker))
        }

        fn has(&mut self, text: &'static str) {
            assert_eq!(self.frame(), Poll::Ready(Some(text.into())));
        }
    }

    #[tokio::test]
    async fn messages_come_in_order_and_once() {
        let mut setup = Setup::new(&Config::default());
        assert_eq!(setup.post(1, "a").await, 204);
        assert_eq!(setup.post(3, "c").await, 409);
        assert_eq!(setup.post(u64::MAX, "z").await, 409);
        assert_eq!(setup.post(2, "b").await, 204);
        // An answer that was lost: it is accepted, and was before.
        assert_eq!(setup.post(2, "b").await, 204);
        assert_eq!(setup.post(1, "a").await, 204);
        assert_eq!(setup.post(0, "0").await, 204);
        assert_eq!(setup.post(3, "c").await, 204);
        setup.has("a");
        setup.has("b");
        setup.has("c");
        assert_eq!(setup.frame(), Poll::Pending);
        assert_eq!(setup.post(3, "c").await, 204);
        assert_eq!(setup.frame(), Poll::Pending);
    }

    #[tokio::test]
    async fn it_goes_on_where_the_answer_says() {
        let mut setup = Setup::early(&Config::default());
        let answer = serde_json::json!({ "secret": setup.key.reveal(), "cursor": 7 });
        setup.hook.begin(answer.to_string().as_bytes()).unwrap();
        assert_eq!(setup.post(7, "old").await, 204);
        assert_eq!(setup.post(9, "far").await, 409);
        assert_eq!(setup.post(8, "new").await, 204);
        setup.has("new");
        assert_eq!(setup.frame(), Poll::Pending);
        for bad in ["", "{}", r#"{"secret":"x"}"#, r#"{"secret":"whsec_AAAA"}"#] {
            assert!(setup.hook.begin(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_not_signed_is_not_believed() {
        let mut setup = Setup::new(&Config::default());
        let good = setup.key.sign("msg_x_1", NOW, b"a");
        let other = Key::random().unwrap().sign("msg_x_1", NOW, b"a");
        for request in [
            setup.request("msg_x_1", NOW, &good, "b"),
            setup.request("msg_x_2", NOW, &good, "a"),
            setup.request("msg_x_1", NOW - 1, &good, "a"),
            setup.request("msg_x_1", NOW, &other, "a"),
            setup.request("msg_x_1", NOW, "", "a"),
        ] {
            assert_eq!(setup.status(request).await, 401);
        }
        for header in [ID, TIMESTAMP, SIGNATURE] {
            let mut request = setup.signed(1, "a");
            request.headers_mut().remove(&header);
            assert_eq!(setup.status(request).await, 401, "without {header}");
            let mut request = setup.signed(1, "a");
            let value = request.headers()[&header].clone();
            request.headers_mut().append(&header, value);
            assert_eq!(setup.status(request).await, 401, "two of {header}");
        }
        for id in ["msg_1", "1", "msg_x_", "msg_x_y", "msg_x_+1", "x_x_1"] {
            let signature = setup.key.sign(id, NOW, b"a");
            let request = setup.request(id, NOW, &signature, "a");
            assert_eq!(setup.status(request).await, 400, "{id}");
        }
        assert_eq!(setup.frame(), Poll::Pending);
        assert_eq!(setup.post(1, "a").await, 204);
    }

    #[tokio::test]
    async fn an_old_or_early_delivery_is_refused() {
        let mut setup = Setup::new(&Config::default());
        for (now, status) in [
            (NOW + 301, 401),
            (NOW - 301, 401),
            (NOW + 300, 204),
            (NOW - 300, 204),
        ] {
            let request = setup.signed(1, "a");
            let response = setup.receiver.answer_at(request, now).await;
            assert_eq!(response.status().as_u16(), status, "{now}");
        }
        setup.has("a");
        assert_eq!(setup.frame(), Poll::Pending);
    }

    #[tokio::test]
    async fn what_is_no_webhook_is_refused() {
        let mut config = Config::default();
        config.policy.max_message = 100;
        let mut setup = Setup::new(&config);
        let mut request = setup.signed(1, "a");
        *request.method_mut() = http::Method::GET;
        let response = setup.receiver.answer_at(request, NOW).await;
        assert_eq!(response.status().as_u16(), 405);
        assert_eq!(response.headers()["allow"], "POST");
        let mut request = setup.signed(1, "a");
        request.headers_mut().remove(CONTENT_TYPE);
        assert_eq!(setup.status(request).await, 415);
        assert_eq!(setup.post(1, &"x".repeat(100)).await, 204);
        for url in ["/", "/?hook", "/?hook=", "/?hook=mine", "/?hook=mine&x=y"] {
            let mut request = setup.signed(2, "a");
            *request.uri_mut() = url.parse().unwrap();
            assert_eq!(setup.status(request).await, 404, "{url}");
        }
        assert!(matches!(setup.frame(), Poll::Ready(Some(_))));
        assert_eq!(setup.frame(), Poll::Pending);
    }

    #[tokio::test]
    async fn what_is_too_large_is_passed_over_if_it_is_signed() {
        let mut config = Config::default();
        config.policy.max_message = 100;
        let mut setup = Setup::new(&config);
        let large = "x".repeat(101);
        let other = Key::random()
            .unwrap()
            .sign("msg_x_1", NOW, large.as_bytes());
        let forged = setup.request("msg_x_1", NOW, &other, &large);
        assert_eq!(setup.status(forged).await, 401);
        for (number, size) in [(1, 101), (2, HEAD + 1), (3, 100)] {
            assert_eq!(setup.post(number, &"x".repeat(size)).await, 204, "{size}");
            let cx = &mut Context::from_waker(Waker::noop());
            let Poll::Ready(Some(letter)) = setup.hook.poll_letter(cx) else {
                panic!("nothing was accepted of {size}");
            };
            assert_eq!(letter.is_cut, size > 100, "{size}");
            assert_eq!(letter.text.len(), size.min(HEAD));
        }
        // Without the secret nobody can tell yet.
        let early = Setup::early(&config);
        assert_eq!(early.post(1, &large).await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_is_not_filled_further() {
        let mut config = Config::default();
        config.limits.queue = 2 * (10 + OVERHEAD);
        let mut setup = Setup::new(&config);
        let text = "0123456789";
        assert_eq!(setup.post(1, text).await, 204);
        assert_eq!(setup.post(2, text).await, 204);
        assert_eq!(setup.post(3, text).await, 503);
        // A message that was accepted before needs no room.
        assert_eq!(setup.post(2, text).await, 204);
        setup.has(text);
        assert_eq!(setup.post(3, &"x".repeat(11)).await, 503);
        assert_eq!(setup.post(3, text).await, 204);
        setup.has(text);
        setup.has(text);
        // One that is larger than the whole queue is let in alone.
        assert_eq!(setup.post(4, &"x".repeat(1000)).await, 204);
        assert_eq!(setup.post(5, "").await, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_waits_for_room() {
        let mut config = Config::default();
        config.limits.queue = 1;
        let mut setup = Setup::new(&config);
        assert_eq!(setup.post(1, "a").await, 204);
        let (receiver, request) = (setup.receiver.clone(), setup.signed(2, "b"));
        let waits = tokio::spawn(async move { receiver.answer_at(request, NOW).await });
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(!waits.is_finished());
        setup.has("a");
        assert_eq!(waits.await.unwrap().status().as_u16(), 204);
        setup.has("b");
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_waits_for_its_secret() {
        let mut setup = Setup::early(&Config::default());
        assert_eq!(setup.post(1, "a").await, 503);
        let (receiver, request) = (setup.receiver.clone(), setup.signed(1, "a"));
        let waits = tokio::spawn(async move { receiver.answer_at(request, NOW).await });
        tokio::time::sleep(PATIENCE / 2).await;
        setup.begin();
        assert_eq!(waits.await.unwrap().status().as_u16(), 204);
        setup.has("a");
    }

    #[tokio::test(start_paused = true)]
    async fn both_ends_may_end_it() {
        let mut setup = Setup::early(&Config::default());
        let (receiver, request) = (setup.receiver.clone(), setup.signed(1, "a"));
        let waits = tokio::spawn(async move { receiver.answer_at(request, NOW).await });
        tokio::time::sleep(PATIENCE / 2).await;
        let request = setup.signed(1, "a");
        drop(setup.hook);
        assert_eq!(waits.await.unwrap().status().as_u16(), 404);
        let response = setup.receiver.answer_at(request, NOW).await;
        assert_eq!(response.status().as_u16(), 404);

        setup = Setup::new(&Config::default());
        assert_eq!(setup.post(1, "a").await, 204);
        let mut hook = setup.hook;
        let ends = tokio::spawn(async move {
            let first = poll_fn(|cx| hook.poll_frame(cx)).await;
            (first, poll_fn(|cx| hook.poll_frame(cx)).await)
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!ends.is_finished());
        drop(setup.receiver);
        assert_eq!(ends.await.unwrap(), (Some("a".into()), None));
    }

    #[tokio::test]
    async fn connections_of_one_receiver_do_not_mix() {
        let mut one = Setup::new(&Config::default());
        let hook = one.receiver.open(&Config::default()).unwrap();
        let ask: serde_json::Value = serde_json::from_slice(&hook.ask()).unwrap();
        let mut two = Setup {
            receiver: one.receiver.clone(),
            url: ask["url"].as_str().unwrap().to_owned(),
            key: Key::random().unwrap(),
            hook,
        };
        two.begin();
        assert_eq!(one.post(1, "one").await, 204);
        assert_eq!(two.post(1, "two").await, 204);
        // The right signature at the wrong place.
        let mut request = one.signed(2, "one");
        *request.uri_mut() = two.url.parse().unwrap();
        assert_eq!(one.status(request).await, 401);
        one.has("one");
        two.has("two");
        assert_eq!(two.frame(), Poll::Pending);
    }
}

//! Deliveries on their way from the web server to the connection that they are for.

use std::cmp::Ordering;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, StatusCode};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, SetOnce, mpsc};
use tokio::time::timeout;

use super::sign::{ID, Key, SIGNATURE, Signed, TIMESTAMP, digits};
use crate::config::Config;
use crate::http::has_json;
use crate::http::session::client::MESSAGE_HEAD;
use crate::http::session::within;

/// Time that a delivery waits for room, or for the secret.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that a message takes besides its text.
const OVERHEAD: usize = 64;

/// Secret of a session's deliveries, and the number before the first of them.
pub(super) type Secret = Arc<SetOnce<(Key, u64)>>;

/// Deliveries of one session, checked and in order.
pub(super) struct Mailbox {
    max_message: usize,
    timeout: Option<Duration>,
    /// Bytes that may wait to be handled.
    room: Arc<Semaphore>,
    max_room: usize,
    secret: Secret,
    /// Number of the last message that was accepted. It is enough against replays: nothing
    /// up to it is accepted again.
    last: Mutex<u64>,
    accepted: mpsc::UnboundedSender<DeliveredMessage>,
}

/// Message that was delivered.
#[derive(Debug)]
pub(super) struct DeliveredMessage {
    pub(super) text: Bytes,
    /// True if the message is larger than allowed: then `text` is its beginning.
    pub(super) is_cut: bool,
    _room: OwnedSemaphorePermit,
}

/// Status and text of the response that refuses a delivery.
pub(super) type Refusal = (StatusCode, &'static str);

pub(super) const UNKNOWN_SESSION: Refusal = (StatusCode::NOT_FOUND, "no session waits for this\n");
const UNAUTHORIZED: Refusal = (
    StatusCode::UNAUTHORIZED,
    "the signature or its time is not right\n",
);
const BUSY: Refusal = (StatusCode::SERVICE_UNAVAILABLE, "try again later\n");

impl Mailbox {
    /// A mailbox, and where its messages come out.
    pub(super) fn new(
        config: &Config,
        secret: &Secret,
    ) -> (Self, mpsc::UnboundedReceiver<DeliveredMessage>) {
        let (accepted, messages) = mpsc::unbounded_channel();
        let max_room = config.queue.clamp(1, Semaphore::MAX_PERMITS);
        let mailbox = Self {
            max_message: config.policy.max_message,
            timeout: config.message_timeout,
            room: Arc::new(Semaphore::new(max_room)),
            max_room,
            secret: Arc::clone(secret),
            last: Mutex::default(),
            accepted,
        };
        (mailbox, messages)
    }

    /// Reads a delivery, checks it, and accepts it when there is room.
    pub(super) async fn take<B: http_body::Body>(
        &self,
        headers: &HeaderMap,
        body: B,
        now: u64,
    ) -> Result<(), Refusal> {
        tokio::select! {
            taken = self.take_while_open(headers, body, now) => taken,
            () = self.accepted.closed() => Err(UNKNOWN_SESSION),
        }
    }

    async fn take_while_open<B: http_body::Body>(
        &self,
        headers: &HeaderMap,
        body: B,
        now: u64,
    ) -> Result<(), Refusal> {
        if !has_json(headers) {
            return Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "send JSON, with `Content-Type: application/json`\n",
            ));
        }
        let signed = Signed {
            id: single(headers, &ID)?,
            timestamp: single(headers, &TIMESTAMP)?,
            signatures: single(headers, &SIGNATURE)?,
        };
        let secret = timeout(PATIENCE, self.secret.wait()).await;
        let (key, before) = secret.map_err(|_| BUSY)?;
        let body = pin!(body);
        let read = within(self.timeout, self.read(body, key, &signed, now)).await;
        let slow = (StatusCode::REQUEST_TIMEOUT, "the body took too long\n");
        let (text, is_cut) = read.ok_or(slow)??;
        let no_number = (StatusCode::BAD_REQUEST, "the id has no number\n");
        let number = number(signed.id).ok_or(no_number)?;
        let accept = self.accept(number, *before, text, is_cut);
        timeout(PATIENCE, accept).await.unwrap_or(Err(BUSY))
    }

    /// Accepts the message of this number, if it is the next one after `before` and those
    /// that were accepted. An earlier one was accepted before.
    async fn accept(
        &self,
        number: u64,
        before: u64,
        text: Bytes,
        is_cut: bool,
    ) -> Result<(), Refusal> {
        let mut last = self.last.lock().await;
        match number.cmp(&((*last).max(before) + 1)) {
            Ordering::Less => return Ok(()),
            Ordering::Greater => {
                return Err((StatusCode::CONFLICT, "a message before this is missing\n"));
            }
            Ordering::Equal => {}
        }
        let size = (text.len() + OVERHEAD).min(self.max_room);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).acquire_many_owned(size).await;
        let message = DeliveredMessage {
            text,
            is_cut,
            _room: room.map_err(|_| UNKNOWN_SESSION)?,
        };
        let sent = self.accepted.send(message);
        sent.map_err(|_| UNKNOWN_SESSION)?;
        *last = number;
        Ok(())
    }

    /// Reads a body to its end, and checks the signature. A message that is too large would
    /// be sent again and again if it was refused, and nothing after it: so only its
    /// beginning is kept. Returns true with a text that is cut.
    async fn read<B: http_body::Body>(
        &self,
        mut body: Pin<&mut B>,
        key: &Key,
        signed: &Signed<'_>,
        now: u64,
    ) -> Result<(Bytes, bool), Refusal> {
        let (mut text, mut is_cut) = (BytesMut::new(), false);
        let mut mac = key.begin(signed.id, signed.timestamp);
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let broken = (StatusCode::BAD_REQUEST, "the body could not be read\n");
            let Ok(mut data) = frame.map_err(|_| broken)?.into_data() else {
                continue;
            };
            while data.has_remaining() {
                let piece = data.chunk();
                mac.add(piece);
                is_cut |= text.len() + piece.len() > self.max_message;
                let limit = if is_cut {
                    MESSAGE_HEAD
                } else {
                    self.max_message
                };
                let room = limit.saturating_sub(text.len());
                text.extend_from_slice(piece.get(..room).unwrap_or(piece));
                if is_cut {
                    text.truncate(MESSAGE_HEAD);
                }
                let size = piece.len();
                data.advance(size);
            }
        }
        if !signed.is_valid(now, &mac.finish()) {
            return Err(UNAUTHORIZED);
        }
        // A copy, because the buffer may be larger than the text.
        Ok((Bytes::copy_from_slice(&text), is_cut))
    }
}

/// Returns the value of a header that must not be there twice.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a [u8], Refusal> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => Ok(value.as_bytes()),
        _ => Err(UNAUTHORIZED),
    }
}

/// Returns the number in `msg_RANDOM_N`.
fn number(id: &[u8]) -> Option<u64> {
    let rest = id.strip_prefix(b"msg_")?;
    let mut parts = rest.rsplitn(2, |byte| *byte == b'_');
    let number = digits(parts.next()?)?;
    parts.next()?;
    Some(number)
}

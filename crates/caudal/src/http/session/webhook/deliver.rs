//! Delivery: one message after the other, each until it is accepted.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{sleep, timeout};

use super::register::Registration;
use super::sign::{ID, SIGNATURE, TIMESTAMP};
use super::target::TargetError;
use crate::endpoint::Target;
use crate::http::{Body, ClientOptions, Socket, dial_at, read};
use crate::peer::Backoff;

/// So many bytes of a response are read behind its head.
const REST: usize = 4 << 10;
/// How long they may take; the status counts anyway.
const REST_TIME: Duration = Duration::from_secs(1);
/// So many bytes the head of a response may have.
const HEAD: usize = 8 << 10;
/// So long one of several addresses may take at least.
const LEAST: Duration = Duration::from_secs(1);
const AGENT: &str = concat!("caudal/", env!("CARGO_PKG_VERSION"));

/// What is to be delivered: the messages of a session.
pub(crate) trait Outbox: Send {
    /// The first message that is not acknowledged, and its number; waits until
    /// there is one. `None` when there will be none. It may be dropped and called
    /// again, and then finds the same message.
    fn next(&mut self) -> impl Future<Output = Option<(u64, Bytes)>> + Send;

    /// Everything up to this number has arrived.
    fn acknowledge(&mut self, number: u64);
}

/// How often and how long it is tried.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// The delays between the tries of one message.
    pub(crate) backoff: Backoff,
    /// How long one try may take.
    pub(crate) attempt: Duration,
    /// How long a connection is kept while there is nothing to send.
    pub(crate) idle: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: Backoff {
                first: Duration::from_secs(1),
                factor: 2.0,
                longest: Duration::from_secs(60),
                // The first try has no delay before it: eight in all.
                tries: Some(7),
            },
            attempt: Duration::from_secs(10),
            idle: Duration::from_secs(30),
        }
    }
}

/// Why no more is delivered.
#[derive(Debug)]
pub(crate) enum Ended {
    /// There is nothing more to deliver.
    Empty,
    /// The receiver does not want any more, or could not be reached often enough:
    /// the session ends.
    Failed(DeliveryError),
}

/// Why one try failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeliveryError {
    #[error("the receiver may not be called")]
    Target(#[from] TargetError),
    #[error("the receiver cannot be reached")]
    Dial(#[source] io::Error),
    #[error("the receiver did not answer")]
    Http(#[from] hyper::Error),
    #[error("the receiver answered {0}")]
    Status(StatusCode),
    #[error("the receiver took too long")]
    Late,
    #[error("the request cannot be written")]
    Request(#[from] http::Error),
}

/// Delivers what is in the outbox, in order, until it ends or the receiver fails.
///
/// Dropping it at any time is safe: a message that was not acknowledged may have
/// arrived, and whoever delivers it again sends the same number.
pub(crate) async fn deliver(to: &Registration, outbox: &mut impl Outbox, pace: &Pace) -> Ended {
    let mut courier = Courier {
        to,
        pace,
        line: None,
    };
    while let Some((number, message)) = courier.next(outbox).await {
        match courier.bring(number, &message).await {
            Ok(()) => outbox.acknowledge(number),
            Err(error) => {
                let host = to.url.target().authority;
                tracing::warn!(target: "caudal", %error, host, number, "a webhook was given up");
                return Ended::Failed(error);
            }
        }
    }
    Ended::Empty
}

struct Courier<'a> {
    to: &'a Registration,
    pace: &'a Pace,
    /// The connection of the last message.
    line: Option<Line>,
}

impl Courier<'_> {
    /// The next message; a connection that waits for long is closed.
    async fn next(&mut self, outbox: &mut impl Outbox) -> Option<(u64, Bytes)> {
        if self.line.is_some() {
            if let Ok(next) = timeout(self.pace.idle, outbox.next()).await {
                return next;
            }
            self.line = None;
        }
        outbox.next().await
    }

    /// Tries until the message is accepted, or often enough.
    async fn bring(&mut self, number: u64, message: &Bytes) -> Result<(), DeliveryError> {
        let mut delays = self.pace.backoff.delays();
        loop {
            let tried = timeout(self.pace.attempt, self.attempt(number, message)).await;
            let error = match tried.unwrap_or(Err(DeliveryError::Late)) {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) => DeliveryError::Status(status),
                Err(error) => error,
            };
            let gone = matches!(error, DeliveryError::Status(StatusCode::GONE));
            let Some(delay) = delays.next().filter(|_| !gone) else {
                return Err(error);
            };
            tracing::debug!(target: "caudal", %error, number, ?delay, "a webhook is tried again");
            sleep(delay).await;
        }
    }

    /// One try, on the connection that there is or on a new one.
    async fn attempt(&mut self, number: u64, message: &Bytes) -> Result<StatusCode, DeliveryError> {
        let request = || self.to.request(number, message);
        // A connection may have been closed while it waited, which says nothing
        // about the receiver.
        if let Some(line) = self.line.take().filter(|line| !line.sender.is_closed())
            && let Ok((status, line)) = line.exchange(request()?).await
        {
            self.line = line;
            return Ok(status);
        }
        let line = Line::open(self.to, self.pace.attempt).await?;
        let (status, line) = line.exchange(request()?).await?;
        self.line = line;
        Ok(status)
    }
}

impl Registration {
    /// A signed POST. The time is that of this try.
    fn request(&self, number: u64, message: &Bytes) -> Result<Request<Body>, http::Error> {
        let (id, now) = (self.id(number), crate::http::session::webhook::now());
        let target = self.url.target();
        Request::post(target.path)
            .header(HOST, target.authority)
            .header(USER_AGENT, AGENT)
            .header(CONTENT_TYPE, "application/json")
            .header(SIGNATURE, self.key.sign(&id, now, message))
            .header(TIMESTAMP, now)
            .header(ID, id)
            .body(Body::whole(message.clone()))
    }
}

/// A connection to a receiver.
struct Line {
    sender: http1::SendRequest<Body>,
    driver: tokio::task::JoinHandle<()>,
}

impl Line {
    /// Looks the receiver up, checks where it is now, and connects to just that.
    async fn open(to: &Registration, time: Duration) -> Result<Self, DeliveryError> {
        let addresses = to.url.resolve(&to.lookup, to.private).await?;
        let socket = dial_any(&addresses, &to.url.target(), &to.client, time).await;
        let socket = TokioIo::new(socket.map_err(DeliveryError::Dial)?);
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD);
        let (sender, connection) = builder.handshake(socket).await?;
        let driver = tokio::spawn(async move {
            // Whoever waits for the answer is told as well.
            let _ = connection.await;
        });
        Ok(Self { sender, driver })
    }

    /// Sends a request; the connection comes back if it can be used again.
    async fn exchange(
        mut self,
        request: Request<Body>,
    ) -> Result<(StatusCode, Option<Self>), DeliveryError> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let rest = read(response.into_body(), REST, REST_TIME).await;
        Ok((status, rest.is_ok().then_some(self)))
    }
}

/// Connects to one of these addresses, in turn. One that does not answer leaves a part
/// of the time to the others.
pub(super) async fn dial_any(
    addresses: &[SocketAddr],
    target: &Target<'_>,
    options: &ClientOptions,
    time: Duration,
) -> io::Result<Socket> {
    let parts = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let part = (time / parts.saturating_add(1)).max(LEAST.min(time / 2));
    let mut failed = io::ErrorKind::NotFound.into();
    for (place, address) in addresses.iter().enumerate() {
        let is_last = place + 1 == addresses.len();
        let dialled = dial_at(*address, target, options);
        let limit = if is_last { time } else { part };
        match timeout(limit, dialled).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_tries_are_made_in_about_two_minutes() {
        let pace = Pace::default();
        let full = [1, 2, 4, 8, 16, 32, 60].map(Duration::from_secs);
        let delays: Vec<_> = pace.backoff.delays().collect();
        assert_eq!(delays.len(), full.len());
        for (delay, full) in delays.into_iter().zip(full) {
            assert!(delay <= full && delay >= full / 2, "{delay:?}");
        }
    }
}

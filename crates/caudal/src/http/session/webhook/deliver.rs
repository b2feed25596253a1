//! Delivery: one message after the other, each until it is accepted.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::register::Registration;
use super::sign::{ID, SIGNATURE, TIMESTAMP};
use crate::endpoint::Target;
use crate::http::{Body, ClientOptions, Shares, Socket, dial_at, read};
use crate::peer::Backoff;

/// Delays between the attempts to deliver one message. The first attempt has none before
/// it, so there are eight.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    factor: 2.0,
    longest: Duration::from_secs(60),
    tries: Some(7),
};
/// Time for one attempt.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Time that a connection is kept while there is nothing to send.
const IDLE: Duration = Duration::from_secs(30);
/// Minimum time to connect to one of several addresses.
const MIN_DIAL: Duration = Duration::from_secs(1);
/// Maximum head of a response, in bytes.
const MAX_HEAD: usize = 8 << 10;
/// Maximum of a response's body that is read, in bytes. It decides nothing.
const MAX_BODY: usize = 4 << 10;
/// Time for the body of a response.
const BODY_TIME: Duration = Duration::from_secs(1);
const AGENT: &str = concat!("caudal/", env!("CARGO_PKG_VERSION"));

/// A receiver that has not accepted a message, in whatever attempts.
#[derive(Debug)]
pub(super) struct GivenUp;

/// Client of one receiver.
pub(super) struct WebhookClient<'a> {
    to: &'a Registration,
    connection: Option<WebhookConnection>,
}

impl<'a> WebhookClient<'a> {
    pub(super) fn new(to: &'a Registration) -> Self {
        let connection = None;
        Self { to, connection }
    }

    /// Waits for the next message; a connection that is idle for long is closed.
    pub(super) async fn idle<T>(&mut self, next: impl Future<Output = T>) -> T {
        let mut next = pin!(next);
        if self.connection.is_some() {
            if let Ok(next) = timeout(IDLE, &mut next).await {
                return next;
            }
            self.connection = None;
        }
        next.await
    }

    /// Delivers a message; tries again until it is accepted, or was tried often enough.
    ///
    /// # Cancel safety
    /// The message may have arrived. It has the same id when it is delivered again.
    pub(super) async fn deliver(&mut self, number: u64, message: &Bytes) -> Result<(), GivenUp> {
        let (mut delays, mut is_gone) = (BACKOFF.delays(), false);
        loop {
            let error = match timeout(ATTEMPT, self.attempt(number, message)).await {
                Ok(Ok(status)) if status.is_success() => return Ok(()),
                Ok(Ok(status)) => {
                    is_gone = status == StatusCode::GONE;
                    format!("the receiver answered {status}")
                }
                Ok(Err(error)) => error.to_string(),
                Err(late) => late.to_string(),
            };
            let Some(delay) = delays.next().filter(|_| !is_gone) else {
                let host = self.to.url.target().authority;
                tracing::warn!(target: "caudal", error, host, number, "a webhook was given up");
                return Err(GivenUp);
            };
            tracing::debug!(target: "caudal", error, number, ?delay, "a webhook is tried again");
            sleep(delay).await;
        }
    }

    async fn attempt(&mut self, number: u64, message: &Bytes) -> io::Result<StatusCode> {
        // An idle connection may have been closed, which is no failure of the receiver.
        if let Some(connection) = self
            .connection
            .take()
            .filter(|open| !open.sender.is_closed())
            && let Ok(status) = self.send(connection, number, message).await
        {
            return Ok(status);
        }
        let connection = WebhookConnection::open(self.to).await?;
        let sent = self.send(connection, number, message).await;
        sent.map_err(io::Error::other)
    }

    /// Sends a request, and keeps the connection if it can be used again.
    async fn send(
        &mut self,
        mut connection: WebhookConnection,
        number: u64,
        message: &Bytes,
    ) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        connection.sender.ready().await?;
        let request = self.to.request(number, message)?;
        let response = connection.sender.send_request(request).await?;
        let status = response.status();
        let rest = read(
            response.into_body(),
            MAX_BODY,
            Some(BODY_TIME),
            Shares::default(),
        )
        .await;
        self.connection = rest.is_ok().then_some(connection);
        Ok(status)
    }
}

impl Registration {
    /// Makes a signed POST. Its time is that of the attempt.
    fn request(&self, number: u64, message: &Bytes) -> Result<Request<Body>, http::Error> {
        let (id, now) = (self.id(number), super::now());
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

/// Connection to a receiver.
struct WebhookConnection {
    sender: http1::SendRequest<Body>,
    /// Drives the connection, until this is dropped.
    _driver: JoinSet<()>,
}

impl WebhookConnection {
    /// Looks the receiver up, checks its addresses, and connects to just these.
    async fn open(to: &Registration) -> io::Result<Self> {
        let addresses = to.url.resolve(&to.lookup, to.allow_private).await;
        let addresses = addresses.map_err(io::Error::other)?;
        let socket = dial_any(&addresses, &to.url.target(), &to.client).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let opened = builder.handshake(TokioIo::new(socket)).await;
        let (sender, connection) = opened.map_err(io::Error::other)?;
        // An error reaches the request that waits, too.
        let driver = async move { drop(connection.await) };
        let _driver = JoinSet::from_iter([driver]);
        Ok(Self { sender, _driver })
    }
}

/// Connects to one of these addresses, in turn. Each has its share of the time.
async fn dial_any(
    addresses: &[SocketAddr],
    target: &Target<'_>,
    options: &ClientOptions,
) -> io::Result<Socket> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let time = (ATTEMPT / count.max(1)).max(MIN_DIAL);
    let mut failed = io::ErrorKind::NotFound.into();
    for address in addresses {
        match timeout(time, dial_at(*address, target, options)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failed = error,
            Err(late) => failed = late.into(),
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::register::register;
    use super::*;
    use crate::http::Options;
    use crate::http::session::webhook::Lookup;
    use crate::http::session::webhook::target::HookUrl;

    /// A name may lead elsewhere than when it was registered.
    #[tokio::test]
    async fn a_host_that_is_private_by_now_is_not_even_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = Options {
            private_webhooks: true,
            ..Options::default()
        };
        for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
            let body = format!(r#"{{"url":"http://{host}:{port}/"}}"#);
            let to = register(body.as_bytes(), &options, &Lookup::default()).await;
            let mut to = to.unwrap();
            to.allow_private = false;
            let attempt = WebhookClient::new(&to).attempt(1, &Bytes::new()).await;
            let error = attempt.unwrap_err().to_string();
            assert!(error.contains("not public"), "{host}: {error}");
        }
        let dialled = timeout(Duration::from_millis(20), listener.accept()).await;
        assert!(dialled.is_err());
    }

    #[tokio::test]
    async fn the_address_that_was_checked_is_dialled_and_not_the_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // A second look-up of this name would find nothing.
        let url = HookUrl::parse("http://name.invalid:1/").unwrap();
        let options = ClientOptions::default();
        let dialled = dial_any(&[address], &url.target(), &options).await;
        assert!(dialled.is_ok());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_that_never_answers_leaves_time_for_the_next() {
        use tokio::net::{TcpSocket, TcpStream};

        // Where nobody accepts, a few connections wait, and those after them get no answer.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = socket.listen(1).unwrap();
        let silent_at = silent.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(500), TcpStream::connect(silent_at)).await
        {
            waiting.push(connected.unwrap());
            assert!(waiting.len() < 100, "it answers");
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = HookUrl::parse("http://name.invalid:1/").unwrap();
        let options = ClientOptions::default();
        let addresses = [silent_at, address];
        let dialled = timeout(ATTEMPT, dial_any(&addresses, &url.target(), &options)).await;
        assert!(dialled.unwrap().is_ok());
    }

    #[test]
    fn eight_attempts_are_made_in_about_two_minutes() {
        let full = [1, 2, 4, 8, 16, 32, 60].map(Duration::from_secs);
        let delays: Vec<_> = BACKOFF.delays().collect();
        assert_eq!(delays.len(), full.len());
        for (delay, full) in delays.into_iter().zip(full) {
            assert!(delay <= full && delay >= full / 2, "{delay:?}");
        }
    }
}

//! Connections to one server, for single POSTs and for the requests of sessions.
//!
//! The pool of hyper-util's client does not serve here: it opens connections past any
//! bound, does not say of a failed request whether it may have been received, and hides
//! why a connection ended.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
#[cfg(feature = "polling")]
use bytes::BytesMut;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use super::error::RequestError;
use super::origin::{Origin, Sender};
use super::response::is_events;
use crate::http::Body;
use crate::http::server::body::{ReadError, Whole};

/// Time after which a connection that was not used is closed.
const IDLE: Duration = Duration::from_secs(90);
/// Time that a connection may take to be ready again when its request is answered: the
/// server may have answered before it has read it all, and read no more.
const SETTLE: Duration = Duration::from_secs(2);

/// Connections to one server.
pub(crate) struct Pool {
    origin: Arc<Origin>,
    /// Connections that are not in use, the one that was used last at the end.
    idle: Mutex<VecDeque<PooledConnection>>,
}

struct PooledConnection {
    sender: Sender,
    since: Instant,
}

/// Failure of a request that has no response.
#[derive(Debug)]
pub(crate) enum SendError {
    /// Nothing was sent: here it is again.
    NotSent(io::Error, Box<Request<Body>>),
    /// It may have been received.
    Lost(io::Error),
}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotSent(error, _) | SendError::Lost(error) => error,
        }
    }
}

impl From<SendError> for RequestError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotSent(error, _) => Self::not_sent(error),
            SendError::Lost(error) => Self::lost(error),
        }
    }
}

impl Pool {
    pub(crate) fn new(origin: Arc<Origin>) -> Arc<Self> {
        let idle = Mutex::default();
        Arc::new(Self { origin, idle })
    }

    /// Makes a connection before there is a request for it.
    pub(crate) async fn dial(&self) -> io::Result<()> {
        let sender = Arc::clone(&self.origin).dial().await?;
        self.put_back(sender);
        Ok(())
    }

    /// Sends a request, over a connection that is there or over a new one.
    #[cfg(feature = "session")]
    pub(crate) fn send(
        self: &Arc<Self>,
        request: Request<Body>,
    ) -> impl Future<Output = Result<PooledResponse, SendError>> + Send {
        self.send_boxed(Box::new(request))
    }

    /// Sends a request that is on the heap, so that each future has room for a pointer.
    pub(super) async fn send_boxed(
        self: &Arc<Self>,
        mut request: Box<Request<Body>>,
    ) -> Result<PooledResponse, SendError> {
        loop {
            let idle = self.take();
            let was_idle = idle.is_some();
            let sender = match idle {
                Some(sender) if sender.is_ready() => sender,
                Some(sender) => match Box::pin(settled(sender)).await {
                    Some(sender) => sender,
                    None => continue,
                },
                None => match Box::pin(Arc::clone(&self.origin).dial()).await {
                    Ok(sender) => sender,
                    Err(error) => return Err(SendError::NotSent(error, request)),
                },
            };
            match self.send_over(sender, request).await {
                // The server has closed the connection while it was idle, so the request
                // was not processed.
                Err(SendError::NotSent(_, again)) if was_idle => request = again,
                done => return done,
            }
        }
    }

    async fn send_over(
        self: &Arc<Self>,
        mut sender: Sender,
        request: Box<Request<Body>>,
    ) -> Result<PooledResponse, SendError> {
        match sender.try_send_request(*request).await {
            Ok(response) => {
                self.origin.answered();
                let (head, body) = response.into_parts();
                Ok(PooledResponse {
                    status: head.status,
                    headers: head.headers,
                    body,
                    sender: Some(sender),
                    pool: Arc::clone(self),
                })
            }
            Err(mut error) => {
                let request = error.take_message();
                let error = self.origin.explain(error.into_error());
                Err(match request {
                    Some(request) => SendError::NotSent(error, Box::new(request)),
                    None => SendError::Lost(error),
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<PooledConnection>> {
        self.idle
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the connection that was used last.
    fn take(&self) -> Option<Sender> {
        let mut idle = self.lock();
        loop {
            let PooledConnection { sender, since } = idle.pop_back()?;
            if !sender.is_closed() && since.elapsed() < IDLE {
                return Some(sender);
            }
        }
    }

    /// Keeps a connection for the next request, and closes those that were not used for
    /// long.
    fn put_back(&self, sender: Sender) {
        let since = Instant::now();
        let mut idle = self.lock();
        while let Some(oldest) = idle.front()
            && (since.duration_since(oldest.since) >= IDLE
                || idle.len() >= self.origin.options().connections)
        {
            idle.pop_front();
        }
        idle.push_back(PooledConnection { sender, since });
    }
}

/// Waits until a connection is ready again for a request.
async fn settled(mut sender: Sender) -> Option<Sender> {
    let ready = timeout(SETTLE, sender.ready()).await;
    matches!(ready, Ok(Ok(()))).then_some(sender)
}

/// A response whose body is still to be read.
pub(crate) struct PooledResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// The connection, until the body has come to its end.
    sender: Option<Sender>,
    pool: Arc<Pool>,
}

impl PooledResponse {
    /// Returns true if the body is a stream of events.
    pub(crate) fn has_events(&self) -> bool {
        self.status.is_success() && is_events(&self.headers)
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        match poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await {
            Some(frame) => Some(frame.map(|frame| frame.into_data().unwrap_or_default())),
            None => {
                self.end();
                None
            }
        }
    }

    /// The whole body.
    #[cfg(feature = "session")]
    pub(crate) async fn read(mut self, limit: usize) -> Result<Bytes, ReadError> {
        self.read_to_end(limit).await
    }

    pub(super) async fn read_to_end(&mut self, limit: usize) -> Result<Bytes, ReadError> {
        let mut whole = Whole::default();
        let read = poll_fn(|cx| whole.poll(Pin::new(&mut self.body), cx, limit));
        let text = read.await?;
        self.end();
        Ok(text)
    }

    /// The body has come to its end, and the connection can be used again.
    fn end(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.pool.put_back(sender);
        }
    }

    /// As much of the body as fits, and whether that is all of it; if it is not, the
    /// rest never comes.
    #[cfg(feature = "polling")]
    pub(crate) async fn read_up_to(mut self, limit: usize) -> Result<(Bytes, bool), hyper::Error> {
        // Most come in one piece, which is not copied.
        let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
        while let Some(piece) = self.piece().await {
            let mut piece = piece?;
            let room = limit - first.len() - rest.len();
            let fits = piece.len() <= room;
            piece.truncate(room);
            if first.is_empty() && rest.is_empty() {
                first = piece;
            } else {
                rest.extend_from_slice(&std::mem::take(&mut first));
                rest.extend_from_slice(&piece);
            }
            if !fits {
                return Ok((either(first, rest), false));
            }
        }
        Ok((either(first, rest), true))
    }
}

#[cfg(feature = "polling")]
fn either(first: Bytes, rest: BytesMut) -> Bytes {
    match rest.is_empty() {
        true => first,
        false => rest.freeze(),
    }
}

//! Connections for the requests of a session.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
#[cfg(feature = "polling")]
use bytes::BytesMut;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::exchange::SETTLE;
use super::origin::{Origin, Sender};
use crate::http::Body;
use crate::http::server::body;
use crate::http::server::body::ReadError;

/// Connections that are not in use.
pub(crate) struct Pool {
    origin: Arc<Origin>,
    idle: Mutex<Vec<Sender>>,
}

/// A request that was not answered.
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

impl Pool {
    pub(crate) fn new(origin: Arc<Origin>) -> Arc<Self> {
        let idle = Mutex::default();
        Arc::new(Self { origin, idle })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Sender>> {
        self.idle
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn take(&self) -> Option<Sender> {
        self.lock().pop()
    }

    /// Sends a request, over a connection that is there or over a new one.
    pub(crate) async fn send(
        self: &Arc<Self>,
        mut request: Request<Body>,
    ) -> Result<Answer, SendError> {
        // The server may have closed what was idle; then the request comes back.
        while let Some(mut sender) = self.take() {
            let Ok(Ok(())) = timeout(SETTLE, sender.ready()).await else {
                continue;
            };
            match self.send_over(sender, request).await {
                Err(SendError::NotSent(_, again)) => request = *again,
                done => return done,
            }
        }
        match Arc::clone(&self.origin).dial().await {
            Ok(sender) => self.send_over(sender, request).await,
            Err(error) => Err(SendError::NotSent(error, Box::new(request))),
        }
    }

    /// More than a few are never needed at once.
    fn give_back(&self, sender: Sender) {
        let mut idle = self.lock();
        if idle.len() < 8 {
            idle.push(sender);
        }
    }

    async fn send_over(
        self: &Arc<Self>,
        mut sender: Sender,
        request: Request<Body>,
    ) -> Result<Answer, SendError> {
        match sender.try_send_request(request).await {
            Ok(response) => {
                self.origin.answered();
                let (head, body) = response.into_parts();
                Ok(Answer {
                    status: head.status,
                    headers: head.headers,
                    body,
                    sender,
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
}

/// A response whose body is still to be read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    sender: Sender,
    pool: Arc<Pool>,
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    /// The whole body; then the connection can be used again.
    pub(crate) async fn read(self, limit: usize) -> Result<Bytes, ReadError> {
        let text = body::read(self.body, limit, Duration::ZERO).await?;
        self.pool.give_back(self.sender);
        Ok(text)
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
        self.pool.give_back(self.sender);
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

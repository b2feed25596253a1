//! Session as its client knows it: its id, and the requests that open, keep and end it.

use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use caudal_core::{CloseReason, Policy, StatusError};
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use tokio::sync::SetOnce;

use crate::config::Config;
use crate::endpoint::Target;
use crate::http::client::origin::Origin;
use crate::http::client::pool::{Pool, PooledResponse, SendError};
use crate::http::client::status::{Advice, http_status, status_error};
use crate::http::{Body, ClientOptions};

pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Time for a response to a GET, and time after which an event stream that sends nothing
/// counts as broken. A server of ours is never silent for so long.
const SILENCE: Duration = Duration::from_secs(60);
/// Time for the server to end the session.
const DELETE_TIME: Duration = Duration::from_secs(2);
/// Time for the body of a refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Time that a response may go on when no call waits for it, if calls may take for ever.
const REST_TIME: Duration = Duration::from_secs(30);
/// Maximum of a response that is read only to keep its connection, in bytes.
const MAX_REST: usize = 64 << 10;

/// Session of a client.
pub(crate) struct ClientSession {
    pub(super) origin: Arc<Origin>,
    pool: Arc<Pool>,
    header: HeaderName,
    id: SetOnce<HeaderValue>,
    pub(crate) policy: Policy,
    /// Time for a POST to be accepted.
    pub(super) post_time: Option<Duration>,
    /// Time that a response may go on when no call waits for it.
    pub(super) rest_time: Duration,
    /// Maximum number of calls that wait for an answer.
    pub(super) max_calls: usize,
    /// True if the server knows sessions only as MCP has them.
    is_foreign: AtomicBool,
    /// True while there is a way back.
    is_listening: AtomicBool,
    /// True if the server has ended the session.
    is_gone: AtomicBool,
}

/// Reason why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionEnd {
    #[error("the session is gone")]
    Gone,
    #[error("the server has ended the session")]
    ByServer,
    #[error("{0} messages of the server were lost")]
    Missed(u64),
    #[error("the server's messages could not be received any more: {0}")]
    Broken(String),
    #[error(transparent)]
    Status(StatusError),
    #[error("a message may or may not have been received: {0}")]
    Lost(String),
    #[error("a message could not be sent: {0}")]
    Unreachable(String),
    #[error("a message was not accepted in time")]
    Slow,
}

impl From<SessionEnd> for CloseReason {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::ByServer => Self::remote_with(end),
            // Its kind is PermissionDenied if the caller was refused.
            SessionEnd::Status(error) => Self::failed(io::Error::from(error)),
            SessionEnd::Slow => Self::failed(io::Error::new(io::ErrorKind::TimedOut, end)),
            end => Self::failed(end),
        }
    }
}

/// Reason why a GET brought nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GetError {
    /// It may work later.
    #[error(transparent)]
    Failed(#[from] io::Error),
    /// The server does not take GETs.
    #[error("the server takes no GET")]
    Unsupported,
    #[error(transparent)]
    Ended(#[from] SessionEnd),
}

impl GetError {
    pub(crate) fn failed(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        io::Error::other(why).into()
    }
}

impl ClientSession {
    pub(crate) fn new(
        target: &Target<'_>,
        options: &ClientOptions,
        config: &Config,
    ) -> io::Result<Arc<Self>> {
        let origin = Arc::new(Origin::new(target, options)?);
        Ok(Arc::new(Self {
            pool: Pool::new(Arc::clone(&origin)),
            origin,
            header: options.session_header.clone(),
            id: SetOnce::new(),
            policy: config.policy,
            post_time: config.message_timeout,
            rest_time: config.call_timeout.unwrap_or(REST_TIME),
            max_calls: config.pending,
            is_foreign: AtomicBool::new(false),
            is_listening: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }))
    }

    /// Opens the session with a GET that accepts only `kind`; `None` if the server does not
    /// open sessions so, but perhaps by the first POST.
    pub(crate) async fn open(&self, kind: &'static str) -> io::Result<Option<PooledResponse>> {
        let response = self.pool.send(self.get_request(kind, None)).await?;
        match response.status {
            StatusCode::OK => {
                self.identify(&response);
                self.set_listening(true);
                Ok(Some(response))
            }
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_ACCEPTABLE => {
                self.is_foreign.store(true, Relaxed);
                drain(response).await;
                Ok(None)
            }
            _ => Err(refused(response).await.into()),
        }
    }

    /// Opens the session with a PUT, and returns the body of the response.
    pub(crate) async fn open_with(&self, body: Bytes) -> io::Result<Bytes> {
        let mut request = self.origin.post(body);
        *request.method_mut() = Method::PUT;
        let response = self.pool.send(request).await?;
        self.identify(&response);
        if response.status != StatusCode::CREATED || !self.is_identified() {
            return Err(refused(response).await.into());
        }
        self.set_listening(true);
        let text = response.read(MAX_REST).await;
        text.map_err(|_| io::ErrorKind::UnexpectedEof.into())
    }

    /// Makes a GET for the server's messages.
    pub(crate) fn get_request(&self, kind: &'static str, query: Option<&str>) -> Request<Body> {
        let mut request = self.request(Method::GET, query);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(kind));
        request
    }

    /// Makes a POST. It asks a server that `has_calls` to answer them to send the responses
    /// among its other messages.
    pub(super) fn post_request(&self, text: Bytes, has_calls: bool) -> Request<Body> {
        let mut request = self.origin.post(text);
        if has_calls {
            let asynchronous = HeaderValue::from_static("respond-async");
            request.headers_mut().insert(PREFER, asynchronous);
        }
        self.add_id(&mut request);
        request
    }

    fn request(&self, method: Method, query: Option<&str>) -> Request<Body> {
        let mut request = self.origin.request(method, query);
        self.add_id(&mut request);
        request
    }

    fn add_id(&self, request: &mut Request<Body>) {
        if let Some(id) = self.id.get() {
            let headers = request.headers_mut();
            headers.insert(self.header.clone(), id.clone());
        }
    }

    /// Takes the id from the first response that has one.
    pub(super) fn identify(&self, response: &PooledResponse) {
        if let Some(id) = response.headers.get(&self.header) {
            // It fails if the id is known.
            let _ = self.id.set(id.clone());
        }
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.id.initialized()
    }

    /// Waits for the id.
    pub(crate) async fn identified(&self) {
        self.id.wait().await;
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Relaxed)
    }

    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.load(Relaxed)
    }

    pub(crate) fn set_listening(&self, is_listening: bool) {
        self.is_listening.store(is_listening, Relaxed);
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<PooledResponse, SendError> {
        self.pool.send(request).await
    }

    /// Waits for work of a server of ours no longer than it may be silent. Others may send
    /// the head of a response with the first event.
    pub(crate) async fn unless_silent<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.is_foreign() {
            true => Some(work.await),
            false => tokio::time::timeout(SILENCE, work).await.ok(),
        }
    }

    /// Sends a GET for the server's messages; `None` if there are none now.
    pub(crate) async fn get(
        &self,
        request: Request<Body>,
    ) -> Result<Option<PooledResponse>, GetError> {
        let sent = self.unless_silent(self.send(request)).await;
        let sent = sent.ok_or_else(|| GetError::failed("no response came in time"))?;
        let response = sent.map_err(io::Error::from)?;
        match response.status {
            StatusCode::OK => Ok(Some(response)),
            StatusCode::NO_CONTENT => {
                drain(response).await;
                Ok(None)
            }
            StatusCode::NOT_FOUND if self.is_identified() => Err(self.gone().into()),
            StatusCode::GONE if self.is_identified() => Err(SessionEnd::ByServer.into()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(SessionEnd::Status(refused(response).await).into())
            }
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_ACCEPTABLE if self.is_foreign() => {
                Err(GetError::Unsupported)
            }
            status => Err(GetError::failed(http_status(status))),
        }
    }

    /// Keeps the session by a request at this interval, if it has one; returns when it is
    /// gone.
    pub(crate) async fn keep(&self, every: Option<Duration>) -> SessionEnd {
        let Some(every) = every else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(every).await;
            let request = self.request(Method::HEAD, None);
            let sent = tokio::time::timeout(every, self.send(request)).await;
            // If it fails, the next one may not.
            let Ok(Ok(response)) = sent else { continue };
            if response.status == StatusCode::NOT_FOUND {
                return self.gone();
            }
            drain(response).await;
        }
    }

    /// Notes that the server has ended the session.
    pub(super) fn gone(&self) -> SessionEnd {
        self.is_gone.store(true, Relaxed);
        SessionEnd::Gone
    }

    /// Ends the session; the server need not agree.
    pub(crate) async fn end(&self) {
        if !self.is_identified() || self.is_gone.load(Relaxed) {
            return;
        }
        let request = self.request(Method::DELETE, None);
        let end = async {
            if let Ok(response) = self.send(request).await {
                drain(response).await;
            }
        };
        let _ = tokio::time::timeout(DELETE_TIME, end).await;
    }
}

/// Reads the rest of a response, only to keep its connection.
pub(super) async fn drain(response: PooledResponse) {
    let _ = response.read(MAX_REST).await;
}

/// Reads a refusal, as far as it comes soon.
async fn refused(response: PooledResponse) -> StatusError {
    let (status, advice) = (
        response.status,
        Advice::of(response.status, &response.headers),
    );
    let text = tokio::time::timeout(REFUSAL_TIME, response.read(MAX_REST)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    status_error(status, &text, advice)
}

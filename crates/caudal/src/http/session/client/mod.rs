//! The client's side of a session: POSTs one after the other, and one way back.
//!
//! ```text
//! uplink   a task: each message is a POST, the next one when it is accepted
//! downlink a task: events or polls (`sse`, `polling`), made again when they break
//!   └→ frames, in order, and the reason why there are no more
//! ```

mod open;
#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
mod oversized;
mod tries;
mod uplink;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use caudal_core::{CallError, CloseReason, Policy, RequestId, StatusError};
use http::header::ACCEPT;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::{CancellationToken, PollSender};

use crate::config::Config;
use crate::endpoint::Target;
use crate::http::client::answer::{Calls, Received};
use crate::http::client::cut_line;
use crate::http::client::origin::Origin;
use crate::http::client::pool::{Answer, Pool, SendError};
use crate::http::client::status::{Advice, http_status, status_error};
use crate::http::{Body, ClientOptions};
use crate::transport::{ReceiveError, Transport};

use open::Open;
#[cfg(feature = "webhook")]
pub(crate) use oversized::HEAD;
#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
pub(crate) use oversized::pass_over;
pub(crate) use tries::Tries;
use uplink::Uplink;

/// So many messages of the server may wait to be looked at.
const FRAMES: usize = 16;
/// So long what was told may take to be accepted when the session is closed.
const FLUSH: Duration = Duration::from_secs(3);
/// So long the server may take to end the session.
const DELETE: Duration = Duration::from_secs(2);
/// So long a response may go on that no call waits for, if calls may take for ever.
const REST_TIME: Duration = Duration::from_secs(30);
/// So long a refusal may take to say why.
const REFUSAL: Duration = Duration::from_secs(1);
/// So much of an answer that nobody needs is read, to keep the connection.
const REST: usize = 64 << 10;

/// What the two directions share.
pub(crate) struct Session {
    origin: Arc<Origin>,
    pool: Arc<Pool>,
    header: HeaderName,
    id: watch::Sender<Option<HeaderValue>>,
    pub(crate) policy: Policy,
    /// How long a POST may take to be accepted; zero is for ever.
    patience: Duration,
    /// How long a response may go on that no call waits for.
    rest: Duration,
    /// How many calls wait for an answer at most.
    pending: usize,
    /// Whether the server knows sessions only as MCP has them.
    foreign: AtomicBool,
    /// Whether there is a way back.
    listening: AtomicBool,
    /// Whether the server has ended it.
    gone: AtomicBool,
}

/// What comes back.
#[derive(Debug)]
pub(crate) enum Frame {
    Message(Bytes),
    /// A call that failed without one.
    Failed(RequestId, CallError),
    /// One that was too large, and no answer.
    #[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
    Dropped,
    End(CloseReason),
}

impl From<Received> for Frame {
    fn from(received: Received) -> Self {
        match received {
            Received::Message(text) => Self::Message(text),
            Received::Failed { id, error } => Self::Failed(id, error),
        }
    }
}

/// Where frames go.
pub(crate) type Frames = mpsc::Sender<Frame>;

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the session is gone")]
    Gone,
    #[error("the server has ended the session")]
    Over,
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

impl From<Ended> for CloseReason {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Over => Self::remote_with(ended),
            // Its kind says whether it is a matter of being let in.
            Ended::Status(error) => Self::failed(io::Error::from(error)),
            Ended::Slow => Self::failed(io::Error::new(io::ErrorKind::TimedOut, ended)),
            ended => Self::failed(ended),
        }
    }
}

impl Session {
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
            id: watch::Sender::new(None),
            policy: config.policy,
            patience: config.message_timeout,
            rest: match config.call_timeout.is_zero() {
                true => REST_TIME,
                false => config.call_timeout,
            },
            pending: config.limits.pending,
            foreign: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }))
    }

    /// Opens it, with a GET that accepts only `kind`; `None` if the server does not
    /// open sessions so, but perhaps by the first POST.
    pub(crate) async fn open(&self, kind: &'static str) -> io::Result<Option<Answer>> {
        let answer = self.pool.send(self.get(kind, None)).await?;
        match answer.status {
            StatusCode::OK => {
                self.identify(&answer);
                self.listening.store(true, Relaxed);
                Ok(Some(answer))
            }
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_ACCEPTABLE => {
                self.foreign.store(true, Relaxed);
                let _ = answer.read(REST).await;
                Ok(None)
            }
            _ => Err(refused(answer).await.into()),
        }
    }

    /// Opens it with a PUT that says where the server's messages go, and returns the
    /// answer.
    #[cfg(feature = "webhook")]
    pub(crate) async fn open_with(&self, body: Bytes) -> io::Result<Bytes> {
        let mut request = self.origin.post(body);
        *request.method_mut() = Method::PUT;
        let answer = self.pool.send(request).await?;
        let status = answer.status;
        let advice = Advice::of(status, &answer.headers);
        self.identify(&answer);
        let text = answer.read(REST).await;
        let text = text.map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if status == StatusCode::CREATED && self.is_identified() {
            self.listening.store(true, Relaxed);
            return Ok(text);
        }
        Err(status_error(status, &text, advice).into())
    }

    /// A GET for the server's messages.
    pub(crate) fn get(&self, kind: &'static str, query: Option<&str>) -> Request<Body> {
        let mut request = self.origin.request(Method::GET, query);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(kind));
        self.add_id(&mut request);
        request
    }

    fn add_id(&self, request: &mut Request<Body>) {
        if let Some(id) = &*self.id.borrow() {
            request
                .headers_mut()
                .insert(self.header.clone(), id.clone());
        }
    }

    /// Takes the id from the first response that has one.
    fn identify(&self, answer: &Answer) {
        if let Some(id) = answer.headers.get(&self.header) {
            self.id.send_if_modified(|own| {
                let new = own.is_none();
                own.get_or_insert_with(|| id.clone());
                new
            });
        }
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.id.borrow().is_some()
    }

    /// Returns when it has an id.
    pub(crate) async fn identified(&self) {
        let mut id = self.id.subscribe();
        // It cannot fail: the other end is here.
        let _ = id.wait_for(Option::is_some).await;
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign.load(Relaxed)
    }

    /// Says whether there is a way back.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Relaxed);
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Answer, SendError> {
        self.pool.send(request).await
    }

    /// Asks for the server's messages again.
    pub(crate) async fn ask(&self, request: Request<Body>) -> Asked {
        let answer = match self.send(request).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = io::Error::from(error);
                return match error.kind() {
                    io::ErrorKind::ConnectionRefused => Asked::Refused(error.to_string()),
                    _ => Asked::Failed(error.to_string()),
                };
            }
        };
        match answer.status {
            StatusCode::OK => Asked::Answer(Box::new(answer)),
            StatusCode::NO_CONTENT => {
                let _ = answer.read(REST).await;
                Asked::Empty
            }
            StatusCode::NOT_FOUND if self.is_identified() => Asked::End(self.gone()),
            StatusCode::GONE if self.is_identified() => Asked::End(Ended::Over),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Asked::End(Ended::Status(refused(answer).await))
            }
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_ACCEPTABLE if self.is_foreign() => {
                Asked::Never
            }
            status => Asked::Failed(http_status(status)),
        }
    }

    /// Says so often that the client is still there, where nothing else does; returns
    /// when there is no session any more. Zero is never.
    #[cfg(feature = "webhook")]
    pub(crate) async fn stay(&self, every: Duration) -> Ended {
        if every.is_zero() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(every).await;
            let mut request = self.origin.request(Method::HEAD, None);
            self.add_id(&mut request);
            let sent = tokio::time::timeout(every, self.send(request)).await;
            // If it fails, the next one may not.
            let Ok(Ok(answer)) = sent else { continue };
            if answer.status == StatusCode::NOT_FOUND {
                return self.gone();
            }
            let _ = answer.read(REST).await;
        }
    }

    /// The server has ended it.
    fn gone(&self) -> Ended {
        self.gone.store(true, Relaxed);
        Ended::Gone
    }

    /// Ends it; the server need not agree.
    pub(crate) async fn end(&self) {
        if !self.is_identified() || self.gone.load(Relaxed) {
            return;
        }
        let mut request = self.origin.request(Method::DELETE, None);
        self.add_id(&mut request);
        let end = async {
            if let Ok(answer) = self.send(request).await {
                let _ = answer.read(REST).await;
            }
        };
        let _ = tokio::time::timeout(DELETE, end).await;
    }
}

/// What the server said instead of yes, as far as it comes soon.
async fn refused(answer: Answer) -> StatusError {
    let (status, advice) = (answer.status, Advice::of(answer.status, &answer.headers));
    let text = tokio::time::timeout(REFUSAL, answer.read(REST)).await;
    let text = text.ok().and_then(Result::ok).unwrap_or_default();
    status_error(status, &text, advice)
}

/// What came of a GET.
pub(crate) enum Asked {
    Answer(Box<Answer>),
    /// There is nothing new.
    Empty,
    /// It may work later.
    Failed(String),
    /// Nobody listens there; it may work later.
    Refused(String),
    /// The server has no such way back.
    Never,
    End(Ended),
}

/// A transport whose messages go up by POST and come down some other way.
pub(crate) struct SessionTransport {
    session: Arc<Session>,
    frames: mpsc::Receiver<Frame>,
    /// The frame that is lent.
    frame: Bytes,
    messages: PollSender<(Bytes, Calls)>,
    open: Arc<Open>,
    closed: CancellationToken,
    uplink: Option<JoinHandle<Option<CloseReason>>>,
    downlink: AbortHandle,
    closing: Option<Pin<Box<dyn Future<Output = Option<CloseReason>> + Send>>>,
}

impl SessionTransport {
    /// Starts both directions.
    pub(crate) fn start<F>(session: Arc<Session>, listen: impl FnOnce(Frames) -> F) -> Self
    where
        F: Future<Output = Option<CloseReason>> + Send + 'static,
    {
        let (sender, frames) = mpsc::channel(FRAMES);
        let (messages, queue) = mpsc::channel(1);
        let (open, closed) = (Arc::new(Open::default()), CancellationToken::new());
        let uplink = Uplink::new(&session, sender.clone(), &open);
        let uplink = tokio::spawn(uplink.run(queue, closed.clone()));
        let listening = listen(sender.clone());
        let listened = Arc::clone(&session);
        let downlink = tokio::spawn(async move {
            let end = listening.await;
            listened.set_listening(false);
            if let Some(reason) = end {
                let _ = sender.send(Frame::End(reason)).await;
            }
        });
        Self {
            session,
            frames,
            frame: Bytes::new(),
            messages: PollSender::new(messages),
            open,
            closed,
            uplink: Some(uplink),
            downlink: downlink.abort_handle(),
            closing: None,
        }
    }
}

impl Transport for SessionTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match ready!(self.frames.poll_recv(cx)) {
            Some(Frame::Message(frame)) => {
                self.frame = frame;
                Poll::Ready(Ok(Some(&self.frame)))
            }
            Some(Frame::Failed(id, error)) => {
                Poll::Ready(Err(ReceiveError::CallFailed { id, error }))
            }
            #[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
            Some(Frame::Dropped) => Poll::Ready(Err(ReceiveError::Dropped)),
            Some(Frame::End(reason)) => Poll::Ready(Err(ReceiveError::Closed(reason))),
            None => Poll::Ready(Ok(None)),
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            ready!(self.messages.poll_reserve(cx)).map_err(|_| gone())?;
            let text = cut_line(out);
            let calls = Calls::of(&text);
            self.open.queue(&calls);
            let sent = self.messages.send_item((text, calls));
            sent.map_err(|_| gone())?;
        }
        self.open.all_queued();
        Poll::Ready(Ok(()))
    }

    /// Waits until what was sent is accepted, and ends the session. What was not
    /// accepted, and no call could say so, is the reason.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        let (session, closed) = (&self.session, &self.closed);
        let messages = &mut self.messages;
        let (uplink, downlink) = (&mut self.uplink, &self.downlink);
        let closing = self.closing.get_or_insert_with(|| {
            messages.close();
            closed.cancel();
            downlink.abort();
            let (session, uplink) = (Arc::clone(session), uplink.take());
            Box::pin(async move {
                let mut uplink = uplink?;
                let more = match tokio::time::timeout(FLUSH, &mut uplink).await {
                    Ok(more) => more.ok().flatten(),
                    Err(_) => {
                        uplink.abort();
                        Some(Ended::Slow.into())
                    }
                };
                session.end().await;
                more
            })
        });
        // Nobody looks at them any more, and nobody is to wait for that.
        while let Poll::Ready(Some(_)) = self.frames.poll_recv(cx) {}
        closing.as_mut().poll(cx)
    }

    fn keeps_calls(&self) -> bool {
        true
    }

    fn forget(&mut self, id: &RequestId) {
        self.open.forget(id);
    }

    fn remote(&self) -> Option<String> {
        Some(self.session.origin.authority().to_owned())
    }
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        self.downlink.abort();
        if let Some(uplink) = &self.uplink {
            uplink.abort();
        }
    }
}

//! One connection, and the exchange that is under way on it.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use caudal_core::Policy;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::time::Instant;
use tokio_util::sync::ReusableBoxFuture;

use super::answer::{Calls, Received, is_events};
use super::error::RequestError;
use super::events::Parser;
use super::origin::{Origin, Sender};
use super::wake::{Ready, Signal};
use crate::http::Body;
use crate::http::server::body::{ReadError, Whole};

type Sent = Result<Response<Incoming>, TrySendError<Request<Body>>>;
type Dialing = Pin<Box<dyn Future<Output = io::Result<Sender>> + Send>>;

/// One connection, and the exchange that is under way on it.
pub(super) struct Lane {
    signal: Arc<Signal>,
    waker: Waker,
    sender: Option<Sender>,
    stage: Stage,
    /// The response that is waited for; its memory serves the next one too.
    head: Option<ReusableBoxFuture<'static, Sent>>,
    /// Whether the request was given back once already.
    again: bool,
    pub(super) calls: Calls,
    /// When a request that no call waits for has taken too long, or its connection to be
    /// ready for the next.
    pub(super) deadline: Option<Instant>,
}

enum Stage {
    /// No exchange is under way.
    Free,
    /// The last exchange is done, but the connection is not ready for another.
    Settling,
    Dialing(Dialing, Request<Body>),
    Head,
    Whole(StatusCode, Incoming, Whole),
    Events(Box<Events>),
}

struct Events {
    body: Incoming,
    chunk: Bytes,
    parser: Parser,
}

/// Where a lane stands when it can go no further.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stand {
    /// Frames are there, and more may follow at once.
    More,
    /// The exchange is done, and the connection can be used again.
    Idle,
    /// The exchange is done, and so is the connection.
    Vacant,
}

impl Lane {
    pub(super) fn new(index: usize, ready: &Arc<Ready>, sender: Option<Sender>) -> Self {
        let signal = Signal::new(index, ready);
        Self {
            waker: Waker::from(Arc::clone(&signal)),
            signal,
            sender,
            stage: Stage::Free,
            head: None,
            again: false,
            calls: Calls::default(),
            deadline: None,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Free | Stage::Settling)
    }

    /// Whether its exchange is done, and its connection not ready yet.
    pub(super) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling)
    }

    /// Whether no response to its request has begun.
    pub(super) fn is_unanswered(&self) -> bool {
        self.is_busy() && !matches!(self.stage, Stage::Events(_))
    }

    /// Whether it has a connection that the server has not closed.
    pub(super) fn is_connected(&self) -> bool {
        self.sender
            .as_ref()
            .is_some_and(|sender| !sender.is_closed())
    }

    /// Begins an exchange.
    pub(super) fn begin(&mut self, origin: &Arc<Origin>, request: Request<Body>, calls: Calls) {
        self.calls = calls;
        self.again = false;
        match self.is_connected() {
            true => self.send(request),
            false => self.dial(origin, request),
        }
    }

    /// Gives the exchange up, and with it the connection.
    pub(super) fn abort(&mut self) {
        self.stage = Stage::Free;
        self.sender = None;
        // Dropped, it makes hyper close the connection.
        self.head = None;
        self.calls = Calls::default();
        self.deadline = None;
    }

    fn dial(&mut self, origin: &Arc<Origin>, request: Request<Body>) {
        self.sender = None;
        let dialing = Box::pin(Arc::clone(origin).dial());
        self.stage = Stage::Dialing(dialing, request);
    }

    fn send(&mut self, request: Request<Body>) {
        let Some(sender) = &mut self.sender else {
            unreachable!("it was dialled or is connected");
        };
        let sent = sender.try_send_request(request);
        match &mut self.head {
            Some(head) => head.set(sent),
            None => self.head = Some(ReusableBoxFuture::new(sent)),
        }
        self.stage = Stage::Head;
    }

    /// Goes on as far as it can.
    pub(super) fn poll(
        &mut self,
        origin: &Arc<Origin>,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) -> Poll<Stand> {
        self.signal.looked_at();
        let waker = self.waker.clone();
        let cx = &mut Context::from_waker(&waker);
        loop {
            match &mut self.stage {
                Stage::Free => return Poll::Pending,
                Stage::Settling => return self.poll_settled(cx),
                Stage::Dialing(dialing, _) => {
                    let dialled = ready!(dialing.as_mut().poll(cx));
                    self.dialled(dialled, frames);
                }
                Stage::Head => {
                    let Some(head) = &mut self.head else {
                        unreachable!("a request was sent");
                    };
                    let sent = ready!(head.poll(cx));
                    self.answered(origin, sent, policy, frames);
                }
                Stage::Whole(status, body, whole) => {
                    let read = ready!(whole.poll(Pin::new(body), cx, policy.max_message));
                    let status = *status;
                    self.read(status, read, policy, frames);
                }
                Stage::Events(events) => {
                    match ready!(events.poll(cx, &mut self.calls, policy, frames)) {
                        true => return Poll::Ready(Stand::More),
                        false => self.end(),
                    }
                }
            }
        }
    }

    fn dialled(&mut self, dialled: io::Result<Sender>, frames: &mut VecDeque<Received>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Settling);
        match (dialled, stage) {
            (Ok(sender), Stage::Dialing(_, request)) => {
                self.sender = Some(sender);
                self.send(request);
            }
            (Err(error), _) => self.fail(&RequestError::not_sent(error), frames),
            (Ok(_), _) => unreachable!("only who dials is connected"),
        }
    }

    fn answered(
        &mut self,
        origin: &Arc<Origin>,
        sent: Sent,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) {
        match sent {
            Ok(response) => {
                origin.answered();
                self.begin_body(response, policy);
            }
            Err(mut error) => match error.take_message() {
                // The server closed an idle connection: nothing was sent.
                Some(request) if !self.again => {
                    self.again = true;
                    self.dial(origin, request);
                }
                again => {
                    let error = origin.explain(error.into_error());
                    let error = match again {
                        Some(_) => RequestError::not_sent(error),
                        None => RequestError::lost(error),
                    };
                    self.fail(&error, frames);
                }
            },
        }
    }

    fn begin_body(&mut self, response: Response<Incoming>, policy: &Policy) {
        let (head, body) = response.into_parts();
        self.calls.begun(head.status, &head.headers);
        self.stage = match head.status.is_success() && is_events(&head.headers) {
            true => Stage::Events(Box::new(Events {
                body,
                chunk: Bytes::new(),
                parser: Parser::new(policy.max_message),
            })),
            false => Stage::Whole(head.status, body, Whole::default()),
        };
    }

    fn read(
        &mut self,
        status: StatusCode,
        read: Result<Bytes, ReadError>,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) {
        match read {
            Ok(text) => {
                self.calls.settle(status, &text, policy, frames);
                self.end();
            }
            Err(ReadError::TooLarge) => {
                let limit = policy.max_message;
                self.fail(&RequestError::TooLarge { limit }, frames);
            }
            Err(_) => self.fail(&RequestError::unfinished(), frames),
        }
    }

    /// Ends the calls with an error; the connection cannot be used any more.
    fn fail(&mut self, error: &RequestError, frames: &mut VecDeque<Received>) {
        self.calls.fail(error, frames);
        self.sender = None;
        self.end();
    }

    fn end(&mut self) {
        self.deadline = None;
        self.stage = Stage::Settling;
    }

    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Stand> {
        let settled = match &mut self.sender {
            Some(sender) => ready!(sender.poll_ready(cx)).is_ok(),
            None => false,
        };
        (self.stage, self.deadline) = (Stage::Free, None);
        if settled {
            return Poll::Ready(Stand::Idle);
        }
        self.sender = None;
        Poll::Ready(Stand::Vacant)
    }
}

impl Events {
    /// Goes on until frames are there; `false` at the end.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        calls: &mut Calls,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) -> Poll<bool> {
        loop {
            match self.parser.next(&mut self.chunk) {
                Ok(Some(event)) if event.data.is_empty() => continue,
                Ok(Some(event)) => {
                    if !calls.take(&event.data, policy, frames) {
                        tracing::warn!(target: "caudal", "an event that is no message");
                    }
                    if !frames.is_empty() {
                        return Poll::Ready(true);
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    let limit = error.limit;
                    calls.fail_unanswered(&RequestError::TooLarge { limit }, frames);
                    return Poll::Ready(false);
                }
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    calls.fail_unanswered(&RequestError::lost(io::Error::other(error)), frames);
                    return Poll::Ready(false);
                }
                None => {
                    calls.fail_unanswered(&RequestError::unfinished(), frames);
                    return Poll::Ready(false);
                }
            }
        }
    }
}

//! Messages of the client: a POST each, in order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::{CloseReason, RequestId};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::open_calls::OpenCalls;
use super::session::{ClientSession, SessionEnd, read_rest};
use super::{Frame, FrameSender, Retry};
use crate::http::Body;
use crate::http::client::answer::Calls;
use crate::http::client::error::RequestError;
use crate::http::client::pool::{Answer, SendError};
use crate::http::client::read::{ReadLimits, fail_unanswered, read_events, read_whole};

/// Time that events of a response may go on when all its calls are answered.
const LINGER_TIME: Duration = Duration::from_secs(1);
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Sends messages: a POST each, in order.
pub(super) struct PostSender {
    session: Arc<ClientSession>,
    frames: FrameSender,
    open_calls: Arc<OpenCalls>,
    /// Responses that are still being read, and calls that wait for room.
    reading: JoinSet<()>,
    /// Room for responses that calls wait for. Only their tasks wait for it: such a call
    /// may end only when the server has an answer of ours.
    room: Arc<Semaphore>,
    /// Tasks of `reading` that no call waits for, the oldest first.
    without_calls: VecDeque<AbortHandle>,
    /// True if a POST was accepted.
    begun: bool,
    /// Reason why a message that no call waits for was not accepted.
    rejection: Option<Box<RequestError>>,
}

impl PostSender {
    pub(super) fn new(
        session: &Arc<ClientSession>,
        frames: FrameSender,
        open_calls: &Arc<OpenCalls>,
    ) -> Self {
        Self {
            session: Arc::clone(session),
            frames,
            open_calls: Arc::clone(open_calls),
            reading: JoinSet::new(),
            room: Arc::new(Semaphore::new(connections(session))),
            without_calls: VecDeque::new(),
            begun: false,
            rejection: None,
        }
    }

    /// Sends all messages, and returns in the end why one was not accepted, if no call
    /// could tell so.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<(Bytes, Calls)>,
        closed: CancellationToken,
    ) -> Option<CloseReason> {
        let mut end = None;
        while let Some((text, calls)) = queue.recv().await {
            if let Err(reason) = self.post(text, calls).await {
                // What is still in the queue stays there: it was not sent.
                tokio::select! {
                    _ = self.frames.send(Frame::End(reason.clone())) => closed.cancelled().await,
                    () = closed.cancelled() => {}
                }
                end = Some(reason);
                break;
            }
        }
        self.reading.shutdown().await;
        let rejection = self.rejection.map(|error| error.close_reason());
        rejection.or(end)
    }

    async fn post(&mut self, text: Bytes, calls: Calls) -> Result<(), CloseReason> {
        let ids: Vec<_> = calls.ids().cloned().collect();
        let posted = self.post_unless_gone(text, calls).await;
        self.open_calls.sent(&ids);
        posted
    }

    async fn post_unless_gone(&mut self, text: Bytes, mut calls: Calls) -> Result<(), CloseReason> {
        let single = calls.only().is_some();
        self.open_calls.drop_gone(&mut calls);
        if single && calls.is_empty() {
            return Ok(());
        }
        let mut request = self.session.origin.post(text);
        if !calls.is_empty() {
            let asynchronous = HeaderValue::from_static("respond-async");
            request.headers_mut().insert(PREFER, asynchronous);
        }
        self.session.add_id(&mut request);
        if self.session.is_foreign() && !calls.is_empty() {
            let accepted = self.post_apart(request, calls).await;
            if !self.begun {
                // The others need the session that its response begins.
                self.begun = accepted.await.is_ok();
            }
            return Ok(());
        }
        let sent = send(&self.session, request);
        let answer = match self.session.post_time.is_zero() {
            true => sent.await?,
            false => match timeout(self.session.post_time, sent).await {
                Ok(sent) => sent?,
                Err(_) => return Err(SessionEnd::Slow.into()),
            },
        };
        self.begun = true;
        match answer {
            None => {}
            // It is accepted when the whole response says nothing else.
            Some(answer) if calls.is_empty() && !answer.has_events() => {
                let (session, frames) = (Arc::clone(&self.session), self.frames.clone());
                let error = read(session, frames, answer, calls).await;
                self.rejection = error.or(self.rejection.take());
            }
            Some(answer) if calls.is_empty() => self.read_without_calls(answer),
            Some(answer) => self.read_apart(answer, calls).await,
        }
        Ok(())
    }

    async fn read_apart(&mut self, answer: Answer, calls: Calls) {
        let ids = calls.ids().cloned().collect();
        let (session, frames) = (Arc::clone(&self.session), self.frames.clone());
        let read = async move { drop(read(session, frames, answer, calls).await) };
        self.spawn(ids, read).await;
    }

    /// Sends a POST that nothing waits for: a server of another make answers only when it is
    /// done, and may call back before that. The receiver hears when the response has begun.
    async fn post_apart(&mut self, request: Request<Body>, calls: Calls) -> oneshot::Receiver<()> {
        let (began, accepted) = oneshot::channel();
        let ids = calls.ids().cloned().collect();
        let (session, frames) = (Arc::clone(&self.session), self.frames.clone());
        let post = async move {
            let sent = send(&session, request).await;
            if sent.is_ok() {
                let _ = began.send(());
            }
            match sent {
                Ok(Some(answer)) => drop(read(session, frames, answer, calls).await),
                Ok(None) => {}
                Err(reason) => drop(frames.send(Frame::End(reason)).await),
            }
        };
        self.spawn(ids, post).await;
        accepted
    }

    /// Starts work that these calls wait for, which begins when there is room.
    async fn spawn(
        &mut self,
        ids: Vec<RequestId>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.bound().await;
        let mut room = Box::pin(Arc::clone(&self.room).acquire_owned());
        // Permits go in the order in which they are asked for, and tasks begin in any.
        let granted = poll_fn(|cx| Poll::Ready(room.as_mut().poll(cx))).await;
        let task = self.reading.spawn(async move {
            let _room = match granted {
                Poll::Ready(granted) => granted,
                Poll::Pending => room.await,
            };
            work.await;
        });
        self.open_calls.add(ids, task);
    }

    /// Keeps the number of tasks within its bound. A task that waits for room has a call that
    /// is not answered, and ends when that is given up, so `Limits::pending` is the bound.
    async fn bound(&mut self) {
        while self.reading.try_join_next().is_some() {}
        // Beside them there are responses whose calls are answered, or that have none.
        let others = connections(&self.session).saturating_mul(2);
        if self.reading.len() >= self.session.max_calls.saturating_add(others) {
            self.reading.join_next().await;
        }
    }

    /// Reads events that no call waits for. If too many of these are left open, the
    /// oldest is given up: its server may wait for what is sent next.
    fn read_without_calls(&mut self, answer: Answer) {
        while self.reading.try_join_next().is_some() {}
        self.without_calls.retain(|task| !task.is_finished());
        if self.without_calls.len() >= connections(&self.session)
            && let Some(oldest) = self.without_calls.pop_front()
        {
            oldest.abort();
        }
        let (session, frames) = (Arc::clone(&self.session), self.frames.clone());
        let task = async move { drop(read(session, frames, answer, Calls::default()).await) };
        self.without_calls.push_back(self.reading.spawn(task));
    }
}

/// Returns the maximum number of responses that may be open at once.
fn connections(session: &ClientSession) -> usize {
    let connections = session.origin.options().connections;
    connections.clamp(1, Semaphore::MAX_PERMITS)
}

/// Sends a request, and again if it certainly was not received. `None` if the response only
/// tells that it was accepted.
async fn send(
    session: &ClientSession,
    mut request: Request<Body>,
) -> Result<Option<Answer>, CloseReason> {
    let mut retry = Retry::new();
    loop {
        match session.send(request).await {
            Ok(answer) => return accept(session, answer).await,
            Err(lost @ SendError::Lost(_)) => {
                return Err(SessionEnd::Lost(io::Error::from(lost).to_string()).into());
            }
            Err(SendError::NotSent(error, again)) => {
                retry.tried(error.kind() == io::ErrorKind::ConnectionRefused);
                if !retry.wait().await {
                    return Err(SessionEnd::Unreachable(error.to_string()).into());
                }
                request = *again;
            }
        }
    }
}

async fn accept(session: &ClientSession, answer: Answer) -> Result<Option<Answer>, CloseReason> {
    let knew = session.is_identified();
    session.identify(&answer);
    match answer.status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            read_rest(answer).await;
            Ok(None)
        }
        StatusCode::NOT_FOUND if knew => Err(session.gone().into()),
        _ => Ok(Some(answer)),
    }
}

/// Passes on the messages of a response; returns what is wrong if no call can tell it.
async fn read(
    session: Arc<ClientSession>,
    frames: FrameSender,
    mut answer: Answer,
    mut calls: Calls,
) -> Option<Box<RequestError>> {
    let limits = ReadLimits {
        policy: session.policy,
        unasked: session.rest_time,
        answered: LINGER_TIME,
    };
    if !answer.has_events() {
        read_whole(&mut answer, &mut calls, &limits, &frames).await;
        return calls.take_rejection();
    }
    read_events(answer, &mut calls, &limits, &frames).await;
    // The answer may still come the other way, if there is one. Other servers repeat
    // it only to a client that asks for this very stream.
    if session.is_foreign() || !session.is_listening() {
        fail_unanswered(&mut calls, &RequestError::unfinished(), &frames).await;
    }
    None
}

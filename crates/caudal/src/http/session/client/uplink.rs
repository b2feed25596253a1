//! The client's messages: a POST each, in order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::{CloseReason, RequestId};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Ended, Frame, Frames, Open, REST, Session, Tries};
use crate::http::Body;
use crate::http::client::answer::Calls;
use crate::http::client::error::RequestError;
use crate::http::client::pool::{Answer, SendError};
use crate::http::client::read::{ReadLimits, fail_unanswered, read_events, read_whole};

/// So long the events of a response may go on when all its calls are answered.
const LINGER: Duration = Duration::from_secs(1);
const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The client's messages: a POST each, in order.
pub(super) struct Uplink {
    session: Arc<Session>,
    frames: Frames,
    open: Arc<Open>,
    /// Responses that are still being read, and calls that wait for room.
    reading: JoinSet<()>,
    /// Room for responses that calls wait for. Their tasks wait for it, and nothing
    /// else does: such a call may end only when the server has an answer of ours.
    room: Arc<Semaphore>,
    /// Those of `reading` that no call waits for, the oldest first.
    told: VecDeque<AbortHandle>,
    begun: bool,
    /// Why a message that no call waits for was not accepted.
    rejection: Option<Box<RequestError>>,
}

impl Uplink {
    pub(super) fn new(session: &Arc<Session>, frames: Frames, open: &Arc<Open>) -> Self {
        Self {
            session: Arc::clone(session),
            frames,
            open: Arc::clone(open),
            reading: JoinSet::new(),
            room: Arc::new(Semaphore::new(connections(session))),
            told: VecDeque::new(),
            begun: false,
            rejection: None,
        }
    }

    /// Sends all messages, and says in the end what of them was not accepted, if no
    /// call could say so.
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
        self.open.sent(&ids);
        posted
    }

    async fn post_unless_gone(&mut self, text: Bytes, mut calls: Calls) -> Result<(), CloseReason> {
        let single = calls.only().is_some();
        self.open.drop_gone(&mut calls);
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
        let answer = match self.session.patience.is_zero() {
            true => sent.await?,
            false => match timeout(self.session.patience, sent).await {
                Ok(sent) => sent?,
                Err(_) => return Err(Ended::Slow.into()),
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
            Some(answer) if calls.is_empty() => self.read_told(answer),
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

    /// A server of another make answers only when it is done, and may call back
    /// before that: nothing waits for it, and only its calls limit its time. Says
    /// when the response has begun.
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

    /// Does what these calls wait for, as soon as there is room; returns before that.
    async fn spawn(
        &mut self,
        ids: Vec<RequestId>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.bound().await;
        let mut room = Box::pin(Arc::clone(&self.room).acquire_owned());
        // Who asks first gets it first: it is asked for here, since tasks begin in any
        // order.
        let granted = poll_fn(|cx| Poll::Ready(room.as_mut().poll(cx))).await;
        let task = self.reading.spawn(async move {
            let _room = match granted {
                Poll::Ready(granted) => granted,
                Poll::Pending => room.await,
            };
            work.await;
        });
        self.open.add(ids, task);
    }

    /// Keeps the number of tasks within its bound. What waits for room has a call that
    /// is not answered, and ends when that is given up, so `Limits::pending` is the
    /// bound; only a server that answers what it was never sent comes up to it.
    async fn bound(&mut self) {
        while self.reading.try_join_next().is_some() {}
        // Beside them there are responses whose calls are answered, or that have none.
        let others = connections(&self.session).saturating_mul(2);
        if self.reading.len() >= self.session.pending.saturating_add(others) {
            self.reading.join_next().await;
        }
    }

    /// Reads events that no call waits for. If too many of these are left open, the
    /// oldest is given up: its server may wait for what is sent next.
    fn read_told(&mut self, answer: Answer) {
        while self.reading.try_join_next().is_some() {}
        self.told.retain(|task| !task.is_finished());
        if self.told.len() >= connections(&self.session)
            && let Some(oldest) = self.told.pop_front()
        {
            oldest.abort();
        }
        let (session, frames) = (Arc::clone(&self.session), self.frames.clone());
        let task = async move { drop(read(session, frames, answer, Calls::default()).await) };
        self.told.push_back(self.reading.spawn(task));
    }
}

/// How many responses may be open at once.
fn connections(session: &Session) -> usize {
    let connections = session.origin.options().connections;
    connections.clamp(1, Semaphore::MAX_PERMITS)
}

/// Sends a request; if it certainly was not received, again. `None` if there is no
/// more to the response than that it was accepted.
async fn send(
    session: &Session,
    mut request: Request<Body>,
) -> Result<Option<Answer>, CloseReason> {
    let mut tries = Tries::new();
    loop {
        match session.send(request).await {
            Ok(answer) => return accept(session, answer).await,
            Err(lost @ SendError::Lost(_)) => {
                return Err(Ended::Lost(io::Error::from(lost).to_string()).into());
            }
            Err(SendError::NotSent(error, again)) => {
                tries.tried(error.kind() == io::ErrorKind::ConnectionRefused);
                if !tries.wait().await {
                    return Err(Ended::Unreachable(error.to_string()).into());
                }
                request = *again;
            }
        }
    }
}

async fn accept(session: &Session, answer: Answer) -> Result<Option<Answer>, CloseReason> {
    let knew = session.is_identified();
    session.identify(&answer);
    match answer.status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            let _ = answer.read(REST).await;
            Ok(None)
        }
        StatusCode::NOT_FOUND if knew => Err(session.gone().into()),
        _ => Ok(Some(answer)),
    }
}

/// Passes on what a response says; returns what is wrong if no call can say it.
async fn read(
    session: Arc<Session>,
    frames: Frames,
    mut answer: Answer,
    mut calls: Calls,
) -> Option<Box<RequestError>> {
    let limits = ReadLimits {
        policy: session.policy,
        unasked: session.rest,
        answered: LINGER,
    };
    if !answer.has_events() {
        read_whole(&mut answer, &mut calls, &limits, &frames).await;
        return calls.take_rejection();
    }
    read_events(answer, &mut calls, &limits, &frames).await;
    // The answer may still come the other way, if there is one. Other servers repeat
    // it only to who asks for this very stream.
    if session.is_foreign() || !session.listening.load(Relaxed) {
        fail_unanswered(&mut calls, &RequestError::unfinished(), &frames).await;
    }
    None
}

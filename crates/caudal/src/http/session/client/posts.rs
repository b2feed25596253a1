//! Messages of the client: a POST each, in order.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use caudal_core::CloseReason;
use futures_util::future::poll_immediate;
use http::{Request, StatusCode};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::session::{SessionEnd, drain};
use super::{Inbound, Retry};
use crate::http::Body;
use crate::http::client::error::RequestError;
use crate::http::client::pool::{PooledResponse, SendError};
use crate::http::client::read::{ReadLimits, fail_unanswered, read_events, read_whole};
use crate::http::client::response::{Calls, Received};
use crate::http::session::within;

/// Time that events of a response may go on when all its calls are answered.
const LINGER_TIME: Duration = Duration::from_secs(1);

/// Message on its way to the server.
pub(super) struct OutgoingPost {
    pub(super) text: Bytes,
    pub(super) calls: Calls,
    pub(super) tokens: CallTokens,
}

/// A token for each call of a POST, cancelled when that call is given up or the POST ends.
pub(super) struct CallTokens(pub(super) Vec<CancellationToken>);

impl CallTokens {
    /// Returns true if there were calls and all are given up.
    fn are_cancelled(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until all calls are given up.
    async fn cancelled(&self) {
        for token in &self.0 {
            token.cancelled().await;
        }
    }
}

impl Drop for CallTokens {
    fn drop(&mut self) {
        self.0.iter().for_each(CancellationToken::cancel);
    }
}

/// Sends messages: a POST each, in order.
pub(super) struct PostSender {
    inbound: Inbound,
    /// Responses that are still being read, and calls that wait for room.
    tasks: JoinSet<()>,
    /// Maximum number of responses that may be open at once.
    connections: usize,
    /// Room for responses that calls wait for. Only their tasks wait for it: such a call
    /// may end only when the server has a response of ours.
    room: Arc<Semaphore>,
    /// Tasks that no call waits for, the oldest first.
    without_calls: VecDeque<AbortHandle>,
    /// True if a POST was accepted.
    begun: bool,
    /// Reason why a message that no call waits for was not accepted.
    rejection: Option<Box<RequestError>>,
}

impl PostSender {
    pub(super) fn new(inbound: Inbound) -> Self {
        let connections = inbound.session.origin.options().connections;
        let connections = connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            inbound,
            tasks: JoinSet::new(),
            connections,
            room: Arc::new(Semaphore::new(connections)),
            without_calls: VecDeque::new(),
            begun: false,
            rejection: None,
        }
    }

    /// Sends all messages, and returns in the end why one was not accepted, if no call
    /// could report that.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<OutgoingPost>,
        closed: CancellationToken,
    ) -> Option<CloseReason> {
        let mut end = None;
        while let Some(post) = queue.recv().await {
            if let Err(reason) = self.post(post).await {
                // What is still in the queue stays there: it was not sent.
                tokio::select! {
                    () = self.inbound.push(Received::End(reason.clone())) => closed.cancelled().await,
                    () = closed.cancelled() => {}
                }
                end = Some(reason);
                break;
            }
        }
        self.tasks.shutdown().await;
        let rejection = self.rejection.map(|error| error.close_reason());
        rejection.or(end)
    }

    async fn post(&mut self, post: OutgoingPost) -> Result<(), CloseReason> {
        let OutgoingPost {
            text,
            mut calls,
            tokens,
        } = post;
        if tokens.are_cancelled() {
            if calls.only().is_some() {
                return Ok(());
            }
            // A batch may have notifications, too.
            calls = Calls::default();
        }
        let (has_calls, inbound) = (!calls.is_empty(), self.inbound.clone());
        let request = inbound.session.post_request(text, has_calls);
        if has_calls && inbound.session.is_foreign() {
            self.post_apart(request, calls, tokens).await;
            return Ok(());
        }
        let sent = within(inbound.session.post_time, send(&inbound, request)).await;
        let response = sent.ok_or(SessionEnd::Slow)??;
        self.begun = true;
        match response {
            None => {}
            Some(response) if has_calls => {
                let read = async move { drop(read(&inbound, response, calls).await) };
                self.spawn(tokens, read).await;
            }
            Some(response) if response.has_events() => self.read_without_calls(response),
            // It is accepted when the whole response says nothing else.
            Some(response) => {
                let error = read(&inbound, response, calls).await;
                self.rejection = error.or(self.rejection.take());
            }
        }
        Ok(())
    }

    /// Sends a POST that nothing else waits for, unless it is the first: a foreign server
    /// answers only when it is done, and may call back before that.
    async fn post_apart(&mut self, request: Request<Body>, calls: Calls, tokens: CallTokens) {
        let (began, accepted) = oneshot::channel();
        let inbound = self.inbound.clone();
        let post = async move {
            let sent = send(&inbound, request).await;
            if sent.is_ok() {
                let _ = began.send(());
            }
            match sent {
                Ok(Some(response)) => drop(read(&inbound, response, calls).await),
                Ok(None) => {}
                Err(reason) => inbound.push(Received::End(reason)).await,
            }
        };
        self.spawn(tokens, post).await;
        if !self.begun {
            // The others need the session that its response begins.
            self.begun = accepted.await.is_ok();
        }
    }

    /// Starts work that calls wait for, which begins when there is room.
    async fn spawn(&mut self, tokens: CallTokens, work: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        // A task that waits for room has a call that is not answered, and ends when that is
        // given up. Beside them there are responses whose calls are answered, or that have none.
        let others = self.connections.saturating_mul(2);
        if self.tasks.len() >= self.inbound.session.max_calls.saturating_add(others) {
            self.tasks.join_next().await;
        }
        let mut room = Box::pin(Arc::clone(&self.room).acquire_owned());
        // Permits go in the order in which they are asked for, and tasks begin in any.
        let granted = poll_immediate(&mut room).await;
        self.tasks.spawn(async move {
            let work = async move {
                let _room = match granted {
                    Some(granted) => granted,
                    None => room.await,
                };
                work.await;
            };
            tokio::select! {
                () = work => {}
                () = tokens.cancelled() => {}
            }
        });
    }

    /// Reads events that no call waits for. If too many of these are left open, the
    /// oldest is given up: its server may wait for the message that is sent next.
    fn read_without_calls(&mut self, response: PooledResponse) {
        while self.tasks.try_join_next().is_some() {}
        self.without_calls.retain(|task| !task.is_finished());
        if self.without_calls.len() >= self.connections
            && let Some(oldest) = self.without_calls.pop_front()
        {
            oldest.abort();
        }
        let inbound = self.inbound.clone();
        let read = async move { drop(read(&inbound, response, Calls::default()).await) };
        self.without_calls.push_back(self.tasks.spawn(read));
    }
}

/// Sends a request, and again if it certainly was not received. `None` if the response only
/// says that it was accepted.
async fn send(
    Inbound { session, .. }: &Inbound,
    mut request: Request<Body>,
) -> Result<Option<PooledResponse>, CloseReason> {
    let mut retry = Retry::new();
    let response = loop {
        match session.send(request).await {
            Ok(response) => break response,
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
    };
    let was_identified = session.is_identified();
    session.identify(&response);
    match response.status {
        StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
            drain(response).await;
            Ok(None)
        }
        StatusCode::NOT_FOUND if was_identified => Err(session.gone().into()),
        _ => Ok(Some(response)),
    }
}

/// Passes on the messages of a response; returns its failure if no call can report it.
async fn read(
    Inbound { session, queue }: &Inbound,
    mut response: PooledResponse,
    mut calls: Calls,
) -> Option<Box<RequestError>> {
    let limits = ReadLimits {
        policy: session.policy,
        unasked: Some(session.rest_time),
        answered: Some(LINGER_TIME),
    };
    if !response.has_events() {
        read_whole(&mut response, &mut calls, &limits, queue).await;
        return calls.take_rejection();
    }
    read_events(response, &mut calls, &limits, queue).await;
    // The answer may still come the other way, if there is one. Foreign servers repeat
    // it only to a client that asks for this very stream.
    if session.is_foreign() || !session.is_listening() {
        fail_unanswered(&mut calls, &RequestError::unfinished(), queue).await;
    }
    None
}

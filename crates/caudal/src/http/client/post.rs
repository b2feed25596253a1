//! The transport of single requests: a POST of each message, many at once.
//!
//! Each POST is a task of its own, so that a call that is given up ends its POST and
//! nothing else. When as many are under way as there may be connections, further messages
//! stay where they are, in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use caudal_core::{CloseReason, RequestId};
use http::Request;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::timeout;

use super::answer::{Calls, Received};
use super::cut_line;
use super::error::RequestError;
use super::origin::Origin;
use super::pool::Pool;
use super::read::{ReadLimits, fail_unanswered, pass, read_events, read_whole};
use crate::config::Config;
use crate::http::Body;
use crate::transport::{ReceiveError, Transport};

/// Messages and failures that may wait until the connection's task takes them.
const RECEIVED: usize = 64;

/// Failure of a message that no call waits for.
type Rejection = Option<Box<RequestError>>;

/// A transport that makes a POST of each message.
pub(super) struct PostTransport {
    origin: Arc<Origin>,
    exchange: Exchange,
    received: mpsc::Receiver<Received>,
    /// The message that is lent.
    frame: Bytes,
    tasks: JoinSet<Rejection>,
    requests: HashMap<Id, PendingRequest>,
    /// Calls that were given up while they waited for a connection: no more than wait
    /// there.
    forgotten: HashSet<RequestId>,
    /// Failure of the last message that was not accepted.
    rejection: Rejection,
    closing: bool,
}

/// A POST that is under way.
struct PendingRequest {
    /// Calls that may still wait for it.
    calls: Vec<RequestId>,
    task: AbortHandle,
}

impl PostTransport {
    pub(super) fn new(origin: Arc<Origin>, pool: Arc<Pool>, config: &Config) -> Self {
        let (sink, received) = mpsc::channel(RECEIVED);
        let exchange = Exchange {
            pool,
            limits: ReadLimits {
                policy: config.policy,
                unasked: config.call_timeout,
                answered: config.call_timeout,
            },
            sink,
        };
        Self {
            origin,
            exchange,
            received,
            frame: Bytes::new(),
            tasks: JoinSet::new(),
            requests: HashMap::new(),
            forgotten: HashSet::new(),
            rejection: None,
            closing: false,
        }
    }

    /// Begins a POST, unless its call was given up.
    fn begin(&mut self, text: Bytes) {
        let mut calls = Calls::of(&text);
        let is_single_call = calls.only().is_some();
        calls.forget_gone(&mut self.forgotten);
        if is_single_call && calls.is_empty() {
            return;
        }
        let waiting = calls.ids().cloned().collect();
        let request = self.origin.post(text);
        let task = self.tasks.spawn(self.exchange.clone().run(request, calls));
        let request = PendingRequest {
            calls: waiting,
            task,
        };
        self.requests.insert(request.task.id(), request);
    }

    /// Returns when a POST has ended; `None` if none is under way.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        self.tasks.poll_join_next_with_id(cx).map(|ended| {
            let (id, rejection) = ended?.unwrap_or_else(|error: JoinError| (error.id(), None));
            self.requests.remove(&id);
            self.rejection = rejection.or(self.rejection.take());
            Some(())
        })
    }
}

impl Transport for PostTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match self.received.poll_recv(cx) {
            Poll::Ready(Some(Received::Message(text))) => {
                self.frame = text;
                Poll::Ready(Ok(Some(&self.frame)))
            }
            Poll::Ready(Some(Received::Failed { id, error })) => {
                Poll::Ready(Err(ReceiveError::CallFailed { id, error }))
            }
            Poll::Ready(None) | Poll::Pending => {
                self.frame = Bytes::new();
                while let Poll::Ready(Some(())) = self.poll_ended(cx) {}
                Poll::Pending
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let most = self.origin.options().connections.max(1);
        while !out.is_empty() {
            if self.tasks.len() >= most {
                match self.poll_ended(cx) {
                    Poll::Ready(_) => continue,
                    Poll::Pending => return Poll::Pending,
                }
            }
            let text = cut_line(out);
            self.begin(text);
        }
        self.forgotten.clear();
        Poll::Ready(Ok(()))
    }

    /// Waits for notifications that were not accepted yet, and ends all calls. The reason
    /// is the failure of a message that no call could report.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        if !std::mem::replace(&mut self.closing, true) {
            let calling = |request: &&PendingRequest| !request.calls.is_empty();
            let calls = self.requests.values().filter(calling);
            calls.for_each(|request| request.task.abort());
        }
        loop {
            while let Poll::Ready(Some(_)) = self.received.poll_recv(cx) {}
            match self.poll_ended(cx) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        let rejection = self.rejection.take();
        Poll::Ready(rejection.map(|error| error.close_reason()))
    }

    fn keeps_calls(&self) -> bool {
        true
    }

    fn forget(&mut self, id: &RequestId) {
        let mut requests = self.requests.values_mut();
        let Some(request) = requests.find(|request| request.calls.contains(id)) else {
            self.forgotten.insert(id.clone());
            return;
        };
        request.calls.retain(|own| own != id);
        if request.calls.is_empty() {
            request.task.abort();
        }
    }

    fn remote(&self) -> Option<String> {
        Some(self.origin.authority().to_owned())
    }
}

/// One POST and its response.
#[derive(Clone)]
struct Exchange {
    pool: Arc<Pool>,
    limits: ReadLimits,
    sink: mpsc::Sender<Received>,
}

impl Exchange {
    /// Sends a request and reads its response to the end.
    async fn run(self, request: Request<Body>, mut calls: Calls) -> Rejection {
        // A call has a time limit of its own.
        let limit = self.limits.unasked;
        let sent = self.pool.send(request);
        let sent = match calls.is_empty() && !limit.is_zero() {
            true => timeout(limit, sent).await,
            false => Ok(sent.await),
        };
        let (limits, sink) = (&self.limits, &self.sink);
        let failure = match sent {
            Ok(Ok(answer)) if answer.has_events() => {
                read_events(answer, &mut calls, limits, sink).await;
                fail_unanswered(&mut calls, &RequestError::unfinished(), sink).await;
                return calls.take_rejection();
            }
            Ok(Ok(answer)) => {
                read_whole(answer, &mut calls, limits, sink).await;
                return calls.take_rejection();
            }
            Ok(Err(error)) => error.into(),
            Err(_) => RequestError::TimedOut,
        };
        let mut found = VecDeque::new();
        calls.fail(&failure, &mut found);
        pass(sink, &mut found).await;
        calls.take_rejection()
    }
}

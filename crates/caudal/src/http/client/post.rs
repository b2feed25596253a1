//! The transport of single requests: a POST of each message, many at once.
//!
//! The connection's task polls all requests, and each has a slot with a waker of its own. A
//! call that is given up ends its request and nothing else. When as many are under way as
//! there may be connections, further messages stay where they are, in order.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use caudal_core::{CloseReason, RequestId};
use http::Request;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::ReusableBoxFuture;

use super::cut_line;
use super::error::RequestError;
use super::origin::Origin;
use super::pool::Pool;
use super::read::{ReadLimits, fail_unanswered, pass, read_events, read_whole};
use super::response::{Calls, Received};
use super::woken::{SlotWaker, WokenSlots};
use crate::config::Config;
use crate::http::Body;
use crate::transport::{ReceiveError, Transport, TransportInfo};

/// Messages and failures that may wait until the connection's task takes them.
const RECEIVED: usize = 64;

/// Failure of a message that no call waits for.
type Rejection = Option<Box<RequestError>>;

/// A transport that makes a POST of each message.
pub(super) struct PostTransport {
    origin: Arc<Origin>,
    exchange: PostRequest,
    received: mpsc::Receiver<Received>,
    /// The message that is lent.
    frame: Bytes,
    slots: Vec<RequestSlot>,
    /// Slots without a request.
    free: Vec<usize>,
    woken: Arc<WokenSlots>,
    /// Slots that were woken and are not polled yet.
    to_poll: VecDeque<usize>,
    /// Calls that were given up while they waited for a slot: no more than wait there.
    forgotten: HashSet<RequestId>,
    /// Failure of the last message that was not accepted.
    rejection: Rejection,
    closing: bool,
}

/// Place of a request that is under way. Its memory serves the next one too.
struct RequestSlot {
    request: ReusableBoxFuture<'static, Rejection>,
    is_free: bool,
    /// Calls that may still wait for the request.
    calls: Vec<RequestId>,
    waker: Arc<SlotWaker>,
}

impl PostTransport {
    pub(super) fn new(origin: Arc<Origin>, pool: Arc<Pool>, config: &Config) -> Self {
        let (sink, received) = mpsc::channel(RECEIVED);
        let exchange = PostRequest {
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
            slots: Vec::new(),
            free: Vec::new(),
            woken: WokenSlots::new(),
            to_poll: VecDeque::new(),
            forgotten: HashSet::new(),
            rejection: None,
            closing: false,
        }
    }

    /// Begins a request, unless its call was given up.
    fn begin(&mut self, text: Bytes) {
        let mut calls = Calls::of(&text);
        let is_single_call = calls.only().is_some();
        calls.forget_gone(&mut self.forgotten);
        if is_single_call && calls.is_empty() {
            return;
        }
        let ids = calls.ids().cloned();
        let request = Box::new(self.origin.post(text));
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(RequestSlot {
                    request: ReusableBoxFuture::new(std::future::pending()),
                    is_free: true,
                    calls: Vec::new(),
                    waker: SlotWaker::new(self.slots.len(), &self.woken),
                });
                self.slots.len() - 1
            }
        };
        if let Some(slot) = self.slots.get_mut(index) {
            slot.calls.extend(ids);
            slot.is_free = false;
            slot.request.set(self.exchange.clone().run(request, calls));
        }
        self.poll_slot(index);
    }

    fn has_free_slot(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < self.origin.options().connections.max(1)
    }

    fn poll_slot(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| !slot.is_free) else {
            return;
        };
        let waker = slot.waker.begin_poll();
        let polled = slot.request.poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(rejection) = polled {
            slot.is_free = true;
            slot.calls.clear();
            self.free.push(index);
            self.rejection = rejection.or(self.rejection.take());
        }
    }

    /// Polls a request that was woken; returns false if there is none.
    fn poll_woken(&mut self, cx: &Context<'_>) -> bool {
        if self.to_poll.is_empty() {
            self.woken.take(cx.waker(), &mut self.to_poll);
        }
        let Some(index) = self.to_poll.pop_front() else {
            return false;
        };
        self.poll_slot(index);
        true
    }

    /// Ends the requests that `ends` names, and with them their connections.
    fn abort(&mut self, ends: impl Fn(&RequestSlot) -> bool) {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if !slot.is_free && ends(slot) {
                slot.request.set(std::future::pending());
                slot.is_free = true;
                slot.calls.clear();
                self.free.push(index);
            }
        }
    }
}

impl Transport for PostTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        loop {
            match self.received.poll_recv(cx) {
                Poll::Ready(Some(received)) => {
                    return Poll::Ready(received.lend(&mut self.frame));
                }
                Poll::Ready(None) | Poll::Pending if self.poll_woken(cx) => {}
                Poll::Ready(None) | Poll::Pending => {
                    self.frame = Bytes::new();
                    return Poll::Pending;
                }
            }
        }
    }

    fn info(&self) -> TransportInfo {
        TransportInfo::default()
            .remote(self.origin.authority().to_owned())
            .keeps_calls(true)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            if self.has_free_slot() {
                let text = cut_line(out);
                self.begin(text);
            } else if !self.poll_woken(cx) {
                return Poll::Pending;
            }
        }
        self.forgotten.clear();
        Poll::Ready(Ok(()))
    }

    /// Waits for notifications that were not accepted yet, and ends all calls. The reason
    /// is the failure of a message that no call could report.
    fn poll_close(&mut self, cx: &mut Context<'_>, _: &CloseReason) -> Poll<Option<CloseReason>> {
        if !std::mem::replace(&mut self.closing, true) {
            self.abort(|slot| !slot.calls.is_empty());
        }
        loop {
            // Nobody waits for it any more.
            while let Poll::Ready(Some(_)) = self.received.poll_recv(cx) {}
            if !self.poll_woken(cx) {
                break;
            }
        }
        if self.slots.iter().any(|slot| !slot.is_free) {
            return Poll::Pending;
        }
        let rejection = self.rejection.take();
        Poll::Ready(rejection.map(|error| error.close_reason()))
    }

    fn forget(&mut self, id: &RequestId) {
        let mut slots = self.slots.iter_mut();
        let Some(slot) = slots.find(|slot| slot.calls.contains(id)) else {
            self.forgotten.insert(id.clone());
            return;
        };
        slot.calls.retain(|own| own != id);
        if slot.calls.is_empty() {
            let waker = Arc::clone(&slot.waker);
            self.abort(|slot| Arc::ptr_eq(&slot.waker, &waker));
        }
    }
}

/// One POST and its response.
#[derive(Clone)]
struct PostRequest {
    pool: Arc<Pool>,
    limits: ReadLimits,
    sink: mpsc::Sender<Received>,
}

impl PostRequest {
    /// Sends a request and reads its response to the end.
    async fn run(self, request: Box<Request<Body>>, mut calls: Calls) -> Rejection {
        // A call has a time limit of its own.
        let limit = self.limits.unasked;
        let sent = {
            let mut sent = pin!(self.pool.send_boxed(request));
            match limit.filter(|_| calls.is_empty()) {
                Some(limit) => Box::pin(timeout(limit, sent)).await,
                None => Ok(sent.as_mut().await),
            }
        };
        let (limits, sink) = (&self.limits, &self.sink);
        let failure = match sent {
            Ok(Ok(response)) if response.has_events() => {
                Box::pin(read_events(response, &mut calls, limits, sink)).await;
                let unfinished = RequestError::unfinished();
                Box::pin(fail_unanswered(&mut calls, &unfinished, sink)).await;
                return calls.take_rejection();
            }
            Ok(Ok(mut response)) => {
                read_whole(&mut response, &mut calls, limits, sink).await;
                return calls.take_rejection();
            }
            Ok(Err(error)) => error.into(),
            Err(_) => RequestError::TimedOut,
        };
        let mut found = VecDeque::new();
        calls.fail(&failure, &mut found);
        Box::pin(pass(sink, &mut found)).await;
        calls.take_rejection()
    }
}

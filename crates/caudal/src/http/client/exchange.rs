//! The transport of single requests: a POST of each message, many at once.
//!
//! No call has a task of its own. The transport looks after all exchanges, each on
//! a connection (a [`Lane`]) that wakes it when there is something to see. When all
//! connections are busy, further messages stay where they are, in order.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use caudal_core::{CloseReason, Policy, RequestId};
use tokio::time::{Instant, Sleep, sleep_until};

use super::answer::{Calls, Received};
use super::cut_line;
use super::error::RequestError;
use super::lane::{Lane, Stand};
use super::origin::{Origin, Sender};
use super::wake::Ready;
use crate::config::Config;
use crate::connection::deadline::after;
use crate::transport::{ReceiveError, Transport};

/// So many frames may wait while a connection becomes free: a peer that closes sends
/// what it has, but receives nothing.
const FRAMES: usize = 64;
/// So long a connection may take to be ready again when its request is answered: the
/// server may have answered before it has read it all, and read no more.
pub(super) const SETTLE: Duration = Duration::from_secs(2);

/// A transport that makes a POST of each message.
pub(super) struct Exchanges {
    origin: Arc<Origin>,
    policy: Policy,
    lanes: Vec<Lane>,
    /// Lanes with a connection that is not in use; the last one is the warmest.
    idle: Vec<usize>,
    /// Lanes without a connection.
    vacant: Vec<usize>,
    ready: Arc<Ready>,
    woken: VecDeque<usize>,
    frames: VecDeque<Received>,
    /// The frame that is lent.
    frame: Bytes,
    /// Calls that were given up while they waited for a connection: no more than wait
    /// there.
    gone: HashSet<RequestId>,
    /// How long a request may take that no call waits for.
    patience: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Failure of the last message without a call that was not accepted.
    rejection: Option<Box<RequestError>>,
    closing: bool,
}

impl Exchanges {
    pub(super) fn new(origin: Arc<Origin>, sender: Sender, config: &Config) -> Self {
        let ready = Ready::new();
        Self {
            lanes: vec![Lane::new(0, &ready, Some(sender))],
            idle: vec![0],
            vacant: Vec::new(),
            origin,
            policy: config.policy,
            ready,
            woken: VecDeque::new(),
            frames: VecDeque::new(),
            frame: Bytes::new(),
            gone: HashSet::new(),
            patience: config.call_timeout,
            timer: None,
            rejection: None,
            closing: false,
        }
    }

    /// A lane that is not in use.
    fn free_lane(&mut self) -> Option<usize> {
        while let Some(index) = self.idle.pop() {
            if self.lanes.get(index).is_some_and(Lane::is_connected) {
                return Some(index);
            }
            self.vacant.push(index);
        }
        if let Some(index) = self.vacant.pop() {
            return Some(index);
        }
        let index = self.lanes.len();
        if index >= self.origin.options().connections.max(1) {
            return None;
        }
        self.lanes.push(Lane::new(index, &self.ready, None));
        Some(index)
    }

    /// Begins an exchange, unless nobody waits for it any more.
    fn begin(&mut self, index: usize, text: Bytes) {
        let mut calls = Calls::of(&text);
        let single = calls.only().is_some();
        calls.forget_gone(&mut self.gone);
        if single && calls.is_empty() {
            self.vacate(index);
            return;
        }
        let tells = calls.is_empty();
        let request = self.origin.post(text);
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.begin(&self.origin, request, calls);
        }
        if tells {
            self.limit(index, self.patience);
        }
        self.poll_lane(index);
    }

    /// Puts a lane back to those that are not in use.
    fn vacate(&mut self, index: usize) {
        let connected = self.lanes.get(index).is_some_and(Lane::is_connected);
        match connected {
            true => self.idle.push(index),
            false => self.vacant.push(index),
        }
    }

    /// Lets the exchange of a lane take only so long: no call limits it.
    fn limit(&mut self, index: usize, time: Duration) {
        if time.is_zero() {
            return;
        }
        let deadline = after(Instant::now(), time);
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.deadline = Some(deadline);
        }
        match &mut self.timer {
            Some(timer) if timer.deadline() <= deadline => {}
            Some(timer) => timer.as_mut().reset(deadline),
            none => *none = Some(Box::pin(sleep_until(deadline))),
        }
    }

    fn poll_lane(&mut self, index: usize) {
        let Some(lane) = self.lanes.get_mut(index) else {
            return;
        };
        let waited = !lane.calls.is_empty();
        match lane.poll(&self.origin, &self.policy, &mut self.frames) {
            Poll::Ready(Stand::More) => self.woken.push_back(index),
            Poll::Ready(Stand::Idle) => self.idle.push(index),
            Poll::Ready(Stand::Vacant) => self.vacant.push(index),
            Poll::Pending if lane.is_settling() => self.limit(index, SETTLE),
            Poll::Pending => {}
        }
        if let Some(lane) = self.lanes.get_mut(index)
            && let Some(error) = lane.calls.take_rejection()
        {
            self.rejection = Some(error);
        }
        // Events may go on when all calls are answered.
        if waited
            && let Some(lane) = self.lanes.get(index)
            && lane.is_busy()
            && lane.calls.is_empty()
        {
            self.limit(index, self.patience);
        }
    }

    fn abort(&mut self, index: usize) {
        if let Some(lane) = self.lanes.get_mut(index) {
            lane.abort();
            self.vacant.push(index);
        }
    }

    /// Looks after the lanes that were woken, until there is a frame.
    fn look(&mut self, cx: &Context<'_>) {
        while self.frames.is_empty() && self.look_at_one(cx) {}
    }

    /// Looks after one lane that was woken; `false` if there is none.
    fn look_at_one(&mut self, cx: &Context<'_>) -> bool {
        if self.woken.is_empty() {
            self.ready.take(cx.waker(), &mut self.woken);
        }
        let Some(index) = self.woken.pop_front() else {
            return false;
        };
        self.poll_lane(index);
        true
    }

    fn too_late(&mut self, index: usize) {
        // Events that go on after all answers took nothing away.
        if self.lanes.get(index).is_some_and(Lane::is_unanswered) {
            tracing::warn!(target: "caudal", "a message was not accepted in time");
            self.rejection = Some(Box::new(RequestError::TimedOut));
        }
        self.abort(index);
    }

    /// Gives up what has taken too long.
    fn poll_timer(&mut self, cx: &mut Context<'_>) {
        while let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            let now = Instant::now();
            let late = |lane: &Lane| lane.deadline.is_some_and(|deadline| deadline <= now);
            for index in 0..self.lanes.len() {
                if self.lanes.get(index).is_some_and(late) {
                    self.too_late(index);
                }
            }
            let next = self.lanes.iter().filter_map(|lane| lane.deadline).min();
            self.timer = next.map(|next| Box::pin(sleep_until(next)));
        }
    }
}

impl Transport for Exchanges {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.look(cx);
        match self.frames.pop_front() {
            Some(Received::Message(frame)) => {
                self.frame = frame;
                Poll::Ready(Ok(Some(&self.frame)))
            }
            Some(Received::Failed { id, error }) => {
                Poll::Ready(Err(ReceiveError::CallFailed { id, error }))
            }
            None => {
                self.frame = Bytes::new();
                self.poll_timer(cx);
                Poll::Pending
            }
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let (frames, timed) = (self.frames.len(), self.timer.is_some());
        while !out.is_empty() {
            let Some(index) = self.free_lane() else {
                match self.frames.len() < FRAMES && self.look_at_one(cx) {
                    true => continue,
                    false => break,
                }
            };
            let text = cut_line(out);
            self.begin(index, text);
        }
        // All these are looked at where frames are received.
        let came = self.frames.len() > frames || !self.woken.is_empty();
        if came || self.timer.is_some() != timed {
            cx.waker().wake_by_ref();
        }
        if !out.is_empty() {
            return Poll::Pending;
        }
        self.gone.clear();
        Poll::Ready(Ok(()))
    }

    /// Waits for what was told and has not been accepted yet; calls are over. What
    /// was not accepted, and no call could say so, is the reason.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        if !std::mem::replace(&mut self.closing, true) {
            for index in 0..self.lanes.len() {
                let lane = self.lanes.get(index);
                if lane.is_some_and(|lane| lane.is_busy() && !lane.calls.is_empty()) {
                    self.abort(index);
                }
            }
        }
        loop {
            self.frames.clear();
            self.look(cx);
            if self.frames.is_empty() {
                break;
            }
        }
        self.poll_timer(cx);
        match self.lanes.iter().any(Lane::is_busy) {
            true => Poll::Pending,
            false => Poll::Ready(self.rejection.take().map(|error| error.close_reason())),
        }
    }

    fn keeps_calls(&self) -> bool {
        true
    }

    fn forget(&mut self, id: &RequestId) {
        let mut lanes = self.lanes.iter_mut();
        let Some(index) = lanes.position(|lane| lane.calls.forget(id)) else {
            self.gone.insert(id.clone());
            return;
        };
        let lane = self.lanes.get(index);
        if lane.is_some_and(|lane| lane.is_busy() && lane.calls.is_empty()) {
            self.abort(index);
        }
    }

    fn remote(&self) -> Option<String> {
        Some(self.origin.authority().to_owned())
    }
}

//! What waits for its turn: behind a notification or a serial method, or because the
//! other side does not read.

use std::sync::Arc;

use caudal_core::{JsonRpcError, Message, Notification, decode};

use super::SameId;
use super::task::Core;
use crate::call::Exchange;
use crate::call::batch::Batch;
use crate::call::time_slice::Turn;
use crate::observe::trace::Traces;
use crate::transport::Transport;

impl Core {
    /// Whether the next message may not start yet.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        self.link.is_held() || !self.queue.is_empty() || self.link.is_output_full(self.out.len())
    }

    /// Does with a message what can be done while others are in the way.
    pub(super) fn hold(&mut self, frame: &[u8], turn: Turn) {
        let link = Arc::clone(&self.link);
        let mut message = decode(frame, &link.config.policy);
        let traces = Traces::find(link.config.trace, frame, &message);
        if let Message::Batch(entries) = &mut message {
            // Responses never wait.
            entries.retain(|entry| match entry {
                Message::Response(response) => {
                    link.settle(response);
                    false
                }
                _ => true,
            });
        }
        let queue_full = self
            .queue
            .is_full(link.config.limits.in_flight, link.config.limits.queue);
        if let Message::Notification(Notification { method, params, .. }) = &message {
            if let Some(Some(id)) = link.cancelled_by(method, *params) {
                self.cancel_queued(&id);
            }
            if link.convention(method, *params) {
                return;
            }
        }
        let answers = match &message {
            Message::Response(_) => true,
            Message::Invalid(invalid) => invalid.kind == caudal_core::InvalidKind::Response,
            _ => false,
        };
        if link.is_output_full(self.out.len()) && !answers {
            // Even a refusal needs room; reading stops when the queue is full.
            self.push(frame, &message);
            return;
        }
        match &message {
            Message::Request(request) if self.refusing || link.is_full(0) || queue_full => {
                let refusing = self.refusing;
                self.exchange().turn_away(request.id, refusing);
            }
            Message::Request(_) => {
                self.push(frame, &message);
            }
            Message::Notification(_) if !self.must_wait() => {
                self.start(frame, &message, traces, false, turn);
            }
            Message::Notification(_) if queue_full => {
                link.stats.dropped(1);
                tracing::debug!(target: "caudal", "a notification was dropped: too many wait");
            }
            Message::Batch(entries) if entries.is_empty() => {}
            Message::Batch(_) if !self.must_wait() => {
                self.start(frame, &message, traces, self.refusing, turn);
            }
            Message::Batch(entries) if queue_full || (self.refusing && only_asks(entries)) => {
                self.refuse_batch(entries);
            }
            Message::Notification(_) | Message::Batch(_) => self.push(frame, &message),
            _ => self.start(frame, &message, traces, false, turn),
        }
    }

    /// Lets a message wait its turn.
    fn push(&mut self, frame: &[u8], message: &Message<'_>) {
        let is_request = matches!(message, Message::Request(_));
        let is_excess = is_request && self.link.is_full(0);
        self.link.count_in_flight(is_request && !is_excess);
        let cancels = self.link.config.dialect.cancel.is_some();
        self.queue
            .push(frame, message, self.refusing, is_excess, cancels);
    }

    /// Answers a batch that there is no room for.
    fn refuse_batch(&mut self, entries: &[Message<'_>]) {
        let refusing = self.refusing;
        let mut batch = Batch::default();
        for entry in entries {
            let begin = batch.begin();
            let mut exchange = Exchange::for_entry(&self.link, &mut batch.text);
            match entry {
                Message::Request(request) => exchange.turn_away(request.id, refusing),
                Message::Invalid(invalid) => exchange.invalid(invalid),
                Message::Notification(Notification { method, params, .. })
                    if !self.link.convention(method, *params) =>
                {
                    self.link.stats.dropped(1);
                }
                _ => {}
            }
            batch.end(begin);
        }
        batch.write(&mut self.exchange());
    }

    /// Answers a request that is cancelled before it has started.
    fn cancel_queued(&mut self, id: &SameId) {
        let Some(queued) = self.queue.cancel(id) else {
            return;
        };
        let link = Arc::clone(&self.link);
        link.uncount_in_flight(queued.is_counted());
        let cancel = link.config.dialect.cancel.as_ref();
        if let Some(code) = cancel.and_then(|cancel| cancel.answer)
            && let Message::Request(request) = decode(&queued.frame, &link.config.policy)
        {
            let error = JsonRpcError::new(code, "Request cancelled");
            let (id, method) = (Some(request.id), &request.method);
            self.exchange().reply(id, method, Err::<(), _>(error));
        }
    }

    /// Whether something waits, and nothing is in its way.
    pub(super) fn may_run_queue(&self) -> bool {
        !self.queue.is_empty()
            && !self.closing
            && self.paused.is_none()
            && !self.link.is_held()
            && !self.link.is_output_full(self.out.len())
    }

    /// Begins the next entries of a batch that was paused.
    pub(super) fn resume_batch(&mut self, turn: Turn) {
        if self.closing {
            return;
        }
        if let Some(batch) = self.paused.take() {
            let mut exchange = Exchange::inline(&self.link, &mut self.out);
            exchange.turn = Some(turn);
            let resumed = batch.resume(&self.router, &mut exchange);
            self.go_on(resumed);
        }
    }

    /// Runs what has waited for its turn, until the turn is over.
    pub(super) fn run_queue(&mut self, turn: Turn) {
        while self.may_run_queue() && !turn.is_over() {
            let Some(queued) = self.queue.pop() else {
                return;
            };
            self.link.uncount_in_flight(queued.is_counted());
            let link = Arc::clone(&self.link);
            let mut message = decode(&queued.frame, &link.config.policy);
            let traces = Traces::find(link.config.trace, &queued.frame, &message);
            if let Message::Batch(entries) = &mut message {
                entries.retain(|entry| !matches!(entry, Message::Response(_)));
            }
            match &message {
                Message::Request(request) if queued.is_late || queued.is_excess => {
                    self.exchange().turn_away(request.id, queued.is_late);
                }
                message => self.start(&queued.frame, message, traces, queued.is_late, turn),
            }
            match &mut self.paused {
                Some(batch) => batch.cancel(queued.cancelled()),
                None => queued.cancelled().iter().for_each(|id| link.cancel(id)),
            }
        }
    }

    /// Tells the transport how much waits, if that has changed.
    #[inline]
    pub(super) fn tell_queued(&mut self, transport: &mut dyn Transport) {
        let bytes = self.queue.bytes();
        if bytes != self.queued {
            self.queued = bytes;
            // It may have waited for that.
            self.readable = true;
            transport.queued(bytes);
        }
    }
}

/// Whether no notification is among these.
fn only_asks(entries: &[Message<'_>]) -> bool {
    !entries
        .iter()
        .any(|entry| matches!(entry, Message::Notification(_)))
}

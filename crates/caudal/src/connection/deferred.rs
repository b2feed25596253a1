//! Messages that must wait: behind a notification or a serial method, or because the other
//! side does not read.

use std::sync::Arc;

use caudal_core::{InvalidKind, JsonRpcError, Message, Notification, decode};

use super::Connection;
use super::id_index::IdKey;
use super::task::Core;
use crate::call::batch::BatchReplies;
use crate::call::replies::{PendingReply, Refusal, Replies};
use crate::call::time_slice::TimeSlice;
use crate::call::{Arrival, Scope};
use crate::observe::trace::Traces;
use crate::transport::Transport;

impl Core {
    /// Returns true if the next message may not start yet.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        self.connection.incoming.has_barrier()
            || !self.queue.is_empty()
            || self.connection.is_output_full(self.out.len())
    }

    /// Does with a message what can be done now, and queues it if it must wait.
    pub(super) fn defer(&mut self, frame: &[u8], time_slice: TimeSlice) {
        let connection = Arc::clone(&self.connection);
        if let Some(error) = connection.refusal() {
            return self.refuse(frame, Refusal::NotAccepted(error));
        }
        let (policy, config) = (&connection.config.policy, &connection.config);
        let mut message = decode(frame, policy);
        let traces = Traces::find(connection.config.trace, frame, &message);
        settle_responses(&connection, &mut message);
        if let Message::Notification(Notification { method, params, .. }) = &message {
            let dialect = &connection.config.dialect;
            if let Some(Some(id)) = dialect.cancelled_id(method, *params) {
                self.cancel_queued(&id);
            }
            if connection.handle_convention(method, *params) {
                return;
            }
        }
        let is_response = match &message {
            Message::Response(_) => true,
            Message::Invalid(invalid) => invalid.kind == InvalidKind::Response,
            _ => false,
        };
        if connection.is_output_full(self.out.len()) && !is_response {
            // Even a refusal needs room; reading stops when the queue is full.
            return self.queue(frame, &message);
        }
        let queue_full = self.queue.is_full(config.in_flight, config.queue);
        let is_late = self.refusing;
        match &message {
            Message::Request(request) if is_late => {
                self.replies().refuse(request.id, Refusal::ShuttingDown);
            }
            Message::Request(request) if connection.incoming.is_full(0) || queue_full => {
                self.replies().refuse(request.id, Refusal::Overloaded);
            }
            Message::Request(_) => self.queue(frame, &message),
            Message::Notification(_) if !self.must_wait() => {
                self.run_deferred(frame, &message, traces, false, time_slice);
            }
            Message::Notification(_) if queue_full => {
                connection.stats.dropped(1);
                tracing::debug!(target: "caudal", "a notification was dropped: too many wait");
            }
            Message::Batch(entries) if entries.is_empty() => {}
            Message::Batch(_) if !self.must_wait() => {
                self.run_deferred(frame, &message, traces, is_late, time_slice);
            }
            Message::Batch(entries) if queue_full || is_late && !has_notification(entries) => {
                self.refuse_batch(entries);
            }
            Message::Notification(_) | Message::Batch(_) => self.queue(frame, &message),
            _ => self.run_deferred(frame, &message, traces, false, time_slice),
        }
    }

    /// Lets a message wait.
    fn queue(&mut self, frame: &[u8], message: &Message<'_>) {
        let connection = &self.connection;
        let is_request = matches!(message, Message::Request(_));
        let is_excess = is_request && connection.incoming.is_full(0);
        if is_request && !is_excess {
            connection.incoming.count_request();
        }
        let cancels = connection.config.dialect.cancel.is_some();
        self.queue
            .push(frame, message, self.refusing, is_excess, cancels);
    }

    /// Answers a batch that there is no room for.
    fn refuse_batch(&mut self, entries: &[Message<'_>]) {
        let refusal = match self.refusing {
            true => Refusal::ShuttingDown,
            false => Refusal::Overloaded,
        };
        self.refuse_entries(entries, refusal);
    }

    /// Refuses all messages that wait.
    pub(super) fn refuse_queue(&mut self, refusal: Refusal<'_>) {
        while let Some(queued) = self.queue.pop() {
            if queued.is_counted() {
                self.connection.incoming.uncount_request();
            }
            self.refuse(&queued.frame, refusal);
        }
    }

    /// Refuses a message: its requests are answered, and nothing else is done with it.
    fn refuse(&mut self, frame: &[u8], refusal: Refusal<'_>) {
        let connection = Arc::clone(&self.connection);
        match decode(frame, &connection.config.policy) {
            Message::Request(request) => self.replies().refuse(request.id, refusal),
            Message::Batch(entries) => self.refuse_entries(&entries, refusal),
            Message::Response(response) => connection.settle(&response),
            _ => connection.stats.dropped(1),
        }
    }

    fn refuse_entries(&mut self, entries: &[Message<'_>], refusal: Refusal<'_>) {
        let mut batch = BatchReplies::default();
        for entry in entries {
            let start = batch.text.len();
            let mut replies = Replies::bare(&self.caller, &mut batch.text);
            match entry {
                Message::Request(request) => replies.refuse(request.id, refusal),
                Message::Invalid(invalid) => replies.invalid(invalid),
                Message::Notification(Notification { method, params, .. })
                    if !self.connection.handle_convention(method, *params) =>
                {
                    self.connection.stats.dropped(1);
                }
                _ => {}
            }
            batch.end_entry(start);
        }
        batch.write(&mut self.replies());
    }

    /// Answers a request that is cancelled before it has started.
    fn cancel_queued(&mut self, id: &IdKey) {
        let Some(queued) = self.queue.cancel(id) else {
            return;
        };
        let connection = Arc::clone(&self.connection);
        if queued.is_counted() {
            connection.incoming.uncount_request();
        }
        let cancel = connection.config.dialect.cancel.as_ref();
        if let Some(code) = cancel.and_then(|cancel| cancel.answer)
            && let Message::Request(request) = decode(&queued.frame, &connection.config.policy)
        {
            let error = JsonRpcError::new(code, "Request cancelled");
            let mut reply = PendingReply::new(Some(request.id), &request.method);
            self.replies().error(&mut reply, &error);
        }
    }

    /// Returns true if a message waits, and nothing is in its way.
    pub(super) fn may_run_queue(&self) -> bool {
        !self.queue.is_empty()
            && !self.closing
            && self.paused.is_none()
            && !self.connection.incoming.has_barrier()
            && !self.connection.is_output_full(self.out.len())
    }

    /// Begins the next entries of a batch that was paused.
    pub(super) fn resume_batch(&mut self, time_slice: TimeSlice) {
        if self.closing {
            return;
        }
        if let Some(batch) = self.paused.take() {
            let scope = Scope {
                router: &self.router,
                caller: &self.caller,
                arrival: Arrival::Fresh,
                time_slice: Some(time_slice),
            };
            let mut replies = Replies::to_connection(&self.caller, &self.connection, &mut self.out);
            let progress = batch.resume(&scope, &mut replies);
            self.go_on(progress);
        }
    }

    /// Runs messages that have waited, until the time slice is over.
    pub(super) fn run_queue(&mut self, time_slice: TimeSlice) {
        while self.may_run_queue() && !time_slice.is_over() {
            let Some(queued) = self.queue.pop() else {
                return;
            };
            let connection = Arc::clone(&self.connection);
            if queued.is_counted() {
                connection.incoming.uncount_request();
            }
            let mut message = decode(&queued.frame, &connection.config.policy);
            let traces = Traces::find(connection.config.trace, &queued.frame, &message);
            if let Message::Batch(entries) = &mut message {
                entries.retain(|entry| !matches!(entry, Message::Response(_)));
            }
            match &message {
                Message::Request(request) if queued.is_late => {
                    self.replies().refuse(request.id, Refusal::ShuttingDown);
                }
                Message::Request(request) if queued.is_excess => {
                    self.replies().refuse(request.id, Refusal::Overloaded);
                }
                message => {
                    let is_late = queued.is_late;
                    self.run_deferred(&queued.frame, message, traces, is_late, time_slice);
                }
            }
            match &mut self.paused {
                Some(batch) => batch.cancel(queued.cancelled()),
                None => queued
                    .cancelled()
                    .iter()
                    .for_each(|id| connection.cancel(id)),
            }
        }
    }

    /// Tells the transport how many bytes wait, if that has changed.
    #[inline]
    pub(super) fn report_queued(&mut self, transport: &mut dyn Transport) {
        let bytes = self.queue.bytes();
        if bytes != self.queued {
            self.queued = bytes;
            // It may have waited for that.
            self.is_readable = true;
            transport.queued(bytes);
        }
    }
}

fn has_notification(entries: &[Message<'_>]) -> bool {
    entries
        .iter()
        .any(|entry| matches!(entry, Message::Notification(_)))
}

/// Settles the responses in a batch, and removes them: responses never wait.
fn settle_responses(connection: &Connection, message: &mut Message<'_>) {
    if let Message::Batch(entries) = message {
        entries.retain(|entry| match entry {
            Message::Response(response) => {
                connection.settle(response);
                false
            }
            _ => true,
        });
    }
}

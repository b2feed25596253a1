//! Batches: each entry is run like a message of its own, and the replies keep the order of
//! the entries.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use caudal_core::decode::Entries;
use caudal_core::{Message, Notification};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::caller::Caller;
use super::replies::{Refusal, Replies};
use super::suspended::SuspendedCall;
use super::time_slice::TimeSlice;
use super::{Arrival, Progress, Scope, handle_single};
use crate::connection::{Connection, IdKey};
use crate::observe::trace::Traces;
use crate::sync::lock;

/// Runs the entries of a batch, until its time slice is over.
pub(super) fn handle(
    text: &[u8],
    entries: &[Message<'_>],
    traces: Traces,
    scope: &Scope<'_>,
    replies: &mut Replies<'_>,
) -> Progress {
    let mut batch = RunningBatch {
        replies: BatchReplies::with_capacity(entries.len()),
        suspended: Vec::new(),
        cancelled: Vec::new(),
        requests: 0,
        traces,
    };
    let time_slice = scope.time_slice.unwrap_or_else(TimeSlice::begin);
    let mut left = entries.iter();
    while let Some(entry) = left.next() {
        batch.run(entry, scope);
        if time_slice.is_over() && !left.as_slice().is_empty() {
            let begun = entries.len() - left.as_slice().len();
            // Responses never wait.
            for entry in left {
                if let Message::Response(response) = entry {
                    scope.caller.settle(response);
                }
            }
            let begun = entries
                .iter()
                .take(begun)
                .filter(|entry| !is_response(entry));
            return batch.pause(text, begun.count(), scope.caller);
        }
    }
    batch.end(scope.caller, replies)
}

const fn is_response(entry: &Message<'_>) -> bool {
    matches!(entry, Message::Response(_))
}

/// A batch of which entries have begun.
struct RunningBatch {
    replies: BatchReplies,
    suspended: Vec<SuspendedEntry>,
    /// Calls of this batch that it cancels itself.
    cancelled: Vec<IdKey>,
    /// Number of requests among the suspended calls.
    requests: usize,
    traces: Traces,
}

/// A suspended call, and the place of its reply; a notification has none.
type SuspendedEntry = (Option<usize>, Box<SuspendedCall>);

impl RunningBatch {
    /// Runs one entry.
    fn run(&mut self, entry: &Message<'_>, scope: &Scope<'_>) {
        let caller = scope.caller;
        // It may mean an entry of this very batch, none of which is running yet.
        if let Message::Notification(Notification { method, params, .. }) = entry
            && let Some(id) = caller.config().dialect.cancelled_id(method, *params)
        {
            self.traces.next(entry);
            self.cancelled.extend(id);
            return;
        }
        let trace = self.traces.next(entry);
        let start = self.replies.text.len();
        let mut replies = Replies::bare(caller, &mut self.replies.text);
        let is_late = scope.arrival == Arrival::DuringShutdown;
        let incoming = caller.incoming();
        let suspended = match entry {
            Message::Request(request) if is_late => {
                replies.refuse(request.id, Refusal::ShuttingDown);
                None
            }
            Message::Request(request)
                if incoming.is_full(self.requests) || incoming.retains_too_much(replies.len()) =>
            {
                replies.refuse(request.id, Refusal::Overloaded);
                None
            }
            entry => handle_single(entry, trace, scope, &mut replies),
        };
        match (suspended, entry) {
            (None, _) => self.replies.end_entry(start),
            (Some(call), Message::Request(_)) => {
                self.requests += 1;
                let place = self.replies.leave_open(start);
                self.suspended.push((Some(place), call));
            }
            (Some(call), _) => self.suspended.push((None, call)),
        }
    }

    /// Keeps the entries behind the first `begun`, not counting responses, for another
    /// time slice.
    fn pause(self, text: &[u8], begun: usize, caller: &Caller) -> Progress {
        let text: Box<str> = String::from_utf8_lossy(text).into();
        let mut entries = Entries::at(&text, 0, &caller.config().policy);
        let passed = entries.by_ref().filter(|entry| !is_response(entry));
        passed.take(begun).for_each(drop);
        let position = entries.position();
        Progress::Paused(Box::new(PausedBatch {
            batch: self,
            text,
            position,
        }))
    }

    /// Writes the replies if no call is suspended.
    fn end(self, caller: &Caller, replies: &mut Replies<'_>) -> Progress {
        if self.suspended.is_empty() {
            self.cancelled.iter().for_each(|id| caller.cancel(id));
            self.replies.write(replies);
            return Progress::Done;
        }
        Progress::Batch(Box::new(PartialBatch {
            replies: self.replies,
            suspended: self.suspended,
            cancelled: self.cancelled,
        }))
    }
}

/// A batch whose time slice was over before all of its entries had begun.
pub(crate) struct PausedBatch {
    batch: RunningBatch,
    text: Box<str>,
    /// Place in the text of the entries that have not begun.
    position: usize,
}

impl PausedBatch {
    /// Runs further entries, until the time slice is over.
    pub(crate) fn resume(
        mut self: Box<Self>,
        scope: &Scope<'_>,
        replies: &mut Replies<'_>,
    ) -> Progress {
        let policy = &scope.caller.config().policy;
        let time_slice = scope.time_slice.unwrap_or_else(TimeSlice::begin);
        let mut entries = Entries::at(&self.text, self.position, policy);
        while let Some(entry) = entries.next() {
            // Responses were handled when the batch came.
            if is_response(&entry) {
                continue;
            }
            self.batch.run(&entry, scope);
            if time_slice.is_over() {
                self.position = entries.position();
                return Progress::Paused(self);
            }
        }
        self.batch.end(scope.caller, replies)
    }

    /// Cancels these calls of the batch when all have begun.
    pub(crate) fn cancel(&mut self, ids: &[IdKey]) {
        self.batch.cancelled.extend_from_slice(ids);
    }
}

/// A batch of which calls are suspended.
pub(crate) struct PartialBatch {
    replies: BatchReplies,
    suspended: Vec<SuspendedEntry>,
    cancelled: Vec<IdKey>,
}

impl PartialBatch {
    /// Runs the suspended calls in the caller's task, and returns the replies.
    pub(super) async fn run(self, caller: &Caller) -> BytesMut {
        let mut replies = self.replies;
        let run = |(place, call): SuspendedEntry| async move { (place, call.run(caller).await) };
        let mut running: FuturesUnordered<_> = self.suspended.into_iter().map(run).collect();
        while let Some((place, text)) = running.next().await {
            if let Some(place) = place {
                replies.fill(place, text);
            }
        }
        let mut out = BytesMut::new();
        replies.write(&mut Replies::bare(caller, &mut out));
        out
    }

    /// Runs each suspended call in a task of its own. The last one sends all replies.
    pub(crate) fn spawn(self, connection: &Arc<Connection>, replies: &mut Replies<'_>) {
        if self.replies.is_complete() {
            self.replies.write(replies);
        }
        let caller = Caller::Connection(Arc::clone(connection));
        let batch = Arc::new(OpenBatch::new(caller, self.replies));
        for (place, call) in self.suspended {
            let place = place.map(|place| (Arc::clone(&batch), place));
            call.spawn(connection, place);
        }
        self.cancelled.iter().for_each(|id| connection.cancel(id));
    }
}

/// A batch of which replies are open; its bytes are counted.
pub(crate) struct OpenBatch {
    caller: Caller,
    replies: Mutex<BatchReplies>,
}

impl OpenBatch {
    fn new(caller: Caller, replies: BatchReplies) -> Self {
        caller.incoming().count_retained(replies.bytes());
        Self {
            caller,
            replies: Mutex::new(replies),
        }
    }

    /// Puts a reply into its place; returns true if it was the last. If it was not,
    /// `not_last` runs before another one can be the last.
    pub(super) fn fill(&self, place: usize, text: BytesMut, not_last: impl FnOnce()) -> bool {
        self.caller.incoming().count_retained(text.len());
        let mut replies = lock(&self.replies);
        let is_complete = replies.fill(place, text);
        if !is_complete {
            not_last();
        }
        is_complete
    }

    /// Writes all replies.
    pub(super) fn write(&self, replies: &mut Replies<'_>) {
        lock(&self.replies).write(replies);
    }
}

impl Drop for OpenBatch {
    fn drop(&mut self) {
        let bytes = lock(&self.replies).bytes();
        self.caller.incoming().uncount_retained(bytes);
    }
}

/// The replies to one batch, in the order of its entries.
#[derive(Debug, Default)]
pub(crate) struct BatchReplies {
    /// Replies that were ready at once, a comma behind each.
    pub(crate) text: BytesMut,
    replies: Vec<Reply>,
    /// Number of replies that are open.
    open: usize,
    /// Bytes of replies that came later.
    late_bytes: usize,
}

#[derive(Debug)]
enum Reply {
    /// One or more replies in `text`, up to here.
    Ready(usize),
    Open,
    Late(BytesMut),
}

impl BatchReplies {
    /// Has room for short replies to this number of entries.
    fn with_capacity(entries: usize) -> Self {
        const SHORT: usize = r#"{"jsonrpc":"2.0","id":1234,"result":1234},"#.len();
        Self {
            text: BytesMut::with_capacity(entries * SHORT),
            ..Self::default()
        }
    }

    /// Ends an entry whose reply, if it has one, was written behind `start`.
    pub(crate) fn end_entry(&mut self, start: usize) {
        if self.text.len() == start {
            return;
        }
        self.text.extend_from_slice(b",");
        let end = self.text.len();
        match self.replies.last_mut() {
            Some(Reply::Ready(last)) => *last = end,
            _ => self.replies.push(Reply::Ready(end)),
        }
    }

    /// Leaves the reply of an entry open, and returns its place.
    fn leave_open(&mut self, start: usize) -> usize {
        self.text.truncate(start);
        self.open += 1;
        self.replies.push(Reply::Open);
        self.replies.len() - 1
    }

    /// Puts a reply into its place; returns true if it was the last.
    fn fill(&mut self, place: usize, text: BytesMut) -> bool {
        if let Some(reply @ Reply::Open) = self.replies.get_mut(place) {
            self.late_bytes += text.len();
            *reply = Reply::Late(text);
            self.open -= 1;
        }
        self.is_complete()
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.late_bytes
    }

    fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Writes the array, unless it would be empty.
    pub(crate) fn write(&self, replies: &mut Replies<'_>) {
        let pieces = self.pieces().filter(|(text, _)| !text.is_empty());
        let mut pieces = pieces.peekable();
        if pieces.peek().is_none() {
            return;
        }
        let written: Result<(), Infallible> = replies.write(|out| {
            out.extend_from_slice(b"[");
            for (text, comma) in pieces {
                out.extend_from_slice(text);
                out.extend_from_slice(comma);
            }
            if let Some(last_comma) = out.last_mut() {
                *last_comma = b']';
            }
            Ok(())
        });
        let Ok(()) = written;
    }

    /// The replies, each with the comma that it still needs.
    fn pieces(&self) -> impl Iterator<Item = (&[u8], &'static [u8])> {
        let mut start = 0;
        self.replies.iter().map(move |reply| match reply {
            Reply::Ready(end) => {
                let piece = self.text.get(start..*end).unwrap_or_default();
                start = *end;
                (piece, &b""[..])
            }
            Reply::Open => (&[][..], &b""[..]),
            Reply::Late(text) => (&text[..], &b","[..]),
        })
    }
}

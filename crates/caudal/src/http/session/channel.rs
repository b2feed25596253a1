//! A session as a transport: its peer sees nothing of HTTP.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use caudal_core::{CloseReason, ErrorCode, Id, JsonRpcError, Message, encode};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::inbox::Inbox;
use super::outbox::{Due, Outbox};
use super::refusal::refusal;
use super::table::Table;
use super::waits::{Subject, Taker, Waits, read_own};
use crate::config::Config;
use crate::connection::deadline::after;
use crate::dialect::member;
use crate::server::group::ConnectionGroup;
use crate::transport::{ReceiveError, Transport};

/// So much waits in the driver of a session, and what is more in its outbox.
const BEFORE: usize = 64 << 10;

/// How long the last messages of a session wait for a client that reads them, and at the
/// end of the server for one that has yet to say that it has got them.
const READ: Duration = Duration::from_secs(5);
/// The same for one that has yet to come; and how long connections outlive the server.
pub(super) const COME: Duration = Duration::from_millis(500);

/// What the transport of a session and its HTTP requests share.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) inbox: Inbox,
    pub(super) outbox: Arc<Outbox>,
    pub(super) waits: Waits,
}

/// A session as a transport.
pub(super) struct Channel {
    pipe: Arc<Pipe>,
    config: Arc<Config>,
    table: Weak<Table>,
    id: Arc<str>,
    remote: Option<String>,
    /// What was lent last.
    message: Bytes,
    /// How much the driver could not send.
    unsent: usize,
    /// The size of the message that is next, and the POST that it is for.
    route: Option<(usize, Option<Taker>)>,
    hub: Arc<ConnectionGroup>,
    /// How long it still waits for its client,
    timer: Option<Pin<Box<Sleep>>>,
    /// what for, if it has ended,
    due: Option<Due>,
    /// and since when.
    ended: Option<Instant>,
}

impl Channel {
    pub(super) fn new(
        pipe: &Arc<Pipe>,
        hub: &Arc<ConnectionGroup>,
        table: &Arc<Table>,
        id: &Arc<str>,
        remote: Option<String>,
    ) -> Self {
        Self {
            pipe: Arc::clone(pipe),
            config: Arc::clone(&hub.config),
            table: Arc::downgrade(table),
            id: Arc::clone(id),
            remote,
            message: Bytes::new(),
            unsent: 0,
            route: None,
            hub: Arc::clone(hub),
            timer: None,
            due: None,
            ended: None,
        }
    }

    /// Gives a message to the POST that waits for it, or to the outbox.
    fn poll_route(&mut self, cx: &mut Context<'_>, text: &[u8]) -> Poll<()> {
        loop {
            let known = self.route.filter(|(size, _)| *size == text.len());
            let taker = known.map_or_else(|| self.taker(text), |(_, taker)| taker);
            // While it waits for room it is not read again.
            self.route = Some((text.len(), taker));
            let Pipe { outbox, waits, .. } = &*self.pipe;
            match taker {
                None => {
                    ready!(outbox.poll_push(cx, text));
                    break;
                }
                Some(taker) if waits.want(taker, text.len()) => {
                    // Who does not read its answers gets no more of them.
                    ready!(outbox.poll_set_aside(cx, text.len()));
                    if self.give(taker, text) {
                        break;
                    }
                }
                Some(_) => {}
            }
            // That POST is gone, but another may wait for the same.
            self.route = None;
        }
        self.route = None;
        Poll::Ready(())
    }

    /// The POST that a message is for, if one waits for it.
    fn taker(&self, text: &[u8]) -> Option<Taker> {
        let waits = &self.pipe.waits;
        if waits.is_empty() {
            return None;
        }
        let message = read_own(text);
        let subject = match &message {
            Message::Notification(told) => {
                let progress = self.config.dialect.progress.as_ref();
                let progress = progress.filter(|progress| progress.method == told.method)?;
                Subject::Report(member(told.params, &progress.member)?)
            }
            message => Subject::answer(message)?,
        };
        waits.find(&subject, text.len())
    }

    /// Gives a message that is set aside to the POST that waits for it; if that is gone,
    /// it is set aside no longer.
    fn give(&self, taker: Taker, text: &[u8]) -> bool {
        let Pipe { outbox, waits, .. } = &*self.pipe;
        let taken = waits.give(taker, text, outbox.last());
        if !taken {
            outbox.release(text.len());
        }
        taken
    }

    /// There is no room for what is to be sent. That goes on until the client reads;
    /// but when the server stops, one that has never listened will not begin to.
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let outbox = &self.pipe.outbox;
        if !self.hub.stop.is_cancelled() || outbox.has_reader() || outbox.listens() {
            self.timer = None;
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(COME)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// Lets what waits in the driver count.
    fn set_unsent(&mut self, bytes: usize) {
        if bytes != self.unsent {
            self.unsent = bytes;
            self.pipe.outbox.set_before(bytes);
        }
    }

    /// Until when the client is waited for that has still to do this.
    fn patience(&self, due: Due) -> Instant {
        let now = Instant::now();
        if !self.hub.stop.is_cancelled() {
            let limit = if due.is_read { READ } else { COME };
            // However often it comes.
            return after(now, limit).min(after(self.ended.unwrap_or(now), READ));
        }
        let end = self.hub.deadline();
        match due {
            // Soon after that all connections are cut.
            Due { is_read: true, .. } => after(end, COME),
            Due { is_sent: true, .. } => after(now, READ).min(end),
            Due { listens: true, .. } => end,
            _ => after(now, COME).min(end),
        }
    }

    /// Takes nothing in any more. What was accepted and has not begun is answered.
    fn end_input(&self) {
        for text in self.pipe.inbox.close() {
            let Some(answer) = refusal(&text, &self.config.policy, too_late) else {
                continue;
            };
            let outbox = &self.pipe.outbox;
            let is_taken = |taker| {
                // Before it is there: it may be taken at once.
                outbox.set_aside(answer.len());
                self.give(taker, &answer)
            };
            if !self.taker(&answer).is_some_and(is_taken) {
                outbox.push_back(answer);
            }
        }
    }

    fn end_output(&self) {
        self.pipe.waits.close();
        self.pipe.outbox.close();
    }
}

/// Answers what has come and will not begin.
fn too_late(out: &mut BytesMut, id: Id<'_>) {
    let error = JsonRpcError::new(ErrorCode::SHUTTING_DOWN, "Server is shutting down");
    encode::error(out, id, &error);
}

impl Transport for Channel {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        // Nobody looks at the one before it any more.
        self.message = Bytes::new();
        let may_begin = self.pipe.outbox.may_begin(cx);
        self.message = ready!(self.pipe.inbox.poll_pop(cx, may_begin));
        Poll::Ready(Ok(Some(&self.message)))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while let Some(end) = out.iter().position(|byte| *byte == b'\n') {
            let text = out.get(..end).unwrap_or_default();
            if self.poll_route(cx, text).is_pending() {
                self.set_unsent(out.len());
                return self.poll_wait(cx).map(Err);
            }
            out.advance(end + 1);
        }
        self.set_unsent(0);
        self.timer = None;
        Poll::Ready(Ok(()))
    }

    fn closing(&mut self, _: &CloseReason) {
        (self.timer, self.ended) = (None, Some(Instant::now()));
        self.end_input();
        self.end_output();
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        let Some(due) = self.pipe.outbox.due(cx) else {
            return Poll::Ready(None);
        };
        if self.due.replace(due) != Some(due) {
            self.timer = Some(Box::pin(sleep_until(self.patience(due))));
        }
        if let Some(timer) = &mut self.timer {
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Ready(None)
    }

    fn close_timeout(&self) -> Duration {
        let left = match self.hub.stop.is_cancelled() {
            true => self
                .hub
                .deadline()
                .saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        left.saturating_add(2 * READ)
    }

    fn queued(&mut self, bytes: usize) {
        self.pipe.inbox.set_queued(bytes);
    }

    fn output(&self) -> Option<usize> {
        Some(BEFORE)
    }

    fn remote(&self) -> Option<String> {
        self.remote.clone()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.end_input();
        self.end_output();
        self.set_unsent(0);
        if let Some(table) = self.table.upgrade() {
            table.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;

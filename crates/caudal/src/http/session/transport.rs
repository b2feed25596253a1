//! A session as a transport: its connection does not depend on HTTP.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use caudal_core::{CloseReason, ErrorCode, Id, JsonRpcError, Message, Policy, decode, encode};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::byte_limit::Reservation;
use super::inbox::IncomingMessage;
use super::outbox::Due;
use super::pending_posts::PostMessage;
use super::refusal::refusal;
use super::session::SessionQueues;
use super::table::SessionTable;
use crate::connection::deadline::after;
use crate::dialect::member;
use crate::server::group::ConnectionGroup;
use crate::transport::{ReceiveError, Transport, TransportInfo};

/// Maximum of output that waits in the session's connection before it is given to the
/// session, in bytes.
const MAX_OUTPUT: usize = 64 << 10;
/// Time for a client that reads to take the last messages of its session, and at the end
/// of the server for one that polls to acknowledge them.
const READ_TIME: Duration = Duration::from_secs(5);
/// Time for a client to come for the last messages, and time that connections outlive the
/// server.
pub(super) const VISIT_TIME: Duration = Duration::from_millis(500);

/// A session as a transport.
pub(super) struct SessionTransport {
    id: Arc<str>,
    table: Weak<SessionTable>,
    hub: Arc<ConnectionGroup>,
    remote: Option<String>,
    queues: Arc<SessionQueues>,
    incoming: mpsc::UnboundedReceiver<IncomingMessage>,
    /// Message that is lent.
    lent: Option<IncomingMessage>,
    /// Reservations of messages that wait for their turn in the connection.
    queued: VecDeque<Reservation>,
    /// Sends the first message that waits, when there is room for it.
    sending: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
    /// Waits until the client has received the last messages of a session that has ended.
    draining: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl SessionTransport {
    pub(super) fn new(
        id: &Arc<str>,
        table: &Arc<SessionTable>,
        hub: &Arc<ConnectionGroup>,
        remote: Option<String>,
        queues: &Arc<SessionQueues>,
        incoming: mpsc::UnboundedReceiver<IncomingMessage>,
    ) -> Self {
        Self {
            id: Arc::clone(id),
            table: Arc::downgrade(table),
            hub: Arc::clone(hub),
            remote,
            queues: Arc::clone(queues),
            incoming,
            lent: None,
            queued: VecDeque::new(),
            sending: None,
            draining: None,
        }
    }

    /// Accepts no further messages. Requests that have not begun are refused.
    fn close(&mut self) {
        self.incoming.close();
        while let Ok(IncomingMessage { text, .. }) = self.incoming.try_recv() {
            if let Some(reply) = refusal(&text, &self.hub.config.policy, shutting_down) {
                OutgoingMessage::new(&self.queues, &self.hub, &reply).deliver(None);
            }
        }
        self.sending = None;
        self.queues.posts.close();
        self.queues.outbox.close();
    }
}

/// Message of the server, and the POST that it is for.
struct OutgoingMessage {
    queues: Arc<SessionQueues>,
    text: Bytes,
    post: Option<u64>,
    is_reply: bool,
}

impl OutgoingMessage {
    fn new(queues: &Arc<SessionQueues>, hub: &ConnectionGroup, text: &[u8]) -> Self {
        let posts = &queues.posts;
        let (mut post, mut is_reply) = (None, true);
        if !posts.is_empty() {
            match decode(text, &unbounded()) {
                Message::Notification(notification) => {
                    let progress = hub.config.dialect.progress.as_ref();
                    let progress = progress.filter(|found| found.method == notification.method);
                    let token =
                        progress.and_then(|found| member(notification.params, &found.member));
                    post = token.and_then(|token| posts.find_progress(&token));
                    is_reply = false;
                }
                message => post = posts.find_reply(&message),
            }
        }
        Self {
            queues: Arc::clone(queues),
            text: Bytes::copy_from_slice(text),
            post,
            is_reply,
        }
    }

    /// Delivers the message when there is room for it. That lasts until the client reads; but
    /// when the server stops, a client that has never listened will not begin to.
    async fn send(self, hub: Arc<ConnectionGroup>) -> io::Result<()> {
        let limit = match self.post {
            Some(_) => &self.queues.posts.replies,
            None => &self.queues.outgoing,
        };
        let unexpected = async {
            hub.stop.cancelled().await;
            loop {
                sleep(VISIT_TIME).await;
                if !self.queues.outbox.is_expected() {
                    break;
                }
            }
        };
        let reservation = tokio::select! {
            biased;
            reservation = limit.reserve(self.text.len()) => reservation,
            () = unexpected => return Err(io::ErrorKind::TimedOut.into()),
        };
        self.deliver(Some(reservation));
        Ok(())
    }

    /// Gives the message to its POST; if that is gone, to the outbox.
    fn deliver(self, reservation: Option<Reservation>) {
        let SessionQueues { posts, outbox, .. } = &*self.queues;
        let message = PostMessage {
            text: self.text,
            after: outbox.last(),
            is_reply: self.is_reply,
            reservation,
        };
        let undelivered = match self.post {
            Some(post) => posts.give(post, message),
            None => Err(message),
        };
        if let Err(message) = undelivered {
            outbox.push(message.text, message.reservation);
        }
    }
}

/// Waits until the client of a session that has ended has received the last messages.
async fn drain(queues: Arc<SessionQueues>, hub: Arc<ConnectionGroup>) {
    let ended = Instant::now();
    while let Some(due) = queues.outbox.due() {
        tokio::select! {
            () = queues.outbox.due_changed(due) => {}
            () = sleep_until(due_by(due, &hub, ended)) => return,
        }
    }
}

/// Time by which the client of a session that has `ended` must have come, read or
/// acknowledged.
fn due_by(due: Due, hub: &ConnectionGroup, ended: Instant) -> Instant {
    let now = Instant::now();
    if !hub.stop.is_cancelled() {
        let limit = if due.is_read { READ_TIME } else { VISIT_TIME };
        // Also if the client comes again and again.
        return after(now, limit).min(after(ended, READ_TIME));
    }
    let end = hub.deadline();
    match due {
        // All connections are closed soon after that.
        Due { is_read: true, .. } => after(end, VISIT_TIME),
        Due { is_sent: true, .. } => after(now, READ_TIME).min(end),
        Due {
            has_listened: true, ..
        } => end,
        _ => after(now, VISIT_TIME).min(end),
    }
}

/// Policy for decoding messages of this side.
fn unbounded() -> Policy {
    let mut policy = Policy::default();
    policy.max_message = usize::MAX;
    policy.max_depth = usize::MAX;
    policy.max_batch = usize::MAX;
    policy.max_id = usize::MAX;
    policy
}

fn shutting_down(out: &mut BytesMut, id: Id<'_>) {
    let error = JsonRpcError::new(ErrorCode::SHUTTING_DOWN, "Server is shutting down");
    encode::error(out, id, &error);
}

impl Transport for SessionTransport {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        // The previous message has been handled.
        self.lent = None;
        let Some(message) = ready!(self.incoming.poll_recv(cx)) else {
            return Poll::Ready(Ok(None));
        };
        let lent = self.lent.insert(message);
        Poll::Ready(Ok(Some(&lent.text)))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while let Some(end) = out.iter().position(|byte| *byte == b'\n') {
            let sending = self.sending.get_or_insert_with(|| {
                let text = out.get(..end).unwrap_or_default();
                let message = OutgoingMessage::new(&self.queues, &self.hub, text);
                Box::pin(message.send(Arc::clone(&self.hub)))
            });
            let sent = ready!(sending.as_mut().poll(cx));
            self.sending = None;
            sent?;
            out.advance(end + 1);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &CloseReason) -> Poll<Option<CloseReason>> {
        if self.draining.is_none() {
            self.close();
        }
        let draining = self.draining.get_or_insert_with(|| {
            let (queues, hub) = (Arc::clone(&self.queues), Arc::clone(&self.hub));
            Box::pin(drain(queues, hub))
        });
        ready!(draining.as_mut().poll(cx));
        let by_client = self.queues.is_ended_by_client.load(Relaxed);
        Poll::Ready(by_client.then(CloseReason::remote))
    }

    fn info(&self) -> TransportInfo {
        let left = match self.hub.stop.is_cancelled() {
            true => self
                .hub
                .deadline()
                .saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        TransportInfo::default()
            .remote(self.remote.clone())
            .output(MAX_OUTPUT)
            .close_timeout(left.saturating_add(2 * READ_TIME))
    }

    fn queued(&mut self, bytes: usize) {
        let lent = self.lent.take().map(|message| message.reservation);
        self.queued.extend(lent);
        let mut counted: usize = self.queued.iter().map(Reservation::bytes).sum();
        while let Some(first) = self.queued.front()
            && counted - first.bytes() >= bytes
        {
            counted -= first.bytes();
            self.queued.pop_front();
        }
    }
}

impl Drop for SessionTransport {
    fn drop(&mut self) {
        self.close();
        if let Some(table) = self.table.upgrade() {
            table.remove(&self.id);
        }
    }
}

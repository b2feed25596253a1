//! One session, and the handles of requests to it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::byte_limit::{ByteLimit, SessionLimits};
use super::inbox::{Inbox, IncomingMessage};
use super::outbox::Outbox;
use super::owner::Owner;
use super::pending_posts::PendingPosts;
use crate::connection::deadline::after;
use crate::connection::{Command, Connection};
use crate::sync::lock;

/// Messages between a session's connection and the HTTP requests of its client.
#[derive(Debug)]
pub(super) struct SessionQueues {
    pub(super) inbox: Inbox,
    pub(super) outbox: Arc<Outbox>,
    /// Limit for messages in the outbox.
    pub(super) outgoing: ByteLimit,
    pub(super) posts: PendingPosts,
    /// True if the client has ended the session.
    pub(super) is_ended_by_client: AtomicBool,
}

impl SessionQueues {
    /// The queues, and where the client's messages come out.
    pub(super) fn new(
        limits: SessionLimits,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<IncomingMessage>) {
        let (inbox, incoming) = Inbox::new(limits.requests, limits.answers, limits.waiting);
        let queues = Arc::new(Self {
            inbox,
            outbox: Outbox::new(limits.replay, limits.in_transit),
            outgoing: limits.outgoing,
            posts: PendingPosts::new(limits.ids, limits.replies),
            is_ended_by_client: AtomicBool::new(false),
        });
        (queues, incoming)
    }
}

/// One session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(super) queues: Arc<SessionQueues>,
    pub(super) connection: Arc<Connection>,
    pub(super) owner: Owner,
    activity: Mutex<Activity>,
}

impl std::fmt::Debug for Session {
    /// The id is left out: it is enough to use the session.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Activity {
    /// Number of handles.
    handles: usize,
    last: Instant,
}

impl Session {
    pub(super) fn new(
        id: Arc<str>,
        queues: Arc<SessionQueues>,
        connection: Arc<Connection>,
        owner: Owner,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            queues,
            connection,
            owner,
            activity: Mutex::new(Activity {
                handles: 0,
                last: Instant::now(),
            }),
        })
    }

    /// Messages for the client.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.queues.outbox
    }

    /// Returns true if requests of the client run.
    pub(crate) fn is_busy(&self) -> bool {
        self.connection.incoming.is_busy()
    }

    /// Returns true if a call waits for the client's answer.
    pub(crate) fn has_pending(&self) -> bool {
        self.connection.sender.has_pending()
    }

    /// Ends the session; messages that wait for its client are dropped.
    pub(crate) fn end(&self) {
        self.queues.outbox.discard();
        self.connection.command(Command::Close);
    }

    /// Ends the session because its client has asked for that.
    pub(crate) fn end_by_client(&self) {
        self.queues.is_ended_by_client.store(true, Relaxed);
        self.end();
    }

    /// Notes that the client was active.
    pub(super) fn touch(&self) {
        self.activity().last = Instant::now();
    }

    /// Time at which the session expires unless the client is active before.
    pub(super) fn expires(&self, now: Instant, timeout: Duration) -> Instant {
        let activity = self.activity();
        let last = if activity.handles > 0 {
            now
        } else {
            activity.last
        };
        after(last, timeout)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        lock(&self.activity)
    }
}

/// Handle of a request or stream. While there is one, the session does not expire.
#[derive(Debug)]
pub(crate) struct SessionHandle(Arc<Session>);

impl SessionHandle {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        session.activity().handles += 1;
        Self(Arc::clone(session))
    }

    /// The session alone, which may expire.
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl std::ops::Deref for SessionHandle {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.0.activity().handles -= 1;
        self.0.touch();
    }
}

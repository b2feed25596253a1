//! All sessions of a server: opened, found by id, and ended when their client is silent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use http::request::Parts;
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep};

use super::byte_limit::AllSessionsLimits;
use super::owner::{Opener, Owner};
use super::random_name;
use super::session::{Session, SessionHandle, SessionQueues};
use super::transport::SessionTransport;
use crate::call::lone::LoneExchange;
use crate::connection::Command;
use crate::connection::deadline::after;
use crate::extensions::Extensions;
use crate::http::{Body, Http, Options, Quota, QuotaLimits, QuotaPermit, plain};
use crate::sync::lock;

/// All sessions of a server.
#[derive(Debug)]
pub(crate) struct SessionTable {
    limits: AllSessionsLimits,
    quota: Arc<Quota<Opener>>,
    state: Mutex<TableState>,
}

#[derive(Debug, Default)]
struct TableState {
    sessions: HashMap<Arc<str>, (Arc<Session>, QuotaPermit<Opener>)>,
    /// True while a task looks for sessions that have expired.
    is_watched: bool,
}

impl SessionTable {
    pub(super) fn new(options: &Options) -> Arc<Self> {
        Arc::new(Self {
            limits: AllSessionsLimits::new(options),
            quota: Arc::default(),
            state: Mutex::default(),
        })
    }

    /// Opens a session for the sender of a request.
    ///
    /// # Errors
    /// The response that refuses it.
    pub(super) fn open(
        self: &Arc<Self>,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
    ) -> Result<SessionHandle, Box<Response<Body>>> {
        let unavailable =
            |text: &'static str| Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, text));
        let (hub, options) = (http.hub(), http.options());
        if hub.stop.is_cancelled() {
            return Err(unavailable("the server is shutting down\n"));
        }
        let no_random = |_| unavailable("the system has no random numbers\n");
        let id: Arc<str> = random_name().map_err(no_random)?.into();
        let most = QuotaLimits {
            all: options.sessions,
            each: options.sessions_per_caller,
        };
        let permit = QuotaPermit::take(&self.quota, Opener::of(http, caller, head), most);
        let permit = permit.map_err(|_| unavailable("there are too many sessions\n"))?;
        let limits = self.limits.session(&hub.config, options);
        let (queues, incoming) = SessionQueues::new(limits);
        let extensions = match options.authorize {
            Some(_) => caller.extensions().clone(),
            // These belong to the connection, which several clients may share.
            None => Extensions::default(),
        };
        let remote = http.remote().map(|remote| remote.to_string());
        let transport = SessionTransport::new(&id, self, hub, remote, &queues, incoming);
        let connection = hub.start_with(Box::new(transport), extensions);
        let owner = Owner::of(caller, head);
        let session = Session::new(id, queues, connection, owner);
        let handle = SessionHandle::new(&session);
        self.insert(session, permit, options.session_timeout);
        Ok(handle)
    }

    fn insert(
        self: &Arc<Self>,
        session: Arc<Session>,
        permit: QuotaPermit<Opener>,
        timeout: Option<Duration>,
    ) {
        let mut state = self.lock();
        // If its transport has ended already, the session would never be removed.
        if session.queues.inbox.is_closed() {
            return;
        }
        let id = Arc::clone(&session.id);
        state.sessions.insert(id, (session, permit));
        if let Some(timeout) = timeout
            && !std::mem::replace(&mut state.is_watched, true)
        {
            tokio::spawn(end_expired(Arc::downgrade(self), timeout));
        }
    }

    /// Returns the session with this id, if it belongs to `owner`.
    pub(super) fn find(&self, id: &str, owner: &Owner) -> Option<SessionHandle> {
        let state = self.lock();
        let (session, _) = state.sessions.get(id)?;
        session.owner.is(owner).then(|| SessionHandle::new(session))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions.is_empty()
    }

    /// Takes a session out; returns false if it was not there.
    pub(super) fn remove(&self, id: &str) -> bool {
        let removed = self.lock().sessions.remove(id);
        removed.is_some()
    }

    /// Ends expired sessions, and returns the time until another may expire; `None` if
    /// there is nothing left.
    fn end_expired(&self, timeout: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut state = self.lock();
        let is_expired = |session: &Session| session.expires(now, timeout) <= now;
        let expired = state
            .sessions
            .extract_if(|_, (session, _)| is_expired(session));
        let expired: Vec<_> = expired.map(|(_, (session, _))| session).collect();
        let others = state.sessions.values();
        let next = others.map(|(session, _)| session.expires(now, timeout));
        let next = next.min();
        state.is_watched = next.is_some();
        drop(state);
        for session in expired {
            tracing::debug!(target: "caudal", "a session has expired");
            session.end();
        }
        // Each check visits all sessions, so there must not be many checks.
        next.map(|next| (next - now).max(timeout / 16))
    }

    fn lock(&self) -> MutexGuard<'_, TableState> {
        lock(&self.state)
    }
}

impl Drop for SessionTable {
    fn drop(&mut self) {
        let sessions = std::mem::take(&mut self.lock().sessions);
        for (session, _) in sessions.values() {
            // No request can reach the session any more.
            let limit = session.connection.config.drain_timeout;
            let deadline = after(Instant::now(), limit);
            session.connection.command(Command::Drain(deadline));
        }
    }
}

/// Ends sessions that expire, while there are sessions.
async fn end_expired(table: Weak<SessionTable>, timeout: Duration) {
    while let Some(pause) = table.upgrade().and_then(|table| table.end_expired(timeout)) {
        sleep(pause.max(Duration::from_millis(1))).await;
    }
}

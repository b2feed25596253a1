//! All sessions: opened, found again, and ended when nothing is heard of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use subtle::ConstantTimeEq as _;
use tokio::time::{Instant, sleep};

use super::budget::Budget;
use super::channel::{Channel, Pipe};
use super::inbox::Inbox;
use super::outbox::{Bounds, Outbox};
use super::waits::Waits;
use crate::call::lone::LoneExchange;
use crate::connection::deadline::after;
use crate::connection::{Command, Connection};
use crate::extensions::Extensions;
use crate::http::{Caller, Http, Most, Seat, Seats, network};

/// A session that holds no more has room for it even if all together hold too much, and
/// for as much of its client's answers; so they hold at most three times what they may.
const SHARE: usize = 64 << 10;
/// What POSTs that wait in one session have asked, if no more than so many may run;
const ASKED: usize = 4 << 20;
/// and for each that may run.
const EACH: usize = 4 << 10;

/// All sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Of what the clients have still to get,
    budget: Arc<Budget>,
    /// and of what they have sent.
    incoming: Arc<Budget>,
    /// Bytes of what they have asked and wait for on a POST.
    asked: Arc<AtomicUsize>,
    seats: Arc<Seats<Opener>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<Arc<str>, (Arc<Session>, Seat<Opener>)>,
    /// Whether somebody looks for those that have expired.
    reaped: bool,
}

/// One session.
pub(crate) struct Session {
    pub(crate) id: Arc<str>,
    pub(super) pipe: Arc<Pipe>,
    pub(super) connection: Arc<Connection>,
    owner: Owner,
    seen: Mutex<Seen>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Who knows the id may use it.
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Seen {
    /// Requests and streams that are open.
    open: usize,
    last: Instant,
}

/// Whom a session belongs to.
#[derive(PartialEq, Eq)]
pub(super) struct Owner(Vec<u8>);

impl Owner {
    /// Who sends a request: whom the application has named, or who has these
    /// credentials.
    pub(super) fn of(caller: &LoneExchange, head: &Parts) -> Self {
        if let Some(caller) = caller.extensions().get::<Caller>() {
            return Self([b"caller ", caller.name().as_bytes()].concat());
        }
        let header = head.headers.get(AUTHORIZATION);
        let header = header.map_or(&b""[..], |header| header.as_bytes());
        // A header has no zero in it.
        Self([b"header ", header, b"\0", certificate(head)].concat())
    }

    /// In a time that does not tell how much of it was right.
    fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Who may open so many sessions and no more, which hold so much and no more: one that
/// cannot give itself another name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Opener {
    Caller(String),
    Certificate(Vec<u8>),
    Address(IpAddr),
}

impl Opener {
    fn of(http: &Http, caller: &LoneExchange, head: &Parts) -> Option<Self> {
        if let Some(caller) = caller.extensions().get::<Caller>() {
            return Some(Self::Caller(caller.name().to_owned()));
        }
        match certificate(head) {
            [] => http
                .remote()
                .map(|remote| Self::Address(network(remote.ip()))),
            shown => Some(Self::Certificate(shown.to_vec())),
        }
    }
}

/// The certificate that a request's client has shown, if there is one.
#[cfg(feature = "tls")]
fn certificate(head: &Parts) -> &[u8] {
    let shown = head.extensions.get::<crate::http::tls::PeerCertificate>();
    shown.map_or(b"", |shown| shown.as_der())
}

#[cfg(not(feature = "tls"))]
const fn certificate(_: &Parts) -> &[u8] {
    b""
}

/// Why there is no new session.
#[derive(Debug)]
pub(super) enum OpenError {
    TooMany,
    Stopping,
    /// The system has no random numbers.
    Random,
}

/// A request or stream of a session: while there is one, it does not expire.
#[derive(Debug)]
pub(crate) struct Visit(Arc<Session>);

impl std::ops::Deref for Visit {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Visit {
    fn begin(session: &Arc<Session>) -> Self {
        session.seen().open += 1;
        Self(Arc::clone(session))
    }

    /// What is visited.
    #[cfg(feature = "webhook")]
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.open -= 1;
        seen.last = Instant::now();
    }
}

impl Session {
    /// The messages for its client.
    #[cfg_attr(
        not(any(feature = "sse", feature = "polling")),
        allow(dead_code, reason = "each way to the client uses it")
    )]
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.pipe.outbox
    }

    /// Whether requests of its client run.
    #[cfg(feature = "polling")]
    pub(crate) fn is_busy(&self) -> bool {
        self.connection.incoming.is_busy()
    }

    /// Whether it waits for answers of its client.
    #[cfg(feature = "polling")]
    pub(crate) fn has_pending(&self) -> bool {
        self.connection.sender.has_pending()
    }

    /// Ends it: nobody will come for what it still has to say.
    pub(crate) fn end(&self) {
        self.pipe.outbox.discard();
        self.connection.command(Command::Close);
    }

    /// Its client was heard of.
    #[cfg(feature = "webhook")]
    pub(super) fn touch(&self) {
        self.seen().last = Instant::now();
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// When it expires if nothing more is heard of it.
    fn expires(&self, now: Instant, timeout: Duration) -> Instant {
        let seen = self.seen();
        after(if seen.open > 0 { now } else { seen.last }, timeout)
    }
}

impl Table {
    /// Opens a session for whoever sends a request.
    pub(super) fn open(
        self: &Arc<Self>,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
    ) -> Result<Visit, OpenError> {
        let (hub, options) = (http.hub(), http.options());
        if hub.stop.is_cancelled() {
            return Err(OpenError::Stopping);
        }
        let id = random_id()?;
        let most = Most {
            all: options.sessions,
            each: options.sessions_per_caller,
        };
        let opener = Opener::of(http, caller, head);
        let seat = Seat::take(&self.seats, opener.clone(), most);
        let seat = seat.map_err(|_| OpenError::TooMany)?;
        let limits = &hub.config.limits;
        let bounds = Bounds {
            output: limits.output,
            all: options.session_bytes,
            each: options.session_bytes_per_caller,
            share: (options.session_bytes / options.sessions.max(1)).min(SHARE),
            replay: options.replay,
        };
        let incoming = Bounds {
            output: limits.queue,
            ..bounds
        };
        let asked = Bounds {
            output: limits.in_flight.saturating_mul(EACH).max(ASKED),
            ..bounds
        };
        let pipe = Arc::new(Pipe {
            inbox: Inbox::new(incoming, &self.incoming, opener.as_ref()),
            outbox: Outbox::new(bounds, &self.budget, opener.as_ref()),
            waits: Waits::new(asked, &self.asked),
        });
        let extensions = match options.authorize {
            Some(_) => caller.extensions().clone(),
            // Those are the connection's, which may not be its client's alone.
            None => Extensions::default(),
        };
        let remote = http.remote().map(|remote| remote.to_string());
        let channel = Channel::new(&pipe, hub, self, &id, remote);
        let session = Arc::new(Session {
            connection: hub.start_with(Box::new(channel), extensions),
            id,
            pipe,
            owner: Owner::of(caller, head),
            seen: Mutex::new(Seen {
                open: 0,
                last: Instant::now(),
            }),
        });
        let visit = Visit::begin(&session);
        self.insert(session, seat, options.session_timeout);
        Ok(visit)
    }

    fn insert(self: &Arc<Self>, session: Arc<Session>, seat: Seat<Opener>, timeout: Duration) {
        let mut state = self.lock();
        // If its transport has ended already, nobody would take it out again.
        if session.pipe.inbox.is_closed() {
            return;
        }
        let id = Arc::clone(&session.id);
        state.sessions.insert(id, (session, seat));
        if !timeout.is_zero() && !std::mem::replace(&mut state.reaped, true) {
            tokio::spawn(reap(Arc::downgrade(self), timeout));
        }
    }

    /// The session of this id, for whom it belongs to.
    pub(super) fn find(&self, id: &str, owner: &Owner) -> Option<Visit> {
        let state = self.lock();
        let (session, _) = state.sessions.get(id)?;
        session.owner.is(owner).then(|| Visit::begin(session))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().sessions.is_empty()
    }

    /// Takes a session out; `false` if it was not there.
    pub(super) fn remove(&self, id: &str) -> bool {
        let removed = self.lock().sessions.remove(id);
        removed.is_some()
    }

    /// Ends what has expired, and says how long nothing else will; `None` if there
    /// is nothing left.
    fn expire(&self, timeout: Duration) -> Option<Duration> {
        let now = Instant::now();
        let mut next = after(now, timeout);
        let mut expired = Vec::new();
        let mut state = self.lock();
        state.sessions.retain(|_, (session, _)| {
            let expires = session.expires(now, timeout);
            if expires <= now {
                expired.push(Arc::clone(session));
            } else {
                next = next.min(expires);
            }
            expires > now
        });
        state.reaped = !state.sessions.is_empty();
        let more = state.reaped;
        drop(state);
        for session in expired {
            tracing::debug!(target: "caudal", "a session has expired");
            session.end();
        }
        // Each look is at all of them, so there are not too many.
        more.then(|| (next - now).max(timeout / 16))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let sessions = std::mem::take(&mut self.lock().sessions);
        for (session, _) in sessions.values() {
            // Nobody can reach it any more.
            let limit = session.connection.config.drain_timeout;
            let deadline = after(Instant::now(), limit);
            session.connection.command(Command::Drain(deadline));
        }
    }
}

/// Looks for sessions that have expired, while there are any.
async fn reap(table: Weak<Table>, timeout: Duration) {
    while let Some(pause) = table.upgrade().and_then(|table| table.expire(timeout)) {
        sleep(pause.max(Duration::from_millis(1))).await;
    }
}

/// 128 random bits.
fn random_id() -> Result<Arc<str>, OpenError> {
    use std::fmt::Write as _;
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).map_err(|_| OpenError::Random)?;
    let mut id = String::with_capacity(32);
    for byte in bits {
        // A string takes everything.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

//! Limits in bytes: one for each session, and one for all sessions of the server.
//!
//! A limit is a pair of semaphores with a permit for each byte. Each owner of
//! bytes also owns their [`Reservation`], so no code has to count them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::unconstrained;

use crate::config::Config;
use crate::http::Options;

/// Maximum of [`AllSessionsLimits::share`], in bytes.
const MAX_SHARE: usize = 64 << 10;
/// Minimum for POST bodies that wait for room, in bytes.
const MIN_WAITING: usize = 64 << 10;
/// Minimum for ids of requests that wait for a reply on their POST, in bytes.
const MIN_IDS: usize = 4 << 20;
/// Bytes of ids for each request that may run at once.
const IDS_PER_REQUEST: usize = 4 << 10;
/// Maximum size of a piece of an event stream or of a poll response, in bytes.
pub(super) const PIECE: usize = 64_000;
/// Minimum for pieces that HTTP holds for the GETs of a session, in bytes: some of these
/// may belong to connections that are cut.
const MIN_IN_TRANSIT: usize = 4 * PIECE;

/// Limits for all sessions of a server, by the kind of bytes. Kinds are apart where one
/// must go on although another is full.
#[derive(Debug)]
pub(super) struct AllSessionsLimits {
    bytes: usize,
    /// Bytes that each session may always hold, also when the common limit is reached.
    share: usize,
    requests: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    outgoing: Arc<Semaphore>,
    in_transit: Arc<Semaphore>,
    replay: Arc<Semaphore>,
    ids: Arc<Semaphore>,
}

/// Limits for the bytes that one session holds.
#[derive(Debug)]
pub(super) struct SessionLimits {
    /// Messages of the client, except answers to the server's calls.
    pub(super) requests: ByteLimit,
    /// Answers of the client. A handler may wait for one while `requests` is full.
    pub(super) answers: ByteLimit,
    /// Bodies of POSTs that wait for room in the two above.
    pub(super) waiting: ByteLimit,
    /// Messages of the server that a GET or a webhook will take.
    pub(super) outgoing: ByteLimit,
    /// Replies on their way over POSTs, until HTTP has sent them.
    pub(super) replies: ByteLimit,
    /// Pieces that HTTP was given for GETs, until it has sent them.
    pub(super) in_transit: ByteLimit,
    /// Messages that were sent, kept for a client that comes back.
    pub(super) replay: ByteLimit,
    /// Ids of requests that wait for a reply on their POST.
    pub(super) ids: ByteLimit,
}

impl AllSessionsLimits {
    pub(super) fn new(options: &Options) -> Self {
        let bytes = options.session_bytes.clamp(1, Semaphore::MAX_PERMITS);
        let semaphore = || Arc::new(Semaphore::new(bytes));
        Self {
            bytes,
            share: (bytes / options.sessions.max(1)).min(MAX_SHARE),
            requests: semaphore(),
            answers: semaphore(),
            waiting: semaphore(),
            outgoing: semaphore(),
            in_transit: semaphore(),
            replay: semaphore(),
            ids: semaphore(),
        }
    }

    pub(super) fn session(&self, config: &Config, options: &Options) -> SessionLimits {
        let limit = |server: &Arc<Semaphore>, bytes: usize| {
            let bytes = bytes.min(Semaphore::MAX_PERMITS);
            ByteLimit {
                bytes,
                session: Arc::new(Semaphore::new(bytes)),
                server_bytes: self.bytes,
                server: Arc::clone(server),
                share: self.share,
            }
        };
        let (queue, output) = (config.queue.max(1), config.output.max(1));
        let ids = config.in_flight.saturating_mul(IDS_PER_REQUEST);
        SessionLimits {
            requests: limit(&self.requests, queue),
            answers: limit(&self.answers, queue),
            waiting: limit(&self.waiting, queue.max(MIN_WAITING)),
            outgoing: limit(&self.outgoing, output),
            replies: limit(&self.outgoing, output),
            in_transit: ByteLimit {
                // A session with one stream is never stopped by the pieces of others.
                share: PIECE,
                ..limit(&self.in_transit, output.max(MIN_IN_TRANSIT))
            },
            replay: limit(&self.replay, options.replay),
            ids: limit(&self.ids, ids.max(MIN_IDS)),
        }
    }
}

/// A limit for bytes of one kind, in one session and in all. Something larger than the
/// whole limit counts as all of it, so that nothing is too large to pass.
#[derive(Debug)]
pub(super) struct ByteLimit {
    bytes: usize,
    session: Arc<Semaphore>,
    server_bytes: usize,
    server: Arc<Semaphore>,
    share: usize,
}

/// Bytes that count towards a [`ByteLimit`] until this is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    session: OwnedSemaphorePermit,
    /// None within the session's share.
    _server: Option<OwnedSemaphorePermit>,
}

impl ByteLimit {
    /// Reserves `bytes` if there is room now. A limit of zero has room for nothing.
    pub(super) fn try_reserve(&self, bytes: usize) -> Option<Reservation> {
        if self.bytes == 0 {
            return None;
        }
        unconstrained(self.reserve(bytes)).now_or_never()
    }

    /// Reserves `bytes` when there is room, in the order of the calls.
    pub(super) async fn reserve(&self, bytes: usize) -> Reservation {
        let session = acquire(&self.session, bytes.min(self.bytes)).await;
        let is_within_share = self.bytes - self.session.available_permits() <= self.share;
        let server = match is_within_share {
            true => None,
            false => Some(acquire(&self.server, bytes.min(self.server_bytes)).await),
        };
        Reservation {
            session,
            _server: server,
        }
    }

    /// Returns `text`, which counts until HTTP has sent it or has given it up.
    pub(super) async fn hold(&self, text: Bytes) -> Bytes {
        let reservation = self.reserve(text.len()).await;
        hold(text, [reservation])
    }

    /// Returns true if the session has no room for a piece of a response.
    pub(super) fn is_full(&self) -> bool {
        self.session.available_permits() < PIECE
    }
}

impl Reservation {
    /// Number of bytes that are counted.
    pub(super) fn bytes(&self) -> usize {
        self.session.num_permits()
    }
}

/// Returns `text`, with which these bytes count until the last clone of it is dropped.
pub(super) fn hold(text: Bytes, reservations: impl IntoIterator<Item = Reservation>) -> Bytes {
    Bytes::from_owner(HeldText {
        text,
        _reservations: reservations.into_iter().collect(),
    })
}

struct HeldText {
    text: Bytes,
    _reservations: Vec<Reservation>,
}

impl AsRef<[u8]> for HeldText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, bytes: usize) -> OwnedSemaphorePermit {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let acquired = Arc::clone(semaphore).acquire_many_owned(bytes).await;
    acquired.expect("nobody closes these semaphores")
}

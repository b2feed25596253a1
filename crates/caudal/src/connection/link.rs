//! What the task of a connection and everybody who uses it share.
//!
//! One lock guards it all. It is held for the length of a memory copy, never
//! while a handler, a `Serialize` or a tap of the application runs, and never
//! across an await.

use std::mem::discriminant;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use caudal_core::{CallError, CallId, CloseReason, ErrorDetail, FrameReader, Framing, Pending};
use slab::Slab;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::extensions::Extensions;
use crate::observe::stats::{Counters, Stats};
use crate::peer::State;

use super::id_key::Keys;
use super::incoming::RunningCall;
use super::outgoing::Waiting;
pub(crate) use super::outgoing::{Begun, CallOptions, Extension};
use super::output::Output;

/// What the task of a connection and everybody who uses it share.
///
/// Thousands of them may take turns, and each turn finds what it needs in memory that
/// others have used since. So what every turn looks at stands first, here and in what is
/// in it, and in this order.
#[repr(C)]
pub(crate) struct Link {
    /// Whether the driver has been called since it looked last.
    pub(super) called: AtomicBool,
    /// Whether `Shared::out` has bytes.
    pub(super) has_output: AtomicBool,
    /// Whether the transport has called since it was asked that last.
    pub(super) news: AtomicBool,
    /// Whether it has ended for good.
    pub(super) over: AtomicBool,
    pub(crate) framing: Framing,
    /// Whether it stands for no connection, and so perhaps for many callers.
    pub(super) leads_nowhere: bool,
    /// Whether a lost connection is made again.
    pub(super) reconnects: bool,
    /// Whether the transport must hear of calls that were given up.
    pub(super) keeps_calls: AtomicBool,
    /// How many bytes may wait to be sent.
    pub(super) output: AtomicUsize,
    pub(super) room_wanted: AtomicUsize,
    pub(crate) config: Arc<Config>,
    pub(crate) stats: Counters,
    pub(super) shared: Mutex<Shared>,
    /// Requests of the other side that run outside the driver, or wait to run.
    pub(super) in_flight: AtomicUsize,
    /// Calls that must finish before the next message starts.
    pub(super) barriers: AtomicUsize,
    /// Bytes of answers that wait for room.
    pub(super) undelivered: AtomicUsize,
    /// Bytes of answers that wait for the rest of their batch, or, each on a stream of its
    /// own, for the client to take them.
    pub(super) owed: AtomicUsize,
    /// Messages in a row that were no JSON,
    pub(super) garbage: AtomicUsize,
    /// and how many were run before them.
    pub(super) run_before: AtomicU64,
    /// Lets in who waits for room in `Shared::out`, one after the other.
    pub(super) room: Notify,
    pub(super) state: watch::Sender<State>,
    pub(crate) extensions: Extensions,
    pub(crate) remote: OnceLock<String>,
}

#[repr(C)]
pub(super) struct Shared {
    /// Why nothing new is accepted.
    pub(super) closed: Option<CloseReason>,
    pub(super) driver: Waker,
    /// What the driver has taken over and could not send yet.
    pub(super) unsent: usize,
    /// What handles and late handlers have to send.
    pub(super) out: Output,
    /// Whether the driver takes over no more of it, since it cannot send.
    pub(super) muted: bool,
    pub(super) order: Option<Order>,
    /// See [`Collected`]; only kept where the transport asks for them.
    pub(super) forgotten: Vec<CallId>,
    pub(super) pending: Pending<usize>,
    pub(super) calls: Slab<Waiting>,
    /// Where in it the calls are whose deadlines progress moves.
    pub(super) by_token: Keys,
    pub(super) running: Slab<RunningCall>,
    /// Where in it the calls are that can be cancelled by their ids.
    pub(super) by_id: Keys,
    /// How many calls were made.
    pub(super) made: u64,
    /// How often the connection was lost and made again,
    pub(super) session: u64,
    /// and why, the last time.
    pub(super) lost: Option<CloseReason>,
    /// Ends with the session, and with it every call that it serves.
    pub(super) token: CancellationToken,
}

/// What a handle wants of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Close now.
    Close,
    /// Start nothing new, and close when all is done, or at this time.
    Drain(Instant),
}

/// What the driver finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) order: Option<Order>,
    pub(crate) next_wakeup: Option<Instant>,
    /// Calls of ours that were sent, and that nobody waits for any more.
    pub(crate) forgotten: Vec<CallId>,
    /// Whether the link has a buffer that it may not need.
    pub(crate) has_buffer: bool,
}

impl Link {
    pub(crate) fn new(
        config: Arc<Config>,
        framing: Framing,
        state: State,
        reconnects: bool,
        extensions: Extensions,
    ) -> Arc<Self> {
        Arc::new(Self::make(config, framing, state, reconnects, extensions))
    }

    pub(super) fn make(
        config: Arc<Config>,
        framing: Framing,
        state: State,
        reconnects: bool,
        extensions: Extensions,
    ) -> Self {
        let pending = Pending::new(config.limits.pending, config.id_format)
            .with_old_responses(config.policy.old_responses);
        let output = AtomicUsize::new(config.limits.output);
        Self {
            config,
            framing,
            stats: Counters::default(),
            extensions,
            remote: OnceLock::new(),
            leads_nowhere: false,
            reconnects,
            keeps_calls: AtomicBool::new(false),
            shared: Mutex::new(Shared {
                out: Output::default(),
                muted: false,
                unsent: 0,
                made: 0,
                session: 0,
                lost: None,
                pending,
                calls: Slab::new(),
                driver: Waker::noop().clone(),
                running: Slab::new(),
                by_id: Keys::default(),
                by_token: Keys::default(),
                token: CancellationToken::new(),
                order: None,
                forgotten: Vec::new(),
                closed: None,
            }),
            called: AtomicBool::new(false),
            has_output: AtomicBool::new(false),
            news: AtomicBool::new(false),
            over: AtomicBool::new(false),
            room: Notify::new(),
            room_wanted: AtomicUsize::new(0),
            undelivered: AtomicUsize::new(0),
            output,
            owed: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            barriers: AtomicUsize::new(0),
            state: watch::Sender::new(state),
            garbage: AtomicUsize::new(0),
            run_before: AtomicU64::new(0),
        }
    }

    /// What a handler sees of a connection. Where there is none, many messages that
    /// have nothing to do with one another share it, and each sees its own.
    pub(crate) fn seen(link: &Arc<Self>) -> Arc<Self> {
        if !link.leads_nowhere {
            return Arc::clone(link);
        }
        let own = Self::nowhere(Arc::clone(&link.config));
        if let Some(remote) = link.remote.get() {
            let _ = own.remote.set(remote.clone());
        }
        own
    }

    /// What stands in the place of a connection where there is none.
    pub(crate) fn nowhere(config: Arc<Config>) -> Arc<Self> {
        let none = Extensions::default();
        let link = Arc::new(Self {
            leads_nowhere: true,
            ..Self::make(config, Framing::Line, State::Connecting, false, none)
        });
        link.close(CloseReason::nowhere());
        link.announce_closed(None);
        // Its calls go on all the same.
        link.lock().token = CancellationToken::new();
        link
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing that can panic runs under it.
        self.shared
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn detail(&self) -> ErrorDetail {
        self.config.policy.error_detail
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.stats.snapshot();
        stats.in_flight = self.in_flight.load(Relaxed) as u64;
        stats.pending = self.lock().pending.len() as u64;
        stats
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Says where the connection stands; not under the lock, since it wakes others.
    pub(crate) fn set_state(&self, state: State) {
        self.state.send_if_modified(|now| {
            // Closed is for good.
            let is_new = !now.is_closed() && discriminant(now) != discriminant(&state);
            if is_new {
                self.over.store(state.is_closed(), Release);
                *now = state;
            }
            is_new
        });
    }

    /// Whether it has ended for good; cheaper than to ask for its [`state`](Self::state).
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Appends a framed message, when there is room for it.
    ///
    /// With a `session`, only to that one: an answer belongs to who asked.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was appended.
    pub(crate) async fn append(&self, session: Option<u64>, frame: &[u8]) -> Result<(), CallError> {
        self.append_calls(session, frame, &[]).await
    }

    /// Appends a framed message if there is room at once.
    pub(crate) fn append_now(&self, frame: &[u8]) -> Result<bool, CallError> {
        self.try_append(&mut self.lock(), None, frame)
    }

    /// Appends a framed message that other connections send, too, if there is room at once.
    pub(crate) fn share(&self, frame: &Bytes) -> Result<bool, CallError> {
        self.try_write(&mut self.lock(), None, |out| out.share(frame.clone()))
    }

    pub(super) fn try_append(
        &self,
        shared: &mut Shared,
        session: Option<u64>,
        frame: &[u8],
    ) -> Result<bool, CallError> {
        self.try_write(shared, session, |out| out.text().extend_from_slice(frame))
    }

    pub(super) fn try_write(
        &self,
        shared: &mut Shared,
        session: Option<u64>,
        write: impl FnOnce(&mut Output),
    ) -> Result<bool, CallError> {
        if let Some(reason) = &shared.closed {
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        if session.is_some_and(|session| session != shared.session) {
            let lost = shared.lost.clone();
            let lost = lost.unwrap_or_else(CloseReason::remote);
            return Err(CallError::AlreadyClosed(lost));
        }
        let room = self.has_room(shared);
        if room {
            write(&mut shared.out);
            self.output_waits(shared);
        }
        Ok(room)
    }

    /// Whether more may be written. One message may always be.
    pub(super) fn has_room(&self, shared: &Shared) -> bool {
        let waits = shared.out.waits() + shared.unsent;
        waits == 0 || waits < self.output.load(Relaxed)
    }

    /// Lets no more than so much wait to be sent.
    pub(crate) fn bound_output(&self, bytes: usize) {
        self.output.fetch_min(bytes, Relaxed);
    }

    /// Returns when there may be room, or the connection is closed; if it is a call that
    /// waits (`asks`), also when no answer can come any more.
    pub(crate) async fn wait_for_room(&self, asks: bool) {
        /// Whoever stops waiting, for whatever reason, lets the next one look.
        struct Waiter<'a>(&'a Link);
        impl Drop for Waiter<'_> {
            fn drop(&mut self) {
                if self.0.room_wanted.fetch_sub(1, AcqRel) > 1 {
                    self.0.room.notify_one();
                }
            }
        }
        self.room_wanted.fetch_add(1, AcqRel);
        let _waiter = Waiter(self);
        loop {
            let mut notified = pin!(self.room.notified());
            notified.as_mut().enable();
            {
                let shared = self.lock();
                let ended = shared.closed.is_some() || asks && shared.pending.closed().is_some();
                if ended || self.has_room(&shared) {
                    return;
                }
            }
            notified.await;
        }
    }

    pub(super) fn output_waits(&self, shared: &mut Shared) {
        self.has_output.store(true, Release);
        self.call_driver(shared);
    }

    /// Makes the driver look.
    pub(super) fn call_driver(&self, shared: &mut Shared) {
        if !self.called.swap(true, AcqRel) {
            shared.driver.wake_by_ref();
        }
    }

    pub(crate) fn set_driver(&self, waker: &Waker) {
        self.lock().driver.clone_from(waker);
    }

    /// Begins to drive a connection: whatever there is, is new to it.
    pub(crate) fn begin_driver(&self, waker: &Waker, keeps_calls: bool) {
        self.keeps_calls.store(keeps_calls, Relaxed);
        self.set_driver(waker);
        self.called.store(true, Release);
    }

    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Acquire)
    }

    /// Moves what handles have to send behind what is in `out`.
    #[inline]
    pub(crate) fn collect_output(&self, out: &mut BytesMut) {
        if self.has_output.load(Acquire) {
            let before = out.len();
            self.lock().hand_over(out, &self.has_output);
            self.show(out.get(before..).unwrap_or_default());
        }
    }

    /// Takes over all that there is for the driver.
    pub(crate) fn collect(&self, out: &mut BytesMut) -> Collected {
        let before = out.len();
        let mut shared = self.lock();
        self.called.store(false, Release);
        shared.hand_over(out, &self.has_output);
        let collected = shared.collected();
        drop(shared);
        self.show(out.get(before..).unwrap_or_default());
        collected
    }

    /// What there is for the driver while there is no connection: its output
    /// stays.
    pub(crate) fn look(&self) -> Collected {
        let mut shared = self.lock();
        self.called.store(false, Release);
        shared.collected()
    }

    /// Counts messages that a connection took over and could not send.
    pub(crate) fn count_lost(&self, out: &[u8]) {
        self.stats.dropped(frames(self.framing, out) as u64);
    }

    pub(crate) fn reconnects(&self) -> bool {
        self.reconnects
    }

    /// Keeps what is written from now on for the next connection, if there is one.
    pub(crate) fn mute(&self) {
        self.lock().muted = true;
    }

    /// Says how much could not be sent yet, and lets in who waits for room.
    pub(crate) fn set_unsent(&self, unsent: usize) {
        let mut shared = self.lock();
        shared.unsent = unsent;
        self.let_in(shared);
    }

    /// Lets in who waits for room, if there is some.
    pub(super) fn let_in(&self, shared: MutexGuard<'_, Shared>) {
        let room = self.has_room(&shared);
        drop(shared);
        if room && self.is_room_wanted() {
            self.room.notify_one();
        }
    }

    #[inline]
    pub(crate) fn is_room_wanted(&self) -> bool {
        self.room_wanted.load(Acquire) > 0
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn rest(&self) {
        self.lock().out.rest();
    }
}

impl Shared {
    pub(super) fn collected(&mut self) -> Collected {
        Collected {
            forgotten: std::mem::take(&mut self.forgotten),
            order: self.order,
            next_wakeup: self.pending.next_deadline().map(Instant::from_std),
            has_buffer: self.out.has_buffer(),
        }
    }

    pub(super) fn hand_over(&mut self, out: &mut BytesMut, has_output: &AtomicBool) {
        has_output.store(false, Release);
        if !self.muted {
            self.out.hand_over(out);
        }
    }
}

/// How many frames there are.
pub(super) fn frames(framing: Framing, bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        return 0;
    }
    let (begun, bytes) = match framing {
        // The first may have been sent in part, and has no head then.
        Framing::Header => {
            const HEAD: &[u8] = b"Content-Length: ";
            let head = bytes.windows(HEAD.len()).position(|at| at == HEAD);
            let (rest, whole) = bytes.split_at(head.unwrap_or(bytes.len()));
            (usize::from(!rest.is_empty()), whole)
        }
        _ => (0, bytes),
    };
    let mut reader = FrameReader::new(framing, usize::MAX);
    reader.push(bytes);
    begun + std::iter::from_fn(|| reader.advance().ok().filter(|found| *found)).count()
}

//! What the task of a connection and everybody who uses it share.
//!
//! One lock guards it all. It is held for the length of a memory copy, never
//! while a handler, a `Serialize` or a tap of the application runs, and never
//! across an await.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{
    CallError, CallId, CloseReason, ErrorDetail, FrameReader, Framing, Id, Invalid, Pending,
    RawJson, Response,
};
use slab::Slab;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::extensions::Extensions;
use crate::state::State;
use crate::stats::{Counters, Stats};
use crate::tap::{Direction, Tap};
use crate::time::after;

/// What the task of a connection and everybody who uses it share.
pub(crate) struct Link {
    pub(crate) config: Arc<Config>,
    pub(crate) framing: Framing,
    pub(crate) stats: Counters,
    pub(crate) extensions: Extensions,
    pub(crate) remote: OnceLock<String>,
    /// Whether a lost connection is made again.
    reconnects: bool,
    shared: Mutex<Shared>,
    /// Whether the driver has been called since it looked last.
    called: AtomicBool,
    /// Whether `Shared::out` has bytes.
    has_output: AtomicBool,
    /// Lets in who waits for room in `Shared::out`, one after the other.
    room: Notify,
    room_wanted: AtomicUsize,
    /// Bytes of answers that wait for room.
    undelivered: AtomicUsize,
    /// Requests of the other side that run outside the driver, or wait to run.
    in_flight: AtomicUsize,
    /// Calls that must finish before the next message starts.
    barriers: AtomicUsize,
    state: watch::Sender<State>,
}

struct Shared {
    /// What handles and late handlers have to send.
    out: BytesMut,
    /// What the driver has taken over and could not send yet.
    unsent: usize,
    /// How often the driver has taken `out` over.
    taken: u64,
    /// How many calls were made.
    made: u64,
    /// How often the connection was lost and made again.
    session: u64,
    pending: Pending<usize>,
    calls: Slab<Waiting>,
    driver: Waker,
    running: Slab<RunningCall>,
    /// Ends with the session, and with it every call that it serves.
    token: CancellationToken,
    order: Option<Order>,
    /// Why nothing new is accepted.
    closed: Option<CloseReason>,
}

/// What a handle wants of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Close now.
    Close,
    /// Start nothing new, and close when all is done, or at this time.
    Drain(Instant),
}

/// A call of ours.
struct Waiting {
    id: CallId,
    outcome: Outcome,
    /// Its number among all calls of the connection.
    number: u64,
    /// `Shared::taken` when it was written, and where in `out` it stands.
    written: u64,
    place: std::ops::Range<usize>,
    /// Its frame, if it may be sent again.
    again: Option<Box<[u8]>>,
    extend: Option<Box<Extension>>,
}

enum Outcome {
    Open(Option<Waker>),
    Settled(Result<Box<str>, Box<CallError>>),
}

/// Lets progress move a deadline.
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    /// The token's JSON text.
    pub(crate) token: Box<str>,
    pub(crate) by: Duration,
    pub(crate) ceiling: Instant,
}

/// A call of the other side that runs outside the driver.
struct RunningCall {
    id: Option<Box<str>>,
    token: CancellationToken,
}

/// How one call of ours is made.
#[derive(Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Option<Instant>,
    pub(crate) idempotent: bool,
    pub(crate) extend: Option<Box<Extension>>,
}

/// What the driver finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) order: Option<Order>,
    pub(crate) next_wakeup: Option<Instant>,
}

impl Link {
    pub(crate) fn new(
        config: Arc<Config>,
        framing: Framing,
        state: State,
        reconnects: bool,
    ) -> Arc<Self> {
        let now = Instant::now().into_std();
        let pending = Pending::new(config.limits.pending, config.id_format, now);
        Arc::new(Self {
            config,
            framing,
            stats: Counters::default(),
            extensions: Extensions::default(),
            remote: OnceLock::new(),
            reconnects,
            shared: Mutex::new(Shared {
                out: BytesMut::new(),
                unsent: 0,
                taken: 0,
                made: 0,
                session: 0,
                pending,
                calls: Slab::new(),
                driver: Waker::noop().clone(),
                running: Slab::new(),
                token: CancellationToken::new(),
                order: None,
                closed: None,
            }),
            called: AtomicBool::new(false),
            has_output: AtomicBool::new(false),
            room: Notify::new(),
            room_wanted: AtomicUsize::new(0),
            undelivered: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            barriers: AtomicUsize::new(0),
            state: watch::Sender::new(state),
        })
    }

    /// What stands in the place of a connection where there is none.
    pub(crate) fn nowhere() -> Arc<Self> {
        let link = Self::new(Arc::default(), Framing::Line, State::Connecting, false);
        link.close(CloseReason::failed(NoConnection));
        link.announce_closed(None);
        // Its calls go on all the same.
        link.lock().token = CancellationToken::new();
        link
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
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
            let open = !now.is_closed();
            if open {
                *now = state;
            }
            open
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    // ---- writing ----

    /// Writes one framed message into the driver's output, and shows it to the
    /// tap; what others write is shown when the driver takes it over.
    #[inline]
    pub(crate) fn write_shown<E>(
        &self,
        out: &mut BytesMut,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(tap) = &self.config.tap else {
            return self.framing.write(out, write);
        };
        self.framing.write(out, |out| {
            let start = out.len();
            write(out)?;
            show(tap, Direction::Sent, out.get(start..).unwrap_or_default());
            Ok(())
        })
    }

    /// Shows the tap what came.
    #[inline]
    pub(crate) fn show_received(&self, frame: &[u8]) {
        if let Some(tap) = &self.config.tap {
            show(tap, Direction::Received, frame);
        }
    }

    /// Shows the tap what was taken over.
    fn show(&self, frames: &[u8]) {
        let Some(tap) = &self.config.tap else { return };
        let mut reader = FrameReader::new(self.framing, usize::MAX);
        reader.push(frames);
        while let Ok(Some(frame)) = reader.next_frame() {
            show(tap, Direction::Sent, frame);
        }
    }

    /// Appends a framed message, when there is room for it.
    ///
    /// With a `session`, only to that one: an answer belongs to who asked.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was appended.
    pub(crate) async fn append(&self, session: Option<u64>, frame: &[u8]) -> Result<(), CallError> {
        while !self.try_append(session, frame)? {
            self.wait_for_room().await;
        }
        Ok(())
    }

    fn try_append(&self, session: Option<u64>, frame: &[u8]) -> Result<bool, CallError> {
        let mut shared = self.lock();
        if let Some(reason) = &shared.closed {
            return Err(CallError::AlreadyClosed(reason.clone()));
        }
        if session.is_some_and(|session| session != shared.session) {
            return Err(CallError::Cancelled);
        }
        let room = self.has_room(&shared);
        if room {
            shared.out.extend_from_slice(frame);
            self.output_waits(&mut shared);
        }
        Ok(room)
    }

    /// Whether more may be written. One message may always be.
    fn has_room(&self, shared: &Shared) -> bool {
        let waits = shared.out.len() + shared.unsent;
        waits == 0 || waits < self.config.limits.output
    }

    /// Returns when there may be room, or the connection is closed.
    pub(crate) async fn wait_for_room(&self) {
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
                if shared.closed.is_some() || self.has_room(&shared) {
                    return;
                }
            }
            notified.await;
        }
    }

    fn output_waits(&self, shared: &mut Shared) {
        self.has_output.store(true, Release);
        self.call_driver(shared);
    }

    /// Makes the driver look.
    fn call_driver(&self, shared: &mut Shared) {
        if !self.called.swap(true, AcqRel) {
            shared.driver.wake_by_ref();
        }
    }

    // ---- calls of ours ----

    /// Writes a call and lets its caller wait; `frame` appends it with its id.
    /// `None` if there is no room for it.
    pub(crate) fn try_call(
        &self,
        options: &mut CallOptions,
        frame: impl FnOnce(&mut BytesMut, CallId),
    ) -> Result<Option<usize>, CallError> {
        let mut guard = self.lock();
        let shared = &mut *guard;
        if shared.closed.is_none() && !self.has_room(shared) {
            return Ok(None);
        }
        let key = self.insert_call(shared, options)?;
        let start = shared.out.len();
        let Some(waiting) = shared.calls.get_mut(key) else {
            unreachable!("it was just inserted");
        };
        let written: Result<(), std::convert::Infallible> =
            self.framing.write(&mut shared.out, |out| {
                frame(out, waiting.id);
                Ok(())
            });
        let Ok(()) = written;
        waiting.place = start..shared.out.len();
        if options.idempotent && self.reconnects {
            waiting.again = shared.out.get(start..).map(Into::into);
        }
        self.output_waits(shared);
        Ok(Some(key))
    }

    /// Lets a caller wait for an answer to a call that is written later.
    pub(crate) fn begin_call(
        &self,
        options: &mut CallOptions,
    ) -> Result<(usize, CallId, u64), CallError> {
        let mut shared = self.lock();
        let key = self.insert_call(&mut shared, options)?;
        match shared.calls.get(key) {
            Some(waiting) => Ok((key, waiting.id, shared.session)),
            None => unreachable!("it was just inserted"),
        }
    }

    fn insert_call(
        &self,
        shared: &mut Shared,
        options: &mut CallOptions,
    ) -> Result<usize, CallError> {
        let entry = shared.calls.vacant_entry();
        let key = entry.key();
        let deadline = options.deadline.map(Instant::into_std);
        let id = shared.pending.insert(key, deadline)?;
        entry.insert(Waiting {
            id,
            outcome: Outcome::Open(None),
            number: shared.made,
            written: shared.taken,
            place: 0..0,
            again: None,
            extend: options.extend.take(),
        });
        shared.made += 1;
        self.stats.called();
        Ok(key)
    }

    /// The outcome of a call, once there is one. Then it is gone.
    pub(crate) fn poll_outcome(
        &self,
        cx: &mut Context<'_>,
        key: usize,
    ) -> Poll<Result<Box<str>, CallError>> {
        let mut shared = self.lock();
        let Some(waiting) = shared.calls.get_mut(key) else {
            return Poll::Ready(Err(CallError::Cancelled));
        };
        if let Outcome::Open(waker) = &mut waiting.outcome {
            match waker {
                Some(waker) if waker.will_wake(cx.waker()) => {}
                waker => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        match shared.calls.remove(key).outcome {
            Outcome::Settled(outcome) => Poll::Ready(outcome.map_err(|error| {
                self.stats.call_failed();
                *error
            })),
            Outcome::Open(_) => unreachable!("it was settled above"),
        }
    }

    /// Forgets a call whose caller has gone, and tells the other side if there
    /// is a way to.
    pub(crate) fn forget(&self, key: usize) {
        let mut shared = self.lock();
        let Some(waiting) = shared.calls.try_remove(key) else {
            return;
        };
        self.stats.call_failed();
        if shared.pending.cancel(waiting.id).is_some() && !shared.take_back(&waiting) {
            self.tell_cancelled(&mut shared, waiting.id);
        }
        // Its waker is somebody else's.
        drop(shared);
        drop(waiting);
    }

    /// Gives up a call that was begun and never written.
    pub(crate) fn abandon(&self, id: CallId) {
        let mut shared = self.lock();
        if let Some(key) = shared.pending.cancel(id) {
            let waker = shared.settle(key, Err(CallError::Cancelled));
            drop(shared);
            wake(waker);
        }
    }

    fn tell_cancelled(&self, shared: &mut Shared, id: CallId) {
        let Some(cancel) = &self.config.dialect.cancel else {
            return;
        };
        let params = std::collections::BTreeMap::from([(&*cancel.member, id.to_request_id())]);
        let written = self.framing.write(&mut shared.out, |out| {
            caudal_core::encode::notification(out, &cancel.method, &params)
        });
        debug_assert!(written.is_ok(), "the scheme names a method");
        self.output_waits(shared);
    }

    /// Hands an answer to whoever waits for it.
    pub(crate) fn settle(&self, response: &Response<'_>) {
        let outcome = match &response.outcome {
            Ok(result) => Ok(result.as_str().into()),
            Err(error) => Err(CallError::Remote(error.clone().into())),
        };
        self.settle_with(response.id, outcome);
    }

    /// Fails the call that an invalid answer was meant for.
    pub(crate) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        let error = CallError::Response(invalid.cause.clone());
        self.settle_with(invalid.id, Err(error));
    }

    fn settle_with(&self, id: Id<'_>, outcome: Result<Box<str>, CallError>) {
        let mut shared = self.lock();
        match shared.pending.take(id) {
            Some(key) => {
                let waker = shared.settle(key, outcome);
                drop(shared);
                wake(waker);
            }
            None => {
                drop(shared);
                self.stats.late_reply();
                tracing::debug!(target: "caudal", %id, "an answer that nobody waits for");
            }
        }
    }

    /// Fails every call whose time is up.
    pub(crate) fn expire(&self) {
        let mut shared = self.lock();
        let due: Vec<_> = shared.pending.expire(Instant::now().into_std()).collect();
        let mut wakers = Vec::new();
        for (id, key) in &due {
            wakers.extend(shared.settle(*key, Err(CallError::Timeout)));
            if !shared.take_back_settled(*key) {
                self.tell_cancelled(&mut shared, *id);
            }
        }
        // Whether or not anything was due, the next deadline is another.
        self.called.store(true, Release);
        drop(shared);
        wakers.into_iter().for_each(Waker::wake);
        for (id, _) in due {
            tracing::info!(target: "caudal", %id, "no answer came in time");
        }
    }

    // ---- conventions ----

    /// Whether a method belongs to the conventions of the connection.
    #[inline]
    pub(crate) fn knows(&self, method: &str) -> bool {
        let dialect = &self.config.dialect;
        dialect
            .cancel
            .as_ref()
            .is_some_and(|cancel| cancel.method == method)
            || dialect
                .progress
                .as_ref()
                .is_some_and(|progress| progress.method == method)
    }

    /// Acts on a notification of the conventions; `true` if that was all.
    pub(crate) fn convention(&self, method: &str, params: Option<RawJson<'_>>) -> bool {
        let dialect = &self.config.dialect;
        match (&dialect.cancel, &dialect.progress) {
            (Some(cancel), _) if cancel.method == method => {
                if let Some(id) = member(params, &cancel.member) {
                    self.cancel(&id);
                }
                true
            }
            (_, Some(progress)) if progress.method == method => {
                if let Some(token) = member(params, &progress.member) {
                    self.progress(&token);
                }
                // An application may listen to it as well.
                false
            }
            _ => false,
        }
    }

    /// Cancels what the other side has called under this id.
    fn cancel(&self, id: &str) {
        let shared = self.lock();
        let same = |call: &&RunningCall| call.id.as_deref().is_some_and(|own| same_id(own, id));
        let running = shared.running.iter().map(|(_, call)| call);
        let tokens: Vec<_> = running
            .filter(same)
            .map(|call| call.token.clone())
            .collect();
        drop(shared);
        tokens.iter().for_each(CancellationToken::cancel);
    }

    /// Moves the deadline of the call that reports progress under this token.
    fn progress(&self, token: &str) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let now = Instant::now();
        for (_, waiting) in &shared.calls {
            if let Some(extend) = &waiting.extend
                && same_id(&extend.token, token)
            {
                let deadline = after(now, extend.by).min(extend.ceiling);
                shared
                    .pending
                    .set_deadline(waiting.id, Some(deadline.into_std()));
            }
        }
        self.call_driver(shared);
    }

    // ---- calls of the other side ----

    /// Whether no further request may start beside `more` that are about to.
    #[inline]
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.in_flight.load(Relaxed) + more >= self.config.limits.in_flight
    }

    pub(crate) fn count_in_flight(&self, request: bool) {
        self.in_flight.fetch_add(usize::from(request), Relaxed);
    }

    pub(crate) fn uncount_in_flight(&self, request: bool) {
        self.in_flight.fetch_sub(usize::from(request), Release);
    }

    /// Whether a call must finish before the next message starts.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.barriers.load(Acquire) > 0
    }

    /// Whether calls of the other side run outside the driver.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_held() || self.in_flight.load(Acquire) > 0
    }

    /// Whether calls of ours wait for an answer.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lock().pending.is_empty()
    }

    /// Notes a call that runs outside the driver.
    pub(crate) fn enter(
        &self,
        id: Option<Box<str>>,
        token: CancellationToken,
        holds: bool,
    ) -> (usize, u64) {
        self.count_in_flight(id.is_some());
        if holds {
            self.barriers.fetch_add(1, AcqRel);
        }
        let mut shared = self.lock();
        let key = shared.running.insert(RunningCall { id, token });
        (key, shared.session)
    }

    /// A token that fires when the session ends, if nothing fires it before.
    pub(crate) fn token(&self) -> CancellationToken {
        self.session_token().child_token()
    }

    pub(crate) fn session_token(&self) -> CancellationToken {
        self.lock().token.clone()
    }

    /// Counts an answer that waits for room.
    pub(crate) fn count_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_add(bytes, AcqRel);
    }

    pub(crate) fn uncount_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_sub(bytes, AcqRel);
    }

    /// Whether so much waits to be sent that nothing new should begin.
    #[inline]
    pub(crate) fn is_output_full(&self, out: usize) -> bool {
        let waits = out + self.undelivered.load(Relaxed);
        waits > 0 && waits >= self.config.limits.output
    }

    /// Notes that it has ended.
    pub(crate) fn leave(&self, key: usize, holds: bool) {
        let mut shared = self.lock();
        let call = shared.running.remove(key);
        self.uncount_in_flight(call.id.is_some());
        if holds {
            self.barriers.fetch_sub(1, AcqRel);
        }
        self.call_driver(&mut shared);
    }

    // ---- the driver ----

    pub(crate) fn set_driver(&self, waker: &Waker) {
        self.lock().driver.clone_from(waker);
    }

    /// Begins to drive a connection: whatever there is, is new to it.
    pub(crate) fn begin_driver(&self, waker: &Waker) {
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
        let shared = self.lock();
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

    /// Says how much could not be sent yet, and lets in who waits for room.
    pub(crate) fn set_unsent(&self, unsent: usize) {
        let mut shared = self.lock();
        shared.unsent = unsent;
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
        let mut shared = self.lock();
        if shared.out.is_empty() && shared.out.capacity() > 0 {
            let out = std::mem::take(&mut shared.out);
            drop(shared);
            crate::pool::give(out);
        }
    }

    pub(crate) fn order(&self, order: Order) {
        let mut shared = self.lock();
        shared.order = match (shared.order, order) {
            (Some(Order::Close), _) | (_, Order::Close) => Some(Order::Close),
            (Some(Order::Drain(one)), Order::Drain(other)) => Some(Order::Drain(one.min(other))),
            (None, order) => Some(order),
        };
        let closes = matches!(shared.order, Some(Order::Close)) && shared.closed.is_none();
        let mut wakers = Vec::new();
        if closes {
            let reason = CloseReason::local();
            wakers = shared.fail_calls(&reason);
            shared.closed = Some(reason);
        }
        self.call_driver(&mut shared);
        drop(shared);
        if closes {
            self.set_state(State::Draining);
            self.room.notify_waiters();
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends a connection that will be made again. Calls that were not sent yet
    /// stay, and so do those that may be repeated; all others fail, and are
    /// counted.
    pub(crate) fn interrupt(&self, reason: &CloseReason) -> usize {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let (taken, old) = (shared.taken, std::mem::take(&mut shared.out));
        let (mut lose, mut keep) = (Vec::new(), Vec::new());
        for (key, waiting) in &mut shared.calls {
            if !matches!(waiting.outcome, Outcome::Open(_)) {
                continue;
            }
            let unsent = waiting.written == taken;
            let frame = match (unsent, &waiting.again) {
                (true, _) => old
                    .get(waiting.place.clone())
                    .filter(|frame| !frame.is_empty()),
                (false, again) => again.as_deref(),
            };
            match frame {
                Some(frame) => keep.push((waiting.number, key, frame.to_vec(), unsent)),
                None => lose.push((waiting.id, key)),
            }
        }
        let failed = lose.len();
        let kept = keep.iter().filter(|(_, _, _, unsent)| *unsent).count();
        let lost = frames(self.framing, &old).saturating_sub(kept);
        self.stats.dropped(lost as u64);
        let mut wakers = Vec::new();
        for (id, key) in lose {
            shared.pending.cancel(id);
            wakers.extend(shared.settle(key, Err(CallError::Closed(reason.clone()))));
        }
        keep.sort_unstable();
        for (_, key, frame, _) in keep {
            let start = shared.out.len();
            shared.out.extend_from_slice(&frame);
            if let Some(waiting) = shared.calls.get_mut(key) {
                waiting.place = start..shared.out.len();
                waiting.written = taken;
            }
        }
        shared.unsent = 0;
        shared.session += 1;
        self.has_output.store(!shared.out.is_empty(), Release);
        self.called.store(true, Release);
        let token = std::mem::take(&mut shared.token);
        drop(guard);
        self.set_state(State::Connecting);
        token.cancel();
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
        failed
    }

    /// Fails every call that waits: no answer can come any more.
    pub(crate) fn fail_calls(&self, reason: &CloseReason) {
        let mut guard = self.lock();
        let wakers = guard.fail_calls(reason);
        drop(guard);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends it for good: every call that waits fails, and so does every new one.
    pub(crate) fn close(&self, reason: CloseReason) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let reason = &*shared.closed.get_or_insert(reason);
        let reason = reason.clone();
        let wakers = shared.fail_calls(&reason);
        let token = shared.token.clone();
        shared.out = BytesMut::new();
        shared.unsent = 0;
        self.has_output.store(false, Release);
        drop(guard);
        token.cancel();
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells everybody who watches that it has ended; all else is done.
    ///
    /// `more` may say more about the end than was known before.
    pub(crate) fn announce_closed(&self, more: Option<CloseReason>) {
        let mut shared = self.lock();
        if let Some(more) = more {
            shared.closed = Some(more);
        }
        let reason = shared.closed.clone();
        drop(shared);
        if let Some(reason) = reason {
            self.set_state(State::Closed(reason));
        }
    }
}

impl Shared {
    fn collected(&self) -> Collected {
        Collected {
            order: self.order,
            next_wakeup: self.pending.next_wakeup().map(Instant::from_std),
        }
    }

    fn fail_calls(&mut self, reason: &CloseReason) -> Vec<Waker> {
        let failed: Vec<_> = self.pending.close(reason.clone()).collect();
        let settled = failed.into_iter().filter_map(|(key, error)| {
            let unsent = self.calls.get(key).is_some_and(|call| self.is_unsent(call));
            let error = match unsent {
                true => CallError::AlreadyClosed(reason.clone()),
                false => error,
            };
            self.settle(key, Err(error))
        });
        settled.collect()
    }

    /// Whether a call is written and still here.
    fn is_unsent(&self, call: &Waiting) -> bool {
        call.written == self.taken && !call.place.is_empty()
    }

    /// Takes a call that was not sent out of the output; `false` if it was.
    fn take_back(&mut self, call: &Waiting) -> bool {
        let unsent = self.is_unsent(call);
        if unsent {
            self.cut(call.place.clone());
        }
        unsent
    }

    /// The same for one that is settled, but still in its slot.
    fn take_back_settled(&mut self, key: usize) -> bool {
        let Some(call) = self.calls.get(key).filter(|call| self.is_unsent(call)) else {
            return false;
        };
        self.cut(call.place.clone());
        if let Some(call) = self.calls.get_mut(key) {
            call.place = 0..0;
        }
        true
    }

    /// Cuts a piece out of the output, and moves up what is behind it.
    fn cut(&mut self, piece: std::ops::Range<usize>) {
        let rest = self.out.split_off(piece.end);
        self.out.truncate(piece.start);
        self.out.extend_from_slice(&rest);
        for (_, call) in &mut self.calls {
            if call.written == self.taken && call.place.start >= piece.end {
                call.place = call.place.start - piece.len()..call.place.end - piece.len();
            }
        }
    }

    /// Settles a call, unless it has gone; its caller is to be woken.
    fn settle(&mut self, key: usize, outcome: Result<Box<str>, CallError>) -> Option<Waker> {
        let waiting = self.calls.get_mut(key)?;
        let settled = Outcome::Settled(outcome.map_err(Box::new));
        match std::mem::replace(&mut waiting.outcome, settled) {
            Outcome::Open(waker) => waker,
            Outcome::Settled(_) => unreachable!("a call leaves the table once"),
        }
    }

    fn hand_over(&mut self, out: &mut BytesMut, has_output: &AtomicBool) {
        has_output.store(false, Release);
        if self.out.is_empty() {
            return;
        }
        self.taken += 1;
        match out.is_empty() {
            true => std::mem::swap(out, &mut self.out),
            false => {
                out.extend_from_slice(&self.out);
                self.out.clear();
            }
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A tap that panics loses that message, and nothing else.
fn show(tap: &Arc<dyn Tap>, direction: Direction, bytes: &[u8]) {
    let shown = catch_unwind(AssertUnwindSafe(|| tap.message(direction, bytes)));
    if shown.is_err() {
        tracing::error!(target: "caudal", "the tap panicked");
    }
}

/// How many frames there are.
fn frames(framing: Framing, bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        return 0;
    }
    let mut reader = FrameReader::new(framing, usize::MAX);
    reader.push(bytes);
    std::iter::from_fn(|| reader.advance().ok().filter(|found| *found)).count()
}

/// The JSON text of one member of params by name.
pub(super) fn member(params: Option<RawJson<'_>>, name: &str) -> Option<String> {
    let mut members: std::collections::HashMap<String, Box<serde_json::value::RawValue>> =
        params?.read().ok()?;
    members.remove(name).map(|value| value.get().to_owned())
}

/// Whether two JSON texts are the same id.
pub(super) fn same_id(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    match (Id::parse(one), Id::parse(other)) {
        (Ok(one), Ok(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            (None, None) => one
                .as_string()
                .is_some_and(|one| other.as_string() == Some(one)),
            _ => false,
        },
        _ => false,
    }
}

/// There is nobody to call.
#[derive(Debug, thiserror::Error)]
#[error("the message came without a connection, so there is nobody to call")]
struct NoConnection;

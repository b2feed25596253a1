//! The task of a connection: it alone reads and writes.
//!
//! Each turn takes over what handles want sent, receives a burst of frames, runs
//! what is in them, and sends all that is due in one go; in two, where that keeps the
//! other side busy (`pace`).

mod pace;
mod queue;
mod waiting;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, Message};
use tokio::time::{Instant, Sleep, sleep_until};

use self::pace::{EARLY, Pace};
use self::queue::Queue;
use super::link::{Collected, Link, Order};
use super::running::{self, OpenBatch, Place};
use crate::dispatch::{self, Dispatched, Exchange, Unready};
use crate::pool;
use crate::router::Router;
use crate::state::State;
use crate::time::after;
use crate::trace::Traces;
use crate::transport::{ReceiveError, ShuttingDown, Transport};

/// Output is sent when there is so much of it, even if more frames wait.
const BURST: usize = 64 << 10;
/// And so are so many frames, which may ask for no answer.
const FRAMES: usize = 1024;
/// So many bursts one poll may take before other tasks have their turn.
const TURNS: usize = 8;
/// And so much input. Whoever works for long without a pause keeps the worker from looking
/// for the input of others, and nobody else may be awake to do so: to be woken again is
/// what wakes another worker.
const INPUT: u64 = 128 << 10;

/// So long a connection that is closed may take to send what was written.
const FLUSH: Duration = Duration::from_secs(2);

/// Runs one connection until it ends, and says why it did.
pub(super) struct Driver<'t> {
    transport: &'t mut dyn Transport,
    core: Core,
}

/// All but the transport, which lends its frames.
struct Core {
    link: Arc<Link>,
    router: Arc<Router>,
    out: BytesMut,
    /// Whether the transport could not take all of it.
    stalled: bool,
    pace: Pace,
    queue: Queue,
    /// How much of it the transport was told of.
    queued: usize,
    collected: Collected,
    timer: Option<Pin<Box<Sleep>>>,
    /// Why and until when the connection goes on without input.
    ending: Option<(CloseReason, Instant)>,
    refusing: bool,
    /// Whether only what is written already is still sent.
    closing: bool,
    /// Whether nothing can be sent any more.
    muted: bool,
    /// Why that could not be sent.
    unsendable: Option<io::Error>,
    last_active: Option<Instant>,
    /// Whether something was under way when it looked last.
    was_busy: bool,
    /// By when the message that is coming in must be whole.
    whole_by: Option<Instant>,
    /// By when the other side must read, if we do not read before it does,
    read_by: Option<Instant>,
    /// and what had gone out when that was set.
    gone: Option<u64>,
    /// Bytes that have come in.
    received: u64,
    /// Whether the link may hold a buffer of ours.
    swapped: bool,
    registered: bool,
}

/// Why no more frames are received for now.
enum Stop {
    /// There is none.
    Empty,
    /// Something else is to be done first.
    Busy,
}

impl<'t> Driver<'t> {
    pub(super) fn new(
        transport: &'t mut dyn Transport,
        link: &Arc<Link>,
        router: &Arc<Router>,
    ) -> Self {
        let idle = link.config.idle_timeout;
        Self {
            transport,
            core: Core {
                link: Arc::clone(link),
                router: Arc::clone(router),
                out: BytesMut::new(),
                stalled: false,
                pace: Pace::default(),
                queue: Queue::default(),
                queued: 0,
                collected: Collected::default(),
                timer: None,
                ending: None,
                refusing: false,
                closing: false,
                muted: false,
                unsendable: None,
                last_active: (!idle.is_zero()).then(Instant::now),
                was_busy: false,
                whole_by: None,
                read_by: None,
                gone: None,
                received: 0,
                swapped: false,
                registered: false,
            },
        }
    }

    /// Why something was left unsent in the end, if it was.
    pub(super) fn unsent(mut self) -> Option<CloseReason> {
        let late = || (!self.core.out.is_empty()).then(Unsent::late);
        let cause = self.core.unsendable.take().or_else(late);
        cause.map(CloseReason::failed)
    }

    /// Receives so many frames at most, and runs what is in them.
    fn receive(&mut self, cx: &mut Context<'_>, most: usize) -> Result<Stop, CloseReason> {
        let Self { transport, core } = self;
        let (mut bytes, mut frames) = (0_u64, 0);
        let stop = loop {
            // While nothing can be sent, reading must go on: the other side may
            // wait for us to read before it reads.
            let due = core.out.len() >= BURST && !core.stalled;
            if due || frames >= most || bytes >= INPUT || !core.may_read() {
                break Ok(Stop::Busy);
            }
            match transport.poll_receive(cx) {
                Poll::Pending => break Ok(Stop::Empty),
                Poll::Ready(Ok(Some(frame))) => {
                    core.whole_by = None;
                    bytes += frame.len() as u64;
                    core.on_frame(frame);
                    core.tell_queued(*transport);
                }
                Poll::Ready(Ok(None)) => core.input_ended(CloseReason::remote()),
                Poll::Ready(Err(ReceiveError::Frame(error))) => {
                    let answers = core.link.settle_skipped(&error, transport.skipped());
                    // Whoever reads nothing is told nothing.
                    if !answers && !core.link.is_output_full(core.out.len()) {
                        core.exchange().bad_frame(&error);
                    }
                    if error.is_fatal() {
                        core.input_ended(CloseReason::failed(error));
                    }
                }
                Poll::Ready(Err(ReceiveError::Fatal(error))) => {
                    core.exchange().bad_frame(&error);
                    core.input_ended(CloseReason::failed(error));
                }
                Poll::Ready(Err(ReceiveError::Dropped)) => core.link.stats.dropped(1),
                Poll::Ready(Err(ReceiveError::Closed(reason))) => break Err(reason),
            }
            frames += 1;
        };
        core.pace.received(frames);
        if !core.may_read() {
            // Nobody looks whether the rest of it has come.
            core.whole_by = None;
        }
        // Only what is begun and not done when there is nothing to read is late.
        if matches!(stop, Ok(Stop::Empty)) {
            let limit = core.link.config.message_timeout;
            if !transport.is_amid_frame() {
                // It was nothing that is passed on, such as a ping.
                core.whole_by = None;
            } else if !limit.is_zero() && core.whole_by.is_none() {
                core.whole_by = Some(after(Instant::now(), limit));
            }
        }
        let received = transport.received().unwrap_or(core.received + bytes);
        if received > core.received {
            core.link.stats.received(received - core.received);
            core.received = received;
            core.is_active();
        }
        stop
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        let Self { transport, core } = self;
        if core.out.is_empty() && !core.stalled {
            return Ok(());
        }
        if core.muted {
            core.lose_output();
            return Ok(());
        }
        let before = core.out.len();
        let sent = loop {
            let left = core.out.len();
            match transport.poll_send(cx, &mut core.out) {
                // It may have taken a part only, and waits for nothing.
                Poll::Ready(Ok(())) if core.out.is_empty() => break Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) if core.out.len() < left => {}
                Poll::Ready(Ok(())) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                other => break other,
            }
        };
        let count = before - core.out.len();
        core.link.stats.sent(count);
        if core.read_by.is_some() {
            // What it holds back itself may have gone out.
            let gone = transport.sent();
            if count > 0 || gone != core.gone {
                core.read_by = None;
                core.gone = gone;
            }
        }
        core.is_active();
        if count > 0
            && core.collected.order.is_none()
            && let Some((reason, deadline)) = &mut core.ending
            && !reason.is_local()
        {
            // Who has said all and still reads is waited for.
            *deadline = after(Instant::now(), core.link.config.drain_timeout);
        }
        match sent {
            Poll::Ready(Ok(())) => {
                if core.stalled || core.link.is_room_wanted() {
                    core.stalled = false;
                    core.link.set_unsent(0);
                }
                Ok(())
            }
            Poll::Ready(Err(error))
                if core.ending.is_none() && is_gone(&error) && core.link.has_pending() =>
            {
                core.mute(error);
                Ok(())
            }
            // If the other side has ended its output before, and takes no more, it is gone
            // in good order.
            Poll::Ready(Err(error)) => Err(match core.ending.take() {
                Some((reason, _)) if reason.is_local() || is_gone(&error) => {
                    core.unsendable = Some(error);
                    reason
                }
                _ => CloseReason::failed(error),
            }),
            Poll::Pending => {
                core.stalled = true;
                core.link.set_unsent(core.out.len());
                Ok(())
            }
        }
    }
}

impl Future for Driver<'_> {
    type Output = CloseReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let this = &mut *self;
        if !this.core.registered {
            this.core.registered = true;
            let keeps_calls = this.transport.keeps_calls();
            this.core.link.begin_driver(cx.waker(), keeps_calls);
        }
        this.core.pace.begin();
        let before = this.core.received;
        for turn in 0..TURNS {
            if let Some(reason) = this.core.look() {
                // What was written by then goes out if it can go at once; if not, that is
                // said beside this reason.
                let _ = this.send(cx);
                return Poll::Ready(reason);
            }
            for id in this.core.collected.forgotten.drain(..) {
                this.transport.forget(&id.to_request_id());
            }
            this.core.run_queue();
            this.core.tell_queued(this.transport);
            // What callers have asked since they had their answers goes first.
            let early = turn == 0 && this.core.pace.is_early();
            if early && let Err(reason) = this.send(cx) {
                return Poll::Ready(reason);
            }
            let first = early && this.core.pace.is_first();
            let most = if first { EARLY } else { FRAMES };
            let stop = match this.receive(cx, most) {
                Ok(stop) => stop,
                Err(reason) => return Poll::Ready(reason),
            };
            if let Err(reason) = this.send(cx) {
                return Poll::Ready(reason);
            }
            if let Some(reason) = this.core.is_finished() {
                return Poll::Ready(reason);
            }
            let wait = matches!(stop, Stop::Empty) || !this.core.may_read();
            if first && !wait && this.core.link.has_pending() {
                // Who has an answer may call again before the others have theirs.
                break;
            }
            if wait && !this.core.link.is_called() && !this.core.may_run_queue() {
                this.core.pace.rest();
                this.core.rest(cx);
                return Poll::Pending;
            }
            if this.core.received - before >= INPUT {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Core {
    fn exchange(&mut self) -> Exchange<'_> {
        Exchange::inline(&self.link, &mut self.out)
    }

    /// Takes over what handles and timers want; `Some` if it is to end.
    fn look(&mut self) -> Option<CloseReason> {
        let elapsed = self.timer.as_ref().is_some_and(|timer| timer.is_elapsed());
        if elapsed {
            self.timer = None;
        }
        // While input goes on no timer is set.
        let next = self.collected.next_wakeup;
        if elapsed || next.is_some_and(|next| next <= Instant::now()) {
            self.link.expire();
        }
        if self.link.is_called() {
            self.collected = self.link.collect(&mut self.out);
            self.swapped = true;
        }
        match self.collected.order {
            Some(Order::Close) if !self.closing => {
                self.closing = true;
                self.ending = Some((CloseReason::local(), Instant::now() + FLUSH));
            }
            Some(Order::Drain(deadline)) => {
                if self.ending.is_none() {
                    self.refusing = true;
                    self.link.set_state(State::Draining);
                }
                let reason = || (CloseReason::local_with(ShuttingDown), deadline);
                let end = self.ending.get_or_insert_with(reason);
                end.1 = end.1.min(deadline);
            }
            _ => {}
        }
        if self.last_active.is_some() {
            // What has just ended was no idleness.
            let is_busy = self.is_under_way();
            if std::mem::replace(&mut self.was_busy, is_busy) {
                self.is_active();
            }
        }
        let now = || Instant::now();
        match &self.ending {
            Some((reason, deadline)) if *deadline <= now() => Some(reason.clone()),
            None if self.whole_by.is_some_and(|deadline| deadline <= now()) => {
                Some(CloseReason::failed(Slow))
            }
            None if self.read_by.is_some_and(|deadline| deadline <= now()) => {
                Some(CloseReason::failed(Stuck))
            }
            None if self
                .idle_deadline()
                .is_some_and(|deadline| deadline <= now()) =>
            {
                Some(CloseReason::local_with(Idle))
            }
            _ => None,
        }
    }

    /// When the connection has been idle for too long.
    fn idle_deadline(&self) -> Option<Instant> {
        let last = self.last_active?;
        (!self.is_under_way()).then(|| after(last, self.link.config.idle_timeout))
    }

    /// Whether something is being done, or waited for.
    fn is_under_way(&self) -> bool {
        self.link.is_busy() || self.link.has_pending() || !self.out.is_empty()
    }

    fn is_active(&mut self) {
        if let Some(last) = &mut self.last_active {
            *last = Instant::now();
        }
    }

    /// Whether there is room for what may come in.
    fn may_read(&self) -> bool {
        if self.input_is_over() {
            return false;
        }
        let limits = &self.link.config.limits;
        if !self.queue.is_full(limits.in_flight, limits.queue) {
            return true;
        }
        // Our own calls may wait for an answer that is behind what is in the way.
        !self.link.is_output_full(self.out.len()) && self.link.has_pending()
    }

    fn input_is_over(&self) -> bool {
        self.ending.is_some() && (self.closing || !self.refusing)
    }

    fn input_ended(&mut self, reason: CloseReason) {
        if self.link.reconnects() {
            // What runs was asked for by a session that is over.
            self.closing = true;
            self.ending = Some((reason, Instant::now()));
            return;
        }
        let deadline = after(Instant::now(), self.link.config.drain_timeout);
        let deadline = match self.ending.take() {
            Some((_, earlier)) => earlier.min(deadline),
            None => deadline,
        };
        self.ending = Some((reason.clone(), deadline));
        self.refusing = false;
        self.link.set_state(State::Draining);
        // No answer can come any more.
        self.link.fail_calls(&reason);
    }

    /// Nobody reads what is sent. Who has answered our calls and gone has answered them all
    /// the same, so what it has sent before is read, for a while.
    #[cold]
    fn mute(&mut self, error: io::Error) {
        self.muted = true;
        self.refusing = true;
        self.ending = Some((CloseReason::failed(error), Instant::now() + FLUSH));
        if !self.link.reconnects() {
            self.link.set_state(State::Draining);
        }
        self.lose_output();
    }

    fn lose_output(&mut self) {
        self.link.count_lost(&self.out);
        self.out.clear();
        self.stalled = false;
        self.link.set_unsent(0);
    }

    /// Whether all is done that had to be done before the end.
    fn is_finished(&self) -> Option<CloseReason> {
        let (reason, _) = self.ending.as_ref()?;
        // Answers to our own calls can still come while there is input.
        let answered = !self.link.has_pending();
        let idle = self.queue.is_empty() && !self.link.is_busy() && answered;
        let done = (idle || self.closing || self.muted && answered)
            && self.out.is_empty()
            && !self.stalled
            && !self.link.is_called();
        done.then(|| reason.clone())
    }

    #[inline]
    fn on_frame(&mut self, frame: &[u8]) {
        if self.out.capacity() == 0 {
            self.out = pool::take();
        }
        self.link.show_received(frame);
        if self.must_wait() || self.refusing || self.link.is_full(0) {
            return self.hold(frame);
        }
        let mut exchange = Exchange::inline(&self.link, &mut self.out);
        match dispatch::frame(&self.router, frame, &mut exchange) {
            Dispatched::Done => {}
            more => self.go_on(more),
        }
    }

    /// Starts what was [held](Self::hold) before.
    fn start(&mut self, message: &Message<'_>, traces: Traces) {
        let mut exchange = Exchange::inline(&self.link, &mut self.out);
        exchange.heeded = matches!(message, Message::Notification(_));
        match dispatch::message(&self.router, message, traces, &mut exchange) {
            Dispatched::Done => {}
            more => self.go_on(more),
        }
    }

    /// Moves out what must wait.
    fn go_on(&mut self, dispatched: Dispatched) {
        match dispatched {
            Dispatched::Done => {}
            Dispatched::Later(later) => running::spawn(&self.link, *later, Place::Alone),
            Dispatched::Batch(unready) => {
                let Unready {
                    batch,
                    calls,
                    cancelled,
                } = *unready;
                if batch.is_complete() {
                    batch.write(&mut self.exchange());
                }
                let batch = Arc::new(OpenBatch::new(&self.link, batch));
                for (place, call) in calls {
                    let place = match place {
                        Some(place) => Place::In(Arc::clone(&batch), place),
                        None => Place::Alone,
                    };
                    running::spawn(&self.link, *call, place);
                }
                cancelled.iter().for_each(|id| self.link.cancel(id));
            }
        }
    }

    /// Whether nothing is read because nothing can be sent: if the other side does the
    /// same, neither ever will be.
    fn is_stuck(&self) -> bool {
        // Who holds the others up may itself wait for room.
        let works = self.link.is_held() && !self.link.is_room_wanted();
        self.stalled && !self.may_read() && !works && self.link.is_output_full(self.out.len())
    }

    /// Sets the timer, and gives back what is not needed while nothing happens.
    fn rest(&mut self, cx: &mut Context<'_>) {
        let limit = self.link.config.message_timeout;
        if self.read_by.is_some() || self.stalled {
            let stuck = !limit.is_zero() && self.is_stuck();
            let begin = || after(Instant::now(), limit);
            self.read_by = stuck.then(|| self.read_by.unwrap_or_else(begin));
        }
        if self.out.is_empty() && self.out.capacity() > 0 {
            pool::give(std::mem::take(&mut self.out));
        }
        if std::mem::take(&mut self.swapped) {
            self.link.rest();
        }
        let ends = match &self.ending {
            Some((_, deadline)) => [Some(*deadline), None, None],
            None => [self.idle_deadline(), self.whole_by, self.read_by],
        };
        let next = [self.collected.next_wakeup].into_iter().chain(ends);
        let Some(next) = next.flatten().min() else {
            return;
        };
        match &mut self.timer {
            // It fires early at worst, and is then set again.
            Some(timer) if timer.deadline() <= next => {}
            Some(timer) => timer.as_mut().reset(next),
            None => self.timer = Some(Box::pin(sleep_until(next))),
        }
        if let Some(timer) = &mut self.timer
            && timer.as_mut().poll(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // What waited for its turn never has it.
        while let Some(queued) = self.queue.pop() {
            self.link.uncount_in_flight(queued.is_counted());
        }
        self.link.count_lost(&self.out);
    }
}

/// Whether nobody reads any more.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected
    )
}

/// A message took too long.
#[derive(Debug, thiserror::Error)]
#[error("a message began and did not come to its end in time")]
struct Slow;

/// Each side waits for the other to read.
#[derive(Debug, thiserror::Error)]
#[error("too much waits in both directions, and the other side did not read for too long")]
struct Stuck;

/// Nothing happened for too long.
#[derive(Debug, thiserror::Error)]
#[error("nothing was sent or received for too long")]
struct Idle;

/// A connection could not be closed in good order.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed before it took what was sent last")]
pub(super) struct Unsent;

impl Unsent {
    pub(super) fn late() -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, Self)
    }
}

//! The task of a connection: it alone reads and writes.
//!
//! Each turn takes over what handles want sent, receives a burst of frames, runs
//! what is in them, and sends all that is due in one go; in two, where that keeps the
//! other side busy (`pace`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use caudal_core::{CloseReason, Message};
use tokio::time::Instant;

use super::buffers;
use super::deadline::after;
use super::link::{Collected, Link};
use super::pace::{EARLY, Pace};
use super::queue::Queue;
pub(super) use super::shutdown::Unsent;
use super::shutdown::is_gone;
use super::timers::Clocks;
use crate::call;
use crate::call::suspended;
use crate::call::suspended::{OpenBatch, Place};
use crate::call::time_slice::{Turn, yield_to_others};
use crate::call::{Came, Dispatched, Exchange, PausedBatch, Unready};
use crate::observe::trace::Traces;
use crate::router::Router;
use crate::transport::{ReceiveError, Transport};

/// Output is sent when there is so much of it, even if more frames wait.
const BURST: usize = 64 << 10;
/// And so are so many frames, which may ask for no answer.
const FRAMES: usize = 1024;
/// Bursts in one turn at most, for a clock that stands still.
const BURSTS: usize = 8;

/// Runs one connection until it ends, and says why it did.
// In this order, here and in what is in it: what every turn looks at stands together.
#[repr(C)]
pub(super) struct Driver {
    /// What the transport wakes; none before it is polled.
    news: Option<Waker>,
    transport: Box<dyn Transport>,
    core: Core,
}

/// All but the transport, which lends its frames.
#[repr(C)]
pub(super) struct Core {
    pub(super) link: Arc<Link>,
    pub(super) out: BytesMut,
    /// Whether the transport could not take all of it.
    pub(super) stalled: bool,
    /// Whether there may be input.
    pub(super) readable: bool,
    pub(super) refusing: bool,
    /// Whether only what is written already is still sent.
    pub(super) closing: bool,
    /// Whether nothing can be sent any more.
    pub(super) muted: bool,
    pub(super) clocks: Clocks,
    pub(super) collected: Collected,
    /// Why and until when the connection goes on without input.
    pub(super) ending: Option<(CloseReason, Instant)>,
    pub(super) queue: Queue,
    /// How much of it the transport was told of.
    pub(super) queued: usize,
    /// Bytes that have come in.
    pub(super) received: u64,
    pub(super) pace: Pace,
    pub(super) router: Arc<Router>,
    /// The batch whose next entries are begun before anything else.
    pub(super) paused: Option<Box<PausedBatch>>,
    /// Why what was written could not be sent.
    pub(super) unsendable: Option<io::Error>,
}

/// Why no more frames are received for now.
enum Stop {
    /// There is none.
    Empty,
    /// Something else is to be done first.
    Busy,
}

impl Driver {
    pub(super) fn new(transport: Box<dyn Transport>, link: Arc<Link>, router: Arc<Router>) -> Self {
        Self {
            news: None,
            transport,
            core: Core {
                out: BytesMut::new(),
                stalled: false,
                readable: true,
                refusing: false,
                closing: false,
                muted: false,
                clocks: Clocks::new(link.config.idle_timeout),
                collected: Collected::default(),
                ending: None,
                queue: Queue::default(),
                queued: 0,
                received: 0,
                pace: Pace::default(),
                router,
                paused: None,
                unsendable: None,
                link,
            },
        }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.core.link
    }

    pub(super) fn router(&self) -> &Arc<Router> {
        &self.core.router
    }

    /// The transport, and why something was left unsent in the end, if it was.
    pub(super) fn end(mut self) -> (Box<dyn Transport>, Option<CloseReason>) {
        let late = || (!self.core.out.is_empty()).then(Unsent::late);
        let cause = self.core.unsendable.take().or_else(late);
        (self.transport, cause.map(CloseReason::failed))
    }

    /// Receives up to `most` frames and runs what is in them; after the first, only as long
    /// as the turn lasts.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        turn: Turn,
    ) -> Result<Stop, CloseReason> {
        let Self {
            transport, core, ..
        } = self;
        let (mut bytes, mut frames) = (0_u64, 0);
        let stop = loop {
            // While nothing can be sent, reading must go on: the other side may
            // wait for us to read before it reads.
            let due = core.out.len() >= BURST && !core.stalled;
            let is_over = frames >= most || frames > 0 && turn.is_over();
            if due || is_over || !core.may_read() {
                break Ok(Stop::Busy);
            }
            match transport.poll_receive(cx) {
                Poll::Pending => break Ok(Stop::Empty),
                Poll::Ready(Ok(Some(frame))) => {
                    core.clocks.end_message();
                    bytes += frame.len() as u64;
                    core.on_frame(frame, turn);
                    core.tell_queued(&mut **transport);
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
                    if !core.link.settle_skipped(&error, transport.skipped()) {
                        core.exchange().bad_frame(&error);
                    }
                    core.input_ended(CloseReason::failed(error));
                }
                Poll::Ready(Err(ReceiveError::Ended(reason))) => core.input_ended(reason),
                Poll::Ready(Err(ReceiveError::Dropped)) => core.link.stats.dropped(1),
                Poll::Ready(Err(ReceiveError::CallFailed { id, error })) => {
                    core.link.fail_call(&id, error);
                }
                Poll::Ready(Err(ReceiveError::Closed(reason))) => break Err(reason),
            }
            frames += 1;
        };
        core.pace.received(frames);
        if !core.may_read() {
            // Nobody looks whether the rest of it has come.
            core.clocks.end_message();
        }
        // Only what is begun and not done when there is nothing to read is late.
        if matches!(stop, Ok(Stop::Empty)) {
            core.readable = false;
            match transport.is_amid_frame() {
                true => core.clocks.begin_message(core.link.config.message_timeout),
                // It was nothing that is passed on, such as a ping.
                false => core.clocks.end_message(),
            }
        }
        let received = transport.received().unwrap_or(core.received + bytes);
        if received > core.received {
            core.link.stats.received(received - core.received);
            core.received = received;
            core.clocks.touch();
        }
        stop
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        let Self {
            transport, core, ..
        } = self;
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
        if core.clocks.awaits_reader() {
            core.clocks.has_sent(count, transport.sent());
        }
        core.clocks.touch();
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
                if !core.input_is_over() && is_gone(&error) && core.link.has_pending() =>
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
                if !std::mem::replace(&mut core.stalled, true) {
                    buffers::settle(&mut core.out);
                }
                core.link.set_unsent(core.out.len());
                Ok(())
            }
        }
    }
}

impl Future for Driver {
    type Output = CloseReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let this = &mut *self;
        let news = this.news.take().unwrap_or_else(|| this.begin(cx.waker()));
        this.core.readable |= this.core.link.take_news();
        let polled = this.run(cx, &mut Context::from_waker(&news));
        this.news = Some(news);
        polled
    }
}

impl Driver {
    #[cold]
    fn begin(&self, task: &Waker) -> Waker {
        let keeps_calls = self.transport.keeps_calls();
        self.core.link.begin_driver(task, keeps_calls);
        Arc::clone(&self.core.link).into()
    }

    /// Does all that there is to do; `news` is the context of the transport.
    fn run(&mut self, cx: &mut Context<'_>, news: &mut Context<'_>) -> Poll<CloseReason> {
        self.core.pace.begin();
        let turn = Turn::begin();
        for burst in 0..BURSTS {
            if let Some(reason) = self.core.look() {
                return self.send_last(news, reason);
            }
            for id in self.core.collected.forgotten.drain(..) {
                self.core.readable = true;
                self.transport.forget(&id.to_request_id());
            }
            self.core.resume_batch(turn);
            self.core.run_queue(turn);
            self.core.tell_queued(&mut *self.transport);
            // What callers have asked since they had their answers goes first.
            let early = burst == 0 && self.core.pace.is_early();
            if early && let Err(reason) = self.send(news) {
                return Poll::Ready(reason);
            }
            let first = early && self.core.pace.is_first();
            let most = if first { EARLY } else { FRAMES };
            let stop = match self.core.readable {
                true => self.receive(news, most, turn),
                false => Ok(Stop::Empty),
            };
            let stop = match stop {
                Ok(stop) => stop,
                Err(reason) => return self.send_last(news, reason),
            };
            if let Err(reason) = self.send(news) {
                return Poll::Ready(reason);
            }
            if let Some(reason) = self.core.is_finished() {
                return Poll::Ready(reason);
            }
            let wait = matches!(stop, Stop::Empty) || !self.core.may_read();
            let wait = wait && self.core.paused.is_none();
            if first && !wait && self.core.link.has_pending() {
                // Who has an answer may call again before the others have theirs.
                break;
            }
            if wait && !self.core.link.is_called() && !self.core.may_run_queue() {
                self.core.pace.rest();
                self.core.rest(cx);
                return Poll::Pending;
            }
            if turn.is_over() {
                break;
            }
        }
        yield_to_others(cx);
        Poll::Pending
    }

    /// What was written by then goes out if it can go at once; if not, that is said beside
    /// this reason.
    #[cold]
    fn send_last(&mut self, news: &mut Context<'_>, reason: CloseReason) -> Poll<CloseReason> {
        let _ = self.send(news);
        Poll::Ready(reason)
    }
}

impl Core {
    pub(super) fn exchange(&mut self) -> Exchange<'_> {
        Exchange::inline(&self.link, &mut self.out)
    }

    /// Takes over what handles and timers want; `Some` if it is to end.
    pub(super) fn look(&mut self) -> Option<CloseReason> {
        let elapsed = self.clocks.has_gone_off();
        // While input goes on no timer is set.
        let next = self.collected.next_wakeup;
        if elapsed || next.is_some_and(|next| next <= Instant::now()) {
            self.link.expire();
        }
        if self.link.is_called() {
            self.collected = self.link.collect(&mut self.out);
        }
        self.heed_order();
        if self.clocks.counts_idleness() {
            self.clocks.set_busy(self.is_under_way());
        }
        match &self.ending {
            Some((reason, deadline)) => (*deadline <= Instant::now()).then(|| reason.clone()),
            None => self.clocks.overdue(self.idle_by()),
        }
    }

    /// When the connection has been idle for too long.
    pub(super) fn idle_by(&self) -> Option<Instant> {
        let by = self.clocks.idle_by(self.link.config.idle_timeout)?;
        (!self.is_under_way()).then_some(by)
    }

    /// Whether something is being done, or waited for.
    pub(super) fn is_under_way(&self) -> bool {
        self.paused.is_some()
            || self.link.is_busy()
            || self.link.has_pending()
            || !self.out.is_empty()
    }

    /// Whether there is room for what may come in.
    pub(super) fn may_read(&self) -> bool {
        if self.input_is_over() || self.paused.is_some() {
            return false;
        }
        let limits = &self.link.config.limits;
        if !self.queue.is_full(limits.in_flight, limits.queue) {
            return true;
        }
        // Our own calls may wait for an answer that is behind what is in the way.
        !self.link.is_output_full(self.out.len()) && self.link.has_pending()
    }

    #[inline]
    pub(super) fn on_frame(&mut self, frame: &[u8], turn: Turn) {
        if self.out.capacity() == 0 {
            self.out = buffers::take();
        }
        self.link.show_received(frame);
        if self.must_wait() || self.refusing || self.link.is_full(0) {
            return self.hold(frame, turn);
        }
        let mut exchange = Exchange::inline(&self.link, &mut self.out);
        exchange.turn = Some(turn);
        match call::frame(&self.router, frame, &mut exchange) {
            Dispatched::Done => {}
            more => self.go_on(more),
        }
    }

    /// Starts what was [held](Self::hold) before; if it came too `late`, without its requests.
    pub(super) fn start(
        &mut self,
        frame: &[u8],
        message: &Message<'_>,
        traces: Traces,
        late: bool,
        turn: Turn,
    ) {
        let mut exchange = Exchange::inline(&self.link, &mut self.out);
        exchange.turn = Some(turn);
        exchange.came = match message {
            Message::Notification(_) => Came::Heeded,
            _ if late => Came::Late,
            _ => Came::Now,
        };
        match call::message(&self.router, frame, message, traces, &mut exchange) {
            Dispatched::Done => {}
            more => self.go_on(more),
        }
    }

    /// Moves out what must wait.
    pub(super) fn go_on(&mut self, dispatched: Dispatched) {
        match dispatched {
            Dispatched::Done => {}
            Dispatched::Paused(batch) => self.paused = Some(batch),
            Dispatched::Later(later) => suspended::spawn(&self.link, *later, Place::Alone),
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
                    suspended::spawn(&self.link, *call, place);
                }
                cancelled.iter().for_each(|id| self.link.cancel(id));
            }
        }
    }

    /// Whether nothing is read because nothing can be sent: if the other side does the
    /// same, neither ever will be.
    pub(super) fn is_stuck(&self) -> bool {
        // Who holds the others up may itself wait for room.
        let works = self.link.is_held() && !self.link.is_room_wanted();
        self.stalled && !self.may_read() && !works && self.link.is_output_full(self.out.len())
    }

    /// Sets the timer, and gives back what is not needed while nothing happens.
    pub(super) fn rest(&mut self, cx: &mut Context<'_>) {
        let limit = self.link.config.message_timeout;
        if self.clocks.awaits_reader() || self.stalled {
            let is_stuck = !limit.is_zero() && self.is_stuck();
            self.clocks.set_stuck(is_stuck, limit);
        }
        if self.out.is_empty() {
            buffers::rest(&mut self.out);
        }
        if std::mem::take(&mut self.collected.has_buffer) {
            self.link.rest();
        }
        let end = match &self.ending {
            Some((_, deadline)) => Some(*deadline),
            None => self.clocks.next(self.idle_by()),
        };
        let next = [self.collected.next_wakeup, end];
        if let Some(next) = next.into_iter().flatten().min() {
            self.clocks.wake_at(next, cx);
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

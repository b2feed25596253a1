//! The task of a connection: it alone reads and writes.
//!
//! Each round takes what handles have written, receives a burst of frames, runs what is in
//! them, and sends everything at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use caudal_core::{CloseReason, Message};
use tokio::time::Instant;

use super::deadline::after;
use super::queue::Queue;
use super::sender::TaskInput;
use super::shutdown::{Unsent, is_gone};
use super::timers::Timers;
use super::{Connection, buffers, count_frames};
use crate::call::batch::PausedBatch;
use crate::call::replies::Replies;
use crate::call::time_slice::{TimeSlice, yield_to_others};
use crate::call::{self, Arrival, Caller, Progress, Scope};
use crate::observe::tap::Direction;
use crate::observe::trace::Traces;
use crate::router::routes::Routes;
use crate::transport::{ReceiveError, Transport};

/// Bytes of output that are sent even if more frames wait.
const BURST: usize = 64 << 10;
/// Frames after which output is sent even if more wait; they may ask for no reply.
const FRAMES: usize = 1024;
/// Maximum rounds of one poll. It bounds a poll if the clock does not advance.
const ROUNDS: usize = 8;

/// Runs one connection until it ends; the output is the reason.
pub(super) struct ConnectionTask {
    transport: Box<dyn Transport>,
    /// The waker of the transport.
    transport_waker: Waker,
    is_started: bool,
    core: Core,
}

/// The task without its transport: frames are borrowed from the transport meanwhile.
pub(super) struct Core {
    pub(super) connection: Arc<Connection>,
    /// The other side, as calls see it.
    pub(super) caller: Caller,
    pub(super) router: Arc<Routes>,
    /// Messages that were taken from the sender or written here, and are not sent yet.
    pub(super) out: BytesMut,
    /// True if the transport could not take all of `out`.
    pub(super) is_stalled: bool,
    /// True if there may be input.
    pub(super) is_readable: bool,
    /// True if new requests are refused.
    pub(super) refusing: bool,
    /// True if only messages that are already written are sent.
    pub(super) closing: bool,
    /// True if nothing can be sent any more.
    pub(super) is_blocked: bool,
    pub(super) timers: Timers,
    /// Commands and deadlines that the task read from the sender last.
    pub(super) input: TaskInput,
    /// Reason and deadline of a connection that has no more input.
    pub(super) ending: Option<(CloseReason, Instant)>,
    pub(super) queue: Queue,
    /// Bytes in the queue, as last reported to the transport.
    pub(super) queued: usize,
    /// Bytes that were received.
    received: u64,
    /// The batch whose next entries are begun before anything else.
    pub(super) paused: Option<Box<PausedBatch>>,
    /// Reason why messages could not be sent.
    pub(super) unsendable: Option<io::Error>,
}

/// Reason why receiving stops for now.
enum Stop {
    /// There are none.
    Empty,
    /// Something else is to be done first.
    Busy,
}

impl ConnectionTask {
    pub(super) fn new(
        mut transport: Box<dyn Transport>,
        connection: Arc<Connection>,
        router: Arc<Routes>,
    ) -> Self {
        transport.set_max_message(connection.config.policy.max_message);
        Self {
            transport,
            transport_waker: Arc::clone(&connection.signal).into(),
            is_started: false,
            core: Core {
                caller: Caller::Connection(Arc::clone(&connection)),
                router,
                out: BytesMut::new(),
                is_stalled: false,
                is_readable: true,
                refusing: false,
                closing: false,
                is_blocked: false,
                timers: Timers::new(connection.config.idle_timeout),
                input: TaskInput::default(),
                ending: None,
                queue: Queue::default(),
                queued: 0,
                received: 0,
                paused: None,
                unsendable: None,
                connection,
            },
        }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.core.connection
    }

    pub(super) fn router(&self) -> &Arc<Routes> {
        &self.core.router
    }

    /// Returns the transport, and the reason if messages were left unsent.
    pub(super) fn end(mut self) -> (Box<dyn Transport>, Option<CloseReason>) {
        let late = || (!self.core.out.is_empty()).then(Unsent::late);
        let cause = self.core.unsendable.take().or_else(late);
        (self.transport, cause.map(CloseReason::failed))
    }
}

impl Future for ConnectionTask {
    type Output = CloseReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let this = &mut *self;
        if !std::mem::replace(&mut this.is_started, true) {
            let connection = &this.core.connection;
            let sender = &connection.sender;
            sender.report_given_up(this.transport.info().keeps_calls);
            connection.signal.set_task(cx.waker());
            connection.signal.request_quietly();
        }
        this.core.is_readable |= this.core.connection.signal.take_transport();
        let waker = this.transport_waker.clone();
        this.run(cx, &mut Context::from_waker(&waker))
    }
}

impl ConnectionTask {
    /// Runs until there is nothing to do or the time slice is over. The transport is
    /// polled with `transport_cx`.
    fn run(&mut self, cx: &mut Context<'_>, transport_cx: &mut Context<'_>) -> Poll<CloseReason> {
        let time_slice = TimeSlice::begin();
        for _ in 0..ROUNDS {
            if let Some(reason) = self.core.look() {
                return self.send_last(transport_cx, reason);
            }
            for id in self.core.input.given_up.drain(..) {
                self.core.is_readable = true;
                self.transport.forget(&id.to_request_id());
            }
            self.core.resume_batch(time_slice);
            self.core.run_queue(time_slice);
            self.core.report_queued(&mut *self.transport);
            let received = match self.core.is_readable {
                true => self.receive(transport_cx, time_slice),
                false => Ok(Stop::Empty),
            };
            let stop = match received {
                Ok(stop) => stop,
                Err(reason) => return self.send_last(transport_cx, reason),
            };
            if let Err(reason) = self.send(transport_cx) {
                return Poll::Ready(reason);
            }
            if let Some(reason) = self.core.is_finished() {
                return Poll::Ready(reason);
            }
            let is_idle = matches!(stop, Stop::Empty) || !self.core.may_read();
            if is_idle && !self.core.has_work() {
                self.core.go_idle(cx);
                return Poll::Pending;
            }
            if time_slice.is_over() {
                break;
            }
        }
        yield_to_others(cx);
        Poll::Pending
    }

    /// Receives frames and runs what is in them; after the first frame, as long as the time
    /// slice lasts.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        time_slice: TimeSlice,
    ) -> Result<Stop, CloseReason> {
        let Self {
            transport, core, ..
        } = self;
        let (mut bytes, mut frames) = (0_u64, 0);
        let stop = loop {
            // While nothing can be sent, reading must go on: the other side may
            // wait for us to read before it reads.
            let must_send = core.out.len() >= BURST && !core.is_stalled;
            let is_over = frames >= FRAMES || frames > 0 && time_slice.is_over();
            if must_send || is_over || !core.may_read() {
                break Ok(Stop::Busy);
            }
            match transport.poll_receive(cx) {
                Poll::Pending => break Ok(Stop::Empty),
                Poll::Ready(Ok(Some(frame))) => {
                    core.timers.end_message();
                    bytes += frame.len() as u64;
                    core.on_frame(frame, time_slice);
                    core.report_queued(&mut **transport);
                }
                Poll::Ready(Ok(None)) => core.input_ended(CloseReason::remote()),
                Poll::Ready(Err(error)) => {
                    let oversized = transport.skipped();
                    core.on_receive_error(error, oversized)?;
                }
            }
            frames += 1;
        };
        if !core.may_read() {
            // Without reading it is unknown if the rest of a message has arrived.
            core.timers.end_message();
        }
        let progress = transport.progress();
        // A message is slow only if it is incomplete when there is nothing to read.
        if matches!(stop, Ok(Stop::Empty)) {
            core.is_readable = false;
            match progress.is_amid_frame {
                true => core
                    .timers
                    .begin_message(core.connection.config.message_timeout),
                // It was a control frame, such as a ping.
                false => core.timers.end_message(),
            }
        }
        let received = progress.received.unwrap_or(core.received + bytes);
        if received > core.received {
            core.connection.stats.received(received - core.received);
            core.received = received;
            core.timers.touch();
        }
        stop
    }

    /// Sends as much as the transport accepts.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), CloseReason> {
        let Self {
            transport, core, ..
        } = self;
        if core.out.is_empty() && !core.is_stalled {
            return Ok(());
        }
        if core.is_blocked {
            core.lose_output();
            return Ok(());
        }
        let before = core.out.len();
        let sent = loop {
            let left = core.out.len();
            match transport.poll_send(cx, &mut core.out) {
                // It may have accepted a part, and can be called again at once.
                Poll::Ready(Ok(())) if core.out.is_empty() => break Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) if core.out.len() < left => {}
                Poll::Ready(Ok(())) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                other => break other,
            }
        };
        core.note_sent(before - core.out.len(), transport.progress().sent);
        match sent {
            Poll::Ready(Ok(())) => {
                if core.is_stalled || core.connection.sender.is_room_wanted() {
                    core.is_stalled = false;
                    core.connection.sender.set_in_task(0);
                }
                Ok(())
            }
            Poll::Pending => {
                if !std::mem::replace(&mut core.is_stalled, true) {
                    buffers::shrink(&mut core.out);
                }
                core.connection.sender.set_in_task(core.out.len());
                Ok(())
            }
            Poll::Ready(Err(error)) => core.on_send_error(error),
        }
    }

    /// Sends without waiting, before the connection ends for this reason.
    #[cold]
    fn send_last(&mut self, cx: &mut Context<'_>, reason: CloseReason) -> Poll<CloseReason> {
        let _ = self.send(cx);
        Poll::Ready(reason)
    }
}

impl Core {
    pub(super) fn replies(&mut self) -> Replies<'_> {
        Replies::to_connection(&self.caller, &self.connection, &mut self.out)
    }

    /// Acts on timers and on commands of handles. Returns a reason if the connection must
    /// end.
    fn look(&mut self) -> Option<CloseReason> {
        let elapsed = self.timers.take_elapsed();
        // No timer is set while input arrives, so deadlines are checked here.
        let next = self.input.next_deadline;
        if elapsed || next.is_some_and(|next| next <= Instant::now()) {
            self.connection.sender.expire();
        }
        if self.connection.signal.is_requested() {
            self.input = self.connection.sender.take_all(&mut self.out);
        }
        self.obey_command();
        if self.timers.counts_idleness() {
            self.timers.set_busy(self.is_busy());
        }
        match &self.ending {
            Some((reason, deadline)) => (*deadline <= Instant::now()).then(|| reason.clone()),
            None => self.timers.overdue(self.idle_by()),
        }
    }

    /// Time at which the connection reaches its idle timeout.
    fn idle_by(&self) -> Option<Instant> {
        let by = self.timers.idle_by(self.connection.config.idle_timeout)?;
        (!self.is_busy()).then_some(by)
    }

    /// Returns true if a call runs or waits, in either direction.
    fn is_busy(&self) -> bool {
        self.paused.is_some()
            || self.connection.incoming.is_busy()
            || self.connection.sender.has_pending()
            || !self.out.is_empty()
    }

    /// Returns true if there is work that needs no input.
    fn has_work(&self) -> bool {
        self.paused.is_some() || self.connection.signal.is_requested() || self.may_run_queue()
    }

    /// Returns true if there is room for input.
    fn may_read(&self) -> bool {
        if self.input_is_over() || self.paused.is_some() {
            return false;
        }
        let config = &self.connection.config;
        if !self.queue.is_full(config.in_flight, config.queue) {
            return true;
        }
        // A response may follow the messages that fill the queue.
        !self.connection.is_output_full(self.out.len()) && self.connection.sender.has_pending()
    }

    #[inline]
    fn on_frame(&mut self, frame: &[u8], time_slice: TimeSlice) {
        if self.out.capacity() == 0 {
            self.out = buffers::take();
        }
        self.caller.show(Direction::Received, frame);
        if self.must_wait() || self.refusing || self.connection.incoming.is_full(0) {
            return self.defer(frame, time_slice);
        }
        let scope = Scope {
            router: &self.router,
            caller: &self.caller,
            arrival: Arrival::Fresh,
            time_slice: Some(time_slice),
        };
        let mut replies = Replies::to_connection(&self.caller, &self.connection, &mut self.out);
        match call::handle(frame, &scope, &mut replies) {
            Progress::Done => {}
            progress => self.go_on(progress),
        }
    }

    /// Handles an error of receiving.
    ///
    /// # Errors
    /// The connection ends at once.
    #[cold]
    fn on_receive_error(
        &mut self,
        error: ReceiveError,
        oversized: &[u8],
    ) -> Result<(), CloseReason> {
        match error {
            ReceiveError::Frame(error) => {
                let is_response = self.connection.settle_oversized(&error, oversized);
                // A peer that never reads is not answered.
                if !is_response && !self.connection.is_output_full(self.out.len()) {
                    self.replies().bad_frame(&error);
                }
                if error.is_fatal() {
                    self.input_ended(CloseReason::failed(error));
                }
            }
            ReceiveError::Fatal(error) => {
                if !self.connection.settle_oversized(&error, oversized) {
                    self.replies().bad_frame(&error);
                }
                self.input_ended(CloseReason::failed(error));
            }
            ReceiveError::CallFailed { id, error } => {
                self.connection.sender.fail_call(&id, error);
            }
            ReceiveError::Ended(reason) => self.input_ended(reason),
            ReceiveError::Dropped => self.connection.stats.dropped(1),
            ReceiveError::Closed(reason) => return Err(reason),
        }
        Ok(())
    }

    /// Runs a message that was [deferred](Self::defer).
    pub(super) fn run_deferred(
        &mut self,
        text: &[u8],
        message: &Message<'_>,
        traces: Traces,
        is_late: bool,
        time_slice: TimeSlice,
    ) {
        let arrival = match message {
            Message::Notification(_) => Arrival::Replayed,
            _ if is_late => Arrival::DuringShutdown,
            _ => Arrival::Fresh,
        };
        let scope = Scope {
            router: &self.router,
            caller: &self.caller,
            arrival,
            time_slice: Some(time_slice),
        };
        let mut replies = Replies::to_connection(&self.caller, &self.connection, &mut self.out);
        let progress = call::handle_message(text, message, traces, &scope, &mut replies);
        self.go_on(progress);
    }

    /// Spawns tasks for the calls that must wait.
    pub(super) fn go_on(&mut self, progress: Progress) {
        match progress {
            Progress::Done => {}
            Progress::Paused(batch) => self.paused = Some(batch),
            Progress::Suspended(call) => call.spawn(&self.connection, None),
            Progress::Batch(batch) => {
                let mut replies =
                    Replies::to_connection(&self.caller, &self.connection, &mut self.out);
                batch.spawn(&self.connection, &mut replies);
            }
        }
    }

    fn note_sent(&mut self, bytes: usize, sent: Option<u64>) {
        self.connection.stats.sent(bytes);
        if self.timers.awaits_reader() {
            self.timers.has_sent(bytes, sent);
        }
        self.timers.touch();
        if bytes > 0
            && self.input.command.is_none()
            && let Some((reason, deadline)) = &mut self.ending
            && !reason.is_local()
        {
            // The other side has ended its output. If it still reads, wait for it.
            *deadline = after(Instant::now(), self.connection.config.drain_timeout);
        }
    }

    #[cold]
    fn on_send_error(&mut self, error: io::Error) -> Result<(), CloseReason> {
        let has_pending = self.connection.sender.has_pending();
        if !self.input_is_over() && is_gone(&error) && has_pending {
            self.block(error);
            return Ok(());
        }
        // If the other side has ended its output before and reads no more, it has closed
        // normally.
        Err(match self.ending.take() {
            Some((reason, _)) if reason.is_local() || is_gone(&error) => {
                self.unsendable = Some(error);
                reason
            }
            _ => CloseReason::failed(error),
        })
    }

    /// Returns true if this side does not read because it cannot send. If the other side does
    /// the same, both are blocked.
    fn is_stuck(&self) -> bool {
        let connection = &self.connection;
        // The call that the others wait for may itself wait for room.
        let works = connection.incoming.has_barrier() && !connection.sender.is_room_wanted();
        let is_full = connection.is_output_full(self.out.len());
        self.is_stalled && !self.may_read() && !works && is_full
    }

    /// Sets the timer, and frees memory that is not needed while nothing happens.
    fn go_idle(&mut self, cx: &mut Context<'_>) {
        let limit = self.connection.config.message_timeout;
        if self.timers.awaits_reader() || self.is_stalled {
            let is_stuck = limit.is_some() && self.is_stuck();
            self.timers.set_stuck(is_stuck, limit);
        }
        if self.out.is_empty() {
            buffers::give_unless_small(&mut self.out);
        }
        if std::mem::take(&mut self.input.has_buffer) {
            self.connection.sender.go_idle();
        }
        let end = match &self.ending {
            Some((_, deadline)) => Some(*deadline),
            None => self.timers.next(self.idle_by()),
        };
        let next = [self.input.next_deadline, end];
        if let Some(next) = next.into_iter().flatten().min() {
            self.timers.wake_at(next, cx);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Deferred messages never run.
        while let Some(queued) = self.queue.pop() {
            if queued.is_counted() {
                self.connection.incoming.uncount_request();
            }
        }
        let lost = count_frames(self.connection.framing, &self.out);
        self.connection.stats.dropped(lost as u64);
    }
}

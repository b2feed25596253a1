//! One connection: the task that reads and writes, and what it shares with its handles.
//!
//! ```text
//! task        the task: receives, runs what is received, sends
//!   ├ queue     messages that wait for an earlier one
//!   ├ deferred  which messages must wait, and what is done with them meanwhile
//!   ├ timers    idle, slow and stuck connections
//!   └ shutdown  how a connection ends, and in what order
//! sender      what handles write: the output queue, outgoing calls, the end of both
//! incoming    calls of the other side that run outside of the task
//! lifecycle   starts the task, and connects again
//! ```

pub(crate) mod buffers;
pub(crate) mod deadline;
mod deferred;
mod id_index;
pub(crate) mod incoming;
pub(crate) mod incomplete;
mod lifecycle;
mod outgoing;
mod output;
mod queue;
pub(crate) mod sender;
mod shutdown;
mod signal;
mod task;
mod timers;

use std::mem::discriminant;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use caudal_core::{CloseReason, FrameError, Framing, Invalid, JsonRpcError, RawJson, Response};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::extensions::Extensions;
use crate::observe::stats::{Counters, Stats};
use crate::peer::ConnectionState;
use crate::peer::id::LazyPeerId;

pub(crate) use self::id_index::IdKey;
use self::incoming::IncomingCalls;
pub(crate) use self::lifecycle::{OnReconnect, Reconnect, start};
pub(crate) use self::sender::Command;
use self::sender::Sender;
use self::signal::TaskSignal;

/// State shared by the task of a connection and its handles.
pub(crate) struct Connection {
    pub(crate) config: Arc<Config>,
    pub(crate) framing: Framing,
    pub(crate) stats: Arc<Counters>,
    pub(crate) incoming: IncomingCalls,
    pub(crate) sender: Sender,
    pub(crate) extensions: Extensions,
    pub(crate) id: LazyPeerId,
    /// Decision of the application about the client; `None` until it is made.
    pub(crate) admission: OnceLock<Result<(), JsonRpcError>>,
    /// Address of the other side, if the transport knows it.
    pub(crate) remote: Option<String>,
    signal: Arc<TaskSignal>,
    /// True if the state is `Closed`; cheaper to read than the state.
    is_closed: AtomicBool,
    state: watch::Sender<ConnectionState>,
}

impl Connection {
    fn new(
        config: Arc<Config>,
        framing: Framing,
        reconnects: bool,
        extensions: Extensions,
        remote: Option<String>,
    ) -> Self {
        let (stats, signal) = (Arc::default(), Arc::default());
        Self {
            sender: Sender::new(&config, &stats, &signal, framing, reconnects),
            incoming: IncomingCalls::new(&config),
            config,
            framing,
            stats,
            extensions,
            id: LazyPeerId::default(),
            admission: OnceLock::new(),
            remote,
            signal,
            is_closed: AtomicBool::new(false),
            state: watch::Sender::new(ConnectionState::Connected),
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.stats.snapshot();
        stats.in_flight = self.incoming.in_flight() as u64;
        stats.pending = self.sender.pending() as u64;
        stats
    }

    pub(crate) fn state(&self) -> ConnectionState {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<ConnectionState> {
        self.state.subscribe()
    }

    /// Returns true if the connection has ended for good.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }

    /// Changes the state and wakes those that watch it; `Closed` is final.
    fn set_state(&self, state: ConnectionState) {
        self.state.send_if_modified(|now| {
            let is_new = !now.is_closed() && discriminant(now) != discriminant(&state);
            if is_new {
                self.is_closed.store(state.is_closed(), Release);
                *now = state;
            }
            is_new
        });
    }

    /// Gives the task a command.
    pub(crate) fn command(&self, command: Command) {
        if let Some(wakers) = self.sender.command(command) {
            self.set_state(ConnectionState::Draining);
            wakers.wake();
        }
    }

    /// Ends the connection for good: every call that waits fails, and so does every new
    /// one. Returns true if messages were written that are never sent.
    fn close(&self, reason: CloseReason) -> bool {
        let lost = self.sender.close(reason);
        self.incoming.cancel_all();
        lost
    }

    /// Announces the end of the connection. `better` is a more exact reason than the one
    /// known before.
    fn announce_closed(&self, better: Option<CloseReason>) {
        if let Some(reason) = self.sender.set_reason(better) {
            self.set_state(ConnectionState::Closed(reason));
        }
    }

    /// Ends a connection that will be made again; returns how many calls failed that may
    /// have run.
    fn interrupt(&self, reason: &CloseReason) -> usize {
        let failed = self.sender.interrupt(reason);
        self.set_state(ConnectionState::Connecting);
        self.incoming.cancel_all();
        failed
    }

    /// Hands a response to the call that it answers.
    pub(crate) fn settle(&self, response: &Response<'_>) {
        self.incoming.note_readable();
        self.sender.settle(response);
    }

    /// Fails the call that an invalid response answers.
    pub(crate) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        self.incoming.note_readable();
        self.sender.settle_invalid(invalid);
    }

    /// Fails the calls that an oversized frame answers, as far as its first bytes tell;
    /// returns false if it is no response.
    #[cold]
    fn settle_oversized(&self, error: &FrameError, head: &[u8]) -> bool {
        let is_response = self.sender.settle_oversized(error, head);
        if is_response {
            self.incoming.note_readable();
        }
        is_response
    }

    /// Acts on a notification of the dialect; returns true if nothing else is to be done
    /// with it.
    pub(crate) fn handle_convention(&self, method: &str, params: Option<RawJson<'_>>) -> bool {
        let dialect = &self.config.dialect;
        if let Some(id) = dialect.cancelled_id(method, params) {
            id.iter().for_each(|id| self.incoming.cancel(id));
            return true;
        }
        if let Some(token) = dialect.progress_token(method, params) {
            self.sender.extend(&token);
        }
        // An application may serve progress notifications as well.
        false
    }

    /// Cancels the calls of the other side with this id.
    pub(crate) fn cancel(&self, id: &IdKey) {
        self.incoming.cancel(id);
    }

    /// Notes a call of the other side that leaves the task. Until the returned value is
    /// dropped, the call counts as running.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: Option<&str>,
        token: CancellationToken,
        is_barrier: bool,
    ) -> RunningGuard {
        let can_be_cancelled = self.config.dialect.cancel.is_some();
        let key = id.filter(|_| can_be_cancelled).and_then(IdKey::parse);
        RunningGuard {
            index: Some(self.incoming.add(key, id.is_some(), is_barrier, token)),
            epoch: self.sender.epoch(),
            connection: Arc::clone(self),
        }
    }

    /// Lets no message start until [`remove_barrier`](Self::remove_barrier).
    pub(crate) fn add_barrier(&self) {
        self.incoming.add_barrier();
    }

    /// Removes a barrier, and lets the task start what has waited for it.
    pub(crate) fn remove_barrier(&self) {
        self.incoming.remove_barrier();
        self.signal.request();
    }

    /// Lets the task look again, since a call has ended.
    pub(crate) fn notify_task(&self) {
        self.signal.request();
    }

    /// Returns the error for a client that the application does not accept.
    pub(crate) fn refusal(&self) -> Option<&JsonRpcError> {
        self.admission.get()?.as_ref().err()
    }

    /// Returns true if the application has accepted the client.
    pub(crate) fn is_accepted(&self) -> bool {
        matches!(self.admission.get(), Some(Ok(())))
    }

    /// Returns when no call of the other side runs any more. The connection's task has ended.
    pub(crate) fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.signal.set_task(cx.waker());
        self.signal.clear_request();
        match self.incoming.is_busy() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }

    /// Returns true if no new work should begin because too many bytes wait to be sent. They
    /// include `out` bytes in the task.
    #[inline]
    fn is_output_full(&self, out: usize) -> bool {
        let waits = out + self.incoming.undelivered();
        waits > 0 && waits >= self.sender.limit()
    }
}

/// A call of the other side that runs outside of the connection's task.
pub(crate) struct RunningGuard {
    pub(crate) connection: Arc<Connection>,
    /// Epoch of the connection in which the call came.
    epoch: u64,
    /// `None` when the call has ended.
    index: Option<usize>,
}

impl RunningGuard {
    /// Sends the reply when there is room for it. With that the call has ended: a caller
    /// that has the reply may call again at once.
    pub(crate) async fn send_reply(&mut self, frame: &[u8]) {
        let Some(index) = self.index else { return };
        let incoming = &self.connection.incoming;
        let mut waiting = Undelivered::count(incoming, frame.len());
        // In this order: when no call runs, the reply must be in the output.
        let finish = || {
            waiting.end();
            incoming.remove(index);
        };
        let sender = &self.connection.sender;
        // It fails if the connection has ended, and then no caller waits for the reply.
        if sender.send_reply(self.epoch, frame, finish).await.is_ok() {
            self.index = None;
        }
    }

    /// Notes that the call has ended.
    pub(crate) fn end(&mut self) {
        if let Some(index) = self.index.take() {
            self.connection.incoming.remove(index);
            self.connection.notify_task();
        }
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.end();
    }
}

/// A reply that waits for room: while there are many, nothing new begins.
struct Undelivered<'a>(&'a IncomingCalls, usize);

impl<'a> Undelivered<'a> {
    fn count(incoming: &'a IncomingCalls, bytes: usize) -> Self {
        incoming.count_undelivered(bytes);
        Self(incoming, bytes)
    }

    fn end(&mut self) {
        self.0.uncount_undelivered(std::mem::take(&mut self.1));
    }
}

impl Drop for Undelivered<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Counts the frames in these bytes.
fn count_frames(framing: Framing, bytes: &[u8]) -> usize {
    use caudal_core::FrameReader;

    if bytes.is_empty() {
        return 0;
    }
    let (partial, bytes) = match framing {
        // The first frame may have been sent in part, and has no header then.
        Framing::Header => {
            const HEADER: &[u8] = b"Content-Length: ";
            let header = bytes.windows(HEADER.len()).position(|at| at == HEADER);
            let (partial, whole) = bytes.split_at(header.unwrap_or(bytes.len()));
            (usize::from(!partial.is_empty()), whole)
        }
        _ => (0, bytes),
    };
    let mut reader = FrameReader::new(framing, usize::MAX);
    reader.push(bytes);
    partial + std::iter::from_fn(|| reader.advance().ok().filter(|found| *found)).count()
}

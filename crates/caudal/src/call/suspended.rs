//! Calls whose handlers must wait: run to their end, cancelled, or timed out.

use std::future::{Future as _, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{self, Poll};

use bytes::BytesMut;
use caudal_core::{ErrorCode, Id, JsonRpcError};
use tokio_util::sync::CancellationToken;

use super::batch::OpenBatch;
use super::caller::Caller;
use super::incident;
use super::replies::{Outcome, PendingReply, Replies};
use crate::connection::{Connection, RunningGuard};
use crate::observe::span::CallSpan;
use crate::router::context::Context;
use crate::router::handler::HandlerFuture;
use crate::router::method::Settings;

/// A call whose handler must wait.
pub(crate) struct SuspendedCall {
    /// `None` when it has ended.
    pub(super) future: Option<Pin<Box<dyn HandlerFuture>>>,
    /// JSON text of the id; `None` for a notification.
    pub(super) id: Option<Box<str>>,
    pub(super) method: Arc<str>,
    pub(super) context: Option<Context>,
    pub(super) settings: Settings,
    /// Counts the calls that go on when they are cancelled, if this one does.
    pub(super) detached: Option<Arc<AtomicUsize>>,
    pub(super) span: CallSpan,
}

impl SuspendedCall {
    /// Runs the call in a task of its own, and sends its reply, or puts it into its place
    /// of a batch.
    pub(crate) fn spawn(
        mut self: Box<Self>,
        connection: &Arc<Connection>,
        batch: Option<(Arc<OpenBatch>, usize)>,
    ) {
        let caller = Caller::Connection(Arc::clone(connection));
        let token = CallToken::of(&self, &caller);
        let is_barrier = self.id.is_none() || self.settings.serial;
        let mut running = connection.enter(self.id.as_deref(), token.token.clone(), is_barrier);
        // Tasks need not begin in the order in which they are spawned.
        let start_barrier = self
            .settings
            .spawn
            .then(|| StartBarrier::new(Arc::clone(connection)));
        tokio::spawn(async move {
            if let Some(barrier) = start_barrier {
                barrier.remove();
            }
            let mut text = BytesMut::new();
            let mut replies = match batch {
                Some(_) => Replies::bare(&caller, &mut text),
                None => Replies::framed(&caller, running.connection.framing, &mut text),
            };
            self.complete(&token, &caller, &mut replies).await;
            deliver(&mut running, &caller, batch, text).await;
        });
    }

    /// Runs the call in the task that awaits this, and returns its reply without a frame.
    ///
    /// # Cancel safety
    /// Dropping it cancels the call; one that chose to finish goes on.
    pub(super) async fn run(mut self: Box<Self>, caller: &Caller) -> BytesMut {
        let in_flight = InFlight::count(caller.clone(), self.id.is_some());
        let token = CallToken::of(&self, caller);
        let _cancel = CancelOnDrop(token.clone());
        if self.settings.finish {
            // In a task of its own it goes on when this is dropped.
            let complete = async move { self.complete_bare(&token, &in_flight.caller).await };
            return tokio::spawn(complete).await.unwrap_or_default();
        }
        self.complete_bare(&token, &in_flight.caller).await
    }

    async fn complete_bare(&mut self, token: &CallToken, caller: &Caller) -> BytesMut {
        let mut text = BytesMut::new();
        let mut replies = Replies::bare(caller, &mut text);
        self.complete(token, caller, &mut replies).await;
        text
    }

    /// Polls the handler until the reply is written, the call is cancelled or its time is
    /// over.
    async fn complete(&mut self, token: &CallToken, caller: &Caller, replies: &mut Replies<'_>) {
        let id = self.id.as_deref().and_then(|id| Id::parse(id).ok());
        let mut reply = PendingReply::new(id, &self.method);
        let mut detached = None;
        let ended = {
            let mut cancelled = pin!(token.token.cancelled());
            let timeout = self.settings.timeout;
            let mut timeout = timeout.map(|limit| Box::pin(tokio::time::sleep(limit)));
            poll_fn(|cx| {
                if poll_handler(&mut self.future, &self.span, cx, &mut reply, replies).is_ready() {
                    return Poll::Ready(Ended::Replied);
                }
                if detached.is_none() && cancelled.as_mut().poll(cx).is_ready() {
                    match &self.detached {
                        // The handler sees the token and ends when it likes.
                        Some(count) => detached = Some(Detached::count(count)),
                        None => return Poll::Ready(Ended::Cancelled),
                    }
                }
                match timeout.as_mut().map(|timeout| timeout.as_mut().poll(cx)) {
                    Some(Poll::Ready(())) => Poll::Ready(Ended::TimedOut),
                    _ => Poll::Pending,
                }
            })
            .await
        };
        let (outcome, error) = match ended {
            Ended::Replied => (reply.outcome.unwrap_or(Outcome::Error), None),
            Ended::Cancelled => {
                let cancel = caller.config().dialect.cancel.as_ref();
                let code = cancel.and_then(|cancel| cancel.answer);
                // A notification has no reply.
                let code = code.filter(|_| id.is_some());
                let error = code.map(|code| JsonRpcError::new(code, "Request cancelled"));
                (Outcome::Cancelled, error)
            }
            Ended::TimedOut => {
                token.cancel();
                let error = JsonRpcError::new(ErrorCode::REQUEST_TIMEOUT, "Request timed out");
                (Outcome::TimedOut, Some(error))
            }
        };
        // The handler may hold what others wait for, and it may panic when it is dropped.
        incident::contain(&self.method, || drop(self.future.take()));
        if let Some(error) = error {
            replies.error(&mut reply, &error);
        }
        let ended = outcome.as_str();
        self.span
            .in_scope(|| tracing::debug!(target: "caudal", outcome = ended, "ended"));
        self.span.end(outcome);
    }
}

enum Ended {
    Replied,
    Cancelled,
    TimedOut,
}

/// Polls the handler; a panic is its end, too.
fn poll_handler(
    future: &mut Option<Pin<Box<dyn HandlerFuture>>>,
    span: &CallSpan,
    cx: &mut task::Context<'_>,
    reply: &mut PendingReply<'_>,
    replies: &mut Replies<'_>,
) -> Poll<()> {
    let Some(future) = future else {
        return Poll::Ready(());
    };
    let poll = AssertUnwindSafe(|| future.as_mut().poll_reply(cx, reply, replies));
    match span.in_scope(|| catch_unwind(poll)) {
        Ok(polled) => polled,
        Err(panic) => {
            span.in_scope(|| replies.panicked(reply, panic));
            Poll::Ready(())
        }
    }
}

/// Sends the reply of a call when there is room for it. The last call of a batch sends all
/// replies.
async fn deliver(
    running: &mut RunningGuard,
    caller: &Caller,
    batch: Option<(Arc<OpenBatch>, usize)>,
    mut text: BytesMut,
) {
    if let Some((batch, place)) = batch {
        if !batch.fill(place, std::mem::take(&mut text), || running.end()) {
            return;
        }
        let framing = running.connection.framing;
        batch.write(&mut Replies::framed(caller, framing, &mut text));
    }
    if !text.is_empty() {
        running.send_reply(&text).await;
    }
}

/// Token that cancels a call.
#[derive(Clone)]
struct CallToken {
    token: CancellationToken,
    /// True if no other call has it.
    is_own: bool,
}

impl CallToken {
    fn of(call: &SuspendedCall, caller: &Caller) -> Self {
        let can_be_cancelled = caller.config().dialect.cancel.is_some();
        let (token, is_own) = match &call.context {
            Some(context) => (context.token().clone(), true),
            None if call.settings.finish || can_be_cancelled => {
                (caller.incoming().new_token(), true)
            }
            // It is cancelled only with its connection.
            None => (caller.incoming().shared_token(), false),
        };
        Self { token, is_own }
    }

    fn cancel(&self) {
        if self.is_own {
            self.token.cancel();
        }
    }
}

struct CancelOnDrop(CallToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A call of a lone message that is counted while it runs.
struct InFlight {
    caller: Caller,
    is_request: bool,
}

impl InFlight {
    fn count(caller: Caller, is_request: bool) -> Self {
        if is_request {
            caller.incoming().count_request();
        }
        Self { caller, is_request }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.is_request {
            self.caller.incoming().uncount_request();
        }
    }
}

/// A call that goes on though it was cancelled, perhaps longer than its connection.
struct Detached(Arc<AtomicUsize>);

impl Detached {
    fn count(all: &Arc<AtomicUsize>) -> Self {
        all.fetch_add(1, Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Lets no other message start until the task of a call runs, or is dropped.
struct StartBarrier(Arc<Connection>);

impl StartBarrier {
    fn new(connection: Arc<Connection>) -> Self {
        connection.add_barrier();
        Self(connection)
    }

    /// Lets other messages start, though this worker may be busy from now on. A worker of
    /// tokio keeps for itself the task that it has woken last, which is the connection's;
    /// waking another one behind it gives that one to idle workers.
    fn remove(self) {
        drop(self);
        drop(tokio::spawn(std::future::ready(())));
    }
}

impl Drop for StartBarrier {
    fn drop(&mut self) {
        self.0.remove_barrier();
    }
}

//! One incoming message, from its bytes to its reply.
//!
//! [`handle`] decodes a message, finds the handler, runs it and writes the reply. A handler
//! that must wait is returned as a [`SuspendedCall`]: a connection spawns a task for it, and
//! a lone message waits for it in place.
//!
//! ```text
//! handle → run_call → Handler::run → Replies::result
//!    └ batch: the same for each entry
//! ```

pub(crate) mod batch;
pub(crate) mod caller;
pub(crate) mod incident;
pub(crate) mod lone;
pub(crate) mod replies;
pub(crate) mod suspended;
pub(crate) mod time_slice;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task;

use caudal_core::{Decoder, Id, JsonRpcError, Message, Notification, RawJson, Request, decode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::batch::{PartialBatch, PausedBatch};
pub(crate) use self::caller::Caller;
use self::replies::{Outcome, PendingReply, Refusal, Replies};
use self::suspended::SuspendedCall;
use self::time_slice::TimeSlice;
use crate::observe::span::CallSpan;
use crate::observe::trace::{self, TraceContext, TracePlace, Traces};
use crate::router::context::{ContextBuilder, ReturnPath};
use crate::router::handler::HandlerFuture;
use crate::router::method::Settings;
use crate::router::routes::{Route, Routes};

/// Environment of a call.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    pub(crate) router: &'s Routes,
    pub(crate) caller: &'s Caller,
    pub(crate) arrival: Arrival,
    /// `None` if a batch begins one of its own.
    pub(crate) time_slice: Option<TimeSlice>,
}

/// Time at which a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Just now.
    Fresh,
    /// Before; conventions were acted on then.
    Replayed,
    /// During shutdown: its requests are refused.
    DuringShutdown,
}

/// Progress of a message.
pub(crate) enum Progress {
    /// All replies are written.
    Done,
    /// The handler of a call must wait.
    Suspended(Box<SuspendedCall>),
    /// Handlers of some entries of a batch must wait.
    Batch(Box<PartialBatch>),
    /// The time slice was over before all entries of a batch had begun.
    Paused(Box<PausedBatch>),
}

/// Runs one message: everything that can become of it is in this function and in
/// [`handle_message`].
#[inline]
pub(crate) fn handle(message: &[u8], scope: &Scope<'_>, replies: &mut Replies<'_>) -> Progress {
    let config = scope.caller.config();
    if config.trace != TracePlace::Off {
        return handle_traced(message, scope, replies);
    }
    let mut decoder = Decoder::new(message, &config.policy);
    match decoder.method_before_params() {
        // The handler reads the params as its own type, in the same pass.
        Some(method) if !config.dialect.knows(&method) => {
            let params = Params::Unread(&mut decoder);
            match run_call(&method, None, params, None, scope, replies) {
                Started::Done => Progress::Done,
                Started::Suspended(call) => Progress::Suspended(call),
                Started::NotACall(other) => {
                    handle_message(message, &other, Traces::default(), scope, replies)
                }
                Started::Panicked(panic) => {
                    let id = match decode(message, &config.policy) {
                        Message::Request(request) => Some(request.id),
                        _ => None,
                    };
                    replies.panicked(&mut PendingReply::new(id, &method), panic);
                    Progress::Done
                }
            }
        }
        _ => handle_message(
            message,
            &decoder.finish(),
            Traces::default(),
            scope,
            replies,
        ),
    }
}

#[cold]
fn handle_traced(message: &[u8], scope: &Scope<'_>, replies: &mut Replies<'_>) -> Progress {
    let config = scope.caller.config();
    let decoded = decode(message, &config.policy);
    let traces = Traces::find(config.trace, message, &decoded);
    handle_message(message, &decoded, traces, scope, replies)
}

/// Runs a message that is decoded. `text` is what it was decoded from; `traces` has the
/// trace contexts of its calls.
pub(crate) fn handle_message(
    text: &[u8],
    message: &Message<'_>,
    mut traces: Traces,
    scope: &Scope<'_>,
    replies: &mut Replies<'_>,
) -> Progress {
    match message {
        Message::Batch(entries) => batch::handle(text, entries, traces, scope, replies),
        single => {
            let trace = traces.next(single);
            match handle_single(single, trace, scope, replies) {
                Some(call) => Progress::Suspended(call),
                None => Progress::Done,
            }
        }
    }
}

/// Runs one message that is no batch, or an entry of one.
fn handle_single(
    message: &Message<'_>,
    trace: Option<Box<TraceContext>>,
    scope: &Scope<'_>,
    replies: &mut Replies<'_>,
) -> Option<Box<SuspendedCall>> {
    let caller = scope.caller;
    let (id, method, params) = match message {
        Message::Request(Request {
            id, method, params, ..
        }) => (Some(*id), method, *params),
        Message::Notification(Notification { method, params, .. }) => {
            let is_fresh = scope.arrival != Arrival::Replayed;
            if is_fresh && caller.handle_convention(method, *params) {
                return None;
            }
            (None, method, *params)
        }
        Message::Response(response) => {
            caller.settle(response);
            return None;
        }
        Message::Invalid(invalid) => {
            replies.invalid(invalid);
            return None;
        }
        _ => return None,
    };
    // Params that hold nothing but a trace context are no params of the handler.
    let in_meta = trace.is_some() && caller.config().trace == TracePlace::Meta;
    let params = params.filter(|params| !in_meta || !trace::is_all(*params));
    match run_call(method, id, Params::Read(params), trace, scope, replies) {
        Started::Suspended(call) => Some(call),
        Started::Done | Started::NotACall(_) | Started::Panicked(_) => None,
    }
}

/// Outcome of starting a call.
enum Started<'m> {
    Done,
    Suspended(Box<SuspendedCall>),
    /// The members after the params make it an invalid call.
    NotACall(Box<Message<'m>>),
    /// A `Deserialize` panicked before the id was known.
    Panicked(Box<dyn Any + Send>),
}

/// Finds the handler of a call and runs it. The id is not known yet if the params are
/// unread.
#[inline]
fn run_call<'m: 'c, 'c>(
    method: &'c str,
    id: Option<Id<'m>>,
    params: Params<'m, 'c, '_>,
    trace: Option<Box<TraceContext>>,
    scope: &Scope<'c>,
    replies: &mut Replies<'_>,
) -> Started<'m> {
    let Scope { router, caller, .. } = *scope;
    let route = router.find(method);
    if let Some(refusal) = refusal(route, scope) {
        return refuse_call(refusal, id, params, caller, replies);
    }
    // A fallback serves many names; each call has its own.
    let own = route.is_fallback().then(|| Arc::<str>::from(method));
    let name = own.as_ref().unwrap_or(&route.name);
    let span = CallSpan::begin(name, route.is_fallback());
    let mut call = HandlerCall {
        params,
        reply: PendingReply::new(id, name),
        context: ContextBuilder {
            caller,
            method: name,
            id,
            trace,
            built: None,
            is_serial: route.method.settings.serial,
            detached: &router.detached,
        },
        settings: route.method.settings,
        future: None,
    };
    // What a panic leaves half-written, `encode` cuts off again.
    let run = AssertUnwindSafe(|| route.method.handler.run(&mut call, replies));
    let ran = span.in_scope(|| catch_unwind(run));
    span.record_id(call.reply.id);
    match ran {
        Ok(Ran::Replied) => {}
        Ok(Ran::Suspended) => return Started::Suspended(call.suspend(span)),
        Ok(Ran::BadParams(error)) => {
            span.in_scope(|| replies.bad_params(&mut call.reply, error));
        }
        Ok(Ran::NotACall(message)) => return Started::NotACall(message),
        Err(panic) => match &call.params {
            Params::Read(_) => span.in_scope(|| replies.panicked(&mut call.reply, panic)),
            // No future was made yet.
            Params::Unread(_) => {
                span.end(Outcome::Error);
                return Started::Panicked(panic);
            }
        },
    }
    // A future may panic when it is dropped.
    if let Some(future) = call.future.take() {
        incident::contain(name, || drop(future));
    }
    span.end(call.reply.outcome.unwrap_or(Outcome::Error));
    Started::Done
}

/// Returns why the handler of a call must not run.
#[inline]
fn refusal(route: &Route, scope: &Scope<'_>) -> Option<Refusal<'static>> {
    let caller = scope.caller;
    if route.method.settings.calls_back && caller.return_path() < ReturnPath::Calls {
        return Some(Refusal::NoReturnPath);
    }
    // Too many calls go on though they were cancelled.
    let is_full = || scope.router.detached.load(Relaxed) >= caller.config().in_flight;
    (route.may_detach() && is_full()).then_some(Refusal::Overloaded)
}

#[cold]
fn refuse_call<'m>(
    refusal: Refusal<'_>,
    id: Option<Id<'m>>,
    params: Params<'m, '_, '_>,
    caller: &Caller,
    replies: &mut Replies<'_>,
) -> Started<'m> {
    let id = match params {
        Params::Unread(decoder) => match decoder.finish() {
            Message::Request(request) => Some(request.id),
            Message::Notification(_) => None,
            other => return Started::NotACall(Box::new(other)),
        },
        _ => id,
    };
    match id {
        Some(id) => replies.refuse(id, refusal),
        None => caller.stats().dropped(1),
    }
    Started::Done
}

/// A call that its handler reads and runs.
pub(crate) struct HandlerCall<'m, 'c, 'p> {
    params: Params<'m, 'c, 'p>,
    reply: PendingReply<'c>,
    context: ContextBuilder<'c>,
    settings: Settings,
    /// The handler's future; kept here so that it outlives a panic.
    future: Option<Pin<Box<dyn HandlerFuture>>>,
}

/// Params of a call.
enum Params<'m, 'c, 'p> {
    /// The message is decoded up to its params, and its id may follow.
    Unread(&'c mut Decoder<'m, 'p>),
    /// The message is decoded.
    Read(Option<RawJson<'m>>),
}

/// Outcome of running a call's handler.
pub(crate) enum Ran<'m> {
    /// The reply is written, or the notification is served.
    Replied,
    /// The handler must wait.
    Suspended,
    /// The handler did not run.
    BadParams(JsonRpcError),
    /// The handler did not run: the members after the params make it an invalid call.
    NotACall(Box<Message<'m>>),
}

impl<'m: 'c, 'c> HandlerCall<'m, 'c, '_> {
    /// Reads the params as the handler's own type, and the message to its end.
    ///
    /// # Errors
    /// The handler must not run.
    #[inline]
    pub(crate) fn read_params<P: DeserializeOwned>(&mut self) -> Result<P, Ran<'m>> {
        let (early, params) = match &mut self.params {
            Params::Read(params) => (None, *params),
            Params::Unread(decoder) => {
                let early = decoder.read_params::<P>();
                let params = match decoder.finish() {
                    Message::Request(request) => {
                        self.reply.id = Some(request.id);
                        request.params
                    }
                    Message::Notification(notification) => notification.params,
                    other => return Err(Ran::NotACall(Box::new(other))),
                };
                self.params = Params::Read(params);
                (early, params)
            }
        };
        self.context.id = self.reply.id;
        let read = match (early, params) {
            (Some(read), _) => read,
            (None, Some(params)) => params.read(),
            (None, None) => RawJson::NULL.read(),
        };
        read.map_err(|error| Ran::BadParams(JsonRpcError::wrong_params::<P>(params, &error)))
    }

    /// Builds the handler's [`Context`](crate::Context) if it wants one.
    pub(crate) fn context(&mut self) -> &mut ContextBuilder<'c> {
        &mut self.context
    }

    /// Writes the result of the handler.
    #[inline]
    pub(crate) fn reply<T: Serialize>(
        &mut self,
        result: Result<T, JsonRpcError>,
        replies: &mut Replies<'_>,
    ) -> Ran<'m> {
        replies.result(&mut self.reply, result);
        Ran::Replied
    }

    /// Polls the handler for the first time, unless it has a task of its own from the
    /// start. It needs no waker: a suspended call is polled again first.
    pub(crate) fn poll_first(
        &mut self,
        future: Pin<Box<dyn HandlerFuture>>,
        replies: &mut Replies<'_>,
    ) -> Ran<'m> {
        let future = self.future.insert(future);
        if self.settings.spawn {
            return Ran::Suspended;
        }
        let mut cx = task::Context::from_waker(task::Waker::noop());
        match future
            .as_mut()
            .poll_reply(&mut cx, &mut self.reply, replies)
        {
            task::Poll::Ready(()) => Ran::Replied,
            task::Poll::Pending => Ran::Suspended,
        }
    }

    /// The call as it waits for its handler.
    fn suspend(self, span: CallSpan) -> Box<SuspendedCall> {
        let context = self.context;
        Box::new(SuspendedCall {
            future: self.future,
            id: self.reply.id.map(|id| id.as_str().into()),
            method: Arc::clone(context.method),
            detached: self.settings.finish.then(|| Arc::clone(context.detached)),
            context: context.built,
            settings: self.settings,
            span,
        })
    }
}

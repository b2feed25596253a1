//! Message to reply: the rules of requests, notifications and batches live here
//! and nowhere else.
//!
//! [`frame`] decodes one frame and runs what is in it: each handler is polled
//! once, and answered if it is ready. What must wait is handed back as
//! [`Later`], for the connection to run elsewhere.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{self, Poll};

use bytes::BytesMut;
use caudal_core::{
    Decoder, ErrorCode, ErrorDetail, FrameError, Framing, Id, Invalid, InvalidKind, JsonRpcError,
    Message, Notification, RawJson, Request, decode, encode,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::Batch;
use crate::context::{Context, Maker};
use crate::handler::{Running, Settings};
use crate::incident;
use crate::peer::{Link, SameId};
use crate::router::Router;
use crate::trace::{self, TraceContext, TracePlace, Traces};
use crate::watched::{Watched, shown};

/// A call whose handler is not ready yet.
pub(crate) struct Later {
    /// Gone when it has ended.
    pub(crate) future: Option<Pin<Box<dyn Running>>>,
    /// The id's JSON text; `None` for a notification.
    pub(crate) id: Option<Box<str>>,
    pub(crate) method: Arc<str>,
    pub(crate) context: Option<Context>,
    pub(crate) settings: Settings,
    /// Where it counts when it is cancelled, if it chose to finish.
    pub(crate) outliving: Option<Arc<AtomicUsize>>,
    pub(crate) watched: Watched,
}

/// What became of a call.
pub(crate) enum Invoked<'a> {
    /// It is answered, or owes no answer.
    Done,
    /// It goes on.
    Later(Box<Later>),
    /// It was no call after all: what follows its params is not valid.
    Not(Box<Message<'a>>),
}

/// What became of a frame.
pub(crate) enum Dispatched {
    /// All is answered.
    Done,
    /// One call goes on.
    Later(Box<Later>),
    /// Some calls of a batch go on.
    Batch(Box<Unready>),
}

/// A batch of which calls go on.
pub(crate) struct Unready {
    pub(crate) batch: Batch,
    /// Each for its place in the batch; a notification has none.
    pub(crate) calls: Vec<(Option<usize>, Box<Later>)>,
    /// What is to be cancelled when they do.
    pub(crate) cancelled: Vec<SameId>,
}

/// A call whose params its handler will read.
pub(crate) enum Arriving<'a, 'd, 'p> {
    /// Read up to its params.
    Partly(&'d mut Decoder<'a, 'p>),
    /// Read to its end.
    Whole {
        id: Option<Id<'a>>,
        params: Option<RawJson<'a>>,
    },
}

/// Why a handler was not called.
pub(crate) enum Refused<'a> {
    Not(Box<Message<'a>>),
    Params(Option<Id<'a>>, JsonRpcError),
}

impl<'a> Arriving<'a, '_, '_> {
    /// Reads the params as the handler's own type, and the message to its end.
    #[inline]
    pub(crate) fn read<P: DeserializeOwned>(self) -> Result<(Option<Id<'a>>, P), Refused<'a>> {
        let (early, id, params) = match self {
            Self::Whole { id, params } => (None, id, params),
            Self::Partly(decoder) => {
                let early = decoder.read_params::<P>();
                match decoder.finish() {
                    Message::Request(request) => (early, Some(request.id), request.params),
                    Message::Notification(notification) => (early, None, notification.params),
                    other => return Err(Refused::Not(Box::new(other))),
                }
            }
        };
        let read = match (early, params) {
            (Some(read), _) => read,
            (None, Some(params)) => params.read(),
            (None, None) => RawJson::NULL.read(),
        };
        read.map(|params| (id, params))
            .map_err(|error| Refused::Params(id, JsonRpcError::wrong_params::<P>(params, &error)))
    }
}

/// Where replies go.
pub(crate) struct Exchange<'c> {
    pub(crate) link: &'c Arc<Link>,
    /// What handlers see in the place of `link`.
    pub(crate) caller: Option<&'c Arc<Link>>,
    pub(crate) out: &'c mut BytesMut,
    /// How a reply is framed; `None` within a batch.
    pub(crate) framing: Option<Framing>,
    /// Whether `out` is the connection's own, so that what handlers have sent
    /// themselves belongs into it too.
    pub(crate) inline: bool,
    /// Whether conventions were heeded when the message came.
    pub(crate) heeded: bool,
    /// What the next call came with.
    trace: Option<Box<TraceContext>>,
    /// Whether the last call was answered, or owed no answer.
    answered: bool,
    /// Whether the last answer was an error.
    failed: bool,
}

impl<'c> Exchange<'c> {
    /// Into the output of the connection, by its own task.
    pub(crate) fn inline(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            link,
            caller: None,
            out,
            framing: Some(link.framing),
            inline: true,
            heeded: false,
            trace: None,
            answered: false,
            failed: false,
        }
    }

    /// Into a frame that is sent later.
    pub(crate) fn for_frame(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            inline: false,
            ..Self::inline(link, out)
        }
    }

    /// Into a place of a batch, or without any frame.
    pub(crate) fn for_entry(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            framing: None,
            ..Self::for_frame(link, out)
        }
    }
}

impl Exchange<'_> {
    /// Runs `handler` and writes what it returns; a panic is answered too.
    #[inline]
    pub(crate) fn answer<T: Serialize>(
        &mut self,
        id: Option<Id<'_>>,
        method: &Arc<str>,
        handler: impl FnOnce() -> Option<Result<T, JsonRpcError>>,
    ) -> Poll<()> {
        self.guard(id, method, |exchange| match handler() {
            Some(result) => {
                exchange.reply(id, method, result);
                Poll::Ready(())
            }
            None => Poll::Pending,
        })
        .unwrap_or(Poll::Ready(()))
    }

    /// Runs `work`; `None` if it panicked, and then that is answered.
    #[inline]
    pub(crate) fn guard<R>(
        &mut self,
        id: Option<Id<'_>>,
        method: &impl AsRef<str>,
        work: impl FnOnce(&mut Self) -> R,
    ) -> Option<R> {
        self.answered = false;
        // What a panic leaves half-written, `encode` cuts off again.
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(done) => Some(done),
            Err(payload) => {
                let error = incident::report_panic(method.as_ref(), payload);
                // It may have come from a `Drop` after the answer.
                if !self.answered {
                    self.reply(id, method, Err::<(), _>(error));
                }
                None
            }
        }
    }

    #[inline]
    fn reply<T: Serialize>(
        &mut self,
        id: Option<Id<'_>>,
        method: &impl AsRef<str>,
        result: Result<T, JsonRpcError>,
    ) {
        self.failed = result.is_err();
        self.answered = id.is_none();
        let Some(id) = id else {
            self.link.stats.served(false, self.failed);
            if let Err(error) = result {
                log_failed_notification(method.as_ref(), &error);
            }
            return;
        };
        match &result {
            Ok(value) => {
                if let Err(error) = self.put(|out| encode::reply(out, id, value)) {
                    self.failed = true;
                    self.error(id, &incident::report(method.as_ref(), error));
                }
            }
            Err(error) => self.error(id, error),
        }
        self.answered = true;
        // Not before: what does not serialise is an error, or panics and comes here again.
        self.link.stats.served(true, self.failed);
    }

    /// Writes an error.
    pub(crate) fn error(&mut self, id: Id<'_>, error: &JsonRpcError) {
        let written: Result<(), std::convert::Infallible> = self.put(|out| {
            encode::error(out, id, error);
            Ok(())
        });
        let Ok(()) = written;
    }

    /// Writes one message.
    #[inline]
    pub(crate) fn put<E>(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.framing {
            Some(_) if self.inline => {
                // What the handler has sent goes before its answer.
                self.link.collect_output(self.out);
                self.link.write_shown(self.out, write)
            }
            Some(framing) => framing.write(self.out, write),
            None => write(self.out),
        }
    }

    /// Answers a call that its handler will not see.
    pub(crate) fn refuse<'a>(&mut self, refused: Refused<'a>, method: &Arc<str>) -> Invoked<'a> {
        match refused {
            Refused::Not(message) => Invoked::Not(message),
            Refused::Params(id, mut error) => {
                // What is not answered is logged in full.
                if id.is_some() && self.link.detail() == ErrorDetail::Minimal {
                    error.data = None;
                }
                self.reply(id, method, Err::<(), _>(error));
                Invoked::Done
            }
        }
    }

    /// Tells the sender what is wrong with a message, if it is owed that.
    pub(crate) fn invalid(&mut self, invalid: &Invalid<'_>) {
        self.link.stats.invalid();
        tracing::debug!(target: "caudal", cause = %invalid.cause, "a message is not valid");
        match invalid.kind {
            InvalidKind::Request => {
                let garbage = invalid.code == ErrorCode::PARSE_ERROR;
                if !garbage {
                    self.link.understands();
                }
                // What came by other ways, such as a POST, is answered there.
                if !garbage || !self.inline || self.link.answers_garbage() {
                    self.error(invalid.id, &invalid.to_wire(self.link.detail()));
                }
            }
            InvalidKind::Response => self.link.settle_invalid(invalid),
            _ => {}
        }
    }

    /// Tells the sender that a frame could not be read.
    pub(crate) fn bad_frame(&mut self, error: &FrameError) {
        self.link.stats.invalid();
        tracing::debug!(target: "caudal", %error, "a frame is not valid");
        if matches!(error, FrameError::TooLarge { .. }) || self.link.answers_garbage() {
            self.error(Id::NULL, &error.to_wire(self.link.detail()));
        }
    }
}

/// Not louder: whoever sends notifications could fill the log.
#[cold]
fn log_failed_notification(method: &str, error: &JsonRpcError) {
    let method = shown(method);
    tracing::debug!(target: "caudal", method, %error, "a notification failed");
}

/// Decodes a frame, runs what is in it, and writes the answers that are ready.
#[inline]
pub(crate) fn frame(router: &Router, frame: &[u8], exchange: &mut Exchange<'_>) -> Dispatched {
    let link = exchange.link;
    if link.config.trace != TracePlace::Off {
        return traced(router, frame, exchange);
    }
    let mut decoder = Decoder::new(frame, &link.config.policy);
    // Reading params ahead pays when their type is known; conventions are not
    // handlers and are seen in full.
    if let Some(name) = decoder.method_before_params() {
        if link.knows(&name) {
            return rest(router, decoder, exchange);
        }
        let work =
            AssertUnwindSafe(|| call(router, &name, Arriving::Partly(&mut decoder), exchange));
        return match catch_unwind(work) {
            Ok(Invoked::Done) => Dispatched::Done,
            Ok(Invoked::Later(later)) => Dispatched::Later(later),
            Ok(Invoked::Not(other)) => message(router, &other, Traces::default(), exchange),
            Err(payload) => {
                panicked(frame, &name, payload, exchange);
                Dispatched::Done
            }
        };
    }
    rest(router, decoder, exchange)
}

/// Runs what is read to its end before it is known what to do.
#[inline(never)]
fn rest(router: &Router, mut decoder: Decoder<'_, '_>, exchange: &mut Exchange<'_>) -> Dispatched {
    message(router, &decoder.finish(), Traces::default(), exchange)
}

/// Answers a call of which something has panicked before its handler ran, or after it.
#[cold]
fn panicked(frame: &[u8], name: &str, payload: Box<dyn Any + Send>, exchange: &mut Exchange<'_>) {
    let error = incident::report_panic(name, payload);
    // It may have come after the answer; or from somebody's `Deserialize`, and then the
    // id is not known yet.
    if !exchange.answered {
        let id = match decode(frame, &exchange.link.config.policy) {
            Message::Request(request) => Some(request.id),
            _ => None,
        };
        exchange.reply(id, &name, Err::<(), _>(error));
    }
}

/// The same where calls may have a trace context.
#[cold]
fn traced(router: &Router, frame: &[u8], exchange: &mut Exchange<'_>) -> Dispatched {
    let config = &exchange.link.config;
    let decoded = decode(frame, &config.policy);
    let traces = Traces::find(config.trace, frame, &decoded);
    message(router, &decoded, traces, exchange)
}

/// Runs a decoded message; its calls have these trace contexts.
pub(crate) fn message(
    router: &Router,
    message: &Message<'_>,
    mut traces: Traces,
    exchange: &mut Exchange<'_>,
) -> Dispatched {
    match message {
        Message::Batch(entries) => batch(router, entries, traces, exchange),
        single => {
            exchange.trace = traces.next(single);
            match entry(router, single, exchange) {
                Some(later) => Dispatched::Later(later),
                None => Dispatched::Done,
            }
        }
    }
}

/// Runs one message, alone or in a batch.
fn entry(
    router: &Router,
    message: &Message<'_>,
    exchange: &mut Exchange<'_>,
) -> Option<Box<Later>> {
    let (id, name, params) = match message {
        Message::Request(Request {
            id, method, params, ..
        }) => (Some(*id), method, *params),
        Message::Notification(Notification { method, params, .. }) => {
            if !exchange.heeded && exchange.link.convention(method, *params) {
                return None;
            }
            (None, method, *params)
        }
        Message::Response(response) => {
            exchange.link.settle(response);
            return None;
        }
        Message::Invalid(invalid) => {
            exchange.invalid(invalid);
            return None;
        }
        _ => return None,
    };
    // Where they were written for the context alone, the caller gave none.
    let meta = exchange.trace.is_some() && exchange.link.config.trace == TracePlace::Meta;
    let params = params.filter(|params| !meta || !trace::is_all(*params));
    match exchange.guard(id, name, |exchange| {
        call(router, name, Arriving::Whole { id, params }, exchange)
    }) {
        Some(Invoked::Later(later)) => Some(later),
        _ => None,
    }
}

/// Finds the handler and calls it.
#[inline]
fn call<'a>(
    router: &Router,
    name: &str,
    arriving: Arriving<'a, '_, '_>,
    exchange: &mut Exchange<'_>,
) -> Invoked<'a> {
    let link = exchange.link;
    let route = router.find(name);
    let Settings {
        finish, blocking, ..
    } = route.method.settings;
    if (finish || blocking) && router.outliving.load(Relaxed) >= link.config.limits.in_flight {
        return exchange.turn_away_call(arriving);
    }
    // A fallback serves many names; each call has its own.
    let own: Arc<str>;
    let method = match route.name.is_empty() {
        false => &route.name,
        true => {
            own = name.into();
            &own
        }
    };
    let watched = Watched::begin(method, route.name.is_empty());
    let mut maker = Maker {
        link,
        caller: exchange.caller,
        method,
        id: None,
        trace: exchange.trace.take(),
        context: None,
        serial: route.method.settings.serial,
        outliving: &router.outliving,
    };
    let invoke = &route.method.invoke;
    let invoked =
        watched.within(|| invoke.invoke(arriving, &mut maker, exchange, route.method.settings));
    watched.identify(maker.id);
    match invoked {
        Invoked::Done => watched.end(exchange.outcome()),
        Invoked::Later(mut later) => {
            later.watched = watched;
            later.outliving = finish.then(|| Arc::clone(&router.outliving));
            return Invoked::Later(later);
        }
        Invoked::Not(_) => {}
    }
    invoked
}

/// Runs the entries of a batch; their answers keep the order of the entries.
fn batch(
    router: &Router,
    entries: &[Message<'_>],
    mut traces: Traces,
    exchange: &mut Exchange<'_>,
) -> Dispatched {
    let (link, caller) = (exchange.link, exchange.caller);
    let mut batch = Batch::with_room(entries.len());
    let (mut calls, mut cancelled) = (Vec::new(), Vec::new());
    for message in entries {
        // It may mean one of this very batch, none of which goes on yet.
        if let Message::Notification(Notification { method, params, .. }) = message
            && let Some(id) = link.cancelled_by(method, *params)
        {
            traces.next(message);
            cancelled.extend(id);
            continue;
        }
        let place = batch.begin();
        let mut inner = Exchange::for_entry(link, &mut batch.text);
        inner.caller = caller;
        inner.trace = traces.next(message);
        let full = link.is_full(calls.len()) || link.owes_too_much(inner.out.len());
        let waits = match message {
            Message::Request(request) if full => {
                inner.turn_away(request.id, false);
                None
            }
            message => {
                let silent = !matches!(message, Message::Request(_) | Message::Invalid(_));
                entry(router, message, &mut inner).map(|later| (silent, later))
            }
        };
        match waits {
            Some((true, notification)) => calls.push((None, notification)),
            Some((false, request)) => calls.push((Some(batch.leave_open(place)), request)),
            None => batch.end(place),
        }
    }
    if calls.is_empty() {
        cancelled.iter().for_each(|id| link.cancel(id));
        batch.write(exchange);
        return Dispatched::Done;
    }
    Dispatched::Batch(Box::new(Unready {
        batch,
        calls,
        cancelled,
    }))
}

impl Exchange<'_> {
    /// How the last call ended, in a word.
    pub(crate) fn outcome(&self) -> &'static str {
        if self.failed { "error" } else { "ok" }
    }

    /// Answers a request that there is no room for, or no time any more.
    pub(crate) fn turn_away(&mut self, id: Id<'_>, shutting_down: bool) {
        let why = match shutting_down {
            true => "Server is shutting down",
            false => "Server overloaded",
        };
        self.link.stats.overloaded();
        self.error(id, &JsonRpcError::new(-32_000, why));
    }

    /// The same for a call of which perhaps not all is read.
    #[cold]
    fn turn_away_call<'a>(&mut self, arriving: Arriving<'a, '_, '_>) -> Invoked<'a> {
        let id = match arriving {
            Arriving::Whole { id, .. } => id,
            Arriving::Partly(decoder) => match decoder.finish() {
                Message::Request(request) => Some(request.id),
                Message::Notification(_) => None,
                other => return Invoked::Not(Box::new(other)),
            },
        };
        match id {
            Some(id) => self.turn_away(id, false),
            None => self.link.stats.dropped(1),
        }
        Invoked::Done
    }
}

impl Later {
    /// Polls the handler; when it is done its answer is in `exchange`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut task::Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Poll<()> {
        let id = self.id.as_deref().and_then(|id| Id::parse(id).ok());
        let Some(future) = &mut self.future else {
            return Poll::Ready(());
        };
        let (future, method) = (future.as_mut(), &self.method);
        self.watched
            .within(|| future.poll_reply(cx, id, method, exchange))
    }
}

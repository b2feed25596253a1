//! Message to reply: the rules of requests, notifications and batches live here
//! and nowhere else.
//!
//! [`frame`] decodes one frame and runs what is in it: each handler is polled
//! once, and answered if it is ready. What must wait is handed back as
//! [`Later`], for the connection to run elsewhere.

mod exchange;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{self, Poll};

use caudal_core::{Decoder, Id, JsonRpcError, Message, Notification, RawJson, Request, decode};
use serde::de::DeserializeOwned;

pub(crate) use self::exchange::{Came, Exchange};

use crate::batch::Batch;
use crate::context::{Context, Maker};
use crate::handler::{Running, Settings};
use crate::incident;
use crate::peer::SameId;
use crate::router::Router;
use crate::trace::{self, TracePlace, Traces};
use crate::watched::Watched;

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
    let error = incident::report_panic(name, None, payload);
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
            if exchange.came != Came::Heeded && exchange.link.convention(method, *params) {
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
    let late = exchange.came == Came::Late;
    let mut batch = Batch::with_room(entries.len());
    let (mut calls, mut cancelled, mut open) = (Vec::new(), Vec::new(), 0);
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
        let full = link.is_full(open) || link.owes_too_much(inner.out.len());
        let waits = match message {
            Message::Request(request) if late || full => {
                inner.turn_away(request.id, late);
                None
            }
            message => {
                let silent = !matches!(message, Message::Request(_) | Message::Invalid(_));
                entry(router, message, &mut inner).map(|later| (silent, later))
            }
        };
        match waits {
            Some((true, notification)) => calls.push((None, notification)),
            Some((false, request)) => {
                open += 1;
                calls.push((Some(batch.leave_open(place)), request));
            }
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

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

use caudal_core::decode::Entries;
use caudal_core::{Decoder, Id, JsonRpcError, Message, Notification, RawJson, Request, decode};
use serde::de::DeserializeOwned;

pub(crate) use self::exchange::{Came, Exchange};

use crate::batch::Batch;
use crate::context::{Context, Maker};
use crate::handler::{Running, Settings};
use crate::incident;
use crate::peer::{Link, SameId};
use crate::router::Router;
use crate::trace::{self, TracePlace, Traces};
use crate::turn::Turn;
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
    /// Entries of a batch have not begun: its turn was over before.
    Paused(Box<PausedBatch>),
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
            return rest(router, frame, decoder, exchange);
        }
        let work =
            AssertUnwindSafe(|| call(router, &name, Arriving::Partly(&mut decoder), exchange));
        return match catch_unwind(work) {
            Ok(Invoked::Done) => Dispatched::Done,
            Ok(Invoked::Later(later)) => Dispatched::Later(later),
            Ok(Invoked::Not(other)) => message(router, frame, &other, Traces::default(), exchange),
            Err(payload) => {
                panicked(frame, &name, payload, exchange);
                Dispatched::Done
            }
        };
    }
    rest(router, frame, decoder, exchange)
}

/// Runs what is read to its end before it is known what to do.
#[inline(never)]
fn rest(
    router: &Router,
    frame: &[u8],
    mut decoder: Decoder<'_, '_>,
    exchange: &mut Exchange<'_>,
) -> Dispatched {
    message(
        router,
        frame,
        &decoder.finish(),
        Traces::default(),
        exchange,
    )
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
    message(router, frame, &decoded, traces, exchange)
}

/// Runs the message that `frame` was decoded to; its calls have these trace contexts.
pub(crate) fn message(
    router: &Router,
    frame: &[u8],
    message: &Message<'_>,
    mut traces: Traces,
    exchange: &mut Exchange<'_>,
) -> Dispatched {
    match message {
        Message::Batch(entries) => batch(router, frame, entries, traces, exchange),
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
    let watched = Watched::begin(method, route);
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
    frame: &[u8],
    entries: &[Message<'_>],
    traces: Traces,
    exchange: &mut Exchange<'_>,
) -> Dispatched {
    let turn = exchange.turn.unwrap_or_else(Turn::begin);
    let mut running = RunningBatch {
        batch: Batch::with_room(entries.len()),
        calls: Vec::new(),
        cancelled: Vec::new(),
        open: 0,
        is_late: exchange.came == Came::Late,
        traces,
    };
    let mut left = entries.iter();
    while let Some(message) = left.next() {
        running.run(router, message, exchange);
        if turn.is_over() && !left.as_slice().is_empty() {
            let begun = entries.len() - left.as_slice().len();
            settle_responses(exchange.link, left.as_slice());
            let begun = entries
                .iter()
                .take(begun)
                .filter(|entry| !is_response(entry));
            return running.pause(frame, begun.count(), exchange.link);
        }
    }
    running.end(exchange)
}

/// Settles the calls that are answered in entries which have not begun: responses never
/// wait.
fn settle_responses(link: &Link, entries: &[Message<'_>]) {
    for entry in entries {
        if let Message::Response(response) = entry {
            link.settle(response);
        }
    }
}

const fn is_response(entry: &Message<'_>) -> bool {
    matches!(entry, Message::Response(_))
}

/// A batch of which entries are begun one after the other.
struct RunningBatch {
    batch: Batch,
    calls: Vec<(Option<usize>, Box<Later>)>,
    cancelled: Vec<SameId>,
    /// How many requests among the calls.
    open: usize,
    is_late: bool,
    traces: Traces,
}

impl RunningBatch {
    /// Runs one entry.
    fn run(&mut self, router: &Router, message: &Message<'_>, exchange: &mut Exchange<'_>) {
        let (link, is_late) = (exchange.link, self.is_late);
        // It may mean one of this very batch, none of which goes on yet.
        if let Message::Notification(Notification { method, params, .. }) = message
            && let Some(id) = link.cancelled_by(method, *params)
        {
            self.traces.next(message);
            self.cancelled.extend(id);
            return;
        }
        let place = self.batch.begin();
        let mut inner = Exchange::for_entry(link, &mut self.batch.text);
        inner.caller = exchange.caller;
        inner.trace = self.traces.next(message);
        let full = link.is_full(self.open) || link.owes_too_much(inner.out.len());
        let waits = match message {
            Message::Request(request) if is_late || full => {
                inner.turn_away(request.id, is_late);
                None
            }
            message => {
                let silent = !matches!(message, Message::Request(_) | Message::Invalid(_));
                entry(router, message, &mut inner).map(|later| (silent, later))
            }
        };
        match waits {
            Some((true, notification)) => self.calls.push((None, notification)),
            Some((false, request)) => {
                self.open += 1;
                let place = self.batch.leave_open(place);
                self.calls.push((Some(place), request));
            }
            None => self.batch.end(place),
        }
    }

    /// Keeps the entries behind the first `begun`, not counting responses, for another
    /// turn.
    fn pause(self, frame: &[u8], begun: usize, link: &Link) -> Dispatched {
        let text: Box<str> = String::from_utf8_lossy(frame).into();
        let mut entries = Entries::at(&text, 0, &link.config.policy);
        let passed = entries.by_ref().filter(|entry| !is_response(entry));
        passed.take(begun).for_each(drop);
        let position = entries.position();
        Dispatched::Paused(Box::new(PausedBatch {
            running: self,
            text,
            position,
        }))
    }

    /// Writes the replies if no call goes on.
    fn end(self, exchange: &mut Exchange<'_>) -> Dispatched {
        if self.calls.is_empty() {
            self.cancelled
                .iter()
                .for_each(|id| exchange.link.cancel(id));
            self.batch.write(exchange);
            return Dispatched::Done;
        }
        Dispatched::Batch(Box::new(Unready {
            batch: self.batch,
            calls: self.calls,
            cancelled: self.cancelled,
        }))
    }
}

/// A batch whose turn was over before all of its entries had begun.
pub(crate) struct PausedBatch {
    running: RunningBatch,
    text: Box<str>,
    /// Where in it the entries are that have not begun.
    position: usize,
}

impl PausedBatch {
    /// Begins further entries; all, or as many as fit into one turn.
    pub(crate) fn resume(
        mut self: Box<Self>,
        router: &Router,
        exchange: &mut Exchange<'_>,
    ) -> Dispatched {
        let turn = exchange.turn.unwrap_or_else(Turn::begin);
        let link = exchange.link;
        let mut entries = Entries::at(&self.text, self.position, &link.config.policy);
        while let Some(message) = entries.next() {
            // A response was settled when the batch came.
            if is_response(&message) {
                continue;
            }
            self.running.run(router, &message, exchange);
            if turn.is_over() {
                self.position = entries.position();
                return Dispatched::Paused(self);
            }
        }
        self.running.end(exchange)
    }

    /// Cancels these calls of the batch when all have begun.
    pub(crate) fn cancel(&mut self, ids: &[SameId]) {
        self.running.cancelled.extend_from_slice(ids);
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

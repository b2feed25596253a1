//! Messages without a connection: a POST, or [`Router::handle`].
//!
//! Such a message runs in the task that received it, and its reply is returned there.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Message, decode};
use tokio::task::yield_now;

use super::caller::Caller;
use super::replies::{Refusal, Replies};
use super::{Arrival, Progress, Scope, handle};
use crate::config::Config;
use crate::connection::incoming::IncomingCalls;
use crate::extensions::Extensions;
use crate::observe::stats::{Counters, Stats};
use crate::observe::tap::Direction;
use crate::peer::id::LazyPeerId;
use crate::router::routes::Routes;

/// State shared by lone messages from one place: those of an HTTP connection, of a mounted
/// service, or of [`Router::handle`].
pub(crate) struct LoneOrigin {
    pub(crate) config: Arc<Config>,
    pub(crate) stats: Counters,
    pub(crate) incoming: IncomingCalls,
    /// Address of the other side, if it is known.
    pub(crate) remote: Option<String>,
}

impl LoneOrigin {
    pub(crate) fn new(config: Arc<Config>, remote: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            incoming: IncomingCalls::new(&config),
            config,
            stats: Counters::default(),
            remote,
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.stats.snapshot();
        stats.in_flight = self.incoming.in_flight() as u64;
        stats
    }
}

/// One message without a connection, as its handlers see it.
pub(crate) struct LoneExchange {
    pub(crate) origin: Arc<LoneOrigin>,
    pub(crate) id: LazyPeerId,
    extensions: OnceLock<Extensions>,
}

impl LoneExchange {
    pub(crate) fn new(origin: &Arc<LoneOrigin>) -> Arc<Self> {
        Arc::new(Self {
            origin: Arc::clone(origin),
            id: LazyPeerId::default(),
            extensions: OnceLock::new(),
        })
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        self.extensions.get_or_init(Extensions::default)
    }
}

/// Maximum length of a reply that is copied out of the spare buffer.
const SHORT: usize = 256;

thread_local! {
    /// Replies are written into this buffer. Short ones are copied out, which costs one
    /// allocation of their own size.
    static SPARE: Cell<BytesMut> = Cell::default();
}

/// Runs one message until a handler must wait. The future returns its reply, or `None` if it
/// needs none. It does not keep the message.
///
/// # Cancel safety
/// Dropping the future cancels what the message began.
pub(crate) fn run<'r>(
    router: &'r Routes,
    exchange: Arc<LoneExchange>,
    message: &[u8],
) -> impl Future<Output = Option<Bytes>> + Send + use<'r> {
    let caller = Caller::Lone(exchange);
    let begun = match begin(router, &caller, message) {
        (Progress::Done, reply) => Ok(sent(&caller, reply)),
        // In memory of its own, so that a message that waits for nothing does not need it.
        (progress, reply) => Err(Box::pin(async move {
            finish(router, &caller, progress, reply).await
        })),
    };
    async move {
        match begun {
            Ok(reply) => reply,
            Err(rest) => rest.await,
        }
    }
}

/// Runs a message until a handler must wait; returns what was written until then.
fn begin(router: &Routes, caller: &Caller, message: &[u8]) -> (Progress, Bytes) {
    caller.show(Direction::Received, message);
    SPARE.with(|spare| {
        let mut out = spare.take();
        out.reserve(SHORT);
        let mut replies = Replies::bare(caller, &mut out);
        let progress = match refused_id(caller, message) {
            Some(id) => {
                replies.refuse(id, Refusal::Overloaded);
                Progress::Done
            }
            None => handle(message, &scope(router, caller), &mut replies),
        };
        let written = match out.len() {
            ..=SHORT => Bytes::copy_from_slice(&out),
            _ => std::mem::take(&mut out).freeze(),
        };
        out.clear();
        spare.set(out);
        (progress, written)
    })
}

/// Waits for the handlers of a message.
async fn finish(
    router: &Routes,
    caller: &Caller,
    mut progress: Progress,
    written: Bytes,
) -> Option<Bytes> {
    let mut reply = written;
    while let Progress::Paused(batch) = progress {
        yield_now().await;
        let mut out = BytesMut::new();
        progress = batch.resume(&scope(router, caller), &mut Replies::bare(caller, &mut out));
        reply = out.freeze();
    }
    let reply = match progress {
        Progress::Suspended(call) => call.run(caller).await.freeze(),
        Progress::Batch(batch) => batch.run(caller).await.freeze(),
        Progress::Done | Progress::Paused(_) => reply,
    };
    sent(caller, reply)
}

fn scope<'s>(router: &'s Routes, caller: &'s Caller) -> Scope<'s> {
    Scope {
        router,
        caller,
        arrival: Arrival::Fresh,
        time_slice: None,
    }
}

/// The reply, unless it is empty.
fn sent(caller: &Caller, reply: Bytes) -> Option<Bytes> {
    if reply.is_empty() {
        return None;
    }
    caller.show(Direction::Sent, &reply);
    Some(reply)
}

/// The id under which a message is refused as a whole, if there is no room for it. Entries
/// of a batch are refused one by one, unless there is no room for their replies.
#[inline]
fn refused_id<'m>(caller: &Caller, message: &'m [u8]) -> Option<Id<'m>> {
    let incoming = caller.incoming();
    let retains_too_much = incoming.retains_too_much(0);
    if !retains_too_much && !incoming.is_full(0) {
        return None;
    }
    let wants_reply =
        |entry: &Message<'_>| matches!(entry, Message::Request(_) | Message::Invalid(_));
    match decode(message, &caller.config().policy) {
        Message::Request(request) => Some(request.id),
        Message::Batch(entries) if retains_too_much && entries.iter().any(wants_reply) => {
            Some(Id::NULL)
        }
        _ => None,
    }
}

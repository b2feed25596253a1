//! A message that stands alone: answered in the task of whoever brought it, where there
//! is no connection to answer on.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Message, decode};

use crate::dispatch::{Dispatched, Exchange, Unready, frame};
use crate::handler::BoxFuture;
use crate::peer::{self, Link};
use crate::router::Router;
use crate::together::Together;

/// Answers one message in the caller's own task.
pub(crate) async fn handle(router: &Router, bytes: &[u8]) -> Option<Bytes> {
    let link = router.nowhere.get_or_init(|| Link::nowhere(Arc::default()));
    match begin(router, link, None, bytes) {
        Ok(answer) => answer,
        Err(rest) => rest.await,
    }
}

/// What a short answer has at most.
const SHORT: usize = 256;

thread_local! {
    /// Short answers are written into this and copied out, which costs one allocation
    /// of their own size.
    static SPARE: Cell<BytesMut> = Cell::default();
}

/// Answers one message on behalf of a connection, as far as nobody must be waited for.
///
/// `caller` is what handlers see of it, if somebody has looked at who calls.
///
/// # Errors
/// The rest, which has room elsewhere. If it is dropped, what the message began is
/// cancelled.
pub(crate) fn begin(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
) -> Result<Option<Bytes>, BoxFuture<Option<Bytes>>> {
    link.show_received(bytes);
    let (begun, written) = SPARE.with(|spare| {
        let mut out = spare.take();
        out.reserve(SHORT);
        let begun = dispatch(router, link, caller, bytes, &mut out);
        let written = match out.len() {
            ..=SHORT => Bytes::copy_from_slice(&out),
            _ => std::mem::take(&mut out).freeze(),
        };
        out.clear();
        spare.set(out);
        (begun, written)
    });
    match begun {
        Dispatched::Done => Ok(sent(link, written)),
        unready => Err(finish(Arc::clone(link), unready)),
    }
}

/// Waits in the caller's own task for what a message has begun.
#[inline(never)]
fn finish(link: Arc<Link>, begun: Dispatched) -> BoxFuture<Option<Bytes>> {
    Box::pin(async move {
        let text = match begun {
            Dispatched::Done => return None,
            Dispatched::Later(later) => peer::run(&link, later).await,
            // What comes alone is cancelled by going away.
            Dispatched::Batch(unready) => wait(&link, *unready).await,
        };
        sent(&link, text.freeze())
    })
}

/// The answer, unless it is none.
fn sent(link: &Link, text: Bytes) -> Option<Bytes> {
    if text.is_empty() {
        return None;
    }
    link.show_sent(&text);
    Some(text)
}

fn dispatch(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
    out: &mut BytesMut,
) -> Dispatched {
    let mut exchange = Exchange::for_entry(link, out);
    exchange.caller = caller;
    let owes_too_much = link.owes_too_much(0);
    if (link.is_full(0) || owes_too_much) && turns_away(bytes, owes_too_much, &mut exchange) {
        return Dispatched::Done;
    }
    frame(router, bytes, &mut exchange)
}

/// Answers a message that there is no room for, if it is one that asks.
#[cold]
fn turns_away(bytes: &[u8], owes_too_much: bool, exchange: &mut Exchange<'_>) -> bool {
    let message = decode(bytes, &exchange.link.config.policy);
    let id = refused(&message, owes_too_much);
    if let Some(id) = id {
        exchange.turn_away(id, false);
    }
    id.is_some()
}

/// Under which id a message is refused as a whole, where no request may begin. The entries
/// of a batch are judged one by one, unless answers are what there is no room for.
fn refused<'m>(message: &Message<'m>, owes_too_much: bool) -> Option<Id<'m>> {
    let asks = |entry: &Message<'_>| matches!(entry, Message::Request(_) | Message::Invalid(_));
    match message {
        Message::Request(request) => Some(request.id),
        Message::Batch(entries) if owes_too_much && entries.iter().any(asks) => Some(Id::NULL),
        _ => None,
    }
}

/// Waits for the entries of a batch that were not ready.
async fn wait(link: &Arc<Link>, unready: Unready) -> BytesMut {
    let Unready {
        mut batch, calls, ..
    } = unready;
    let run = |(place, later)| async move { (place, peer::run(link, later).await) };
    let mut running = Together::new(calls.into_iter().map(run));
    poll_fn(|cx| {
        running.poll(cx, |(place, text)| {
            if let Some(place) = place {
                batch.fill(place, text);
            }
        })
    })
    .await;
    let mut out = BytesMut::new();
    batch.write(&mut Exchange::for_entry(link, &mut out));
    out
}

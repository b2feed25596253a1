//! A message that stands alone: answered in the task of whoever brought it, where there
//! is no connection to answer on.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Message, decode};
use tokio::task::yield_now;

use super::suspended;
use super::together::Together;
use super::{Dispatched, Exchange, Unready, frame};
use crate::connection::Link;
use crate::router::Router;
#[cfg(feature = "http")]
use crate::router::handler::BoxFuture;

/// Answers one message in the caller's own task.
pub(crate) async fn handle(router: &Router, bytes: &[u8]) -> Option<Bytes> {
    let link = router.nowhere.get_or_init(|| Link::nowhere(Arc::default()));
    match begin(router, link, None, bytes) {
        (Dispatched::Done, written) => sent(link, written),
        (unready, _) => finish(router, link, None, unready).await,
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
#[cfg(feature = "http")]
pub(crate) fn exchange(
    router: &Arc<Router>,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
) -> Result<Option<Bytes>, BoxFuture<Option<Bytes>>> {
    match begin(router, link, caller, bytes) {
        (Dispatched::Done, written) => Ok(sent(link, written)),
        (unready, _) => {
            let (router, link, caller) = (Arc::clone(router), Arc::clone(link), caller.cloned());
            Err(Box::pin(async move {
                finish(&router, &link, caller.as_ref(), unready).await
            }))
        }
    }
}

/// Runs a message as far as nobody must be waited for; with what that has written.
fn begin(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
) -> (Dispatched, Bytes) {
    link.show_received(bytes);
    SPARE.with(|spare| {
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
    })
}

/// Waits in the caller's own task for what a message has begun.
async fn finish(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    mut begun: Dispatched,
) -> Option<Bytes> {
    let mut out = BytesMut::new();
    while let Dispatched::Paused(batch) = begun {
        yield_now().await;
        let mut exchange = Exchange::for_entry(link, &mut out);
        exchange.caller = caller;
        begun = batch.resume(router, &mut exchange);
    }
    let text = match begun {
        Dispatched::Later(later) => suspended::run(link, later).await,
        // What comes alone is cancelled by going away.
        Dispatched::Batch(unready) => wait(link, *unready).await,
        Dispatched::Done | Dispatched::Paused(_) => out,
    };
    sent(link, text.freeze())
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
    let run = |(place, later)| async move { (place, suspended::run(link, later).await) };
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

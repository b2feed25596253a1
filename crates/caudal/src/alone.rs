//! A message that stands alone: answered in the task of whoever brought it, where there
//! is no connection to answer on.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use caudal_core::{Message, decode};

use crate::batch::Batch;
use crate::dispatch::{Dispatched, Exchange, Later, frame};
use crate::peer::{self, Link};
use crate::router::Router;
use crate::together::Together;

/// Answers one message in the caller's own task.
pub(crate) async fn handle(router: &Router, bytes: &[u8]) -> Option<Bytes> {
    let link = router.nowhere.get_or_init(|| Link::nowhere(Arc::default()));
    answer(router, link, None, bytes).await
}

/// What a short answer has at most.
const SHORT: usize = 256;

thread_local! {
    /// Short answers are written into this and copied out, which costs one allocation
    /// of their own size.
    static SPARE: Cell<BytesMut> = Cell::default();
}

/// Answers one message in the caller's own task, on behalf of a connection.
///
/// `caller` is what handlers see of it, if somebody has looked at who calls.
///
/// # Cancel safety
/// If it is dropped, what the message began is cancelled.
pub(crate) async fn answer(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
) -> Option<Bytes> {
    link.show_received(bytes);
    let mut out = SPARE.take();
    out.reserve(SHORT);
    let begun = begin(router, link, caller, bytes, &mut out);
    let written = match out.len() {
        ..=SHORT => Bytes::copy_from_slice(&out),
        _ => std::mem::take(&mut out).freeze(),
    };
    out.clear();
    SPARE.set(out);
    // Most are answered at once; what must wait has room elsewhere.
    let text = match begun {
        Dispatched::Done => written,
        Dispatched::Later(later) => Box::pin(peer::run(link, later)).await.freeze(),
        // What comes alone is cancelled by going away.
        Dispatched::Batch(batch, waiting, _) => Box::pin(wait(link, batch, waiting)).await.freeze(),
    };
    if text.is_empty() {
        return None;
    }
    link.show_sent(&text);
    Some(text)
}

fn begin(
    router: &Router,
    link: &Arc<Link>,
    caller: Option<&Arc<Link>>,
    bytes: &[u8],
    out: &mut BytesMut,
) -> Dispatched {
    let mut exchange = Exchange::for_entry(link, out);
    exchange.caller = caller;
    // The entries of a batch are judged one by one.
    if (link.is_full(0) || link.owes_too_much(0))
        && let Message::Request(request) = decode(bytes, &link.config.policy)
    {
        exchange.turn_away(request.id, false);
        return Dispatched::Done;
    }
    frame(router, bytes, &mut exchange)
}

/// Waits for the entries of a batch that were not ready.
async fn wait(
    link: &Arc<Link>,
    mut batch: Batch,
    waiting: Vec<(Option<usize>, Later)>,
) -> BytesMut {
    let run = |(place, later)| async move { (place, peer::run(link, later).await) };
    let mut running = Together::new(waiting.into_iter().map(run));
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

//! Resets a stream of HTTP/2 whose client reads nothing. Other streams of its connection go on.
//!
//! hyper takes a piece of a body, then waits until the client has room for it, and does not
//! poll the body meanwhile. For this reason the task of the stream is watched: if it is
//! pending after it has got a piece, it waits for the client. If the task is dropped, the
//! stream is reset.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::call::lone::LoneOrigin;
use crate::connection::deadline::after;
use crate::http::server::body::Flow;

/// The largest frame that every client takes.
const PIECE: usize = 16 << 10;
/// Maximum bytes of a text that is passed on whole. h2 buffers it, and its wait for the client
/// cannot be observed.
const LITTLE: usize = 1 << 10;

/// Takes the next piece off a text. hyper passes a piece on as soon as there is room for
/// one byte of it, so the last one of a text that is not short is one byte: when that is
/// passed on, there is room for all.
fn cut(text: &mut Bytes) -> Bytes {
    match text.len() {
        0..=LITTLE => std::mem::take(text),
        size => text.split_to(PIECE.min(size - 1)),
    }
}

/// Result of the last poll of a stream's body.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    /// The body returned a piece.
    Gave,
    /// The body has no piece yet.
    Waits,
}

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(Asked::Nothing) };
}

/// A body that is passed to hyper in pieces: a text, and the flow that follows it.
pub(in crate::http::server) struct Pieces {
    rest: Bytes,
    flow: Option<Pin<Box<dyn Flow>>>,
    _retained: Retained,
}

impl Pieces {
    pub(in crate::http::server) const fn new(
        rest: Bytes,
        flow: Option<Pin<Box<dyn Flow>>>,
        retained: Retained,
    ) -> Self {
        Self {
            rest,
            flow,
            _retained: retained,
        }
    }
}

/// Bytes of a reply that count for the output limit of their connection until they are taken:
/// a connection may have many replies at once.
pub(in crate::http::server) struct Retained {
    origin: Arc<LoneOrigin>,
    bytes: usize,
}

impl Retained {
    pub(in crate::http::server) fn new(origin: &Arc<LoneOrigin>, bytes: u64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        origin.incoming.count_retained(bytes);
        Self {
            origin: Arc::clone(origin),
            bytes,
        }
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.origin.incoming.uncount_retained(self.bytes);
    }
}

impl Flow for Pieces {
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        ASKED.set(Asked::Waits);
        let this = &mut *self;
        if let (true, Some(flow)) = (this.rest.is_empty(), &mut this.flow) {
            this.rest = ready!(flow.as_mut().poll_piece(cx)).unwrap_or_default();
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        ASKED.set(Asked::Gave);
        Poll::Ready(Some(cut(&mut self.rest)))
    }
}

/// Runs the streams of a connection. A stream is dropped if its client reads nothing of it
/// within the limit.
#[derive(Clone, Debug)]
pub(in crate::http::server) struct Streams {
    pub(super) limit: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(run(stream, self.limit));
    }
}

async fn run(stream: impl Future, limit: Duration) {
    let mut stream = pin!(stream);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        ASKED.set(Asked::Nothing);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let until = || after(Instant::now(), limit);
        match (ASKED.get(), &mut timer) {
            (Asked::Nothing, _) => {}
            (Asked::Waits, timer) => *timer = None,
            // The piece before it was taken.
            (Asked::Gave, Some(timer)) => timer.as_mut().reset(until()),
            (Asked::Gave, timer) => *timer = Some(Box::pin(sleep_until(until()))),
        }
        let Some(timer) = &mut timer else {
            return Poll::Pending;
        };
        timer.as_mut().poll(cx).map(|()| {
            tracing::debug!(target: "caudal", "a stream was reset: its client takes nothing");
        })
    })
    .await;
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Polled once for each of these, with a pause after it.
    async fn stream(asked_for: &[Asked], pause: Duration) {
        for was in asked_for {
            ASKED.set(*was);
            sleep(pause).await;
        }
    }

    /// Returns true if the stream ran to its end, which is after all pauses.
    async fn lasts(asked_for: &'static [Asked], pause: Duration) -> bool {
        let whole = pause * u32::try_from(asked_for.len()).unwrap();
        let began = Instant::now();
        run(stream(asked_for, pause), LIMIT).await;
        began.elapsed() >= whole
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_too_long_is_given_up() {
        use Asked::*;
        assert!(!lasts(&[Gave], LIMIT * 2).await);
        assert!(!lasts(&[Waits, Gave], LIMIT * 2).await);
        // It is polled for some other reason.
        assert!(!lasts(&[Gave, Nothing, Nothing], LIMIT * 2 / 3).await);
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_time() {
        use Asked::*;
        assert!(lasts(&[Nothing], LIMIT * 9).await, "a handler");
        assert!(lasts(&[Waits, Nothing], LIMIT * 9).await, "no events");
        assert!(lasts(&[Gave, Gave, Gave], LIMIT * 2 / 3).await, "slow");
        let late = run(stream(&[Gave, Waits], LIMIT * 2 / 3), LIMIT);
        assert!(timeout(LIMIT * 9, late).await.is_ok());
    }

    #[test]
    fn the_last_piece_of_a_long_text_is_one_byte() {
        for (size, pieces) in [
            (0, &[0][..]),
            (LITTLE, &[LITTLE]),
            (LITTLE + 1, &[LITTLE, 1]),
            (PIECE, &[PIECE - 1, 1]),
            (PIECE + 1, &[PIECE, 1]),
            (2 * PIECE, &[PIECE, PIECE - 1, 1]),
            (PIECE + LITTLE, &[PIECE, LITTLE]),
        ] {
            let mut text = Bytes::from(vec![b'x'; size]);
            let mut cuts = vec![cut(&mut text).len()];
            while !text.is_empty() {
                cuts.push(cut(&mut text).len());
            }
            assert_eq!(cuts, pieces, "{size}");
        }
    }
}

//! A connection that is served: to its end, or until the server has stopped.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::connection::deadline::after;
use crate::server::group::Membership;

/// Additional time after the deadline of the server, in which connections report their end.
const FAREWELL: Duration = Duration::from_millis(500);

/// The task of a connection `C` of hyper's.
///
/// Thousands of them may take turns, and each turn finds what it needs in memory that
/// others have used since. An `async` block in another keeps its state in many places; so
/// this is none, and what every turn looks at stands together.
pub(super) struct Serving<C> {
    served: C,
    /// True if the task is registered to be woken when the server stops.
    is_told: bool,
    attended: Membership,
    /// Until it is to take nothing new.
    stopped: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    graceful: fn(Pin<&mut C>),
    /// Time at which the connection is closed, once the server has stopped.
    last: Option<Pin<Box<Sleep>>>,
}

impl<C> Serving<C> {
    /// `graceful` lets it finish what is under way, when it is to have `stopped`: with the
    /// server, or later.
    pub(super) fn new(
        served: C,
        attended: Membership,
        stopped: WaitForCancellationFutureOwned,
        graceful: fn(Pin<&mut C>),
    ) -> Self {
        Self {
            served,
            is_told: false,
            stopped: Some(Box::pin(stopped)),
            graceful,
            last: None,
            attended,
        }
    }
}

impl<C: Future<Output = hyper::Result<()>> + Unpin> Serving<C> {
    /// Ready when it is to end, whatever is still under way.
    #[cold]
    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.is_told = true;
        if let Some(stopped) = &mut self.stopped {
            ready!(stopped.as_mut().poll(cx));
            self.stopped = None;
            (self.graceful)(Pin::new(&mut self.served));
            // It may be done already.
            cx.waker().wake_by_ref();
        }
        let hub = self.attended.hub();
        let last = || Box::pin(sleep_until(after(hub.deadline(), FAREWELL)));
        self.last.get_or_insert_with(last).as_mut().poll(cx)
    }
}

impl<C: Future<Output = hyper::Result<()>> + Unpin> Future for Serving<C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Poll::Ready(ended) = Pin::new(&mut this.served).poll(cx) {
            if let Err(error) = ended {
                tracing::debug!(target: "caudal", %error, "a connection ended");
            }
            return Poll::Ready(());
        }
        // This is polled with every request, and needs to be told once.
        if this.is_told && !this.attended.hub().is_stopping() {
            return Poll::Pending;
        }
        this.poll_stop(cx)
    }
}

//! The life of a connection: made, run, ended, and made again if asked.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use caudal_core::CloseReason;
use tokio::time::{Instant, sleep, timeout};

use super::link::{Link, Order};
use super::task::{Driver, Unsent};
use crate::config::Config;
use crate::extensions::Extensions;
use crate::peer::Peer;
use crate::peer::State;
use crate::peer::{Backoff, Gap};
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::server::group::Attended;
use crate::transport::Transport;

/// Makes a connection anew.
pub(crate) type Connector =
    Box<dyn FnMut() -> BoxFuture<Result<Box<dyn Transport>, crate::Error>> + Send>;
/// Is told of every gap.
pub(crate) type Told = Arc<dyn Fn(Peer, Gap) -> BoxFuture<()> + Send + Sync>;

/// How a lost connection is made again.
pub(crate) struct Reconnect {
    pub(crate) backoff: Backoff,
    pub(crate) connect: Connector,
    pub(crate) told: Option<Told>,
}

/// Runs a connection in a task of its own.
///
/// `attend` sees it before it begins, and what that returns is dropped when it has
/// ended.
#[track_caller]
pub(crate) fn start(
    transport: Box<dyn Transport>,
    router: Arc<Router>,
    config: Arc<Config>,
    reconnect: Option<Reconnect>,
    extensions: Extensions,
    attend: impl FnOnce(&Arc<Link>) -> Option<Attended>,
) -> Arc<Link> {
    let link = Link::new(
        config,
        transport.framing(),
        State::Connected,
        reconnect.is_some(),
        extensions,
    );
    if let Some(remote) = transport.remote() {
        let _ = link.remote.set(remote);
    }
    if let Some(bytes) = transport.output() {
        link.bound_output(bytes);
    }
    let span = tracing::info_span!(
        target: "caudal",
        "connection",
        remote = link.remote.get().map(String::as_str),
    );
    let life = Life {
        driver: Some(Driver::new(transport, Arc::clone(&link), router)),
        after: None,
        reconnect: reconnect.map(Box::new),
        _end: End {
            link: Arc::clone(&link),
            _attended: attend(&link),
        },
    };
    tokio::spawn(tracing::Instrument::instrument(life, span));
    link
}

/// The task of a connection.
///
/// Thousands of them may take turns, and each finds what it needs in memory that others
/// have used since. So what a turn looks at stands together, and what comes after the
/// first connection is elsewhere.
struct Life {
    driver: Option<Driver>,
    after: Option<BoxFuture<()>>,
    reconnect: Option<Box<Reconnect>>,
    /// Dropped after all else.
    _end: End,
}

impl Future for Life {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(driver) = &mut this.driver {
            let reason = ready!(Pin::new(driver).poll(cx));
            let reconnect = this.reconnect.take();
            let after = |driver| -> BoxFuture<()> { Box::pin(go_on(driver, reason, reconnect)) };
            this.after = this.driver.take().map(after);
        }
        match &mut this.after {
            Some(after) => after.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

/// Whatever ends the task of a connection, a panic or the runtime, everybody learns
/// of it.
struct End {
    link: Arc<Link>,
    /// Dropped after that.
    _attended: Option<Attended>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.link.close(CloseReason::failed(Aborted));
        self.link.announce_closed(None);
    }
}

/// The task of a connection did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("the task of the connection was aborted")]
struct Aborted;

/// What comes after the first connection, which has ended for this reason.
async fn go_on(driver: Driver, reason: CloseReason, reconnect: Option<Box<Reconnect>>) {
    let (link, router) = (Arc::clone(driver.link()), Arc::clone(driver.router()));
    let (mut reason, mut more) = end(driver, reason).await;
    if let Some(mut reconnect) = reconnect {
        let mut delays = reconnect.backoff.delays();
        let mut heard = 0;
        while !reason.is_local() {
            let lost = Instant::now();
            let failed = link.interrupt(&reason.clone().temporary());
            // Who was heard of is there; who hangs up at once is asked ever less.
            let received = link.stats().bytes_received;
            if received > std::mem::replace(&mut heard, received) {
                delays = reconnect.backoff.delays();
            }
            match connect_again(&link, &mut reconnect, &mut delays, reason).await {
                Ok((transport, attempts)) => {
                    link.set_state(State::Connected);
                    let gap = Gap {
                        lasted: lost.elapsed(),
                        attempts,
                        failed,
                    };
                    tracing::info!(target: "caudal", ?gap, "connected again");
                    if let Some(told) = &reconnect.told {
                        let (told, peer) = (Arc::clone(told), Peer::of(&link));
                        // What it does before its first wait may panic too.
                        tokio::spawn(async move { told(peer, gap).await });
                    }
                    let mut driver = Driver::new(transport, Arc::clone(&link), Arc::clone(&router));
                    reason = (&mut driver).await;
                    (reason, more) = end(driver, reason).await;
                }
                Err(end) => {
                    (reason, more) = (end, None);
                    break;
                }
            }
        }
    }
    tracing::debug!(target: "caudal", %reason, "closed");
    let local = reason.is_local();
    if link.close(reason) && local {
        more.get_or_insert_with(Unsent::reason);
    }
    link.announce_closed(more);
}

/// Closes the transport of a connection that has ended. If this side has ended it, there
/// may be more to say: what was left unsent, and what the transport knows.
async fn end(driver: Driver, reason: CloseReason) -> (CloseReason, Option<CloseReason>) {
    let link = Arc::clone(driver.link());
    let (mut transport, mut unsent) = driver.end();
    if !link.reconnects() || reason.is_local() {
        // Nobody waits for an answer while the transport takes its time.
        link.set_state(State::Draining);
        if link.close(reason.clone()) {
            unsent.get_or_insert_with(Unsent::reason);
        }
    }
    transport.closing(&reason);
    let limit = transport.close_timeout();
    let close = async move { timeout(limit, poll_fn(|cx| transport.poll_close(cx))).await };
    if link.reconnects() && !reason.is_local() {
        // The next connection need not wait for the end of this one.
        tokio::spawn(close);
        return (reason, None);
    }
    let closed = close.await;
    let more = match closed {
        _ if unsent.is_some() => unsent,
        Ok(more) => more,
        Err(_) => Some(Unsent::reason()),
    };
    let more = more.filter(|_| reason.is_local());
    (reason, more)
}

/// Tries until it succeeds, is told to stop, or has no try left.
async fn connect_again(
    link: &Arc<Link>,
    reconnect: &mut Reconnect,
    delays: &mut impl Iterator<Item = Duration>,
    lost: CloseReason,
) -> Result<(Box<dyn Transport>, u32), CloseReason> {
    let mut end = lost;
    let mut attempts = 0;
    for delay in delays {
        unless_closed(link, sleep(delay)).await?;
        attempts += 1;
        match unless_closed(link, (reconnect.connect)()).await? {
            Ok(transport) => return Ok((transport, attempts)),
            Err(error) => {
                tracing::debug!(target: "caudal", %error, attempts, "not connected");
                let recoverable = error.is_recoverable();
                end = CloseReason::failed(error);
                if !recoverable {
                    break;
                }
            }
        }
    }
    Err(end)
}

/// Waits for `work`, unless the connection is to be closed meanwhile; calls
/// whose time is up fail meanwhile too.
async fn unless_closed<F: Future>(link: &Arc<Link>, work: F) -> Result<F::Output, CloseReason> {
    let mut work = std::pin::pin!(work);
    let mut timer = std::pin::pin!(sleep(Duration::ZERO));
    poll_fn(|cx| {
        link.set_driver(cx.waker());
        loop {
            let waiting = link.look();
            if matches!(waiting.order, Some(Order::Close | Order::Drain(_))) {
                return Poll::Ready(Err(CloseReason::local()));
            }
            let Some(deadline) = waiting.next_wakeup else {
                break;
            };
            timer.as_mut().reset(deadline);
            if timer.as_mut().poll(cx).is_pending() {
                break;
            }
            link.expire();
        }
        work.as_mut().poll(cx).map(Ok)
    })
    .await
}

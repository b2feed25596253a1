//! Timeouts of connections: for idle ones, slow request heads, and clients that do not read.
//!
//! hyper's `header_read_timeout` is one limit for two waits, that for a request and that for
//! the rest of its head, and does not see a client that reads nothing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::deadline::after;

/// Minimum interval between checks while a request is in progress.
const CHECK: Duration = Duration::from_millis(20);

/// Progress of a connection's requests, which its socket and its requests share.
#[derive(Debug)]
pub(super) struct RequestActivity {
    /// Maximum time for the head of a request.
    head: Duration,
    /// Maximum time without a request.
    idle: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Number of requests in progress: until the end of their responses.
    requests: usize,
    /// Time by which the client must send a whole head. `None` while a request is in progress.
    deadline: Option<Instant>,
    /// True if the client has sent a part of a head, or nothing since it has connected.
    is_in_head: bool,
    /// True for HTTP/2, where bytes between requests need not be the head of a request.
    is_http2: bool,
    /// True if the connection was upgraded. It then has timeouts of its own.
    is_upgraded: bool,
}

impl RequestActivity {
    pub(super) fn new(head: Duration, idle: Duration) -> Arc<Self> {
        let state = State {
            requests: 0,
            deadline: Some(after(Instant::now(), head)),
            is_in_head: true,
            is_http2: false,
            is_upgraded: false,
        };
        Arc::new(Self {
            head,
            idle,
            state: Mutex::new(state),
        })
    }

    /// Begins a request.
    pub(super) fn begin(&self, version: Version) {
        let mut state = self.state();
        state.requests += 1;
        state.deadline = None;
        state.is_in_head = false;
        state.is_http2 = version == Version::HTTP_2;
    }

    /// Ends a request.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.requests -= 1;
        if state.requests == 0 {
            state.deadline = Some(after(Instant::now(), self.idle));
        }
    }

    /// Sets that the connection was upgraded.
    pub(super) fn upgrade(&self) {
        self.state().is_upgraded = true;
    }

    /// Notes that the client has sent something.
    fn received(&self) {
        let mut state = self.state();
        if state.requests == 0 && !state.is_in_head && !state.is_http2 {
            state.is_in_head = true;
            state.deadline = Some(after(Instant::now(), self.head));
        }
    }

    /// Notes that the client reads again, after it has read nothing for a while.
    fn unblocked(&self) {
        let mut state = self.state();
        if state.requests == 0 && !state.is_in_head {
            state.deadline = Some(after(Instant::now(), self.idle));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A socket that fails if its client is silent for too long, or reads nothing for too long.
///
/// Its timer is set once, and its deadline is checked when the timer fires: requests do not
/// touch the timer.
#[derive(Debug)]
pub(super) struct IdleTimeout<S> {
    io: S,
    activity: Arc<RequestActivity>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Time by which the client must read something. `None` while there is room to write.
    write_deadline: Option<Instant>,
}

impl<S> IdleTimeout<S> {
    pub(super) const fn new(io: S, activity: Arc<RequestActivity>) -> Self {
        Self {
            io,
            activity,
            timer: None,
            write_deadline: None,
        }
    }

    /// Returns the socket without its timeouts.
    #[cfg(feature = "ws")]
    pub(super) fn into_inner(self) -> S {
        self.io
    }

    /// Fails when the time is up. While a client reads nothing, nothing else is expected of it.
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let state = self.activity.state();
        let deadline = self.write_deadline.or(state.deadline);
        let is_upgraded = state.is_upgraded;
        drop(state);
        if is_upgraded {
            // The timer would keep the memory of the task that served the requests.
            self.timer = None;
            return Poll::Pending;
        }
        // A timer that is set wakes the task of the connection, which is always the same.
        let is_early = |timer: &Sleep| deadline.is_none_or(|by| timer.deadline() <= by);
        if let Some(timer) = &self.timer
            && is_early(timer)
            && !timer.is_elapsed()
        {
            return Poll::Pending;
        }
        // Perhaps nobody polls this when the last request ends, so there is always a timer.
        let idle = self.activity.idle.max(CHECK);
        let next = || deadline.unwrap_or_else(|| after(Instant::now(), idle));
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(next())));
        if !is_early(timer) {
            timer.as_mut().reset(next());
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(next());
        }
    }

    /// Passes on the result of writing. Fails when nothing could be written for too long.
    fn written<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.write_deadline.take().is_some() {
                self.activity.unblocked();
            }
            return written;
        }
        // An idle timeout of zero does not cut responses off.
        let limit = self.activity.idle.max(self.activity.head);
        self.write_deadline
            .get_or_insert_with(|| after(Instant::now(), limit));
        self.poll_timeout(cx).map(Err)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Pending => self.poll_timeout(cx).map(Err),
            read => {
                if buffer.filled().len() > before {
                    self.activity.received();
                }
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.io).poll_flush(cx);
        self.written(written, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;

    use http::Version;
    use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadBuf};
    use tokio::time::timeout;

    use super::{IdleTimeout, RequestActivity};

    const IDLE: Duration = Duration::from_secs(60);

    /// Reads once, which finds nothing.
    async fn look(timed: &mut IdleTimeout<DuplexStream>) {
        let mut bytes = [0; 8];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(
            |cx| match Pin::new(&mut *timed).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Ready(()),
                Poll::Ready(read) => panic!("{read:?}"),
            },
        )
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_read_last_amid_a_request_still_ends_when_idle() {
        let (_client, io) = tokio::io::duplex(8);
        let activity = RequestActivity::new(IDLE, IDLE);
        let mut timed = IdleTimeout::new(io, Arc::clone(&activity));
        activity.begin(Version::HTTP_11);
        look(&mut timed).await;
        activity.end();
        let mut bytes = [0; 8];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = poll_fn(|cx| Pin::new(&mut timed).poll_read(cx, &mut buffer));
        let ended = timeout(IDLE * 2, read).await.expect("it is woken");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_an_answer_is_given_up() {
        let (mut client, io) = tokio::io::duplex(8);
        let activity = RequestActivity::new(IDLE, IDLE);
        let mut timed = IdleTimeout::new(io, Arc::clone(&activity));
        activity.begin(Version::HTTP_11);
        timed.write_all(&[1; 8]).await.unwrap();
        // Whoever takes a little from time to time is not.
        for _ in 0..3 {
            let more = timeout(IDLE * 3 / 4, timed.write_all(&[1; 8])).await;
            assert!(more.is_err(), "there is no room");
            client.read_exact(&mut [0; 8]).await.unwrap();
            timed.write_all(&[1; 8]).await.unwrap();
        }
        let more = timeout(IDLE * 2, timed.write_all(&[1; 8])).await;
        let ended = more.expect("it is woken");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_http_may_be_stuck() {
        let (_client, io) = tokio::io::duplex(8);
        let activity = RequestActivity::new(IDLE, IDLE);
        let mut timed = IdleTimeout::new(io, Arc::clone(&activity));
        activity.begin(Version::HTTP_11);
        activity.upgrade();
        let more = timeout(IDLE * 2, timed.write_all(&[1; 9])).await;
        assert!(more.is_err(), "it has its own clock");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_http_holds_no_timer() {
        let (_client, io) = tokio::io::duplex(8);
        let activity = RequestActivity::new(IDLE, IDLE);
        let mut timed = IdleTimeout::new(io, Arc::clone(&activity));
        activity.begin(Version::HTTP_11);
        look(&mut timed).await;
        assert!(timed.timer.is_some());
        activity.upgrade();
        look(&mut timed).await;
        assert!(timed.timer.is_none());
    }
}

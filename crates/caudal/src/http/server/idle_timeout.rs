//! Timeouts of connections: for idle ones, slow request heads, and clients that do not read.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::connection::deadline::after;

/// Minimum interval between checks of the timer while a request is under way.
const LOOK: Duration = Duration::from_millis(20);

/// State of a connection's requests.
#[derive(Debug)]
pub(super) struct Watch {
    begun: Instant,
    /// Requests that are not answered to their end.
    busy: AtomicUsize,
    /// End of the last request, in milliseconds since `begun`.
    done: AtomicU64,
    /// True if there was a request.
    any: AtomicBool,
    /// True if bytes were received that do not belong to a request yet.
    amid: AtomicBool,
    /// True for HTTP/2, where bytes between requests need not be the head of a request.
    talks: AtomicBool,
    /// True if the connection was upgraded. It then has timeouts of its own.
    lasts: AtomicBool,
    /// True if the timer has fired since it was last polled.
    rings: AtomicBool,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            busy: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            any: AtomicBool::new(false),
            amid: AtomicBool::new(false),
            talks: AtomicBool::new(false),
            lasts: AtomicBool::new(false),
            rings: AtomicBool::new(false),
        }
    }

    /// A request has begun.
    pub(super) fn begin(&self, version: Version) {
        self.busy.fetch_add(1, AcqRel);
        if version == Version::HTTP_2 {
            self.talks.store(true, Relaxed);
        }
        self.any.store(true, Relaxed);
        self.amid.store(false, Relaxed);
    }

    /// A request is answered to its end.
    pub(super) fn end(&self) {
        self.touch();
        // What came meanwhile was its body.
        self.amid.store(false, Relaxed);
        self.busy.fetch_sub(1, AcqRel);
    }

    /// From now on it counts as idle, if no request is under way.
    fn touch(&self) {
        let passed = self.begun.elapsed().as_millis();
        self.done
            .store(u64::try_from(passed).unwrap_or(u64::MAX), Relaxed);
    }

    /// There are no more requests.
    pub(super) fn last(&self) {
        self.lasts.store(true, Relaxed);
    }

    fn done(&self) -> Instant {
        after(self.begun, Duration::from_millis(self.done.load(Relaxed)))
    }
}

/// Waker of a timer. It sets a flag in the [`Watch`], which every request reads anyway: the
/// timer itself is in other memory.
struct Alarm<W> {
    place: Arc<W>,
    task: Waker,
}

impl<W: AsRef<Watch> + Send + Sync> Wake for Alarm<W> {
    fn wake(self: Arc<Self>) {
        (*self.place).as_ref().rings.store(true, Release);
        self.task.wake_by_ref();
    }
}

/// A timer, and what it wakes.
type Timer = (Pin<Box<Sleep>>, Waker);

/// A socket that fails if its client is silent for too long, or reads nothing for too long.
///
/// Its timer is set once and looked at when it fires, not with every request.
#[derive(Debug)]
pub(super) struct Timed<S, W> {
    io: S,
    /// Has the [`Watch`].
    place: Arc<W>,
    head: Duration,
    idle: Duration,
    /// When the first bytes of a head came.
    head_began: Option<Instant>,
    timer: Option<Timer>,
    /// Runs while nothing can be written.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S, W: AsRef<Watch> + Send + Sync + 'static> Timed<S, W> {
    /// A head may take as long as `head`, the wait for one as long as `idle`, and so may
    /// the wait for room to write.
    pub(super) const fn new(io: S, place: Arc<W>, head: Duration, idle: Duration) -> Self {
        Self {
            io,
            place,
            head,
            idle,
            head_began: None,
            timer: None,
            stuck: None,
        }
    }

    fn watch(&self) -> &Watch {
        (*self.place).as_ref()
    }

    /// Returns the socket without its timeouts.
    #[cfg(feature = "ws")]
    pub(super) fn into_inner(self) -> S {
        self.io
    }

    /// Returns the time at which the connection times out. `None` while a request is under way.
    fn deadline(&mut self) -> Option<Instant> {
        // While it waits for room to write, it has a clock for that.
        if self.watch().busy.load(Acquire) > 0 || self.stuck.is_some() {
            self.head_began = None;
            return None;
        }
        if !self.watch().any.load(Relaxed) {
            return Some(after(self.watch().begun, self.head));
        }
        let watch = (*self.place).as_ref();
        if !watch.amid.load(Relaxed) || watch.talks.load(Relaxed) {
            self.head_began = None;
            return Some(after(watch.done(), self.idle));
        }
        let began = *self.head_began.get_or_insert_with(Instant::now);
        Some(after(began, self.head))
    }

    /// Fails when the time is up.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if self.watch().lasts.load(Relaxed) {
            // It would keep the task alive that served the requests.
            self.timer = None;
            return Poll::Pending;
        }
        // Nothing but a head is due before a timer that was set earlier. It wakes the
        // connection's task, which is always the same.
        let watch = self.watch();
        let no_head = !watch.amid.load(Relaxed) || watch.busy.load(Acquire) > 0;
        if no_head && self.timer.is_some() && !watch.rings.load(Acquire) {
            self.head_began = None;
            return Poll::Pending;
        }
        self.poll_timer(cx)
    }

    /// The same when the timer has fired, or must be set.
    #[inline(never)]
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.watch().rings.store(false, Release);
        loop {
            let deadline = self.deadline();
            let look = deadline.unwrap_or_else(|| {
                // Perhaps nobody reads again when the request is answered. A timer that
                // fires for nothing costs less than one made for each request.
                after(Instant::now(), self.idle.max(LOOK))
            });
            let place = &self.place;
            let (timer, alarm) = self.timer.get_or_insert_with(|| {
                let (place, task) = (Arc::clone(place), cx.waker().clone());
                let alarm = Arc::new(Alarm { place, task });
                (Box::pin(sleep_until(look)), alarm.into())
            });
            // One that fires too early costs less than one set anew each time.
            if timer.deadline() > look {
                timer.as_mut().reset(look);
            }
            // It is trusted from now on, so it may not be put off.
            let mut alarm = Context::from_waker(alarm);
            ready!(pin!(unconstrained(timer.as_mut())).poll(&mut alarm));
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(look);
        }
    }

    /// Passes on what came of writing; fails when nothing could be written for too long.
    fn written<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stuck.is_some() {
                self.stuck = None;
                self.watch().touch();
            }
            return written;
        }
        if self.watch().lasts.load(Relaxed) {
            self.stuck = None;
            return Poll::Pending;
        }
        // Who wants no idle connections still wants whole answers.
        let limit = self.idle.max(self.head);
        let stuck = self
            .stuck
            .get_or_insert_with(|| Box::pin(sleep_until(after(Instant::now(), limit))));
        stuck
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S, W> AsyncRead for Timed<S, W>
where
    S: AsyncRead + Unpin,
    W: AsRef<Watch> + Send + Sync + 'static,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buffer) {
            Poll::Pending => self.poll_time(cx).map(Err),
            read => {
                if buffer.filled().len() > before {
                    self.watch().amid.store(true, Relaxed);
                }
                read
            }
        }
    }
}

impl<S, W> AsyncWrite for Timed<S, W>
where
    S: AsyncWrite + Unpin,
    W: AsRef<Watch> + Send + Sync + 'static,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
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

    use super::{Timed, Watch};

    const IDLE: Duration = Duration::from_secs(60);

    impl AsRef<Self> for Watch {
        fn as_ref(&self) -> &Self {
            self
        }
    }

    /// Reads once, which finds nothing.
    async fn look(timed: &mut Timed<DuplexStream, Watch>) {
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
        let watch = Arc::new(Watch::new());
        let mut timed = Timed::new(io, Arc::clone(&watch), IDLE, IDLE);
        watch.begin(Version::HTTP_11);
        look(&mut timed).await;
        watch.end();
        let mut bytes = [0; 8];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = poll_fn(|cx| Pin::new(&mut timed).poll_read(cx, &mut buffer));
        let ended = timeout(IDLE * 2, read).await.expect("it is woken");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_an_answer_is_given_up() {
        let (mut client, io) = tokio::io::duplex(8);
        let watch = Arc::new(Watch::new());
        let mut timed = Timed::new(io, Arc::clone(&watch), IDLE, IDLE);
        watch.begin(Version::HTTP_11);
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
        let watch = Arc::new(Watch::new());
        let mut timed = Timed::new(io, Arc::clone(&watch), IDLE, IDLE);
        watch.begin(Version::HTTP_11);
        watch.last();
        let more = timeout(IDLE * 2, timed.write_all(&[1; 9])).await;
        assert!(more.is_err(), "it has its own clock");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_http_holds_no_timer() {
        let (_client, io) = tokio::io::duplex(8);
        let watch = Arc::new(Watch::new());
        let mut timed = Timed::new(io, Arc::clone(&watch), IDLE, IDLE);
        watch.begin(Version::HTTP_11);
        look(&mut timed).await;
        assert!(timed.timer.is_some());
        watch.last();
        look(&mut timed).await;
        assert!(timed.timer.is_none());
    }
}

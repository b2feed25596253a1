//! Frames over any bytes that flow in order.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, FrameReader, Framing, Policy};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Sleep, sleep};

use super::{ReceiveError, Transport, TransportInfo, TransportProgress};
use crate::connection::buffers;
use crate::connection::incomplete::Share;

/// Frames over a byte stream: a socket, a pair of pipes, a serial line, a TLS
/// session.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use caudal::transport::Stream;
/// use caudal::{Framing, Peer, Router};
///
/// let (here, there) = tokio::io::duplex(4096);
/// let router = Router::new().method("ping", || Ok("pong"));
/// let _server = Peer::start(Stream::new(there, Framing::Header), router);
/// let peer = Peer::start(Stream::new(here, Framing::Header), Router::new());
/// let pong: String = peer.call("ping", ()).await.unwrap();
/// assert_eq!(pong, "pong");
/// # }
/// ```
#[derive(Debug)]
pub struct Stream<S> {
    io: S,
    framing: Framing,
    frames: FrameReader,
    ended: bool,
    needs_flush: bool,
    received: u64,
    /// Share of the server's memory for incomplete frames.
    share: Share,
    /// Maximum bytes of a frame.
    max_message: usize,
    remote: Option<String>,
    /// True if closing the connection with unread input would lose what was sent.
    resets: bool,
    /// Timer that limits the wait for the end of the other side's output.
    lingers: Option<Pin<Box<Sleep>>>,
}

/// Maximum time to read and drop input before the connection is closed.
const LINGER: Duration = Duration::from_secs(1);

/// Minimum room in the read buffer, in bytes.
const ROOM: usize = 4 << 10;

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream<S> {
    /// A transport over `io`. Two halves are joined with [`tokio::io::join`].
    ///
    /// The limit of a frame is that of the connection,
    /// [`Policy::max_message`](crate::Policy::max_message).
    pub fn new(io: S, framing: Framing) -> Self {
        let max_message = Policy::default().max_message;
        Self {
            io,
            framing,
            frames: FrameReader::new(framing, max_message),
            ended: false,
            needs_flush: false,
            received: 0,
            share: Share::default(),
            max_message,
            remote: None,
            resets: false,
            lingers: None,
        }
    }

    /// The same, with a name for the other end.
    #[must_use]
    pub fn with_remote(mut self, remote: impl Into<String>) -> Self {
        self.remote = Some(remote.into());
        self
    }

    /// Counts the memory of frames that are not whole as a part of what a server has.
    pub(super) fn with_share(mut self, share: Share) -> Self {
        self.share = share;
        self
    }

    pub(super) fn into_io(self) -> S {
        self.io
    }

    /// Waits for the other side's end when it is closed: a socket that is closed while
    /// bytes are unread is reset, and over TCP what it was given last is lost with it. Over
    /// a Unix socket the other side sees a failure before it, and may read no further.
    pub(super) fn lingering(mut self) -> Self {
        self.resets = true;
        self
    }

    /// Moves to the next frame; `false` at the end of the stream.
    pub(super) fn poll_advance(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, ReceiveError>> {
        loop {
            if self.frames.advance()? {
                return Poll::Ready(Ok(true));
            }
            if self.ended {
                return Poll::Ready(Ok(self.frames.advance_last()?));
            }
            self.ended = !ready!(self.poll_fill(cx))?;
        }
    }

    pub(super) fn frame(&self) -> &[u8] {
        self.frames.frame()
    }

    /// Reads once; `false` at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ReceiveError>> {
        let buffer = self.frames.buffer_mut();
        if buffer.capacity() == 0 {
            let mut pooled = buffers::take();
            self.frames.swap_buffer(&mut pooled);
        }
        let buffer = self.frames.buffer_mut();
        if buffer.capacity() - buffer.len() < ROOM {
            match buffer.len() <= buffers::SIZE {
                true => buffer.reserve(buffers::SIZE),
                false => grow(buffer, self.max_message),
            }
        }
        let read = pin!(self.io.read_buf(buffer)).poll(cx);
        if read.is_pending() {
            let mut nothing = BytesMut::new();
            if self.frames.swap_buffer(&mut nothing) {
                buffers::give(nothing);
                self.share.set(0);
            } else {
                self.rest_amid_frame()?;
            }
        }
        read.map_err(Into::into).map_ok(|bytes| {
            self.received += bytes as u64;
            bytes > 0
        })
    }

    /// Counts what a frame takes whose rest may take long.
    ///
    /// # Errors
    /// The server has no room for it, and it is skipped.
    #[cold]
    fn rest_amid_frame(&mut self) -> Result<(), ReceiveError> {
        let buffer = self.frames.buffer_mut();
        match buffer.len() <= buffers::SIZE {
            true => buffers::fit(buffer),
            false => buffers::front(buffer),
        }
        if self.share.set(buffer.capacity()) {
            return Ok(());
        }
        let refused = self.frames.refuse();
        self.share.set(0);
        Ok(refused?)
    }
}

/// Makes room to read into behind the beginning of a large frame: for as much again, and no
/// more than such a frame can take.
#[cold]
fn grow(buffer: &mut BytesMut, max_message: usize) {
    if buffer.try_reclaim(ROOM) {
        return;
    }
    let have = buffer.len();
    let most = max_message.saturating_add(buffers::SIZE);
    let room = have.saturating_mul(2).min(most).max(have + ROOM);
    // Exactly this size: a buffer that grows by itself reserves more.
    let mut larger = BytesMut::with_capacity(room);
    larger.extend_from_slice(buffer);
    buffer.clear();
    buffers::give(std::mem::replace(buffer, larger));
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for Stream<S> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        let found = ready!(self.poll_advance(cx))?;
        Poll::Ready(Ok(found.then(|| self.frame())))
    }

    fn skipped(&self) -> &[u8] {
        self.frames.skipped()
    }

    fn info(&self) -> TransportInfo {
        TransportInfo::default()
            .framing(self.framing)
            .remote(self.remote.clone())
    }

    fn progress(&self) -> TransportProgress {
        TransportProgress::default()
            .received(self.received)
            .is_amid_frame(!self.frames.is_empty())
    }

    fn set_max_message(&mut self, bytes: usize) {
        self.frames.set_limit(bytes);
        self.max_message = bytes;
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        while !out.is_empty() {
            let sent = ready!(Pin::new(&mut self.io).poll_write(cx, out))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            buffers::consume(out, sent);
            self.needs_flush = true;
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, _: &CloseReason) -> Poll<Option<CloseReason>> {
        if self.lingers.is_none() {
            let shut = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
            if !self.resets || self.ended || shut.is_err() {
                return Poll::Ready(None);
            }
        }
        let limit = self.lingers.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        let mut dropped = [0; ROOM];
        while limit.as_mut().poll(cx).is_pending() {
            let read = ready!(pin!(self.io.read(&mut dropped)).poll(cx));
            if !matches!(read, Ok(1..)) {
                break;
            }
        }
        Poll::Ready(None)
    }
}

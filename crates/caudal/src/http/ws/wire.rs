//! Input and output buffers of a WebSocket. An idle WebSocket has none.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

use super::frames::{Frames, Role};
use crate::connection::buffers;
use crate::transport::ReceiveError;

/// Bytes of queued output at which no more output is accepted.
pub(super) const FULL: usize = buffers::SIZE;

/// A socket with its input and output buffers.
#[derive(Debug)]
pub(super) struct Wire<S> {
    io: S,
    pub(super) frames: Frames,
    pub(super) received: u64,
    /// Time of the last input.
    pub(super) heard: Instant,
    /// True if a ping was sent since the last input.
    pub(super) asked: bool,
    pub(super) output: BytesMut,
    /// Bytes that were sent to the socket.
    pub(super) sent: u64,
    needs_flush: bool,
    /// True if the socket had no room for output at the last write.
    stalled: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(io: S, role: Role, max_message: usize) -> Self {
        Self {
            io,
            frames: Frames::new(role, max_message),
            received: 0,
            heard: Instant::now(),
            asked: false,
            output: BytesMut::new(),
            sent: 0,
            needs_flush: false,
            stalled: false,
        }
    }

    fn hear(&mut self) {
        self.heard = Instant::now();
        self.asked = false;
    }

    /// Adds input that was read during the handshake.
    pub(super) fn push(&mut self, read: &[u8]) {
        if !read.is_empty() {
            self.frames.buffer_mut().extend_from_slice(read);
            self.received += read.len() as u64;
        }
    }

    /// Reads once; `false` at the end.
    ///
    /// # Errors
    /// The socket has failed, or there is no room for an incomplete message.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, ReceiveError>> {
        let buffer = self.frames.buffer_mut();
        let read = pin!(self.io.read_buf(buffer)).poll(cx);
        let Poll::Ready(Ok(bytes @ 1..)) = read else {
            self.frames.rest()?;
            return read.map_ok(|_| false).map_err(Into::into);
        };
        self.received += bytes as u64;
        // A client that reads nothing counts as silent, even if it sends.
        if !self.stalled {
            self.hear();
        }
        Poll::Ready(Ok(true))
    }

    /// Writes the whole output buffer.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let written = Pin::new(&mut self.io).poll_write(cx, &self.output);
            let Poll::Ready(written) = written else {
                if !std::mem::replace(&mut self.stalled, true) {
                    buffers::shrink(&mut self.output);
                    // From now on the client counts as silent until it reads.
                    self.hear();
                }
                return Poll::Pending;
            };
            let written = written?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            buffers::consume(&mut self.output, written);
            self.sent += written as u64;
            self.needs_flush = true;
            if std::mem::take(&mut self.stalled) {
                // A client that reads is alive, even if the ping is still behind other output.
                self.hear();
            }
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.needs_flush = false;
        }
        if self.output.capacity() > 0 {
            buffers::give(std::mem::take(&mut self.output));
        }
        Poll::Ready(Ok(()))
    }

    /// Closes the output.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Reads to the end and drops the input.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.frames.forget();
            match ready!(self.poll_fill(cx)) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// Returns the output buffer, with room in it.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        if self.output.capacity() == 0 {
            self.output = buffers::take();
        }
        &mut self.output
    }
}

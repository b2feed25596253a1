//! The bytes below a WebSocket, in buffers that an idle one does not hold.

use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

use crate::pool;

/// So much output waits here at most before more of it is taken in.
pub(super) const FULL: usize = pool::SIZE;

/// A socket with what was read from it, and what is to be written to it.
#[derive(Debug)]
pub(super) struct Wire<S> {
    io: S,
    input: BytesMut,
    pub(super) output: BytesMut,
    needs_flush: bool,
    stalled: bool,
    /// Whether there is room for the last frame, however much waits.
    pub(super) last: bool,
    bounds: Bounds,
    /// Bytes that have come in.
    pub(super) received: u64,
    /// When something was heard of the other side.
    pub(super) heard: Instant,
    /// Whether it was asked since then.
    pub(super) asked: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(io: S) -> Self {
        Self {
            io,
            input: BytesMut::new(),
            output: BytesMut::new(),
            needs_flush: false,
            stalled: false,
            last: false,
            bounds: Bounds::default(),
            received: 0,
            heard: Instant::now(),
            asked: false,
        }
    }

    /// Whether a message has begun to come in and is not whole yet.
    pub(super) fn is_amid_message(&self) -> bool {
        !self.input.is_empty() || self.bounds.is_amid_message()
    }

    /// What an idle one holds.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.input.capacity()
    }

    fn hear(&mut self) {
        self.heard = Instant::now();
        self.asked = false;
    }

    /// Reads once, if nothing is left of what was read before; `false` at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if !self.input.is_empty() {
            return Poll::Ready(Ok(true));
        }
        if self.input.capacity() < pool::SIZE {
            pool::give(std::mem::take(&mut self.input));
            self.input = pool::take();
        }
        let read = pin!(self.io.read_buf(&mut self.input)).poll(cx);
        if self.input.is_empty() {
            pool::give(std::mem::take(&mut self.input));
        }
        let bytes = ready!(read)?;
        self.received += bytes as u64;
        if bytes > 0 {
            self.hear();
        }
        Poll::Ready(Ok(bytes > 0))
    }

    /// Writes all that waits.
    pub(super) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let written = Pin::new(&mut self.io).poll_write(cx, &self.output);
            let Poll::Ready(written) = written else {
                self.stalled = true;
                return Poll::Pending;
            };
            let written = written?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.output.advance(written);
            self.needs_flush = true;
            if std::mem::take(&mut self.stalled) {
                // Whoever reads is there, even if our question is behind much else.
                self.hear();
            }
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.needs_flush = false;
        }
        if self.output.capacity() > 0 {
            pool::give(std::mem::take(&mut self.output));
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the output.
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    /// Reads to the end, for nothing.
    pub(super) fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.input.clear();
            match ready!(self.poll_fill(cx)) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Poll::Ready(()),
            }
        }
    }

    /// The output, with room in it.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        if self.output.capacity() == 0 {
            self.output = pool::take();
        }
        &mut self.output
    }
}

/// A wire as tungstenite wants it, for one turn of a task.
#[derive(Debug)]
pub(super) struct Turn<'t, 'c, S> {
    pub(super) wire: &'t mut Wire<S>,
    pub(super) cx: &'t mut Context<'c>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Read for Turn<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.wire.poll_fill(self.cx) {
            Poll::Pending => return Err(io::ErrorKind::WouldBlock.into()),
            Poll::Ready(filled) => filled?,
        };
        let input = &mut self.wire.input;
        let length = input.len().min(buffer.len());
        input.copy_to_slice(buffer.split_at_mut(length).0);
        self.wire.bounds.pass(buffer.split_at(length).0);
        Ok(length)
    }
}

/// Takes whole frames or nothing, so that others can be put between them.
impl<S: AsyncRead + AsyncWrite + Unpin> Write for Turn<'_, '_, S> {
    fn write(&mut self, frames: &[u8]) -> io::Result<usize> {
        if self.wire.output.len() >= FULL && !self.wire.last {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wire.output().extend_from_slice(frames);
        Ok(frames.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Follows where frames end: tungstenite does not tell what it holds of one.
#[derive(Debug, Default)]
struct Bounds {
    /// What there is of a header, without its mask.
    head: [u8; 10],
    have: usize,
    /// What is missing of a frame whose header is known.
    left: u64,
    /// Whether a message has had a frame, and not its last one.
    open: bool,
}

impl Bounds {
    const fn is_amid_message(&self) -> bool {
        self.have > 0 || self.left > 0 || self.open
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        loop {
            let skip = bytes
                .len()
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= skip as u64;
            let Some((next, rest)) = bytes.split_at(skip).1.split_first() else {
                return;
            };
            bytes = rest;
            if let Some(place) = self.head.get_mut(self.have) {
                *place = *next;
            }
            self.have += 1;
            self.begin();
        }
    }

    /// Begins a frame, if its header is whole.
    fn begin(&mut self) {
        let [first, second, length @ ..] = self.head;
        let [a, b, ..] = length;
        let (size, length) = match second & 0x7f {
            126 => (4, u64::from(u16::from_be_bytes([a, b]))),
            127 => (10, u64::from_be_bytes(length)),
            short => (2, u64::from(short)),
        };
        if self.have < 2 || self.have < size {
            return;
        }
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        self.left = length.saturating_add(mask);
        self.have = 0;
        // Control frames may come between those of a message.
        if first & 0x08 == 0 {
            self.open = first & 0x80 == 0;
        }
    }
}

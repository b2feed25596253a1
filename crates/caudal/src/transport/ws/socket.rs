//! Messages over a WebSocket whose handshake is done.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use caudal_core::{CloseReason, FrameError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message};

use super::goodbye::{self, Broken, Goodbye};
use super::wire::{FULL, Turn, Wire};
use crate::time::after;
use crate::transport::http::Visit;
use crate::transport::{ReceiveError, Transport};

/// What tungstenite reads at once, and holds while idle. It reads from a buffer of
/// ours, so this costs no system calls.
const READ: usize = 2 << 10;
/// What it has grown to after a larger message is given back.
const LARGE: usize = 4 * READ;
/// Its own replies wait in so many bytes, while we write nothing; more pings than
/// that are not answered.
const REPLIES: usize = 4 << 10;
/// So long the other side has to end its output after we have ended ours.
const LINGER: Duration = Duration::from_secs(2);

/// A WebSocket over any bytes that flow in order.
pub(super) struct WebSocket<S> {
    wire: Wire<S>,
    context: WebSocketContext,
    role: Role,
    max_message: usize,
    /// The message that is lent.
    current: Bytes,
    /// Whether tungstenite may hold much memory.
    bloated: bool,
    masks: Masks,
    ping_interval: Duration,
    ping_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    goodbye: Option<CloseFrame>,
    ending: Ending,
    remote: Option<String>,
    /// Keeps the connection counted.
    visit: Option<Arc<Visit>>,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    NotBegun,
    Writing,
    ShuttingDown,
    Discarding,
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> WebSocket<S> {
    pub(super) fn new(io: S, role: Role, max_message: usize) -> Self {
        Self {
            wire: Wire::new(io),
            context: context(role, max_message),
            role,
            max_message,
            current: Bytes::new(),
            bloated: false,
            masks: Masks::default(),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            timer: None,
            goodbye: None,
            ending: Ending::NotBegun,
            remote: None,
            visit: None,
        }
    }

    /// Asks after so much silence whether the other side is there, which has so
    /// long to answer. Zero never asks.
    pub(super) fn with_pings(mut self, interval: Duration, timeout: Duration) -> Self {
        (self.ping_interval, self.ping_timeout) = (interval, timeout);
        self
    }

    pub(super) fn with_remote(mut self, remote: Option<String>) -> Self {
        self.remote = remote;
        self
    }

    pub(super) fn with_visit(mut self, visit: Option<Arc<Visit>>) -> Self {
        self.visit = visit;
        self
    }

    /// Closes it because there is no room.
    pub(super) async fn refuse(mut self) {
        self.goodbye = Some(goodbye::too_many());
        std::future::poll_fn(|cx| self.poll_close(cx)).await;
    }

    /// Bytes that its own buffers have room for.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> usize {
        self.wire.output.len() + self.wire.room()
    }

    #[cfg(test)]
    pub(super) const fn is_bloated(&self) -> bool {
        self.bloated
    }

    /// Looks for a message in what has come in.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
        loop {
            let wire = &mut self.wire;
            let read = self.context.read(&mut Turn { wire, cx });
            let message: Bytes = match read {
                Ok(Message::Text(text)) => text.into(),
                Ok(Message::Binary(bytes)) => bytes,
                Ok(Message::Close(frame)) => {
                    let goodbye = Goodbye::from(frame);
                    let reason = CloseReason::remote_with(goodbye);
                    return Poll::Ready(Err(ReceiveError::Closed(reason)));
                }
                // Tungstenite answers pings.
                Ok(_) => continue,
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Poll::Pending;
                }
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            };
            self.bloated |= message.len() > LARGE;
            self.current = message;
            return Poll::Ready(Ok(()));
        }
    }

    fn failed(&self, error: Error) -> ReceiveError {
        let limit = self.max_message;
        let broken = match error {
            Error::Capacity(_) => return ReceiveError::Fatal(FrameError::TooLarge { limit }),
            Error::Io(error) => return error.into(),
            Error::Utf8(_) => Broken::NotUtf8,
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)
            | Error::ConnectionClosed
            | Error::AlreadyClosed => {
                if !self.wire.is_amid_message() {
                    return ReceiveError::Closed(CloseReason::remote_with(Broken::Ended));
                }
                Broken::Cut
            }
            error => Broken::Protocol(error),
        };
        ReceiveError::Closed(CloseReason::failed(broken))
    }

    /// Does what is due while nothing comes in.
    fn rest(&mut self, cx: &mut Context<'_>) -> Result<(), ReceiveError> {
        while !self.wire.output.is_empty() {
            let Poll::Ready(drained) = self.wire.poll_drain(cx) else {
                break;
            };
            drained?;
            // A pong may have waited for room.
            let wire = &mut self.wire;
            let _ = self.context.flush(&mut Turn { wire, cx });
        }
        self.shrink(cx);
        self.check_silence(cx)
    }

    /// Gives back what a large message has taken.
    fn shrink(&mut self, cx: &mut Context<'_>) {
        if !self.bloated || self.wire.is_amid_message() || !self.context.can_write() {
            return;
        }
        let wire = &mut self.wire;
        if self.context.flush(&mut Turn { wire, cx }).is_ok() {
            // It holds neither input nor output, and so no state.
            self.context = context(self.role, self.max_message);
            self.bloated = false;
        }
    }

    /// Asks a silent peer whether it is there, and gives up one that was asked.
    fn check_silence(&mut self, cx: &mut Context<'_>) -> Result<(), ReceiveError> {
        if self.ping_interval.is_zero() {
            return Ok(());
        }
        loop {
            let asked = self.wire.asked;
            let due = match (asked, &self.timer) {
                (true, Some(timer)) => timer.deadline(),
                _ => after(self.wire.heard, self.ping_interval),
            };
            let timer = match &mut self.timer {
                Some(timer) => timer,
                none => none.insert(Box::pin(sleep_until(due))),
            };
            // It fires early at worst, and is then set again.
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Ok(());
            }
            if asked {
                return Err(ReceiveError::Closed(CloseReason::failed(Broken::Silent)));
            }
            let now = Instant::now();
            if due > now {
                timer.as_mut().reset(due);
                continue;
            }
            timer.as_mut().reset(after(now, self.ping_timeout));
            self.wire.asked = true;
            self.ping(cx)?;
        }
    }

    fn ping(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let wire = &mut self.wire;
        let ping = Message::Ping(Bytes::new());
        // While there is no room for it, other output is on its way.
        let _ = self.context.write(&mut Turn { wire, cx }, ping);
        match self.wire.poll_drain(cx) {
            Poll::Ready(drained) => drained,
            Poll::Pending => Ok(()),
        }
    }

    /// Makes frames of messages while there is room.
    fn frame(&mut self, out: &mut BytesMut) -> io::Result<()> {
        while !out.is_empty() && self.wire.output.len() < FULL {
            let end = memchr::memchr(b'\n', out).unwrap_or(out.len());
            let (message, _) = out.split_at(end);
            let mask = match self.role {
                Role::Server => None,
                Role::Client => Some(self.masks.next()?),
            };
            write_frame(self.wire.output(), message, mask)?;
            out.advance(out.len().min(end + 1));
        }
        Ok(())
    }

    /// Ends the connection step by step.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending == Ending::NotBegun {
            let wire = &mut self.wire;
            wire.last = true;
            // An answer to the other side's goodbye is in its place, if there was one.
            let _ = self
                .context
                .close(&mut Turn { wire, cx }, self.goodbye.take());
            self.ending = Ending::Writing;
        }
        if self.ending == Ending::Writing {
            ready!(self.wire.poll_drain(cx))?;
            self.ending = Ending::ShuttingDown;
        }
        if self.ending == Ending::ShuttingDown {
            ready!(self.wire.poll_shutdown(cx))?;
            self.ending = Ending::Discarding;
        }
        // A socket that is closed with input unread may take our last words with it.
        self.wire.poll_discard(cx).map(Ok)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for WebSocket<S> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.current = Bytes::new();
        match self.advance(cx) {
            Poll::Ready(advanced) => Poll::Ready(advanced.map(|()| Some(&*self.current))),
            Poll::Pending => match self.rest(cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        if !self.context.can_write() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        loop {
            self.frame(out)?;
            ready!(self.wire.poll_drain(cx))?;
            if out.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn closing(&mut self, reason: &CloseReason) {
        self.goodbye = Some(goodbye::frame(reason));
        self.timer = None;
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        let timer = &mut self.timer;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        self.poll_end(cx).map(|_| None)
    }

    fn received(&self) -> Option<u64> {
        Some(self.wire.received)
    }

    fn is_amid_frame(&self) -> bool {
        self.wire.is_amid_message()
    }

    fn remote(&self) -> Option<String> {
        self.remote.clone()
    }
}

fn context(role: Role, max_message: usize) -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(0)
        .max_write_buffer_size(REPLIES)
        .max_message_size(Some(max_message))
        // Control frames have a limit of their own.
        .max_frame_size(Some(max_message.max(125)));
    WebSocketContext::new(role, Some(config))
}

/// Writes a text frame straight into the buffer that is sent.
fn write_frame(output: &mut BytesMut, text: &[u8], mask: Option<[u8; 4]>) -> io::Result<()> {
    let header = FrameHeader {
        is_final: true,
        opcode: OpCode::Data(Data::Text),
        mask,
        ..FrameHeader::default()
    };
    output.reserve(header.len(text.len() as u64) + text.len());
    let written = header.format(text.len() as u64, &mut output.writer());
    written.map_err(io::Error::other)?;
    let start = output.len();
    output.extend_from_slice(text);
    if let Some(mask) = mask {
        apply(mask, output.split_at_mut(start).1);
    }
    Ok(())
}

fn apply(mask: [u8; 4], text: &mut [u8]) {
    for four in text.chunks_mut(4) {
        for (byte, mask) in four.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

/// What a client's frames are masked with: fresh random bytes for each, which are
/// asked for some at a time.
#[derive(Debug, Default)]
struct Masks {
    bytes: [u8; 32],
    left: usize,
}

impl Masks {
    fn next(&mut self) -> io::Result<[u8; 4]> {
        if self.left == 0 {
            getrandom::fill(&mut self.bytes).map_err(io::Error::other)?;
            self.left = self.bytes.len() / 4;
        }
        self.left -= 1;
        let (masks, _) = self.bytes.as_chunks();
        masks
            .get(self.left)
            .copied()
            .ok_or_else(|| io::ErrorKind::Other.into())
    }
}

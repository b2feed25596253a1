//! The transport of a WebSocket after its handshake.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::CloseReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::frames::{Found, Opcode, Role};
use super::goodbye;
use super::goodbye::{Broken, CloseFrame};
use super::mask::{Masks, apply};
use super::wire::{FULL, Wire};
use crate::connection::buffers;
use crate::connection::deadline::after;
use crate::connection::incomplete::Share;
use crate::http::UpgradeGuard;
use crate::transport::{ReceiveError, Transport, TransportInfo, TransportProgress};

/// Maximum bytes of the head of a frame.
const HEAD: usize = 14;
/// Maximum time for the other side to end its output after this side has ended its own.
const LINGER: Duration = Duration::from_secs(2);

/// A WebSocket over any byte stream.
pub(super) struct WebSocket<S> {
    wire: Wire<S>,
    role: Role,
    masks: Masks,
    ping_interval: Option<Duration>,
    ping_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Payload of the last ping, if there was no room to answer it.
    owed: Option<Vec<u8>>,
    /// True until a close frame is written.
    is_open: bool,
    goodbye: Option<CloseFrame>,
    /// Payload of the close frame of the other side.
    last_words: Option<Vec<u8>>,
    ending: Ending,
    remote: Option<String>,
    /// Guard that counts the connection.
    upgrade: Option<Arc<UpgradeGuard>>,
}

/// Progress of closing.
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
            wire: Wire::new(io, role, max_message),
            role,
            masks: Masks::default(),
            ping_interval: Some(Duration::from_secs(30)),
            ping_timeout: Duration::from_secs(10),
            timer: None,
            owed: None,
            is_open: true,
            goodbye: None,
            last_words: None,
            ending: Ending::NotBegun,
            remote: None,
            upgrade: None,
        }
    }

    /// Adds bytes that were read from the connection before.
    pub(super) fn with_input(mut self, read: &[u8]) -> Self {
        self.wire.push(read);
        self
    }

    /// Sends a ping after `interval` without input. The other side has `timeout` to answer. Without an
    /// interval no pings are sent.
    pub(super) fn with_pings(mut self, interval: Option<Duration>, timeout: Duration) -> Self {
        (self.ping_interval, self.ping_timeout) = (interval, timeout);
        self
    }

    /// Sets the server's limit that the memory of incomplete messages counts towards.
    pub(super) fn with_share(mut self, share: Share) -> Self {
        self.wire.frames.count(share);
        self
    }

    pub(super) fn with_remote(mut self, remote: Option<String>) -> Self {
        self.remote = remote;
        self
    }

    pub(super) fn with_upgrade(mut self, upgrade: Option<Arc<UpgradeGuard>>) -> Self {
        self.upgrade = upgrade;
        self
    }

    /// Closes the WebSocket, because it is beyond the limit of connections.
    pub(super) async fn refuse(mut self) {
        self.goodbye = Some(goodbye::too_many());
        let reason = CloseReason::local();
        std::future::poll_fn(|cx| self.poll_close(cx, &reason)).await;
    }

    /// Returns the capacity of its buffers in bytes.
    #[cfg(test)]
    pub(super) fn buffered(&self) -> usize {
        self.wire.output.len() + self.wire.frames.room()
    }

    /// Finds a message in the input.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReceiveError>> {
        while self.is_open && self.last_words.is_none() {
            match self.wire.frames.next()? {
                Some(Found::Message) => return Poll::Ready(Ok(())),
                Some(Found::Ping) => self.answer_ping()?,
                Some(Found::Goodbye(goodbye)) => {
                    // Requests before the close frame are answered first.
                    self.last_words = Some(self.wire.frames.payload().to_vec());
                    let reason = CloseReason::remote_with(goodbye);
                    return Poll::Ready(Err(ReceiveError::Closed(reason)));
                }
                None if ready!(self.wire.poll_fill(cx))? => {}
                None => break,
            }
        }
        let reason = match self.wire.frames.is_amid_message() {
            true => CloseReason::failed(Broken::Cut),
            false => CloseReason::remote_with(Broken::Ended),
        };
        Poll::Ready(Err(ReceiveError::Closed(reason)))
    }

    /// Answers a ping. Without room, it replaces the ping that waits.
    fn answer_ping(&mut self) -> io::Result<()> {
        let mut owed = self.owed.take().unwrap_or_default();
        owed.clear();
        owed.extend_from_slice(self.wire.frames.payload());
        self.owed = Some(owed);
        self.repay()
    }

    /// Answers the ping that waits, if there is room.
    fn repay(&mut self) -> io::Result<()> {
        if self.wire.output.len() >= FULL || !self.is_open {
            return Ok(());
        }
        match self.owed.take() {
            Some(owed) => self.write(Opcode::Pong, &owed),
            None => Ok(()),
        }
    }

    /// Sends pongs and pings that are due while there is no input.
    fn rest(&mut self, cx: &mut Context<'_>) -> Result<(), ReceiveError> {
        loop {
            // A pong may have waited for room.
            self.repay()?;
            if self.wire.output.is_empty() {
                break;
            }
            let Poll::Ready(drained) = self.wire.poll_drain(cx) else {
                break;
            };
            drained?;
        }
        match self.is_silent(cx)? {
            true => Err(ReceiveError::Closed(CloseReason::failed(Broken::Silent))),
            false => Ok(()),
        }
    }

    /// Sends a ping to a silent peer. Returns true if a ping was not answered in time.
    fn is_silent(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let Some(interval) = self.ping_interval else {
            return Ok(false);
        };
        loop {
            let asked = self.wire.asked;
            let due = match (asked, &self.timer) {
                (true, Some(timer)) => timer.deadline(),
                _ => after(self.wire.heard, interval),
            };
            let timer = match &mut self.timer {
                Some(timer) => timer,
                none => none.insert(Box::pin(sleep_until(due))),
            };
            // It may fire too early, and is then set again.
            if timer.deadline() > due {
                timer.as_mut().reset(due);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Ok(false);
            }
            if asked {
                return Ok(true);
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
        // If there is no room for the ping, other output is on its way.
        if self.wire.output.len() < FULL {
            self.write(Opcode::Ping, &[])?;
        }
        match self.wire.poll_drain(cx) {
            Poll::Ready(drained) => drained,
            Poll::Pending => Ok(()),
        }
    }

    /// Writes messages as frames while there is room.
    fn frame(&mut self, out: &mut BytesMut) -> io::Result<()> {
        while !out.is_empty() && self.wire.output.len() < FULL {
            let end = memchr::memchr(b'\n', out).unwrap_or(out.len());
            let (message, _) = out.split_at(end);
            self.write(Opcode::Text, message)?;
            buffers::consume(out, end + 1);
        }
        Ok(())
    }

    fn write(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let mask = match self.role {
            Role::Server => None,
            Role::Client => Some(self.masks.next()?),
        };
        write_frame(self.wire.output(), opcode, payload, mask);
        Ok(())
    }

    /// Ends the connection step by step.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ending == Ending::NotBegun {
            if std::mem::take(&mut self.is_open) {
                // The close frame of the other side is echoed.
                let payload = self.last_words.take();
                let payload = payload.or_else(|| self.goodbye.map(CloseFrame::payload));
                self.write(Opcode::Close, &payload.unwrap_or_default())?;
            }
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
        // A socket that is closed with unread input is reset, and the last output is lost.
        self.wire.poll_discard(cx).map(Ok)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for WebSocket<S> {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match self.advance(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(Some(self.wire.frames.message()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.rest(cx) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    fn skipped(&self) -> &[u8] {
        self.wire.frames.skipped()
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        reason: &CloseReason,
    ) -> Poll<Option<CloseReason>> {
        if self.goodbye.is_none() {
            self.goodbye = Some(goodbye::frame(reason));
            self.timer = None;
        }
        let timer = &mut self.timer;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(LINGER)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        self.poll_end(cx).map(|_| None)
    }

    fn info(&self) -> TransportInfo {
        TransportInfo::default().remote(self.remote.clone())
    }

    fn progress(&self) -> TransportProgress {
        TransportProgress::default()
            .received(self.wire.received)
            .sent(self.wire.sent)
            .is_amid_frame(self.wire.frames.is_amid_message())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        if !self.is_open {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        loop {
            self.repay()?;
            self.frame(out)?;
            match self.wire.poll_drain(cx) {
                Poll::Ready(drained) => drained?,
                // The task may not call `poll_receive` until there is room.
                Poll::Pending if self.is_silent(cx)? => {
                    let silent = io::Error::new(io::ErrorKind::TimedOut, Broken::Silent);
                    return Poll::Ready(Err(silent));
                }
                Poll::Pending => return Poll::Pending,
            }
            if out.is_empty() && self.owed.is_none() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Writes a frame directly into the output buffer.
pub(super) fn write_frame(
    output: &mut BytesMut,
    opcode: Opcode,
    payload: &[u8],
    mask: Option<[u8; 4]>,
) {
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let first = 0x80 | opcode as u8;
    output.reserve(HEAD + payload.len());
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ 0..=125), _) => output.extend_from_slice(&[first, masked | length]),
        (_, Ok(length)) => {
            let [high, low] = length.to_be_bytes();
            output.extend_from_slice(&[first, masked | 126, high, low]);
        }
        _ => {
            output.extend_from_slice(&[first, masked | 127]);
            output.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    let Some(mask) = mask else {
        return output.extend_from_slice(payload);
    };
    output.extend_from_slice(&mask);
    let start = output.len();
    output.extend_from_slice(payload);
    apply(mask, output.split_at_mut(start).1);
}

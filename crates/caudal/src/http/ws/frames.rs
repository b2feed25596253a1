//! Frames of RFC 6455, read in place: a message in one frame is borrowed from the buffer
//! that the socket was read into.

use std::ops::Range;

use bytes::BytesMut;
use caudal_core::{CloseReason, FrameError};

use super::goodbye::{Broken, Goodbye};
use super::mask::apply;
use crate::connection::buffers;
use crate::connection::incomplete::{Share, UNCOUNTED};
use crate::transport::ReceiveError;

#[cfg(test)]
pub(super) mod tests;

/// Maximum payload bytes of a control frame.
const CONTROL: usize = 125;
/// Bytes of an oversized message in which the id of its call is looked for.
const HEAD: usize = 2 << 10;
/// Minimum room for one read, unless the frame needs less.
const ROOM: usize = 4 << 10;
/// Maximum capacity of a buffer that is kept for the next message.
const KEPT: usize = 4 * buffers::SIZE;

/// Which side of a WebSocket this is. A client masks its frames, a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    Client,
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    const fn of(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A message or control frame that was received completely.
#[derive(Debug)]
pub(super) enum Found {
    Message,
    Ping,
    Goodbye(Goodbye),
}

/// A violation of the protocol by a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("a reserved bit is set")]
    Reserved,
    #[error("a frame has the unknown opcode {0}")]
    Opcode(u8),
    #[error("a client must mask its frames, and a server must not")]
    Masking,
    #[error("a control frame is too long or in pieces")]
    Control,
    #[error("a piece of a message is out of place")]
    Continuation,
    #[error("a close frame has no whole code")]
    NoCode,
    #[error("a close frame has the code {0}")]
    Code(u16),
}

/// The reason why no further frame can be read.
#[derive(Debug)]
pub(super) enum Fault {
    TooLarge {
        limit: usize,
    },
    /// The server has no room for the rest of the message.
    NoRoom,
    Broken(Broken),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation.into())
    }
}

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Fault> for ReceiveError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::TooLarge { limit } => Self::Fatal(FrameError::TooLarge { limit }),
            Fault::NoRoom => Self::Fatal(FrameError::Overloaded),
            Fault::Broken(broken) => Self::Closed(CloseReason::failed(broken)),
        }
    }
}

/// The head of a valid frame.
#[derive(Debug)]
struct Header {
    opcode: Opcode,
    is_last: bool,
    mask: Option<[u8; 4]>,
    /// Range of the payload, relative to the start of the frame.
    payload: Range<usize>,
}

/// Finds messages in the input.
#[derive(Debug)]
pub(super) struct Frames {
    role: Role,
    max_message: usize,
    input: BytesMut,
    /// Offset in `input` at which the next frame begins.
    start: usize,
    /// Length of the next frame, if that is known.
    length: Option<usize>,
    /// Range of `input` that is lent.
    current: Range<usize>,
    /// Type of a fragmented message, until its last fragment was received.
    open: Option<Opcode>,
    /// Fragments of that message. The message is lent if it is not empty and `open` is `None`.
    pieces: Vec<u8>,
    /// Memory that counts towards the server's limit.
    share: Share,
}

impl Frames {
    pub(super) fn new(role: Role, max_message: usize) -> Self {
        Self {
            role,
            // No message in memory is longer, and the first bit of a length is never set.
            max_message: max_message.min(isize::MAX as usize),
            input: BytesMut::new(),
            start: 0,
            length: None,
            current: 0..0,
            open: None,
            pieces: Vec::new(),
            share: Share::default(),
        }
    }

    /// Sets the server's limit that its memory counts towards.
    pub(super) fn count(&mut self, share: Share) {
        self.share = share;
    }

    /// Returns true if a message was received in part.
    pub(super) fn is_amid_message(&self) -> bool {
        self.start < self.input.len() || self.open.is_some()
    }

    /// Returns the capacity of its buffers in bytes.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.input.capacity() + self.pieces.capacity()
    }

    /// The message that was found.
    pub(super) fn message(&self) -> &[u8] {
        match self.open.is_none() && !self.pieces.is_empty() {
            true => &self.pieces,
            false => self.payload(),
        }
    }

    /// Returns the payload of the frame that was found.
    pub(super) fn payload(&self) -> &[u8] {
        self.input.get(self.current.clone()).unwrap_or_default()
    }

    /// Finds the next message, ping or close frame; `None` if more input is needed. Releases
    /// the previous one.
    ///
    /// # Errors
    /// The input is invalid or too large, and no frame can follow.
    pub(super) fn next(&mut self) -> Result<Option<Found>, Fault> {
        self.release();
        loop {
            let Some(header) = self.take()? else {
                return Ok(None);
            };
            match header.opcode {
                Opcode::Ping => return Ok(Some(Found::Ping)),
                Opcode::Pong => {}
                Opcode::Close => {
                    let goodbye = Goodbye::parse(self.payload())?;
                    return Ok(Some(Found::Goodbye(goodbye)));
                }
                Opcode::Text | Opcode::Binary if header.is_last => {
                    check_text(header.opcode, self.payload())?;
                    return Ok(Some(Found::Message));
                }
                _ => {
                    if self.add_piece(&header)? {
                        return Ok(Some(Found::Message));
                    }
                }
            }
        }
    }

    /// Releases the frame or message that was borrowed.
    fn release(&mut self) {
        self.current = 0..0;
        if self.open.is_none() && self.pieces.capacity() > 0 {
            self.pieces = Vec::new();
        }
    }

    /// Takes the next frame, if it is complete, and removes its mask.
    fn take(&mut self) -> Result<Option<Header>, Fault> {
        let input = self.input.get(self.start..).unwrap_or_default();
        let Some(header) = self.header(input)? else {
            self.length = None;
            return Ok(None);
        };
        let length = header.payload.end;
        if input.len() < length {
            self.length = Some(length);
            return Ok(None);
        }
        self.current = self.start + header.payload.start..self.start + length;
        self.start += length;
        self.length = None;
        if let Some(mask) = header.mask {
            let payload = self.input.get_mut(self.current.clone());
            apply(mask, payload.unwrap_or_default());
        }
        Ok(Some(header))
    }

    /// Reads the head of the next frame; `None` if more input is needed.
    fn header(&self, input: &[u8]) -> Result<Option<Header>, Fault> {
        let Some((&[first, second], rest)) = input.split_first_chunk() else {
            return Ok(None);
        };
        let opcode = self.check(first, second)?;
        let (length, rest) = match second & 0x7f {
            126 => match rest.split_first_chunk() {
                Some((length, rest)) => (u16::from_be_bytes(*length).into(), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            length => (length.into(), rest),
        };
        let length = match self.check_length(opcode, length) {
            // The first bytes tell which call an oversized response answers, so wait for them.
            Err(Fault::TooLarge { .. }) if self.lacks_head(rest, length) => return Ok(None),
            checked => checked?,
        };
        let (mask, rest) = match (self.role, rest.split_first_chunk()) {
            (Role::Client, _) => (None, rest),
            (Role::Server, Some((mask, rest))) => (Some(*mask), rest),
            (Role::Server, None) => return Ok(None),
        };
        let size = input.len() - rest.len();
        Ok(Some(Header {
            opcode,
            is_last: first & 0x80 != 0,
            mask,
            payload: size..size.saturating_add(length),
        }))
    }

    /// Checks the first two bytes.
    fn check(&self, first: u8, second: u8) -> Result<Opcode, Violation> {
        if first & 0x70 != 0 {
            return Err(Violation::Reserved);
        }
        let bits = first & 0x0f;
        let opcode = Opcode::of(bits).ok_or(Violation::Opcode(bits))?;
        if (second & 0x80 != 0) != (self.role == Role::Server) {
            return Err(Violation::Masking);
        }
        if opcode.is_control() {
            let fits = usize::from(second & 0x7f) <= CONTROL;
            let is_whole = first & 0x80 != 0;
            return (fits && is_whole)
                .then_some(opcode)
                .ok_or(Violation::Control);
        }
        let goes_on = opcode == Opcode::Continuation;
        (goes_on == self.open.is_some())
            .then_some(opcode)
            .ok_or(Violation::Continuation)
    }

    /// Checks that a frame of this length is allowed, before memory is reserved for it.
    fn check_length(&self, opcode: Opcode, length: u64) -> Result<usize, Fault> {
        let limit = self.max_message;
        let left = match opcode.is_control() {
            true => CONTROL,
            false => limit.saturating_sub(self.pieces.len()),
        };
        let fitting = usize::try_from(length).ok().filter(|fits| *fits <= left);
        fitting.ok_or(Fault::TooLarge { limit })
    }

    /// Returns true if more of the first bytes of a server's message are needed.
    fn lacks_head(&self, payload: &[u8], length: u64) -> bool {
        let is_first = self.role == Role::Client && self.pieces.is_empty();
        is_first && (payload.len() as u64) < length.min(HEAD as u64)
    }

    /// Returns the first bytes of a server's message that was too large.
    pub(super) fn skipped(&self) -> &[u8] {
        let frame = self.input.get(self.start..).unwrap_or_default();
        let start = match frame.get(1) {
            Some(126) => 4,
            Some(127) => 10,
            _ => 2,
        };
        let bytes = match self.role == Role::Client && self.pieces.is_empty() {
            true => frame.get(start..).unwrap_or_default(),
            false => &self.pieces,
        };
        bytes.get(..HEAD).unwrap_or(bytes)
    }

    /// Appends a fragment to those before it; returns true if the message is complete.
    fn add_piece(&mut self, header: &Header) -> Result<bool, Fault> {
        let kind = *self.open.get_or_insert(header.opcode);
        let piece = self.input.get(self.current.clone()).unwrap_or_default();
        buffers::grow(&mut self.pieces, piece.len(), self.max_message);
        self.pieces.extend_from_slice(piece);
        self.current = 0..0;
        if header.is_last {
            check_text(kind, &self.pieces)?;
            self.open = None;
        }
        Ok(header.is_last)
    }

    /// Returns the buffer, with room to read into. Releases the previous message.
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        self.release();
        if self.start == self.input.len() {
            self.reset();
            return &mut self.input;
        }
        let wanted = self.missing().min(ROOM);
        if self.input.capacity() - self.input.len() < wanted {
            self.move_to_front();
        }
        if self.input.capacity() - self.input.len() < wanted {
            self.grow();
        }
        &mut self.input
    }

    /// Returns the buffer to the pool if it is empty, and counts the memory of an incomplete
    /// message.
    ///
    /// # Errors
    /// The server has no room for the message. It is dropped, and no frame can follow.
    pub(super) fn rest(&mut self) -> Result<(), Fault> {
        self.release();
        if self.start == self.input.len() {
            self.forget();
            buffers::give(std::mem::take(&mut self.input));
        } else if self.input.capacity() > UNCOUNTED
            && self.input.len() - self.start <= buffers::SIZE
        {
            self.move_to_front();
            buffers::fit(&mut self.input);
        }
        if self
            .share
            .set(self.input.capacity() + self.pieces.capacity())
        {
            return Ok(());
        }
        self.forget();
        (self.input, self.pieces, self.open) = Default::default();
        self.share.set(0);
        Err(Fault::NoRoom)
    }

    /// Drops all input that was not read.
    pub(super) fn forget(&mut self) {
        self.input.clear();
        self.start = 0;
        self.length = None;
        self.current = 0..0;
    }

    /// Begins with an empty buffer.
    fn reset(&mut self) {
        self.forget();
        let room = self.input.capacity();
        if !(buffers::SIZE..=KEPT).contains(&room) {
            buffers::give(std::mem::take(&mut self.input));
            self.input = buffers::take();
        }
    }

    /// Returns the bytes that the next frame still needs.
    fn missing(&self) -> usize {
        let have = self.input.len() - self.start;
        self.length
            .map_or(ROOM, |length| length.saturating_sub(have))
    }

    fn move_to_front(&mut self) {
        let left = self.input.len() - self.start;
        self.input.copy_within(self.start.., 0);
        self.input.truncate(left);
        self.start = 0;
    }

    /// Makes room for as many bytes of the frame as have arrived, and for no more than the
    /// frame needs. The frame is at the front of the buffer.
    fn grow(&mut self) {
        let have = self.input.len();
        let length = self.length.unwrap_or(have + ROOM);
        let room = length.min(have.saturating_mul(2)).max(have + 1);
        // Exactly this size: a buffer that grows by itself reserves more.
        let mut larger = BytesMut::with_capacity(room);
        larger.extend_from_slice(&self.input);
        self.input.clear();
        buffers::give(std::mem::replace(&mut self.input, larger));
    }
}

fn check_text(kind: Opcode, message: &[u8]) -> Result<(), Broken> {
    match kind == Opcode::Text && std::str::from_utf8(message).is_err() {
        true => Err(Broken::NotUtf8),
        false => Ok(()),
    }
}

//! Reader of frames from a growing buffer.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use super::concatenated::Concatenated;
use super::header::Header;
use super::line::Line;
use super::{FrameError, Framing, HEAD, Step};

/// Reader of frames from input in pieces of any size.
///
/// Add input with [`push`](Self::push), or read into
/// [`buffer_mut`](Self::buffer_mut); then take frames until there is none. The buffer
/// holds at most one unfinished frame, up to the limit, and the input added last. Each
/// byte is read once, however small the pieces.
///
/// ```
/// use caudal_core::{FrameReader, Framing};
///
/// let mut frames = FrameReader::new(Framing::Line, 1024);
/// frames.push(b"{\"a\":1}\n{\"b\"");
/// assert_eq!(frames.next_frame()?, Some(&br#"{"a":1}"#[..]));
/// assert_eq!(frames.next_frame()?, None);
/// frames.push(b":2}\n");
/// assert_eq!(frames.next_frame()?, Some(&br#"{"b":2}"#[..]));
/// # Ok::<(), caudal_core::FrameError>(())
/// ```
#[derive(Debug)]
pub struct FrameReader {
    state: State,
    limit: usize,
    buffer: BytesMut,
    /// Range of the current frame in the buffer.
    current: Range<usize>,
    /// Bytes of the current frame with its headers and line ends.
    used: usize,
    dead: Option<FrameError>,
}

#[derive(Debug)]
enum State {
    Line(Line),
    Header(Header),
    Concatenated(Concatenated),
}

impl FrameReader {
    /// Creates a reader of frames of at most `limit` bytes.
    ///
    /// ```
    /// use caudal_core::{FrameReader, Framing, Policy};
    ///
    /// let frames = FrameReader::new(Framing::Header, Policy::default().max_message);
    /// assert!(frames.is_empty());
    /// ```
    #[must_use]
    pub fn new(framing: Framing, limit: usize) -> Self {
        Self {
            state: match framing {
                Framing::Line => State::Line(Line::default()),
                Framing::Header => State::Header(Header::default()),
                Framing::Concatenated => State::Concatenated(Concatenated::default()),
            },
            limit,
            buffer: BytesMut::new(),
            current: 0..0,
            used: 0,
            dead: None,
        }
    }

    /// Sets the maximum bytes of the frames that follow.
    ///
    /// ```
    /// use caudal_core::{FrameError, FrameReader, Framing};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.set_limit(4);
    /// frames.push(b"12345\n");
    /// assert_eq!(frames.advance(), Err(FrameError::TooLarge { limit: 4 }));
    /// ```
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Appends input.
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Concatenated, 1024);
    /// frames.push(b"{}[]");
    /// assert_eq!(frames.next_frame(), Ok(Some(&b"{}"[..])));
    /// assert_eq!(frames.next_frame(), Ok(Some(&b"[]"[..])));
    /// ```
    pub fn push(&mut self, bytes: &[u8]) {
        if self.dead.is_none() {
            self.buffer_mut().extend_from_slice(bytes);
        }
    }

    /// Returns the buffer to read into: append to it, change nothing else. It is reused
    /// from frame to frame.
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.buffer_mut().extend_from_slice(b"{}\n");
    /// assert_eq!(frames.next_frame(), Ok(Some(&b"{}"[..])));
    /// ```
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        self.release();
        &mut self.buffer
    }

    /// Returns the next complete frame; `None` if more input is needed.
    ///
    /// # Errors
    /// See [`FrameError::is_fatal`]: after a fault that is not fatal, call
    /// again; after a fatal one, every call returns it.
    ///
    /// ```
    /// use caudal_core::{FrameError, FrameReader, Framing};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 4);
    /// frames.push(b"far too long\n[1]\n");
    /// assert_eq!(frames.next_frame(), Err(FrameError::TooLarge { limit: 4 }));
    /// assert_eq!(frames.next_frame(), Ok(Some(&b"[1]"[..])));
    /// ```
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        Ok(self.advance()?.then(|| self.frame()))
    }

    /// Moves to the next complete frame; returns false if more input is needed.
    ///
    /// The same as [`next_frame`](Self::next_frame), for a loop that must not borrow the
    /// frame yet: [`frame`](Self::frame) returns it later.
    ///
    /// # Errors
    /// The same as for [`next_frame`](Self::next_frame).
    ///
    /// ```
    /// use caudal_core::{FrameReader, Framing};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// let mut pieces = [&b"[1"[..], b"]\n"].into_iter();
    /// while !frames.advance()? {
    ///     frames.push(pieces.next().expect("the frame ends in the second piece"));
    /// }
    /// assert_eq!(frames.frame(), b"[1]");
    /// # Ok::<(), caudal_core::FrameError>(())
    /// ```
    #[inline]
    pub fn advance(&mut self) -> Result<bool, FrameError> {
        self.step_on(false)
    }

    /// Moves to the next frame after the end of the stream, as
    /// [`advance`](Self::advance) does before it.
    ///
    /// # Errors
    /// The same as for [`finish`](Self::finish).
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"[1]");
    /// assert_eq!(frames.advance(), Ok(false));
    /// assert_eq!(frames.advance_last(), Ok(true));
    /// assert_eq!(frames.frame(), b"[1]");
    /// ```
    pub fn advance_last(&mut self) -> Result<bool, FrameError> {
        self.step_on(true)
    }

    /// Returns the current frame; empty if there is none.
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let frames = FrameReader::new(Framing::Line, 1024);
    /// assert!(frames.frame().is_empty());
    /// ```
    #[must_use]
    #[inline]
    pub fn frame(&self) -> &[u8] {
        self.buffer.get(self.current.clone()).unwrap_or_default()
    }

    /// Returns the first bytes of an oversized or [refused](Self::refuse) frame, at most
    /// 2 KiB: from the return of [`TooLarge`](FrameError::TooLarge) or
    /// [`Overloaded`](FrameError::Overloaded) until the next call that changes the reader.
    /// Empty otherwise.
    ///
    /// To find the call that it answers, if it is a response:
    /// [`truncated_responses`](crate::decode::truncated_responses).
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 24);
    /// frames.push(b"{\"id\":1,\"result\":\"far too long\"}\n");
    /// assert!(frames.next_frame().is_err());
    /// assert!(frames.skipped().starts_with(b"{\"id\":1,\"result\":"));
    /// ```
    #[must_use]
    pub fn skipped(&self) -> &[u8] {
        // A frame is never empty: bytes that are used without one were refused.
        match self.current.is_empty() {
            true => self.buffer.get(..self.used.min(HEAD)).unwrap_or_default(),
            false => &[],
        }
    }

    /// Returns the next complete frame, to keep: it shares the memory of the buffer,
    /// which is reused after the last such frame is dropped.
    ///
    /// # Errors
    /// The same as for [`next_frame`](Self::next_frame).
    ///
    /// ```
    /// use caudal_core::{FrameReader, Framing, Message, Policy, decode};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1,2]}\n");
    /// let frame = frames.next_frame_shared()?.unwrap();
    /// let Message::Response(response) = decode(&frame, &Policy::default()) else { panic!() };
    /// // A part of it can be sent to another task without a copy.
    /// let result = frame.slice_ref(response.outcome.unwrap().as_str().as_bytes());
    /// assert_eq!(&result[..], b"[1,2]");
    /// # Ok::<(), caudal_core::FrameError>(())
    /// ```
    pub fn next_frame_shared(&mut self) -> Result<Option<Bytes>, FrameError> {
        if !self.advance()? {
            return Ok(None);
        }
        let Range { start, end } = std::mem::take(&mut self.current);
        let mut frame = self.buffer.split_to(std::mem::take(&mut self.used));
        frame.truncate(end);
        frame.advance(start);
        Ok(Some(frame.freeze()))
    }

    /// Returns the next frame after the end of the stream; call it until it returns
    /// `None`.
    ///
    /// A last line without newline is a frame.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the stream ended inside a frame, for framings that
    /// can detect it.
    ///
    /// ```
    /// use caudal_core::{FrameReader, Framing};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"[1]");
    /// assert_eq!(frames.next_frame(), Ok(None));
    /// assert_eq!(frames.finish(), Ok(Some(&b"[1]"[..])));
    /// assert_eq!(frames.finish(), Ok(None));
    /// ```
    pub fn finish(&mut self) -> Result<Option<&[u8]>, FrameError> {
        Ok(self.advance_last()?.then(|| self.frame()))
    }

    /// Drops the frame that has begun and is not complete, and frees its memory. The
    /// rest of it is skipped as it arrives. Call it after
    /// [`advance`](Self::advance) has returned `false`.
    ///
    /// # Errors
    /// [`FrameError::Overloaded`], which tells the sender. `Ok` if no frame has begun
    /// whose bytes are held.
    ///
    /// ```
    /// use caudal_core::{FrameError, FrameReader, Framing};
    ///
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"[1, 2");
    /// assert_eq!(frames.next_frame(), Ok(None));
    /// assert_eq!(frames.refuse(), Err(FrameError::Overloaded));
    /// frames.push(b", 3]\n[4]\n");
    /// assert_eq!(frames.next_frame(), Ok(Some(&b"[4]"[..])));
    /// ```
    pub fn refuse(&mut self) -> Result<(), FrameError> {
        self.release();
        let have = self.buffer.len();
        if have == 0 || self.dead.is_some() {
            return Ok(());
        }
        match &mut self.state {
            State::Line(line) => line.refuse(),
            State::Header(header) => {
                if !header.refuse(have) {
                    return Ok(());
                }
            }
            State::Concatenated(values) => values.refuse(self.limit),
        }
        self.buffer.truncate(HEAD);
        self.buffer = BytesMut::from(&*self.buffer);
        // It is let go of with the next look, like a frame.
        self.used = self.buffer.len();
        Err(FrameError::Overloaded)
    }

    /// Returns true if no frame has begun: the buffer is empty, and nothing is being
    /// skipped. Bytes that are dropped up to the next `Content-Length` (see
    /// [`MissingLength`](FrameError::MissingLength)) belong to no frame.
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"[1");
    /// assert!(!frames.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let idle = match &self.state {
            State::Line(line) => line.is_idle(),
            State::Header(header) if header.is_seeking() => return true,
            State::Header(header) => header.is_idle(),
            State::Concatenated(values) => values.is_idle(),
        };
        idle && self.buffer.len() == self.used
    }

    /// Frees the buffer if it is empty; for an idle connection.
    ///
    /// ```
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// frames.push(b"[1]\n");
    /// while let Ok(Some(_)) = frames.next_frame() {}
    /// frames.shrink();
    /// assert_eq!(frames.buffer_mut().capacity(), 0);
    /// ```
    pub fn shrink(&mut self) {
        self.swap_buffer(&mut BytesMut::new());
    }

    /// Swaps the buffer for another one, and returns true, if it is empty; for a pool
    /// that many readers share.
    ///
    /// ```
    /// # use bytes::BytesMut;
    /// # use caudal_core::{FrameReader, Framing};
    /// let mut frames = FrameReader::new(Framing::Line, 1024);
    /// let mut roomy = BytesMut::with_capacity(65_536);
    /// assert!(frames.swap_buffer(&mut roomy));
    /// assert_eq!((frames.buffer_mut().capacity(), roomy.capacity()), (65_536, 0));
    /// ```
    pub fn swap_buffer(&mut self, other: &mut BytesMut) -> bool {
        let idle = self.buffer.len() == self.used && other.is_empty();
        if idle {
            self.release();
            std::mem::swap(&mut self.buffer, other);
        }
        idle
    }

    /// Drops the current frame from the buffer.
    #[inline]
    fn release(&mut self) {
        self.buffer.advance(self.used);
        self.used = 0;
        self.current = 0..0;
    }

    fn step_on(&mut self, ended: bool) -> Result<bool, FrameError> {
        if let Some(error) = &self.dead {
            self.buffer.clear();
            return Err(error.clone());
        }
        loop {
            self.release();
            match self.step(ended) {
                Step::Frame { body, used } => {
                    self.used = used;
                    self.current = body;
                    return Ok(true);
                }
                Step::Skip { used } => self.buffer.advance(used),
                Step::Wait { used } => {
                    self.buffer.advance(used);
                    return Ok(false);
                }
                Step::Fault { error, used } => {
                    if let FrameError::TooLarge { .. } = error {
                        // Kept for `skipped` until the next call.
                        self.used = used;
                        return Err(error);
                    }
                    self.buffer.advance(used);
                    if error.is_fatal() {
                        self.dead = Some(error.clone());
                        self.buffer = BytesMut::new();
                    }
                    return Err(error);
                }
            }
        }
    }

    fn step(&mut self, ended: bool) -> Step {
        let (buffer, limit) = (&self.buffer[..], self.limit);
        let step = match &mut self.state {
            State::Line(line) => line.step(buffer, limit),
            State::Header(header) => header.step(buffer, limit),
            State::Concatenated(values) => values.step(buffer, limit),
        };
        let Step::Wait { used } = step else {
            return step;
        };
        if !ended {
            return step;
        }
        // The stream has ended: the rest of the buffer is the last frame.
        self.buffer.advance(used);
        let buffer = &self.buffer[..];
        match &mut self.state {
            State::Line(line) => line.finish(buffer, limit),
            State::Header(header) => header.finish(buffer, limit),
            State::Concatenated(values) => values.finish(buffer, limit),
        }
    }
}

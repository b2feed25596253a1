//! A growing buffer that is cut into frames.

use std::ops::Range;

use bytes::{Buf, Bytes, BytesMut};

use super::concatenated::Concatenated;
use super::header::Header;
use super::line::Line;
use super::{FrameError, Framing, HEAD, Step};

/// Cuts what was read into frames.
///
/// Feed it with [`push`](Self::push), or read into
/// [`buffer_mut`](Self::buffer_mut); then take frames until there is none. It
/// holds one unfinished frame at most, never more than the limit and what was
/// fed last, and it looks at each byte once, however small the pieces.
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
    /// The frame that was found last, within the buffer.
    current: Range<usize>,
    /// The bytes that it takes up, with all that belongs to it.
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
    /// A reader for frames of at most `limit` bytes.
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

    /// Appends what was read.
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

    /// The buffer, to read into: append to it, change nothing else. It is
    /// reused from frame to frame.
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

    /// The next whole frame; `None` when more must be read first.
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

    /// Moves to the next whole frame; `false` when more must be read first.
    ///
    /// This is [`next_frame`](Self::next_frame) for a loop that reads and looks
    /// in turns: the frame itself is borrowed later, with
    /// [`frame`](Self::frame).
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame).
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

    /// [`advance`](Self::advance) when the stream has ended: what is left is
    /// all there is.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
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

    /// The frame that was found last; empty if none was, or it was let go of.
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

    /// The first bytes of a frame that is too large, 2 KiB of them at most:
    /// from when [`TooLarge`](FrameError::TooLarge) is returned until the next
    /// call that changes something. Empty otherwise.
    ///
    /// They tell whether it was a response, and to which call:
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
        // A frame is never empty: what is used up without one is what was refused.
        match self.current.is_empty() {
            true => self.buffer.get(..self.used.min(HEAD)).unwrap_or_default(),
            false => &[],
        }
    }

    /// The next whole frame, to keep: it shares the buffer's memory, which is
    /// reused only when every such frame is gone.
    ///
    /// # Errors
    /// As [`next_frame`](Self::next_frame).
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

    /// What is left when the stream has ended; call it until it returns
    /// `None`.
    ///
    /// A last line without newline is a frame like any other.
    ///
    /// # Errors
    /// [`FrameError::Truncated`] if the stream ended inside a frame of a
    /// framing that can tell.
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

    /// Whether no frame has begun: nothing is held, and nothing is being
    /// skipped.
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
            State::Header(header) => header.is_idle(),
            State::Concatenated(values) => values.is_idle(),
        };
        idle && self.buffer.len() == self.used
    }

    /// Gives the buffer's memory back if no bytes are held; for a connection
    /// that has gone idle.
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

    /// Trades the buffer for another one if no bytes are held, and says whether
    /// it did; for a pool that many readers share.
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

    /// Lets go of the frame that was found last.
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
                        // It is let go of with the next look, like a frame.
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
        // Nothing more will come: what is there is all there is.
        self.buffer.advance(used);
        let buffer = &self.buffer[..];
        match &mut self.state {
            State::Line(line) => line.finish(buffer, limit),
            State::Header(header) => header.finish(buffer, limit),
            State::Concatenated(values) => values.finish(buffer, limit),
        }
    }
}

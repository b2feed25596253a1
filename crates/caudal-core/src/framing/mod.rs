//! Bytes to frames and back: where one message ends and the next begins.
//!
//! [`Framing`] names the three ways; [`FrameReader`] cuts a growing buffer
//! into frames, and [`Framing::write`] puts a message into one. Nothing here
//! does I/O: feed it what was read, in pieces of any size.
//!
//! | framing | a frame | after a bad frame | after an oversized frame |
//! |---|---|---|---|
//! | [`Line`](Framing::Line) | a line | the next line | the next line |
//! | [`Header`](Framing::Header) | `Content-Length: N`, blank line, N bytes | a stray line is dropped; behind headers without a length, the next `Content-Length`; a broken length is fatal | its N bytes are skipped |
//! | [`Concatenated`](Framing::Concatenated) | a JSON value | the next value or the one after it; after a stray quote, the next line | the next value |
//!
//! ```
//! use caudal_core::framing::{FrameReader, Framing};
//!
//! let mut frames = FrameReader::new(Framing::Header, 1024);
//! frames.push(b"Content-Length: 2\r\n\r\n{}");
//! assert_eq!(frames.next_frame(), Ok(Some(&b"{}"[..])));
//! ```

mod concatenated;
mod header;
mod line;
mod reader;

pub use reader::FrameReader;

use serde_json::json;
use thiserror::Error;

use crate::decode::DecodeError;
use crate::encode::{Output, or_restore};
use crate::error::{ErrorCode, JsonRpcError};
use crate::policy::ErrorDetail;

/// So much of a frame that is skipped can be looked at: an id may have 1 KiB.
const HEAD: usize = 2 * 1024;

/// How messages are told apart in a stream.
///
/// ```
/// use caudal_core::Framing;
///
/// assert_eq!(Framing::default(), Framing::Line);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// One message a line: MCP's stdio transport, and most others.
    #[default]
    Line,
    /// `Content-Length` headers: the Language Server Protocol.
    Header,
    /// JSON values one after the other, with or without white space between.
    /// Written with a line break behind each, by which a reader finds its way
    /// after a value that was cut short.
    Concatenated,
}

impl Framing {
    /// Appends one frame whose body `write` appends.
    ///
    /// JSON that was serialised elsewhere may hold line breaks between its
    /// tokens; on a line-framed stream they become spaces.
    ///
    /// # Errors
    /// What `write` returns; `out` is then as it was.
    ///
    /// ```
    /// use caudal_core::{Framing, RequestId, encode};
    ///
    /// let mut out = Vec::new();
    /// Framing::Header.write(&mut out, |out| {
    ///     encode::reply(out, &RequestId::from(1), "done")
    /// })?;
    /// assert_eq!(
    ///     out,
    ///     b"Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"done\"}",
    /// );
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    pub fn write<B: Output, E>(
        self,
        out: &mut B,
        write: impl FnOnce(&mut B) -> Result<(), E>,
    ) -> Result<(), E> {
        or_restore(out, |out| {
            let start = out.length();
            match self {
                Self::Line => {
                    write(out)?;
                    line::finish(out, start);
                }
                Self::Header => {
                    header::begin(out);
                    write(out)?;
                    header::finish(out, start);
                }
                Self::Concatenated => {
                    write(out)?;
                    out.put(b"\n");
                }
            }
            Ok(())
        })
    }
}

/// Why a stream could not be cut into frames.
///
/// ```
/// use caudal_core::FrameError;
///
/// assert!(!FrameError::TooLarge { limit: 1024 }.is_fatal());
/// assert!(!FrameError::MissingLength.is_fatal());
/// assert!(FrameError::TwoLengths.is_fatal());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is larger than the limit. It is skipped as it arrives, and
    /// never held in memory; [`FrameReader::skipped`] has its first bytes.
    #[error("the frame is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The reader holds too many bytes of unfinished frames, of this connection or of
    /// others: [`FrameReader::refuse`]. The frame is skipped as it arrives, like one that
    /// is too large.
    #[error("there is no room for the frame")]
    Overloaded,
    /// A line between frames that is no header, or the part of a line before its
    /// `Content-Length: N`: a print that went astray. It is dropped.
    #[error("not a header: {line:?}")]
    StrayLine {
        /// The line, cut if it is long.
        line: Box<str>,
    },
    /// `Content-Length: 0`, and a message cannot be empty. The frame is
    /// dropped.
    #[error("`Content-Length` is 0")]
    EmptyBody,
    /// The `Content-Type` names another encoding than UTF-8. The frame is
    /// skipped.
    #[error("`Content-Type` is not UTF-8: {value:?}")]
    WrongCharset {
        /// The header's value, cut if it is long.
        value: Box<str>,
    },
    /// The headers end without a `Content-Length`: nobody knows where their
    /// body ends. What follows is dropped up to the next `Content-Length`.
    #[error("`Content-Length` is missing")]
    MissingLength,
    /// `Content-Length` is not a number, or an absurd one. Fatal.
    #[error("`Content-Length` is not a plausible length: {value:?}")]
    BadLength {
        /// The header's value, cut if it is long.
        value: Box<str>,
    },
    /// `Content-Length` stands twice. Fatal.
    #[error("`Content-Length` stands twice")]
    TwoLengths,
    /// A header line is longer than any real one. Fatal.
    #[error("a header is longer than {limit} bytes")]
    HeaderTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The stream ended inside a frame. Fatal, since nothing can follow.
    #[error("the stream ended inside a frame")]
    Truncated,
}

impl FrameError {
    /// Whether the place of the next frame is lost.
    ///
    /// - `false`: tell the other side where an answer is owed (an oversized
    ///   frame that is no response is -32600 `Request payload too large`, a
    ///   refused one -32000 `Server overloaded`), and read on.
    /// - `true`: close the connection; reading on returns this error again.
    ///
    /// ```
    /// use caudal_core::FrameError;
    ///
    /// assert!(!FrameError::EmptyBody.is_fatal());
    /// assert!(FrameError::TwoLengths.is_fatal());
    /// ```
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        match self {
            Self::TooLarge { .. }
            | Self::Overloaded
            | Self::StrayLine { .. }
            | Self::EmptyBody
            | Self::WrongCharset { .. }
            | Self::MissingLength => false,
            Self::BadLength { .. }
            | Self::TwoLengths
            | Self::HeaderTooLarge { .. }
            | Self::Truncated => true,
        }
    }
}

impl FrameError {
    /// The error object that tells the sender, with `id` null.
    ///
    /// ```
    /// use caudal_core::{ErrorDetail, FrameError};
    ///
    /// let told = FrameError::TooLarge { limit: 1024 }.to_wire(ErrorDetail::Full);
    /// assert_eq!((told.code.get(), told.message.as_str()), (-32600, "Request payload too large"));
    ///
    /// let told = FrameError::EmptyBody.to_wire(ErrorDetail::Full);
    /// assert_eq!((told.code.get(), told.message.as_str()), (-32700, "Parse error: `Content-Length` is 0"));
    /// ```
    #[must_use]
    pub fn to_wire(&self, detail: ErrorDetail) -> JsonRpcError {
        match (self, detail) {
            (Self::TooLarge { limit }, _) => {
                DecodeError::TooLarge { limit: *limit }.to_wire(detail)
            }
            (Self::Overloaded, _) => {
                JsonRpcError::new(ErrorCode::SERVER_OVERLOADED, "Server overloaded")
            }
            (_, ErrorDetail::Minimal) => JsonRpcError::parse_error(),
            (_, ErrorDetail::Full) => JsonRpcError::parse_error()
                .and_message(format!("Parse error: {self}"))
                .and_data(json!({ "reason": self.to_string() })),
        }
    }
}

/// What a framing makes of the bytes it has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A frame: its body, and how many bytes are done with once it is read.
    Frame {
        body: std::ops::Range<usize>,
        used: usize,
    },
    /// So many bytes are done with; look again at once.
    Skip { used: usize },
    /// So many bytes are done with; look again when more have come.
    Wait { used: usize },
    /// A fault; so many bytes are done with.
    Fault { error: FrameError, used: usize },
}

//! Framing: where one message of a stream ends and the next begins.
//!
//! [`FrameReader`] finds the frames in input of any pieces, and [`Framing::write`]
//! writes a message as a frame. Neither does I/O.
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

/// Bytes of a skipped frame that are kept for `FrameReader::skipped`: an id may have 1 KiB.
const HEAD: usize = 2 * 1024;

/// Format that separates the messages of a stream.
///
/// ```
/// use caudal_core::Framing;
///
/// assert_eq!(Framing::default(), Framing::Line);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// One message per line: the stdio transport of MCP, and most others.
    #[default]
    Line,
    /// `Content-Length` headers: the Language Server Protocol.
    Header,
    /// JSON values in a row, with or without white space between them. A line break is
    /// written after each, so that a reader can continue after a truncated value.
    Concatenated,
}

impl Framing {
    /// Appends one frame, whose body `write` appends.
    ///
    /// Line breaks between the tokens of JSON text become spaces on a stream of lines.
    ///
    /// # Errors
    /// The error of `write`; `out` is then unchanged.
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

/// Reason why the input is not a valid frame.
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
    /// The headers end without a `Content-Length`, so the end of the body is unknown. Input is
    /// dropped up to the next `Content-Length`.
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
    /// Returns true if the start of the next frame is unknown.
    ///
    /// - `false`: send the error unless the frame was a response (an oversized request
    ///   is -32600 `Request payload too large`, a refused one -32000 `Server
    ///   overloaded`), and read on.
    /// - `true`: close the connection; every further read returns this error.
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
    /// Returns the error object to send, with `id` null.
    ///
    /// ```
    /// use caudal_core::{ErrorDetail, FrameError};
    ///
    /// let error = FrameError::TooLarge { limit: 1024 }.to_wire(ErrorDetail::Full);
    /// assert_eq!((error.code.get(), error.message.as_str()), (-32600, "Request payload too large"));
    ///
    /// let error = FrameError::EmptyBody.to_wire(ErrorDetail::Full);
    /// assert_eq!((error.code.get(), error.message.as_str()), (-32700, "Parse error: `Content-Length` is 0"));
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

/// Outcome of one step of a framing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A frame: its body, and the bytes to drop after it is read.
    Frame {
        body: std::ops::Range<usize>,
        used: usize,
    },
    /// Drop these bytes, and call again at once.
    Skip { used: usize },
    /// Drop these bytes, and call again after more input.
    Wait { used: usize },
    /// A fault; drop these bytes.
    Fault { error: FrameError, used: usize },
}

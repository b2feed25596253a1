//! One validating pass over JSON text: no recursion, no allocation.
//!
//! The scanner accepts exactly what `serde_json` accepts as a `Value`, except
//! that a number may be of any size: text that is passed on is never read as
//! a float.

mod nesting;
mod number;
mod scanner;
mod string;

use thiserror::Error;

pub(crate) use nesting::Nesting;
pub(crate) use scanner::Scanner;
pub(crate) use string::{Text, string_value};

/// Why a text is not JSON.
///
/// ```
/// use caudal_core::{RawJson, SyntaxError};
///
/// let error = RawJson::parse("[1,]").unwrap_err();
/// assert_eq!(error.to_string(), "not JSON at byte 3: expected a value");
/// # let _ = SyntaxError::ExpectedValue;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// Something else stands where a value must begin.
    #[error("expected a value")]
    ExpectedValue,
    /// A member's name must be a string.
    #[error("expected a member name in double quotes")]
    ExpectedName,
    /// A member's name must be followed by a colon.
    #[error("expected `:`")]
    ExpectedColon,
    /// An array goes on or ends after each element.
    #[error("expected `,` or `]`")]
    ExpectedCommaOrBracket,
    /// An object goes on or ends after each member.
    #[error("expected `,` or `}}`")]
    ExpectedCommaOrBrace,
    /// A number is cut short or misspelled.
    #[error("malformed number")]
    BadNumber,
    /// An escape that JSON does not know.
    #[error("unknown escape in a string")]
    BadEscape,
    /// Half of a surrogate pair.
    #[error("half a surrogate pair in a string")]
    LoneSurrogate,
    /// A control character must be escaped.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// The text ends inside a string.
    #[error("the text ends inside a string")]
    UnclosedString,
    /// The text ends where more must follow.
    #[error("the text ends too early")]
    UnexpectedEnd,
    /// A message is one JSON value and nothing after it.
    #[error("more text after the message")]
    TrailingText,
    /// A byte order mark is not JSON.
    #[error("a byte order mark")]
    ByteOrderMark,
}

/// The text is not JSON; [`Scanner::fault`] says why. Of no size, so that what
/// the scanner's functions return stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// What a JSON value is, told from its first byte.
///
/// ```
/// use caudal_core::{Kind, RawJson};
///
/// assert_eq!(RawJson::parse("[1,2]")?.kind(), Kind::Array);
/// # Ok::<(), caudal_core::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number of any size and form.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The kind of a valid JSON text.
    #[inline]
    pub(crate) fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// Whether it may be the `params` of a call.
    #[inline]
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Array | Self::Object)
    }
}

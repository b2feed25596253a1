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

/// Reason why a text is not JSON.
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
    /// Something else is at the start of a value.
    #[error("expected a value")]
    ExpectedValue,
    /// The name of a member is not a string.
    #[error("expected a member name in double quotes")]
    ExpectedName,
    /// No colon follows the name of a member.
    #[error("expected `:`")]
    ExpectedColon,
    /// An element of an array is not followed by a comma or the end.
    #[error("expected `,` or `]`")]
    ExpectedCommaOrBracket,
    /// A member of an object is not followed by a comma or the end.
    #[error("expected `,` or `}}`")]
    ExpectedCommaOrBrace,
    /// A number is incomplete or malformed.
    #[error("malformed number")]
    BadNumber,
    /// An escape that JSON does not define.
    #[error("unknown escape in a string")]
    BadEscape,
    /// Half of a surrogate pair.
    #[error("half a surrogate pair in a string")]
    LoneSurrogate,
    /// A control character is not escaped.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// The text ends inside a string.
    #[error("the text ends inside a string")]
    UnclosedString,
    /// The text ends too early.
    #[error("the text ends too early")]
    UnexpectedEnd,
    /// More text follows the JSON value.
    #[error("more text after the message")]
    TrailingText,
    /// The text begins with a byte order mark, which is not JSON.
    #[error("a byte order mark")]
    ByteOrderMark,
}

/// The text is not JSON; [`Scanner::fault`] returns the reason. It has no size, so that
/// the results of the scanner stay in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Type of a JSON value, known from its first byte.
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
    /// Returns the kind of a valid JSON text.
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

    /// Returns true if the value may be the `params` of a call.
    #[inline]
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Array | Self::Object)
    }
}

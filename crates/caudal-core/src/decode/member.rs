//! Names of the members of a message.

use std::fmt;

/// Member of a message that the specification defines.
///
/// ```
/// use caudal_core::Member;
///
/// assert_eq!(Member::Id.to_string(), "`id`");
/// assert_eq!(Member::Code.name(), "error.code");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Member {
    /// `jsonrpc`
    Version,
    /// `id`
    Id,
    /// `method`
    Method,
    /// `params`
    Params,
    /// `result`
    Result,
    /// `error`
    Error,
    /// `code` of an error
    Code,
    /// `message` of an error
    Message,
    /// `data` of an error
    Data,
}

impl Member {
    /// Returns its path in the message.
    ///
    /// ```
    /// assert_eq!(caudal_core::Member::Version.name(), "jsonrpc");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "jsonrpc",
            Self::Id => "id",
            Self::Method => "method",
            Self::Params => "params",
            Self::Result => "result",
            Self::Error => "error",
            Self::Code => "error.code",
            Self::Message => "error.message",
            Self::Data => "error.data",
        }
    }

    /// Returns the member of the message object with this name.
    #[inline]
    pub(crate) const fn of_envelope(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"jsonrpc" => Self::Version,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => return None,
        })
    }

    /// Returns the member of an error object with this name.
    pub(crate) const fn of_error(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"code" => Self::Code,
            b"message" => Self::Message,
            b"data" => Self::Data,
            _ => return None,
        })
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name())
    }
}

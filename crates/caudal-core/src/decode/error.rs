//! Reasons why bytes are not a valid message.

use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

use super::member::Member;
use crate::error::{ErrorCode, JsonRpcError};
use crate::policy::ErrorDetail;
use crate::scan::{Kind, SyntaxError};

/// Reason why bytes are not a valid message.
///
/// Always recoverable: only this frame is bad. Answer with [`to_wire`](Self::to_wire)
/// if [`Invalid::wants_answer`](crate::decode::Invalid::wants_answer), and read the
/// next frame.
///
/// ```
/// use caudal_core::JsonRpcRequest;
///
/// let error = serde_json::from_str::<JsonRpcRequest>(
///     r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
/// ).unwrap_err();
/// assert!(error.to_string().starts_with("`method` must be a string, found the number 7"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is not JSON.
    #[error("not JSON at byte {offset}: {error}")]
    Syntax {
        /// Bytes from the start of the message.
        offset: usize,
        /// Fault at that place.
        error: SyntaxError,
    },
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {offset}")]
    Utf8 {
        /// Bytes from the start of the message.
        offset: usize,
    },
    /// The message is longer than the limit.
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// Limit in bytes.
        limit: usize,
    },
    /// Arrays and objects are nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// Limit in levels.
        limit: usize,
    },
    /// The batch has no entry.
    #[error("the batch is empty")]
    EmptyBatch,
    /// The batch has more entries than the limit.
    #[error("the batch has more than {limit} entries")]
    BatchTooLong {
        /// Limit in entries.
        limit: usize,
    },
    /// The message, or an entry of a batch, is not an object.
    #[error("a message must be an object, found {found}")]
    NotAnObject {
        /// Value that was found instead.
        found: Found,
    },
    /// A required member is missing.
    #[error("{member} is missing")]
    Missing {
        /// Name of the member.
        member: Member,
    },
    /// A member has the wrong type.
    #[error("{member} must be {expected}, found {found}")]
    WrongType {
        /// Name of the member.
        member: Member,
        /// Type that it must have.
        expected: &'static str,
        /// Value that was found.
        found: Found,
    },
    /// `jsonrpc` is not `"2.0"`.
    #[error("`jsonrpc` must be the string \"2.0\", found {found}")]
    WrongVersion {
        /// Value that was found.
        found: Found,
    },
    /// `method` is empty or only white space.
    #[error("`method` must not be blank")]
    BlankMethod,
    /// `id` is longer than the limit.
    #[error("`id` is {length} bytes long, the limit is {limit}")]
    IdTooLong {
        /// Length of the id in bytes of JSON text.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// `id` is null, and the policy forbids that.
    #[error("`id` must not be null")]
    NullId,
    /// A member of the envelope appears more than once.
    #[error("{member} appears more than once")]
    Duplicate {
        /// Name of the member.
        member: Member,
    },
    /// The specification does not define this member, and the policy forbids others.
    #[error("unknown member {name:?}")]
    UnknownMember {
        /// Name of the member, shortened if it is long.
        name: Box<str>,
    },
    /// A response has neither `result` nor `error`.
    #[error("a response must have `result` or `error`")]
    NoOutcome,
    /// A response has both `result` and `error`. If one of them is null,
    /// [`Policy::old_responses`](crate::Policy::old_responses) can accept it.
    #[error("a response must not have both `result` and `error`")]
    TwoOutcomes,
    /// A message of this type must not have this member.
    #[error("a {kind} must not have {member}")]
    Forbidden {
        /// Type of the message that was expected.
        kind: &'static str,
        /// Member that belongs to another type.
        member: Member,
    },
}

impl DecodeError {
    pub(super) const fn missing(member: Member) -> Self {
        Self::Missing { member }
    }

    pub(super) fn wrong_type(member: Member, expected: &'static str, raw: &str) -> Self {
        Self::WrongType {
            member,
            expected,
            found: Found::raw(raw),
        }
    }

    /// Returns the code of the error response.
    ///
    /// For scalar params the policy chooses the code; see
    /// [`Invalid::code`](crate::decode::Invalid::code).
    ///
    /// ```
    /// use caudal_core::{DecodeError, ErrorCode};
    ///
    /// assert_eq!(DecodeError::EmptyBatch.code(), ErrorCode::INVALID_REQUEST);
    /// ```
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Syntax { .. } | Self::Utf8 { .. } => ErrorCode::PARSE_ERROR,
            _ => ErrorCode::INVALID_REQUEST,
        }
    }

    /// Returns the member at fault, if the fault is in a single member.
    ///
    /// ```
    /// use caudal_core::{DecodeError, Member};
    ///
    /// assert_eq!(DecodeError::BlankMethod.member(), Some(Member::Method));
    /// ```
    #[must_use]
    pub const fn member(&self) -> Option<Member> {
        match self {
            Self::Missing { member }
            | Self::WrongType { member, .. }
            | Self::Duplicate { member }
            | Self::Forbidden { member, .. } => Some(*member),
            Self::WrongVersion { .. } => Some(Member::Version),
            Self::BlankMethod => Some(Member::Method),
            Self::IdTooLong { .. } | Self::NullId => Some(Member::Id),
            _ => None,
        }
    }

    /// Returns the error object to send.
    ///
    /// ```
    /// use caudal_core::{DecodeError, ErrorDetail};
    ///
    /// let full = DecodeError::BlankMethod.to_wire(ErrorDetail::Full);
    /// assert_eq!(full.message, "Invalid Request: `method` must not be blank");
    /// assert_eq!(full.data.unwrap()["field"], "method");
    ///
    /// let minimal = DecodeError::BlankMethod.to_wire(ErrorDetail::Minimal);
    /// assert_eq!(minimal.message, "Invalid Request");
    /// assert_eq!(minimal.data, None);
    /// ```
    #[must_use]
    pub fn to_wire(&self, detail: ErrorDetail) -> JsonRpcError {
        self.to_wire_as(self.code(), detail)
    }

    pub(crate) fn to_wire_as(&self, code: ErrorCode, detail: ErrorDetail) -> JsonRpcError {
        let bare = code.message().unwrap_or_default();
        match (self, detail) {
            (Self::TooLarge { .. }, ErrorDetail::Minimal) => {
                JsonRpcError::new(code, Self::TOO_LARGE)
            }
            (_, ErrorDetail::Minimal) => JsonRpcError::new(code, bare),
            (Self::TooLarge { limit }, _) => {
                JsonRpcError::with_data(code, Self::TOO_LARGE, json!({ "limit": limit }))
            }
            (Self::Syntax { offset, error }, _) => JsonRpcError::with_data(
                code,
                format!("{bare}: {error} at byte {offset}"),
                json!({ "offset": offset, "reason": error.to_string() }),
            ),
            (Self::Utf8 { offset }, _) => JsonRpcError::with_data(
                code,
                format!("{bare}: {self}"),
                json!({ "offset": offset, "reason": "not UTF-8" }),
            ),
            _ => {
                let error = JsonRpcError::new(code, format!("{bare}: {self}"));
                let field = match self {
                    Self::UnknownMember { name } => Some(&**name),
                    _ => self.member().map(Member::name),
                };
                match field {
                    Some(field) => error.and_data(json!({ "field": field })),
                    None => error,
                }
            }
        }
    }

    const TOO_LARGE: &'static str = "Request payload too large";
}

/// Description of a value that was found where another was expected.
///
/// ```
/// use caudal_core::{DecodeError, RequestId};
/// use serde_json::json;
///
/// let error = RequestId::try_from(json!([1])).unwrap_err();
/// assert_eq!(error.to_string(), "`id` must be a string or an integer, found an array");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found(Box<str>);

impl Found {
    /// Maximum characters of a scalar that are shown.
    const SHOWN: usize = 40;

    pub(crate) fn raw(text: &str) -> Self {
        let description = match Kind::of(text) {
            Kind::Object => "an object".into(),
            Kind::Array => "an array".into(),
            Kind::Null => "null".into(),
            Kind::Bool => text.into(),
            Kind::Number => format!("the number {}", cut(text, Self::SHOWN)).into(),
            Kind::String => format!("the string {}", cut(text, Self::SHOWN)).into(),
        };
        Self(description)
    }

    pub(crate) fn value(value: &Value) -> Self {
        match value {
            Value::Array(_) => Self::raw("["),
            Value::Object(_) => Self::raw("{"),
            scalar => Self::raw(&scalar.to_string()),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shortens `text` to `limit` characters and an ellipsis.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

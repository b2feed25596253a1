//! Bytes that are not a valid message.

use super::error::DecodeError;
use super::id::Id;
use crate::error::{ErrorCode, JsonRpcError};
use crate::policy::ErrorDetail;

/// Bytes that are not a valid message, and what to do about them.
///
/// ```
/// use caudal_core::{ErrorDetail, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":5,"method":1}"#;
/// let Message::Invalid(invalid) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(invalid.code, -32600);
/// assert_eq!(invalid.id.as_str(), "5");
/// assert!(invalid.wants_answer());
/// assert_eq!(
///     invalid.to_wire(ErrorDetail::Full).message,
///     "Invalid Request: `method` must be a string, found the number 1",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid<'a> {
    /// The code of the answer.
    pub code: ErrorCode,
    /// The id of the answer: the request's where it is a valid one, else null.
    pub id: Id<'a>,
    /// What is wrong.
    pub cause: DecodeError,
    /// What it would be if it were valid.
    pub kind: InvalidKind,
}

/// What an invalid message would be if it were valid.
///
/// ```
/// use caudal_core::{InvalidKind, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":5,"result":1,"error":{}}"#;
/// let Message::Invalid(invalid) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(invalid.kind, InvalidKind::Response);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidKind {
    /// A request, or nobody knows: it is answered.
    Request,
    /// A notification in all but its content: it is never answered.
    Notification,
    /// A response: it is never answered. If its id is that of a call of ours,
    /// that call has failed.
    Response,
}

impl<'a> Invalid<'a> {
    pub(super) const fn unidentified(cause: DecodeError) -> Self {
        Self {
            code: cause.code(),
            id: Id::NULL,
            cause,
            kind: InvalidKind::Request,
        }
    }

    /// Whether the sender is told.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let tick = br#"{"jsonrpc":"2.0","method":"tick","params":7}"#;
    /// let Message::Invalid(invalid) = decode(tick, &Policy::default()) else { panic!() };
    /// assert!(!invalid.wants_answer()); // it is a notification
    /// ```
    #[must_use]
    pub fn wants_answer(&self) -> bool {
        self.kind == InvalidKind::Request
    }

    /// The error object that tells the sender.
    ///
    /// ```
    /// use caudal_core::{ErrorDetail, Message, Policy, decode};
    ///
    /// let Message::Invalid(invalid) = decode(b"[", &Policy::default()) else { panic!() };
    /// assert_eq!(invalid.to_wire(ErrorDetail::Minimal).message, "Parse error");
    /// ```
    #[must_use]
    pub fn to_wire(&self, detail: ErrorDetail) -> JsonRpcError {
        self.cause.to_wire_as(self.code, detail)
    }
}

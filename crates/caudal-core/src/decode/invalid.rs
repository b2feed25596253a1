//! Bytes that are not a valid message.

use super::error::DecodeError;
use super::id::Id;
use crate::error::{ErrorCode, JsonRpcError};
use crate::policy::ErrorDetail;

/// Bytes that are not a valid message, with the cause and the error to send.
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
    /// Code of the error response.
    pub code: ErrorCode,
    /// Id of the error response: that of the request if it is valid, else null.
    pub id: Id<'a>,
    /// Reason why the message is invalid.
    pub cause: DecodeError,
    /// Type of the message without its fault.
    pub kind: InvalidKind,
}

/// Type of an invalid message, as far as it is known.
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
    /// Request or unknown: it is answered.
    Request,
    /// Notification with invalid content: it is never answered.
    Notification,
    /// Response: it is never answered. If its id belongs to an outgoing call, that
    /// call has failed.
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

    /// Returns true if the sender expects an error response.
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

    /// Returns the error object to send.
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

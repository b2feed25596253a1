//! Decoding: one pass that borrows from the bytes and checks every rule.
//!
//! [`decode`] never fails: for bytes that are not a valid message it returns
//! [`Message::Invalid`] with the code, the id and the cause. It allocates nothing for
//! an ordinary message, does not recurse, and checks each limit before it allocates.
//!
//! [`Decoder`] is the same pass with a stop before `params`, for a caller that
//! knows their type.
//!
//! ```
//! use caudal_core::decode::{Message, decode};
//! use caudal_core::Policy;
//!
//! let message = decode(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, &Policy::default());
//! assert!(matches!(message, Message::Request(_)));
//! ```

mod batch;
mod classify;
mod decoder;
mod envelope;
mod error;
mod error_object;
mod id;
mod invalid;
mod member;
mod message;
mod to_owned;
mod truncated;

pub use batch::Entries;
pub use decoder::Decoder;
pub use error::{DecodeError, Found};
pub use id::Id;
pub use invalid::{Invalid, InvalidKind};
pub use member::Member;
pub use message::{ErrorObject, Message, Notification, Request, Response};
pub use to_owned::ToOwnedError;
pub use truncated::truncated_responses;

pub(crate) use classify::is_blank;
pub(crate) use error::cut;

use crate::policy::Policy;

/// Decodes one frame.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let policy = Policy::default();
/// match decode(br#"{"jsonrpc":"2.0","method":"tick"}"#, &policy) {
///     Message::Notification(tick) => assert_eq!(tick.method, "tick"),
///     other => panic!("{other:?}"),
/// }
/// match decode(b"[1, 2", &policy) {
///     Message::Invalid(invalid) => assert_eq!(invalid.code, -32700),
///     other => panic!("{other:?}"),
/// }
/// ```
#[must_use]
#[inline]
pub fn decode<'a>(bytes: &'a [u8], policy: &Policy) -> Message<'a> {
    Decoder::new(bytes, policy).finish()
}

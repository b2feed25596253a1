//! Encoding: messages are written straight into the caller's buffer.
//!
//! Every function appends one whole message, or fails and leaves the buffer
//! unchanged. Results and params are any type that serialises, or JSON text
//! ([`RawJson`](crate::RawJson)); no `Value` is built in between.
//!
//! ```
//! use caudal_core::{RequestId, encode};
//!
//! let mut out = Vec::new();
//! encode::reply(&mut out, &RequestId::from(1), &[1, 2, 3])?;
//! assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":[1,2,3]}"#);
//! # Ok::<(), caudal_core::EncodeError>(())
//! ```

mod output;
mod prepared;
mod request;
mod response;

use thiserror::Error;

pub use output::{Output, WireId};
pub(crate) use output::{or_restore, put_plain, sealed};
pub use prepared::{Prepared, prepare};
pub use request::{call, call_raw, notification, notification_raw};
pub use response::{batch, error, error_raw, reply, reply_raw};

/// Reason why a message was not written. The buffer is unchanged.
///
/// ```
/// use caudal_core::{EncodeError, encode};
///
/// let mut out = Vec::new();
/// let error = encode::notification(&mut out, " ", &[1]).unwrap_err();
/// assert!(matches!(error, EncodeError::BlankMethod));
/// assert!(out.is_empty());
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The `Serialize` implementation of the value failed.
    #[error("the value could not be serialised")]
    Value(#[source] serde_json::Error),
    /// The method is empty or only white space.
    #[error("`method` must not be blank")]
    BlankMethod,
    /// The params are neither array nor object.
    #[error(
        "`params` must be an array, an object or nothing; put a single value into a tuple: `(value,)`"
    )]
    ScalarParams,
}

//! Message to bytes: written straight into the caller's buffer.
//!
//! Every function appends one whole message, or fails and leaves the buffer as
//! it was. Results and params are anything that serialises, or JSON that is
//! already text ([`RawJson`]); there is no `Value` in between.
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

/// Why a message was not written. The buffer is as it was.
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
    /// The value's own `Serialize` failed.
    #[error("the value could not be serialised")]
    Value(#[source] serde_json::Error),
    /// A method must have a name.
    #[error("`method` must not be blank")]
    BlankMethod,
    /// Params must be an array or an object.
    #[error(
        "`params` must be an array, an object or nothing; put a single value into a tuple: `(value,)`"
    )]
    ScalarParams,
}

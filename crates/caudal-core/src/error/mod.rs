//! Two families of errors that never mix.
//!
//! [`JsonRpcError`] is what travelled: the `error` member of a response, data
//! that somebody sent. [`CallError`], [`DecodeError`](crate::DecodeError),
//! [`EncodeError`](crate::EncodeError) and [`FrameError`](crate::FrameError)
//! are what happened here. An [`Incident`] stands between the two: it keeps
//! the cause here and sends a correlation id there.
//!
//! | error | recoverable | what to do |
//! |---|---|---|
//! | `DecodeError` | always | answer it where an answer is owed, read the next frame |
//! | `EncodeError` | always | nothing was written; mend the value |
//! | `FrameError` | ask [`is_fatal`](crate::FrameError::is_fatal) | go on reading, or close the connection |
//! | `CallError` | ask [`is_fatal`](CallError::is_fatal) | call again, or connect again |
//!
//! ```
//! use caudal_core::error::{CallError, JsonRpcError};
//!
//! let error = CallError::from(JsonRpcError::new(1001, "out of stock"));
//! assert!(!error.is_fatal()); // the connection is sound
//! ```

mod call;
mod code;
mod incident;
mod params;
mod status;
mod wire;

pub use call::{CallError, CloseReason};
pub use code::{CodeClass, ErrorCode};
pub use incident::{CorrelationId, Incident};
pub use status::StatusError;
pub use wire::JsonRpcError;

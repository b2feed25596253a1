//! Errors: those that are sent and those that happen locally.
//!
//! [`JsonRpcError`] is the `error` member of a response: data that one side sends to
//! the other. [`CallError`], [`DecodeError`](crate::DecodeError),
//! [`EncodeError`](crate::EncodeError) and [`FrameError`](crate::FrameError)
//! are local errors. An [`Incident`] connects the two: its cause is logged locally, and
//! a correlation id is sent.
//!
//! | error | recoverable | what to do |
//! |---|---|---|
//! | `DecodeError` | always | send it if an answer is expected, read the next frame |
//! | `EncodeError` | always | nothing was written; correct the value |
//! | `FrameError` | see [`is_fatal`](crate::FrameError::is_fatal) | read on, or close the connection |
//! | `CallError` | see [`is_fatal`](CallError::is_fatal) | call again, or connect again |
//!
//! ```
//! use caudal_core::error::{CallError, JsonRpcError};
//!
//! let error = CallError::from(JsonRpcError::new(1001, "out of stock"));
//! assert!(!error.is_fatal()); // the connection still works
//! ```

mod call;
mod code;
mod display;
mod incident;
mod json_rpc_error;
mod params;
mod status;

pub use call::{CallError, CloseReason};
pub use code::{CodeClass, ErrorCode};
pub use incident::{CorrelationId, Incident};
pub use json_rpc_error::JsonRpcError;
pub use status::StatusError;

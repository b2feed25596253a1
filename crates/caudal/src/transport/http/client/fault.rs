//! Codes of the errors with which a call fails when HTTP itself got in its way.
//!
//! The server never sent such an error as JSON-RPC: the client makes it of what it
//! saw, so that one failed request ends one call and nothing else. `data` says
//! more: `status` and the first 200 characters of `body` where there was a
//! response, the `location` of a redirect, `sent` where there was no response.
//!
//! ```
//! use caudal::http::fault;
//! use caudal::{CallError, JsonRpcError};
//!
//! fn must_log_in(error: &CallError) -> bool {
//!     matches!(error, CallError::Remote(error) if error.code == fault::REFUSED)
//! }
//! let error = JsonRpcError::new(fault::REFUSED, "HTTP 401 Unauthorized");
//! assert!(must_log_in(&error.into()));
//! ```

/// The response is not an answer: its status says why, or its body is not
/// JSON-RPC. The message is `HTTP 502 Bad Gateway`. Or what came is not even HTTP:
/// then `data` has `sent`, and no status.
pub const STATUS: i64 = -32010;
/// 401 or 403: the server does not know the caller, or does not let it in.
pub const REFUSED: i64 = -32011;
/// No response came: the connection could not be made, or was lost. With
/// `"sent":true` the call may have run; with `"sent":false` it has not, which
/// [`CallError::may_have_run`](crate::CallError::may_have_run) does not know.
pub const LOST: i64 = -32012;
/// The response is larger than [`Policy::max_message`](crate::Policy::max_message), or
/// the event or polled message that holds the answer is. Other transports have
/// [`CallError::TooLarge`](crate::CallError::TooLarge).
pub const TOO_LARGE: i64 = -32013;

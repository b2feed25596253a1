//! Failures of calls of ours, and the reasons why connections end.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde_json::json;

use super::code::{CodeClass, ErrorCode};
use super::json_rpc_error::JsonRpcError;
use super::status::StatusError;
use crate::decode::DecodeError;
use crate::encode::EncodeError;

/// Failure of a call of ours.
///
/// The same failure is the same variant on every transport. Only
/// [`Remote`](Self::Remote) was sent by the other side as JSON-RPC; all others were found
/// out on this side.
///
/// | variant | may have run | what to do |
/// |---|---|---|
/// | [`Remote`](Self::Remote) | depends on the code | read the code and the data |
/// | [`Timeout`](Self::Timeout), [`Cancelled`](Self::Cancelled) | yes | repeat it only if it is idempotent |
/// | [`Closed`](Self::Closed) | yes | the connection was lost: repeat it only if it is idempotent |
/// | [`AlreadyClosed`](Self::AlreadyClosed) | no | the server was not reached: try again later |
/// | [`Refused`](Self::Refused) | no | mend the credentials |
/// | [`UnexpectedResponse`](Self::UnexpectedResponse) | depends on the status | check the address, or wait as `retry_after` says |
/// | [`TooManyPending`](Self::TooManyPending) | no | wait for answers |
/// | [`Encode`](Self::Encode) | no | mend the params |
/// | [`Response`](Self::Response), [`Result`](Self::Result) | yes | the two sides do not agree |
/// | [`TooLarge`](Self::TooLarge), [`NoRoom`](Self::NoRoom) | yes | ask for less, or raise the limit |
/// | [`OutputFull`](Self::OutputFull) | no | wait until the other side has read |
///
/// ```
/// use caudal_core::{CallError, CloseReason};
///
/// assert!(!CallError::Timeout.is_fatal());
/// assert!(CallError::Closed(CloseReason::local()).is_fatal());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The other side answered with an error. It is shown in full: it is no
    /// [`source`](StdError::source).
    #[error("the call failed: {0}")]
    Remote(JsonRpcError),
    /// No answer came in time. The call may still have run.
    #[error("no answer came in time")]
    Timeout,
    /// The call was cancelled here.
    #[error("the call was cancelled")]
    Cancelled,
    /// The connection was lost or closed while the call waited. It may have run.
    ///
    /// Over plain `http://` that is the connection of its POST alone, and
    /// [`is_fatal`](Self::is_fatal) is false.
    #[error("the connection is closed")]
    Closed(#[source] CloseReason),
    /// There was no connection to send the call on, and nothing was sent: the peer was
    /// closed before, or the server could not be reached.
    #[error("there is no connection to send the call on")]
    AlreadyClosed(#[source] CloseReason),
    /// The HTTP server did not accept the credentials (401, 403), or a proxy did not (407).
    #[error("access was refused")]
    Refused(#[source] Box<StatusError>),
    /// The HTTP response carries no JSON-RPC answer to the call: its status says why, or
    /// its body is something else.
    #[error("the response is not a JSON-RPC answer")]
    UnexpectedResponse(#[source] Box<StatusError>),
    /// More calls wait for an answer than the connection allows.
    #[error("{limit} calls already wait for an answer")]
    TooManyPending {
        /// The limit.
        limit: usize,
    },
    /// As much waits to be sent as the connection allows, and the message was not to wait;
    /// nothing was sent.
    #[error("{limit} bytes already wait to be sent")]
    OutputFull {
        /// The limit in bytes.
        limit: usize,
    },
    /// The call could not be written; nothing was sent.
    #[error("the call could not be written")]
    Encode(#[from] EncodeError),
    /// The answer is not a valid response.
    #[error("the answer is not a valid response")]
    Response(#[from] DecodeError),
    /// The answer is larger than this side reads. The call has run; raise
    /// [`Policy::max_message`](crate::Policy::max_message) to have such answers. A
    /// WebSocket ends after it; all other connections go on.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer was dropped as it arrived: all connections of this side together hold too
    /// many bytes of incomplete messages. The call has run.
    #[error("there was no room to receive the answer")]
    NoRoom,
    /// The result does not have the type that the caller asked for.
    #[error("the result does not have the expected shape")]
    Result(#[source] serde_json::Error),
}

impl CallError {
    /// Returns true if every further call of this peer will fail too.
    ///
    /// - `false`: the peer can be used on. A [`Timeout`](Self::Timeout) or a
    ///   cancelled call may have run: repeat it only if it is idempotent.
    ///   After [`TooManyPending`](Self::TooManyPending) wait for answers. A connection that
    ///   was lost and is replaced, as over plain `http://`, is not fatal either:
    ///   [`CloseReason::is_temporary`].
    /// - `true`: connect again; [`CloseReason`] says why it ended.
    ///
    /// ```
    /// use caudal_core::{CallError, CloseReason};
    ///
    /// assert!(!CallError::TooManyPending { limit: 1024 }.is_fatal());
    /// assert!(!CallError::Closed(CloseReason::remote().temporary()).is_fatal());
    /// ```
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        match self {
            Self::Closed(reason) | Self::AlreadyClosed(reason) => !reason.is_temporary(),
            _ => false,
        }
    }

    /// Returns true if the call may have been carried out by the other side.
    ///
    /// It has not run if it was never sent, if access was refused, or if the reply is -32700,
    /// -32600 or -32601: by the specification the message was not understood, or there is no
    /// such method. After -32602 it may have run, because a handler can check its params
    /// late. A redirect or a client error (3xx, 4xx) of HTTP means that it has not run; after
    /// any other response it may have.
    ///
    /// ```
    /// use caudal_core::{CallError, JsonRpcError};
    ///
    /// assert!(CallError::Timeout.may_have_run());
    /// assert!(!CallError::TooManyPending { limit: 1024 }.may_have_run());
    /// assert!(!CallError::from(JsonRpcError::method_not_found()).may_have_run());
    /// ```
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        match self {
            Self::TooManyPending { .. }
            | Self::OutputFull { .. }
            | Self::Encode(_)
            | Self::AlreadyClosed(_)
            | Self::Refused(_) => false,
            Self::UnexpectedResponse(response) => !matches!(response.status, 300..=499),
            Self::Remote(error) => !matches!(
                error.code,
                ErrorCode::PARSE_ERROR | ErrorCode::INVALID_REQUEST | ErrorCode::METHOD_NOT_FOUND
            ),
            _ => true,
        }
    }
}

impl From<JsonRpcError> for CallError {
    fn from(error: JsonRpcError) -> Self {
        Self::Remote(error)
    }
}

/// Answer of a handler when a call of its own fails.
///
/// An error with a code of the application (any but -32768 to -32000) is passed on
/// as it came. All others are about the call that failed and not about the one
/// that is answered, so they become -32603, and `data.reason` tells what failed.
/// A proxy that passes everything on takes the error out:
///
/// ```
/// use caudal_core::{CallError, ErrorCode, JsonRpcError};
///
/// let failed = || CallError::from(JsonRpcError::unknown_method("name"));
/// let answer = JsonRpcError::from(failed());
/// assert_eq!(answer.code, ErrorCode::INTERNAL_ERROR);
///
/// let passed_on = match failed() {
///     CallError::Remote(error) => error,
///     other => other.into(),
/// };
/// assert_eq!(passed_on.message, "Method not found: name");
/// ```
impl From<CallError> for JsonRpcError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Remote(error) if error.code.class() == CodeClass::Application => error,
            other => {
                // What a reason itself says is known to be harmless; its source may not be.
                let why = match &other {
                    CallError::AlreadyClosed(reason) if reason.is_nowhere() => reason.to_string(),
                    CallError::Closed(reason) | CallError::AlreadyClosed(reason) => {
                        format!("{other}: {reason}")
                    }
                    other => other.to_string(),
                };
                let reason = format!("a call that the handler made failed: {why}");
                Self::internal_error().and_data(json!({ "reason": reason }))
            }
        }
    }
}

/// Answer of a handler when a message of its own could not be written.
impl From<EncodeError> for JsonRpcError {
    fn from(error: EncodeError) -> Self {
        CallError::Encode(error).into()
    }
}

/// Reason why a connection ended; cheap to clone, one for every call that waited.
///
/// ```
/// use caudal_core::CloseReason;
/// use std::error::Error;
///
/// let reason = CloseReason::failed(std::io::Error::other("reset"));
/// assert_eq!(reason.to_string(), "the connection failed");
/// assert_eq!(reason.source().unwrap().to_string(), "reset");
/// ```
#[derive(Clone, Debug)]
pub struct CloseReason {
    cause: Cause,
    temporary: bool,
}

#[derive(Clone, Debug)]
enum Cause {
    Local(Option<Arc<dyn StdError + Send + Sync>>),
    Remote(Option<Arc<dyn StdError + Send + Sync>>),
    Failed(Arc<dyn StdError + Send + Sync>),
    Nowhere,
}

impl CloseReason {
    const fn of(cause: Cause) -> Self {
        Self {
            cause,
            temporary: false,
        }
    }

    /// The same reason for a connection that its peer replaces: only the calls on it fail.
    ///
    /// ```
    /// use caudal_core::{CallError, CloseReason};
    ///
    /// let reason = CloseReason::remote().temporary();
    /// assert!(!CallError::Closed(reason).is_fatal());
    /// ```
    #[must_use]
    pub const fn temporary(mut self) -> Self {
        self.temporary = true;
        self
    }

    /// Returns true if the peer replaces the connection, so that later calls may succeed.
    ///
    /// ```
    /// assert!(!caudal_core::CloseReason::remote().is_temporary());
    /// ```
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// This side closed it.
    ///
    /// ```
    /// assert!(caudal_core::CloseReason::local().is_local());
    /// ```
    #[must_use]
    pub const fn local() -> Self {
        Self::of(Cause::Local(None))
    }

    /// This side closed it, and there is more to say about that; it stays in
    /// [`source`](StdError::source).
    ///
    /// ```
    /// use caudal_core::CloseReason;
    ///
    /// let reason = CloseReason::local_with(std::io::Error::other("exit status: 0"));
    /// assert!(reason.is_local());
    /// ```
    pub fn local_with(cause: impl StdError + Send + Sync + 'static) -> Self {
        Self::of(Cause::Local(Some(Arc::new(cause))))
    }

    /// The other side has closed the connection normally.
    ///
    /// ```
    /// assert!(caudal_core::CloseReason::remote().is_remote());
    /// ```
    #[must_use]
    pub const fn remote() -> Self {
        Self::of(Cause::Remote(None))
    }

    /// The other side has closed the connection normally, and has given a reason, which is
    /// the [`source`](StdError::source).
    ///
    /// ```
    /// use caudal_core::CloseReason;
    /// use std::error::Error;
    ///
    /// let reason = CloseReason::remote_with(std::io::Error::other("exit status: 0"));
    /// assert!(reason.is_remote());
    /// assert_eq!(reason.source().unwrap().to_string(), "exit status: 0");
    /// ```
    pub fn remote_with(cause: impl StdError + Send + Sync + 'static) -> Self {
        Self::of(Cause::Remote(Some(Arc::new(cause))))
    }

    /// It failed; the cause stays in [`source`](StdError::source).
    ///
    /// ```
    /// use caudal_core::{CloseReason, FrameError};
    ///
    /// let reason = CloseReason::failed(FrameError::TwoLengths);
    /// assert!(!reason.is_local() && !reason.is_remote());
    /// ```
    pub fn failed(cause: impl StdError + Send + Sync + 'static) -> Self {
        Self::of(Cause::Failed(Arc::new(cause)))
    }

    /// There never was one: the message came alone, so its sender cannot be called.
    ///
    /// ```
    /// use caudal_core::CloseReason;
    ///
    /// let reason = CloseReason::nowhere();
    /// assert!(reason.is_nowhere() && !reason.is_local() && !reason.is_remote());
    /// ```
    #[must_use]
    pub const fn nowhere() -> Self {
        Self::of(Cause::Nowhere)
    }

    /// Returns true if there never was a connection.
    ///
    /// ```
    /// assert!(!caudal_core::CloseReason::local().is_nowhere());
    /// ```
    #[must_use]
    pub const fn is_nowhere(&self) -> bool {
        matches!(self.cause, Cause::Nowhere)
    }

    /// Returns true if this side closed it.
    ///
    /// ```
    /// assert!(!caudal_core::CloseReason::remote().is_local());
    /// ```
    #[must_use]
    pub const fn is_local(&self) -> bool {
        matches!(self.cause, Cause::Local(_))
    }

    /// Returns true if the other side has closed the connection normally.
    ///
    /// ```
    /// assert!(!caudal_core::CloseReason::local().is_remote());
    /// ```
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        matches!(self.cause, Cause::Remote(_))
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Cause::Local(_) => "closed by this side",
            Cause::Remote(_) => "closed by the other side",
            Cause::Failed(_) => "the connection failed",
            Cause::Nowhere => {
                "the message came alone (a single POST, or `Router::handle`), so there is no \
                 connection to call back on"
            }
        })
    }
}

impl StdError for CloseReason {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.cause {
            Cause::Failed(cause) | Cause::Local(Some(cause)) | Cause::Remote(Some(cause)) => {
                Some(cause.as_ref())
            }
            Cause::Local(None) | Cause::Remote(None) | Cause::Nowhere => None,
        }
    }
}

//! Failures of requests.

use std::io;

use caudal_core::{CallError, CloseReason, JsonRpcError, StatusError};

/// Failure of a request: the calls in it have no answer.
#[derive(Clone, Debug)]
pub(crate) enum RequestError {
    /// An error of the server without an id: it is about the whole message.
    Remote(JsonRpcError),
    /// A response that carries no JSON-RPC answer.
    Status(StatusError),
    /// A response that is larger than this side reads.
    TooLarge { limit: usize },
    /// No connection could be made, and nothing was sent.
    NotSent(CloseReason),
    /// The connection was lost, and the request may have been received.
    Lost(CloseReason),
    /// A request that no call waits for took too long.
    TimedOut,
}

impl RequestError {
    pub(crate) fn not_sent(error: io::Error) -> Self {
        Self::NotSent(CloseReason::failed(error))
    }

    pub(crate) fn lost(error: io::Error) -> Self {
        Self::Lost(CloseReason::failed(error))
    }

    /// The response ended before the answer.
    pub(crate) fn unfinished() -> Self {
        Self::lost(io::Error::new(io::ErrorKind::UnexpectedEof, Unfinished))
    }

    /// The failure of each call in the request. The peer goes on.
    pub(crate) fn call_error(&self) -> CallError {
        match self.clone() {
            Self::Remote(error) => CallError::Remote(error),
            Self::Status(error) if error.is_refusal() => CallError::Refused(Box::new(error)),
            Self::Status(error) => CallError::UnexpectedResponse(Box::new(error)),
            Self::TooLarge { limit } => CallError::TooLarge { limit },
            Self::NotSent(reason) => CallError::AlreadyClosed(reason.temporary()),
            Self::Lost(reason) => CallError::Closed(reason.temporary()),
            Self::TimedOut => CallError::Timeout,
        }
    }

    /// Close reason of the connection, if the request had no call that could fail.
    pub(crate) fn close_reason(self) -> CloseReason {
        CloseReason::failed(match self {
            Self::Remote(error) => io::Error::new(io::ErrorKind::InvalidData, error),
            Self::Status(error) => error.into(),
            Self::TooLarge { .. } => io::Error::new(io::ErrorKind::InvalidData, self.call_error()),
            Self::NotSent(reason) | Self::Lost(reason) => return reason,
            Self::TimedOut => io::Error::new(io::ErrorKind::TimedOut, NotAccepted),
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the response ended before the answer")]
struct Unfinished;

#[derive(Debug, thiserror::Error)]
#[error("a message was not accepted in time")]
struct NotAccepted;

//! Codes of the errors with which a call fails when HTTP itself got in its way.
//!
//! The server never sent such an error as JSON-RPC: the client makes it of what it
//! saw, so that one failed request ends one call and nothing else. `data` says
//! more: `status` and the first 200 characters of `body` where there was a
//! response, the `reason` why a body is no answer though the status is a good one, the
//! `location` of a redirect, the `retry_after` of 429 and 503, `sent` where there was no response.
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

use std::error::Error;
use std::io;

#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
use bytes::{Bytes, BytesMut};
use caudal_core::{ErrorObject, JsonRpcError};
#[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
use caudal_core::{Id, encode};
use http::StatusCode;
use serde_json::{Value, json};

use super::origin::NotHttp;
use super::refusal::{Advice, StatusError, http_status};

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

/// Why a call has no answer.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(super) error: JsonRpcError,
    kind: io::ErrorKind,
    response: Option<StatusError>,
    /// Whether the server has sent the error itself.
    told: bool,
}

impl Fault {
    fn new(kind: io::ErrorKind, error: JsonRpcError) -> Self {
        Self {
            error,
            kind,
            response: None,
            told: false,
        }
    }

    /// The server's own error.
    pub(super) fn told(error: &ErrorObject<'_>) -> Self {
        let mut fault = Self::new(io::ErrorKind::InvalidData, error.clone().into());
        fault.told = true;
        fault
    }

    /// A response that is no answer.
    pub(super) fn status(status: StatusCode, body: &[u8], advice: Advice) -> Self {
        let response = StatusError::new(status, body).with_advice(advice);
        let code = match response.is_refusal() {
            true => REFUSED,
            false => STATUS,
        };
        let mut data = json!({ "status": status.as_u16(), "body": response.body });
        for (name, text) in [
            ("location", &response.location),
            ("retry_after", &response.retry_after),
        ] {
            if let (Some(data), Some(text)) = (data.as_object_mut(), text) {
                data.insert(name.to_owned(), text.as_str().into());
            }
        }
        let error = JsonRpcError::with_data(code, http_status(status), data);
        Self {
            kind: response.kind(),
            error,
            response: Some(response),
            told: false,
        }
    }

    /// The same, with what is wrong with the body.
    pub(super) fn because(mut self, reason: &str) -> Self {
        if let Some(data) = self.error.data.as_mut().and_then(Value::as_object_mut) {
            data.insert("reason".to_owned(), reason.into());
        }
        self
    }

    /// No response came that can be understood as one.
    pub(crate) fn unanswered(error: &io::Error, sent: bool) -> Self {
        match sent {
            _ if NotHttp::is(error) => {
                let data = json!({ "sent": sent });
                let told = JsonRpcError::with_data(STATUS, error.to_string(), data);
                Self::new(error.kind(), told)
            }
            true => Self::lost(error),
            false => Self::not_sent(error),
        }
    }

    /// No request was made.
    pub(crate) fn not_sent(error: &(dyn Error + 'static)) -> Self {
        let message = format!("the server could not be reached: {error}");
        let data = json!({ "sent": false });
        let told = JsonRpcError::with_data(LOST, message, data);
        Self::new(kind(error), told)
    }

    /// No response came to a request that may have been received.
    pub(crate) fn lost(error: &(dyn Error + 'static)) -> Self {
        let message = match error.source() {
            Some(cause) => format!("the connection was lost, the call may have run: {cause}"),
            None => format!("the connection was lost, the call may have run: {error}"),
        };
        let data = json!({ "sent": true });
        let told = JsonRpcError::with_data(LOST, message, data);
        Self::new(kind(error), told)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("the answer is larger than {limit} bytes");
        let error = JsonRpcError::new(TOO_LARGE, message);
        Self::new(io::ErrorKind::InvalidData, error)
    }

    /// The error as the answer to a call.
    #[cfg(any(feature = "sse", feature = "polling", feature = "webhook"))]
    pub(crate) fn answer(&self, id: Id<'_>) -> Bytes {
        let mut frame = BytesMut::new();
        encode::error(&mut frame, id, &self.error);
        frame.freeze()
    }

    /// A message that no call waits for took too long.
    pub(crate) fn slow() -> Self {
        let error = JsonRpcError::new(LOST, "a message was not accepted in time");
        Self::new(io::ErrorKind::TimedOut, error)
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault.response {
            Some(response) => response.into(),
            None if fault.told => Self::new(fault.kind, fault.error),
            None => Self::new(fault.kind, fault.error.message),
        }
    }
}

/// What kind of error it is that a connection was lost by.
fn kind(error: &(dyn Error + 'static)) -> io::ErrorKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(kind) if kind != io::ErrorKind::Other => return kind,
            _ => cause = error.source(),
        }
    }
    io::ErrorKind::ConnectionReset
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::{Advice, Fault};

    #[test]
    fn no_more_than_200_characters_of_a_body_are_shown() {
        let body = "ü".repeat(1000);
        let Fault { error, .. } =
            Fault::status(StatusCode::BAD_GATEWAY, body.as_bytes(), Advice::default());
        assert_eq!(
            error.data.unwrap()["body"].as_str().unwrap(),
            "ü".repeat(200)
        );
        assert_eq!(error.message, "HTTP 502 Bad Gateway");
    }
}

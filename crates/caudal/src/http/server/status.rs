//! Status codes of answers.

use caudal_core::{Message, Policy, decode};
use http::StatusCode;

/// Chooses the status of every answer to a POST; see
/// [`Options::status`](super::Options::status). Every closure of this shape is one.
///
/// It is asked where the response is JSON-RPC, also in a session and where the body was
/// too large, and where there is nothing to answer. What HTTP itself refuses (400, 401,
/// 403, 404, 405, 406, 408, 415, 503) keeps its status, and so do event streams and what
/// a session has accepted (202). In a session 404 and 410 would say that it is gone: there
/// an answer for which the policy has one of them keeps 200.
///
/// ```
/// use caudal::http::{Options, Reply, StatusCode};
///
/// let options = Options::default().status(|reply: Reply<'_>| match reply.error_code() {
///     Some(-32601) => StatusCode::NOT_FOUND,
///     Some(-32700) => StatusCode::BAD_REQUEST,
///     _ => reply.default_status(),
/// });
/// ```
pub trait StatusPolicy: Send + Sync {
    /// The status of an answer.
    fn status(&self, reply: Reply<'_>) -> StatusCode;
}

impl<F: Fn(Reply<'_>) -> StatusCode + Send + Sync> StatusPolicy for F {
    fn status(&self, reply: Reply<'_>) -> StatusCode {
        self(reply)
    }
}

/// An answer, for a [`StatusPolicy`] to judge.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    pub(super) text: Option<&'a [u8]>,
    pub(super) default: StatusCode,
}

impl Reply<'_> {
    /// The status that it has without a policy: 200; 204 if it is empty; 413 if the body
    /// was too large.
    #[must_use]
    pub const fn default_status(&self) -> StatusCode {
        self.default
    }

    /// Returns true if there is no reply, because all messages were notifications.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_none()
    }

    /// Returns true if the reply answers a batch.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.text.is_some_and(|text| text.starts_with(b"["))
    }

    /// The code of the error, if it is one; a batch is none.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        match decode(self.text?, &Policy::default()) {
            Message::Response(response) => response.outcome.err().map(|error| error.code.into()),
            _ => None,
        }
    }

    /// The whole text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.text.unwrap_or_default()
    }
}

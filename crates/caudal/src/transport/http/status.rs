//! Which status an answer gets.

use caudal_core::{Message, Policy, decode};
use http::StatusCode;

/// Chooses the status of every answer; see
/// [`Options::status`](super::Options::status). Every closure of this shape is one.
///
/// ```
/// use std::sync::Arc;
/// use caudal::http::{Options, Reply, StatusCode};
///
/// let mut options = Options::default();
/// options.status = Some(Arc::new(|reply: Reply<'_>| match reply.error_code() {
///     Some(-32601) => StatusCode::NOT_FOUND,
///     Some(_) => StatusCode::BAD_REQUEST,
///     None if reply.is_empty() => StatusCode::NO_CONTENT,
///     None => StatusCode::OK,
/// }));
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
pub struct Reply<'a>(pub(super) Option<&'a [u8]>);

impl Reply<'_> {
    /// Whether there is nothing to say: all were notifications.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it answers a batch.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.0.is_some_and(|text| text.starts_with(b"["))
    }

    /// The code of the error, if it is one; a batch is none.
    #[must_use]
    pub fn error_code(&self) -> Option<i64> {
        match decode(self.0?, &Policy::default()) {
            Message::Response(response) => response.outcome.err().map(|error| error.code.into()),
            _ => None,
        }
    }

    /// The whole text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.unwrap_or_default()
    }
}

//! Responses that are no answer.

use caudal_core::StatusError;
use http::header::{HeaderName, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

/// Characters of a header that are kept.
const SHOWN: usize = 200;

/// Headers of a response that say what to do instead.
#[derive(Clone, Debug, Default)]
pub(crate) struct Advice {
    location: Option<String>,
    retry_after: Option<String>,
}

impl Advice {
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| {
            let text = headers
                .get(name)?
                .to_str()
                .ok()
                .filter(|text| !text.is_empty());
            Some(text?.chars().take(SHOWN).collect())
        };
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Self {
                retry_after: text(RETRY_AFTER),
                ..Self::default()
            },
            status if status.is_redirection() => Self {
                location: text(LOCATION),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

/// Describes a response that is no answer.
pub(crate) fn status_error(status: StatusCode, body: &[u8], advice: Advice) -> StatusError {
    let phrase = status.canonical_reason().unwrap_or_default();
    let mut error = StatusError::new(status.as_u16(), phrase, body);
    error.location = advice.location;
    error.retry_after = advice.retry_after;
    error
}

/// A status for a person: `HTTP 502 Bad Gateway`.
#[cfg(feature = "session")]
pub(crate) fn http_status(status: StatusCode) -> String {
    status_error(status, b"", Advice::default()).to_string()
}

//! A response that is no answer.

use std::fmt;
use std::io;

use http::header::{HeaderName, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

/// So many characters of a body are kept.
const SHOWN: usize = 200;

/// The response of a server that did not do what it was asked for.
///
/// It is within the [`io::Error`] where no call waits for an answer: when a connection or
/// a session is opened, and when a notification is not accepted. Its kind is
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for 401 and 403, and else
/// [`InvalidData`](io::ErrorKind::InvalidData).
///
/// ```
/// use caudal::http::{StatusCode, StatusError};
///
/// let error = StatusError::new(StatusCode::FORBIDDEN, b"not you\n");
/// assert_eq!(error.status, StatusCode::FORBIDDEN);
/// assert_eq!(error.to_string(), "HTTP 403 Forbidden: not you");
/// let error = StatusError::new(StatusCode::NOT_FOUND, b"<html>\n<body>");
/// assert_eq!(error.to_string(), "HTTP 404 Not Found: a page for browsers");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub struct StatusError {
    /// The status.
    pub status: StatusCode,
    /// The first 200 characters of the body.
    pub body: String,
    /// Where the response leads to, if that is all it says: no redirect is followed.
    pub location: Option<String>,
    /// When the server may be asked again, as it says so with 429 or 503: in so many
    /// seconds, or at a date.
    pub retry_after: Option<String>,
}

impl StatusError {
    /// What a response with this status says.
    #[must_use]
    pub fn new(status: StatusCode, body: &[u8]) -> Self {
        // No character has more than four bytes.
        let body = String::from_utf8_lossy(body.get(..SHOWN * 4).unwrap_or(body));
        let body = body.chars().take(SHOWN).collect();
        Self {
            status,
            body,
            location: None,
            retry_after: None,
        }
    }

    /// The same with what the head says.
    pub(crate) fn with_advice(self, advice: Advice) -> Self {
        Self {
            location: advice.location,
            retry_after: advice.retry_after,
            ..self
        }
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
        )
    }

    pub(super) fn kind(&self) -> io::ErrorKind {
        match self.is_refusal() {
            true => io::ErrorKind::PermissionDenied,
            // It speaks HTTP, but not this.
            false => io::ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&http_status(self.status))?;
        if let Some(location) = &self.location {
            write!(f, " to `{location}`")?;
        }
        match &self.retry_after {
            Some(time) if time.bytes().all(|byte| byte.is_ascii_digit()) => {
                write!(f, " (the server asks to wait {time} s)")?;
            }
            Some(time) => write!(f, " (the server asks to wait until {time})")?,
            None => {}
        }
        let mut words = self.body.split_whitespace().peekable();
        if words.peek().is_none() {
            return Ok(());
        }
        f.write_str(":")?;
        // A page is for a browser, and takes many lines to say what the status says.
        if words.peek().is_some_and(|word| word.starts_with('<')) {
            return f.write_str(" a page for browsers");
        }
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

impl From<StatusError> for io::Error {
    fn from(error: StatusError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// What the head of a response that is no answer says about what to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Advice {
    /// Where a redirect leads to.
    location: Option<String>,
    /// When to come again.
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

/// A status for a person: `HTTP 502 Bad Gateway`.
pub(crate) fn http_status(status: StatusCode) -> String {
    let reason = status.canonical_reason().unwrap_or_default();
    format!("HTTP {} {reason}", status.as_u16())
        .trim_end()
        .to_owned()
}

//! HTTP responses that carry no JSON-RPC answer.

use std::fmt;
use std::io;

/// Characters of a body that are kept.
const SHOWN: usize = 200;

/// HTTP response that carries no JSON-RPC answer.
///
/// It is in [`CallError::Refused`](crate::CallError::Refused) and
/// [`CallError::UnexpectedResponse`](crate::CallError::UnexpectedResponse). Where no call
/// waits, it is within the [`io::Error`] with which a connection or a session could not be
/// opened, or a notification was not accepted. The kind of that is
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if access was refused, and
/// [`InvalidData`](io::ErrorKind::InvalidData) otherwise.
///
/// ```
/// use caudal_core::StatusError;
///
/// let error = StatusError::new(403, "Forbidden", b"not you\n");
/// assert!(error.is_refusal());
/// assert_eq!(error.to_string(), "HTTP 403 Forbidden: not you");
/// let error = StatusError::new(404, "Not Found", b"<html>\n<body>");
/// assert_eq!(error.to_string(), "HTTP 404 Not Found: a page for browsers");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct StatusError {
    /// Status code, such as 502.
    pub status: u16,
    /// Name of the status, such as `Bad Gateway`; empty if it has none.
    pub phrase: &'static str,
    /// First 200 characters of the body.
    pub body: String,
    /// Target of a redirect. No redirect is followed.
    pub location: Option<String>,
    /// Time to wait that the server asks for with 429 or 503: a number of seconds, or a
    /// date.
    pub retry_after: Option<String>,
    /// Fault in the body, if the status is a good one.
    pub reason: Option<String>,
}

impl StatusError {
    /// Creates the error of a response with this status and this body.
    #[must_use]
    pub fn new(status: u16, phrase: &'static str, body: &[u8]) -> Self {
        // No character has more than four bytes.
        let body = String::from_utf8_lossy(body.get(..SHOWN * 4).unwrap_or(body));
        let body = body.chars().take(SHOWN).collect();
        Self {
            status,
            phrase,
            body,
            location: None,
            retry_after: None,
            reason: None,
        }
    }

    /// Returns true if the credentials were not accepted: 401, 403 or, by a proxy, 407.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self.status, 401 | 403 | 407)
    }
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        if !self.phrase.is_empty() {
            write!(f, " {}", self.phrase)?;
        }
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
        if words.peek().is_some() {
            f.write_str(":")?;
            // A page is for a browser, and takes many lines to say what the status says.
            match words.peek().is_some_and(|word| word.starts_with('<')) {
                true => f.write_str(" a page for browsers")?,
                false => words.try_for_each(|word| write!(f, " {word}"))?,
            }
        }
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl From<StatusError> for io::Error {
    fn from(error: StatusError) -> Self {
        let kind = match error.is_refusal() {
            true => io::ErrorKind::PermissionDenied,
            // It speaks HTTP, but not this.
            false => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::StatusError;

    #[test]
    fn no_more_than_200_characters_of_a_body_are_kept() {
        let body = "ü".repeat(1000);
        let error = StatusError::new(502, "Bad Gateway", body.as_bytes());
        assert_eq!(error.body, "ü".repeat(200));
    }
}

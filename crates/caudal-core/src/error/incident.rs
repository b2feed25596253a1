//! Internal errors: the cause is logged, a correlation id is sent.

use std::backtrace::Backtrace;
use std::error::Error as StdError;
use std::fmt;

use serde_json::json;

use super::json_rpc_error::JsonRpcError;
use crate::entropy;

/// Internal error that is logged locally and answered as -32603.
///
/// The other side gets only a [`CorrelationId`], which the log has too, beside the
/// cause with all its sources, and a backtrace if `RUST_BACKTRACE` is set.
///
/// ```
/// use caudal_core::Incident;
/// use std::error::Error;
///
/// let incident = Incident::new(std::io::Error::other("disk 7 is gone"));
/// let sent = incident.to_wire();
/// assert_eq!(sent.message, "Internal error");
/// assert_eq!(sent.data.unwrap()["correlation"], incident.correlation().to_string());
/// // The log has the same id, and the cause as the source.
/// assert_eq!(incident.to_string(), format!("internal error {}", incident.correlation()));
/// assert_eq!(incident.source().unwrap().to_string(), "disk 7 is gone");
/// ```
#[derive(Debug)]
pub struct Incident {
    correlation: CorrelationId,
    cause: Box<dyn StdError + Send + Sync>,
    backtrace: Backtrace,
}

impl Incident {
    /// Creates an incident with a new id; captures a backtrace.
    ///
    /// ```
    /// use caudal_core::Incident;
    ///
    /// let incident = Incident::new("the handler panicked");
    /// assert_eq!(incident.to_wire().code, -32603);
    /// ```
    pub fn new(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self {
            correlation: CorrelationId::random(),
            cause: cause.into(),
            backtrace: Backtrace::capture(),
        }
    }

    /// Returns the id that the log and the response share.
    ///
    /// ```
    /// # use caudal_core::Incident;
    /// assert_ne!(Incident::new("a").correlation(), Incident::new("a").correlation());
    /// ```
    #[must_use]
    pub const fn correlation(&self) -> CorrelationId {
        self.correlation
    }

    /// Returns the backtrace of the creation, if `RUST_BACKTRACE` is set.
    ///
    /// ```
    /// # use caudal_core::Incident;
    /// let incident = Incident::new("a");
    /// println!("{}", incident.backtrace());
    /// ```
    pub const fn backtrace(&self) -> &Backtrace {
        &self.backtrace
    }

    /// Returns the error to send.
    ///
    /// ```
    /// # use caudal_core::Incident;
    /// let sent = serde_json::to_string(&Incident::new("secret").to_wire())?;
    /// assert!(!sent.contains("secret"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn to_wire(&self) -> JsonRpcError {
        JsonRpcError::internal_error()
            .and_data(json!({ "correlation": self.correlation.to_string() }))
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "internal error {}", self.correlation)
    }
}

impl StdError for Incident {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// Random number that links a log entry to the error that was sent.
///
/// ```
/// use caudal_core::Incident;
///
/// assert_eq!(Incident::new("a").correlation().to_string().len(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CorrelationId(u64);

impl CorrelationId {
    fn random() -> Self {
        Self(entropy::random_u64())
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Formats the id as it is sent, so that every log can be searched for it.
impl fmt::Debug for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

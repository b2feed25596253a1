//! Metrics recorded through the `metrics` facade.
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `caudal_requests_total` | counter | `method`, `outcome` (`ok`, `error`, `cancelled`, `timeout`) |
//! | `caudal_request_seconds` | histogram | `method` |
//!
//! A method that is not registered is counted as `(unknown)`, so that a caller
//! cannot create labels without limit.

use std::sync::Arc;
use std::time::Instant;

/// The figures of one call.
#[derive(Debug)]
pub(crate) struct Figures {
    method: Arc<str>,
    since: Instant,
}

impl Figures {
    pub(crate) fn begin(method: &Arc<str>, unknown: bool) -> Self {
        Self {
            method: match unknown {
                true => "(unknown)".into(),
                false => Arc::clone(method),
            },
            since: Instant::now(),
        }
    }

    pub(crate) fn end(&self, outcome: &'static str) {
        let method = self.method.to_string();
        metrics::histogram!("caudal_request_seconds", "method" => method.clone())
            .record(self.since.elapsed());
        metrics::counter!("caudal_requests_total", "method" => method, "outcome" => outcome)
            .increment(1);
    }
}

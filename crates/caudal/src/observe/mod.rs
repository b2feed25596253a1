//! Observation of connections: statistics, tap, spans, metrics, traces.

#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod span;
pub(crate) mod stats;
pub(crate) mod tap;
pub(crate) mod trace;

//! Internal failures: logged here with their cause, answered with a number.

use std::any::Any;
use std::backtrace::BacktraceStatus;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use caudal_core::{ErrorCode, Id, Incident, JsonRpcError};
use serde_json::Value;

use crate::observe::span::shorten;

/// The answer to a call that failed for a reason of our own: -32603 and a number,
/// under which the log has the cause with all its sources.
///
/// The other side learns nothing else. With `RUST_BACKTRACE` the log also says
/// where; and when a handler returns it, under the same number, for which method.
///
/// ```
/// use caudal::Router;
///
/// let router = Router::new().method("size", |(path,): (String,)| async move {
///     let text = tokio::fs::read_to_string(path).await.map_err(caudal::internal)?;
///     Ok(text.len())
/// });
/// # let _ = router;
/// ```
pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> JsonRpcError {
    let incident = Incident::new(cause);
    let backtrace = Some(incident.backtrace());
    let backtrace = backtrace.filter(|trace| trace.status() == BacktraceStatus::Captured);
    tracing::error!(
        target: "caudal",
        correlation = %incident.correlation(),
        cause = %Chain(cause_of(&incident)),
        backtrace = backtrace.map(tracing::field::display),
        "internal error",
    );
    incident.to_wire()
}

/// Logs whose answer an error becomes that [`internal`] has made, under the same number: a
/// constructor cannot know for whom it is called.
#[cold]
pub(crate) fn name(method: &str, id: Option<Id<'_>>, error: &JsonRpcError) {
    let correlation = error.data.as_ref().and_then(|data| data.get("correlation"));
    if let Some(correlation) = correlation.and_then(Value::as_str)
        && error.code == ErrorCode::INTERNAL_ERROR
    {
        tracing::error!(
            target: "caudal",
            method = shorten(method),
            id = id.as_ref().map(|id| shorten(id.as_str())),
            correlation,
            "a call failed with an internal error",
        );
    }
}

/// Logs a failure of a method under a number that the answer carries too.
#[cold]
pub(crate) fn report(
    method: &str,
    id: Option<Id<'_>>,
    cause: impl Into<Box<dyn Error + Send + Sync>>,
) -> JsonRpcError {
    let incident = Incident::new(cause);
    // No backtrace: it would only show who reports.
    tracing::error!(
        target: "caudal",
        method = shorten(method),
        id = id.as_ref().map(|id| shorten(id.as_str())),
        correlation = %incident.correlation(),
        cause = %Chain(cause_of(&incident)),
        "internal error",
    );
    incident.to_wire()
}

/// Logs a panic. Its own message has gone to the panic hook already, and the
/// backtrace with it.
#[cold]
pub(crate) fn report_panic(
    method: &str,
    id: Option<Id<'_>>,
    payload: Box<dyn Any + Send>,
) -> JsonRpcError {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of unknown type");
    let error = report(method, id, format!("panic: {text}"));
    discard(payload);
    error
}

/// Drops what somebody has panicked with, which may panic again.
#[cold]
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // And again, without end.
        Box::leak(again);
    }
}

/// Runs what may panic and is owed no answer.
pub(crate) fn contain(method: &str, work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        report_panic(method, None, payload);
    }
}

fn cause_of(incident: &Incident) -> &dyn Error {
    incident.source().unwrap_or(incident)
}

/// An error and all its sources, in one line.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

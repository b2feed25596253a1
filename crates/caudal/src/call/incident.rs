//! Internal failures: logged with their cause under a number, which the reply carries.
//!
//! A method that fails at every call must not fill the log. So reports of one kind are
//! limited, and the reply to a failure that was not logged carries the number of one that
//! was. A kind is a method, or the type of a cause that [`internal`] gets.

use std::any::{Any, type_name_of_val};
use std::backtrace::BacktraceStatus;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use caudal_core::{ErrorCode, Id, Incident, JsonRpcError};
use serde_json::json;
use tokio::time::Instant;

use crate::observe::span::shorten;
use crate::sync::lock;

/// Maximum reports of one kind in one [`PERIOD`].
const REPORTS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of kinds in one [`PERIOD`]; all others count as one.
const KINDS: usize = 64;
/// Member of `data` with the number of failures that were not logged.
const SUPPRESSED: &str = "suppressed";

/// Makes the reply to a call that failed for a reason of our own: -32603 and a number,
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
///
/// # Rate limit
/// At most 10 reports a second are logged for one type of cause, in the whole process.
/// For a further one nothing is formatted or captured. Its reply has the number of the
/// last report of that type, and `data.suppressed` says how many were not logged since; the
/// next report says it too. Panics, and results that do not serialise, are limited in the
/// same way for each method.
pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> JsonRpcError {
    report_limited(type_name_of_val(&cause), |suppressed| {
        let incident = Incident::new(cause);
        let backtrace = Some(incident.backtrace());
        let backtrace = backtrace.filter(|trace| trace.status() == BacktraceStatus::Captured);
        tracing::error!(
            target: "caudal",
            correlation = %incident.correlation(),
            cause = %Chain(cause_of(&incident)),
            suppressed,
            backtrace = backtrace.map(tracing::field::display),
            "internal error",
        );
        incident
    })
}

/// Logs the call whose reply is an error of [`internal`], which cannot know it.
#[cold]
pub(super) fn log_call(method: &str, id: Option<Id<'_>>, error: &JsonRpcError) {
    let data = error.data.as_ref().filter(|data| {
        // A failure that was not logged needs no name.
        error.code == ErrorCode::INTERNAL_ERROR && data.get(SUPPRESSED).is_none()
    });
    let Some(correlation) = data.and_then(|data| data.get("correlation")?.as_str()) else {
        return;
    };
    if let Decision::Log { suppressed, .. } = decide(method, false) {
        tracing::error!(
            target: "caudal",
            method = shorten(method),
            id = id.as_ref().map(|id| shorten(id.as_str())),
            correlation,
            suppressed,
            "a call failed with an internal error",
        );
    }
}

/// Logs a failure of a method under a number that the reply carries too.
#[cold]
pub(crate) fn report<C: Into<Box<dyn Error + Send + Sync>>>(
    method: &str,
    id: Option<Id<'_>>,
    cause: impl FnOnce() -> C,
) -> JsonRpcError {
    report_limited(method, |suppressed| {
        let incident = Incident::new(cause());
        // No backtrace: it would only show this function.
        tracing::error!(
            target: "caudal",
            method = shorten(method),
            id = id.as_ref().map(|id| shorten(id.as_str())),
            correlation = %incident.correlation(),
            cause = %Chain(cause_of(&incident)),
            suppressed,
            "internal error",
        );
        incident
    })
}

/// Logs a panic. Its message has gone to the panic hook already, and the backtrace with
/// it.
#[cold]
pub(crate) fn report_panic(
    method: &str,
    id: Option<Id<'_>>,
    payload: Box<dyn Any + Send>,
) -> JsonRpcError {
    let error = report(method, id, || {
        let text = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("of unknown type");
        format!("panic: {text}")
    });
    discard(payload);
    error
}

/// Logs a failure of this kind, or returns the number of one that was logged.
fn report_limited(kind: &str, log: impl FnOnce(Option<u64>) -> Incident) -> JsonRpcError {
    match decide(kind, true) {
        Decision::Log { kind, suppressed } => {
            let incident = log(suppressed);
            // Not before: a number that a reply carries is in the log.
            if let Some(reports) = lock(&LIMITS).get_mut(kind) {
                reports.last = Some(incident.correlation().to_string());
            }
            incident.to_wire()
        }
        Decision::Suppress { last, suppressed } => {
            let data = json!({ "correlation": last, SUPPRESSED: suppressed });
            JsonRpcError::internal_error().and_data(data)
        }
    }
}

/// Reports of one kind of failure.
struct Reports {
    /// Start of the period.
    since: Instant,
    /// Reports in this period.
    logged: u32,
    /// Failures that were not logged since the last report.
    suppressed: u64,
    /// Number of the last report.
    last: Option<String>,
}

impl Reports {
    /// Returns true if the period is over. A paused runtime may have an earlier time.
    fn are_over(&self, now: Instant) -> bool {
        let age = now.checked_duration_since(self.since);
        age.is_none_or(|age| age >= PERIOD)
    }
}

static LIMITS: LazyLock<Mutex<HashMap<String, Reports>>> = LazyLock::new(Mutex::default);

enum Decision<'k> {
    /// Log the failure, and how many were not logged since the last one.
    Log {
        kind: &'k str,
        suppressed: Option<u64>,
    },
    /// Do not log it; this many were not logged since the last one.
    Suppress {
        last: Option<String>,
        suppressed: u64,
    },
}

/// Counts a failure of this kind. One that needs a number is suppressed only if there is the
/// number of an earlier one.
fn decide(mut kind: &str, needs_number: bool) -> Decision<'_> {
    let mut limits = lock(&LIMITS);
    let now = Instant::now();
    if limits.len() >= KINDS && !limits.contains_key(kind) {
        limits.retain(|_, reports| !reports.are_over(now));
        if limits.len() >= KINDS {
            kind = "";
        }
    }
    let reports = limits.entry(kind.to_owned()).or_insert(Reports {
        since: now,
        logged: 0,
        suppressed: 0,
        last: None,
    });
    if reports.are_over(now) {
        reports.since = now;
        reports.logged = 0;
    }
    if reports.logged < REPORTS || needs_number && reports.last.is_none() {
        reports.logged += 1;
        let suppressed = std::mem::take(&mut reports.suppressed);
        Decision::Log {
            kind,
            suppressed: (suppressed > 0).then_some(suppressed),
        }
    } else {
        reports.suppressed += 1;
        Decision::Suppress {
            last: reports.last.clone(),
            suppressed: reports.suppressed,
        }
    }
}

/// Drops the payload of a panic, which may panic again.
#[cold]
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // And again, without end.
        Box::leak(again);
    }
}

/// Runs work that may panic and needs no reply.
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

//! Internal failures: logged here with their cause, answered with a number.
//!
//! A method that fails at every call must not fill the log. So reports are limited, and a
//! reply whose own failure was not logged carries the number of a report that was.

use std::any::{Any, type_name_of_val};
use std::backtrace::BacktraceStatus;
use std::cell::Cell;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use caudal_core::{ErrorCode, Id, Incident, JsonRpcError};
use serde_json::json;
use tokio::time::Instant;

use crate::watched::shown;

/// Reports of one kind in one [`PERIOD`].
const REPORTS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);
/// Kinds that are told apart in one [`PERIOD`]; the rest of them count as one.
const KINDS: usize = 256;
/// Stands for the kinds that are not told apart.
const OTHERS: u64 = 0;

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
///
/// # Rate limit
/// At most 10 reports a second are logged of one method and one type of cause, in the
/// whole process. For a further one nothing is formatted or captured. Its answer has the
/// number of the last report of that method and type, and `data.suppressed` says how many
/// were not logged since; the next report says it too. Panics and results that do not
/// serialise are limited in the same way.
///
/// The method is known on the thread that runs the handler, and unknown in tasks and threads
/// that the handler has started: there only the type of the cause counts.
pub fn internal(cause: impl Into<Box<dyn Error + Send + Sync>>) -> JsonRpcError {
    let cause_type = type_name_of_val(&cause);
    limited(&(running(), cause_type), |suppressed| {
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

/// Logs whose answer an error becomes that [`internal`] has made, under the same number: a
/// constructor cannot know for whom it is called.
#[cold]
pub(crate) fn name(method: &str, id: Option<Id<'_>>, error: &JsonRpcError) {
    let data = error.data.as_ref().filter(|data| {
        // A failure that was not logged needs no name.
        error.code == ErrorCode::INTERNAL_ERROR && data.get(SUPPRESSED).is_none()
    });
    let correlation = data.and_then(|data| data.get("correlation")?.as_str());
    let Some(correlation) = correlation else {
        return;
    };
    // A number of others, or one that is answered again and again, has a limit of its own.
    let suppressed = match is_new(correlation) {
        true => None,
        false => match turn(&of(method, "answered"), false) {
            Turn::Log { suppressed, .. } => suppressed,
            Turn::Suppress { .. } => return,
        },
    };
    tracing::error!(
        target: "caudal",
        method = shown(method),
        id = id.as_ref().map(|id| shown(id.as_str())),
        correlation,
        suppressed,
        "a call failed with an internal error",
    );
}

/// Logs a failure of a method under a number that the answer carries too.
#[cold]
pub(crate) fn report(
    method: &str,
    id: Option<Id<'_>>,
    cause: impl Into<Box<dyn Error + Send + Sync>>,
) -> JsonRpcError {
    let cause_type = type_name_of_val(&cause);
    report_as(cause_type, method, id, || cause)
}

/// Logs a panic. Its own message has gone to the panic hook already, and the
/// backtrace with it.
#[cold]
pub(crate) fn report_panic(
    method: &str,
    id: Option<Id<'_>>,
    payload: Box<dyn Any + Send>,
) -> JsonRpcError {
    let error = report_as("panic", method, id, || {
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

fn report_as<C: Into<Box<dyn Error + Send + Sync>>>(
    cause_type: &str,
    method: &str,
    id: Option<Id<'_>>,
    cause: impl FnOnce() -> C,
) -> JsonRpcError {
    limited(&of(method, cause_type), |suppressed| {
        let incident = Incident::new(cause());
        // No backtrace: it would only show who reports.
        tracing::error!(
            target: "caudal",
            method = shown(method),
            id = id.as_ref().map(|id| shown(id.as_str())),
            correlation = %incident.correlation(),
            cause = %Chain(cause_of(&incident)),
            suppressed,
            "internal error",
        );
        incident
    })
}

/// Method and type of cause: what is counted together.
type Kind<'a> = (Option<NonZeroU64>, &'a str);

fn of<'a>(method: &str, cause_type: &'a str) -> Kind<'a> {
    // A panic outside of the handler, such as in a `Deserialize`, is known by the name.
    (running().or_else(|| Some(kind(method))), cause_type)
}

/// The member of `data` that says how many reports were not logged.
const SUPPRESSED: &str = "suppressed";

/// Logs a failure of this kind, or answers with the number of one that was logged.
fn limited(kind: &Kind<'_>, log: impl FnOnce(Option<u64>) -> Incident) -> JsonRpcError {
    match turn(kind, true) {
        Turn::Log { key, suppressed } => {
            let incident = log(suppressed);
            // Not before: what an answer names is in the log.
            if let Some(reports) = lock().get_mut(&key) {
                reports.last = Some(incident.correlation().to_string());
                reports.is_answered = false;
            }
            incident.to_wire()
        }
        Turn::Suppress { last, suppressed } => {
            let data = json!({ "correlation": last, SUPPRESSED: suppressed });
            JsonRpcError::internal_error().and_data(data)
        }
    }
}

/// Decision about a report.
enum Turn {
    /// It is logged, and says how many were not since the last one.
    Log { key: u64, suppressed: Option<u64> },
    /// It is not, as the last so many.
    Suppress {
        last: Option<String>,
        suppressed: u64,
    },
}

/// Reports of one kind of failure.
struct Reports {
    /// When the period began.
    since: Instant,
    /// Reports in this period.
    logged: u32,
    /// Reports that were not logged since the last one was.
    suppressed: u64,
    /// Number of the last one that was logged.
    last: Option<String>,
    /// Set once [`name`] has logged for which call it was.
    is_answered: bool,
}

impl Reports {
    const fn new(since: Instant) -> Self {
        Self {
            since,
            logged: 0,
            suppressed: 0,
            last: None,
            is_answered: false,
        }
    }

    /// Tells if the period is over. Another runtime may have another time, if it is paused.
    fn are_over(&self, now: Instant) -> bool {
        let age = now.checked_duration_since(self.since);
        age.is_none_or(|age| age >= PERIOD)
    }
}

/// Reports by the hash of their kind.
type Kinds = HashMap<u64, Reports>;

fn lock() -> MutexGuard<'static, Kinds> {
    static KINDS: LazyLock<Mutex<Kinds>> = LazyLock::new(Mutex::default);
    // Nothing of the application runs under it.
    KINDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells if this is the number of a report that is answered for the first time.
fn is_new(correlation: &str) -> bool {
    let mut kinds = lock();
    let last = kinds
        .values_mut()
        .find(|reports| reports.last.as_deref() == Some(correlation));
    last.is_some_and(|reports| !std::mem::replace(&mut reports.is_answered, true))
}

/// Counts a failure of this kind. If it is `numbered`, it is suppressed only when there is a
/// number of another one.
fn turn(kind: &Kind<'_>, numbered: bool) -> Turn {
    let mut kinds = lock();
    let now = Instant::now();
    let mut key = kinds.hasher().hash_one(kind);
    if kinds.len() >= KINDS && !kinds.contains_key(&key) {
        kinds.retain(|_, reports| !reports.are_over(now));
        if kinds.len() >= KINDS {
            key = OTHERS;
        }
    }
    let reports = kinds.entry(key).or_insert_with(|| Reports::new(now));
    if reports.are_over(now) {
        reports.since = now;
        reports.logged = 0;
    }
    if reports.logged < REPORTS || numbered && reports.last.is_none() {
        reports.logged += 1;
        let suppressed = std::mem::take(&mut reports.suppressed);
        let suppressed = (suppressed > 0).then_some(suppressed);
        Turn::Log { key, suppressed }
    } else {
        reports.suppressed += 1;
        let (last, suppressed) = (reports.last.clone(), reports.suppressed);
        Turn::Suppress { last, suppressed }
    }
}

thread_local! {
    /// The kind of the method whose handler runs on this thread.
    static RUNNING: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
}

/// Number under which failures of the method with this name are counted. A fallback has no
/// name, so all names that its callers make up are one kind.
pub(crate) fn kind(method: &str) -> NonZeroU64 {
    let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(method);
    NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN)
}

/// The kind of the method whose handler runs on this thread, if one does.
pub(crate) fn running() -> Option<NonZeroU64> {
    RUNNING.get()
}

/// Runs a part of a call to a method of this kind.
#[inline]
pub(crate) fn within<R>(kind: Option<NonZeroU64>, work: impl FnOnce() -> R) -> R {
    struct Outer(Option<NonZeroU64>);
    impl Drop for Outer {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    let _outer = Outer(RUNNING.replace(kind));
    work()
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

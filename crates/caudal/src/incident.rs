//! Internal failures: logged here with their cause, answered with a number.

use std::any::Any;

use caudal_core::Incident;

/// Logs an internal failure under a number that the answer carries too.
pub(crate) fn report(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Incident {
    let incident = Incident::new(cause);
    let cause = std::error::Error::source(&incident).map(ToString::to_string);
    tracing::error!(
        target: "caudal",
        correlation = %incident.correlation(),
        cause = cause.unwrap_or_default(),
        backtrace = %incident.backtrace(),
        "internal error",
    );
    incident
}

/// Logs a panic. Its own message has gone to the panic hook already.
pub(crate) fn report_panic(payload: &(dyn Any + Send)) -> Incident {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of unknown type");
    report(format!("panic: {text}"))
}

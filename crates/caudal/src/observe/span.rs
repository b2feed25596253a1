//! The span and the metrics of one call.

use std::sync::Arc;

use caudal_core::Id;
use tracing::Span;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;

use crate::call::replies::Outcome;

/// The span and the metrics of one incoming call, from its start to its end.
#[derive(Debug, Default)]
pub(crate) struct CallSpan {
    /// Boxed: most calls have none.
    span: Option<Box<Span>>,
    #[cfg(feature = "metrics")]
    figures: Option<crate::observe::metrics::Figures>,
}

impl CallSpan {
    /// `unknown` is true if no method of this name is registered.
    #[inline]
    pub(crate) fn begin(method: &Arc<str>, unknown: bool) -> Self {
        #[cfg(not(feature = "metrics"))]
        let _ = unknown;
        Self {
            span: match LevelFilter::current() >= LevelFilter::DEBUG {
                true => span(method),
                false => None,
            },
            #[cfg(feature = "metrics")]
            figures: Some(crate::observe::metrics::Figures::begin(method, unknown)),
        }
    }

    /// Runs a part of the call in its span.
    #[inline]
    pub(crate) fn in_scope<R>(&self, work: impl FnOnce() -> R) -> R {
        match &self.span {
            None => work(),
            Some(span) => span.in_scope(work),
        }
    }

    /// Records the id when it is known.
    #[inline]
    pub(crate) fn record_id(&self, id: Option<Id<'_>>) {
        if let (Some(span), Some(id)) = (&self.span, id) {
            record(span, "id", id.as_str());
        }
    }

    /// Records how the call ended.
    #[inline]
    pub(crate) fn end(&self, outcome: Outcome) {
        let outcome = outcome.as_str();
        if let Some(span) = &self.span {
            record(span, "outcome", outcome);
        }
        #[cfg(feature = "metrics")]
        if let Some(figures) = &self.figures {
            figures.end(outcome);
        }
    }
}

#[cold]
fn span(method: &str) -> Option<Box<Span>> {
    let span = tracing::debug_span!(
        target: "caudal",
        "call",
        method = shorten(method),
        id = Empty,
        outcome = Empty,
    );
    (!span.is_disabled()).then(|| Box::new(span))
}

#[cold]
fn record(span: &Span, field: &str, value: &str) {
    span.record(field, value);
}

/// A name as it is logged: the other side may send long ones.
pub(crate) fn shorten(method: &str) -> &str {
    const LONGEST: usize = 128;
    method
        .char_indices()
        .nth(LONGEST)
        .and_then(|(end, _)| method.get(..end))
        .unwrap_or(method)
}

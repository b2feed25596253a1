//! A call as it is seen from outside: its span, and its figures.

use std::num::NonZeroU64;
use std::sync::Arc;

use caudal_core::Id;
use tracing::Span;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;

use crate::incident;
use crate::router::Route;

/// Watches one call of the other side from its begin to its end.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Most calls have none, so it has its room elsewhere.
    span: Option<Box<Span>>,
    #[cfg(feature = "metrics")]
    figures: Option<crate::metrics::Figures>,
    /// Number under which its failures are counted.
    kind: Option<NonZeroU64>,
}

impl Watched {
    /// The name is the caller's own invention where the route has none.
    #[inline]
    pub(crate) fn begin(method: &Arc<str>, route: &Route) -> Self {
        Self {
            kind: Some(route.kind),
            span: match LevelFilter::current() >= LevelFilter::DEBUG {
                true => span(method),
                false => None,
            },
            #[cfg(feature = "metrics")]
            figures: Some(crate::metrics::Figures::begin(
                method,
                route.name.is_empty(),
            )),
        }
    }

    /// Runs a part of the call.
    #[inline]
    pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        incident::within(self.kind, || match &self.span {
            None => work(),
            Some(span) => span.in_scope(work),
        })
    }

    /// Notes the id, once it is known.
    #[inline]
    pub(crate) fn identify(&self, id: Option<Id<'_>>) {
        if let (Some(span), Some(id)) = (&self.span, id) {
            record(span, "id", id.as_str());
        }
    }

    /// Notes how it ended.
    #[inline]
    pub(crate) fn end(&self, outcome: &'static str) {
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
        method = shown(method),
        id = Empty,
        outcome = Empty,
    );
    (!span.is_disabled()).then(|| Box::new(span))
}

#[cold]
fn record(span: &Span, field: &str, value: &str) {
    span.record(field, value);
}

/// A name that a caller made up may be long.
pub(crate) fn shown(method: &str) -> &str {
    const LONGEST: usize = 128;
    method
        .char_indices()
        .nth(LONGEST)
        .and_then(|(end, _)| method.get(..end))
        .unwrap_or(method)
}

//! A call as it is seen from outside: its span, and its figures.

use std::sync::Arc;

use caudal_core::Id;
use tracing::Span;
use tracing::field::Empty;

/// Watches one call of the other side from its begin to its end.
#[derive(Debug)]
pub(crate) struct Watched {
    span: Span,
    #[cfg(feature = "metrics")]
    figures: Option<crate::metrics::Figures>,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            span: Span::none(),
            #[cfg(feature = "metrics")]
            figures: None,
        }
    }
}

impl Watched {
    /// `unknown` says that the name is the caller's own invention.
    #[inline]
    pub(crate) fn begin(method: &Arc<str>, unknown: bool) -> Self {
        #[cfg(not(feature = "metrics"))]
        let _ = unknown;
        Self {
            span: tracing::debug_span!(
                target: "caudal",
                "call",
                method = shown(method),
                id = Empty,
                outcome = Empty,
            ),
            #[cfg(feature = "metrics")]
            figures: Some(crate::metrics::Figures::begin(method, unknown)),
        }
    }

    /// Runs a part of the call.
    #[inline]
    pub(crate) fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        let _entered = self.span.enter();
        work()
    }

    /// Notes the id, once it is known.
    #[inline]
    pub(crate) fn identify(&self, id: Option<Id<'_>>) {
        if !self.span.is_disabled()
            && let Some(id) = id
        {
            self.span.record("id", id.as_str());
        }
    }

    /// Notes how it ended.
    #[inline]
    pub(crate) fn end(&self, outcome: &'static str) {
        if !self.span.is_disabled() {
            self.span.record("outcome", outcome);
        }
        #[cfg(feature = "metrics")]
        if let Some(figures) = &self.figures {
            figures.end(outcome);
        }
    }
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

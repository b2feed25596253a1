//! Conventions for cancelling calls and reporting progress.

use std::borrow::Cow;
use std::collections::HashMap;

use caudal_core::{ErrorCode, RawJson};
use serde_json::value::RawValue;

use crate::connection::IdKey;

/// The conventions that JSON-RPC leaves to its users. None by default.
///
/// ```
/// use caudal::Dialect;
///
/// assert_eq!(Dialect::lsp().cancel.unwrap().method, "$/cancelRequest");
/// assert_eq!(Dialect::mcp().cancel.unwrap().member, "requestId");
/// assert!(Dialect::default().cancel.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// Convention for cancelling a call.
    pub cancel: Option<CancelRule>,
    /// Convention for reporting the progress of a call.
    pub progress: Option<ProgressRule>,
}

/// A notification that cancels a call: `method {member: id}`.
///
/// ```
/// use caudal::{CancelRule, Dialect, ErrorCode};
///
/// let mut dialect = Dialect::default();
/// dialect.cancel = Some(CancelRule::new("abort", "call", Some(ErrorCode::REQUEST_CANCELLED)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelRule {
    /// The notification's method.
    pub method: Cow<'static, str>,
    /// The member of its params that holds the id.
    pub member: Cow<'static, str>,
    /// With what a cancelled request is answered, if it is.
    pub answer: Option<ErrorCode>,
}

/// A notification that reports progress: `method {member: token, …}`.
///
/// ```
/// use caudal::Dialect;
///
/// assert_eq!(Dialect::lsp().progress.unwrap().method, "$/progress");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressRule {
    /// The notification's method.
    pub method: Cow<'static, str>,
    /// The member of its params that holds the token.
    pub member: Cow<'static, str>,
}

impl CancelRule {
    /// A scheme of your own.
    ///
    /// ```
    /// assert_eq!(caudal::CancelRule::new("abort", "call", None).method, "abort");
    /// ```
    pub fn new(
        method: impl Into<Cow<'static, str>>,
        member: impl Into<Cow<'static, str>>,
        answer: Option<ErrorCode>,
    ) -> Self {
        Self {
            method: method.into(),
            member: member.into(),
            answer,
        }
    }
}

impl ProgressRule {
    /// A scheme of your own.
    ///
    /// ```
    /// assert_eq!(caudal::ProgressRule::new("step", "job").member, "job");
    /// ```
    pub fn new(method: impl Into<Cow<'static, str>>, member: impl Into<Cow<'static, str>>) -> Self {
        Self {
            method: method.into(),
            member: member.into(),
        }
    }
}

impl Dialect {
    /// The Language Server Protocol: `$/cancelRequest {id}`, answered with
    /// -32800, and `$/progress {token, value}`.
    ///
    /// Cancelling works without further code. A handler sends progress itself, with the token
    /// in the `workDoneToken` of its params: `cx.peer().notify("$/progress", …)`.
    ///
    /// ```
    /// use caudal::{Dialect, ErrorCode};
    ///
    /// let answer = Dialect::lsp().cancel.unwrap().answer;
    /// assert_eq!(answer, Some(ErrorCode::REQUEST_CANCELLED));
    /// ```
    #[must_use]
    pub fn lsp() -> Self {
        Self {
            cancel: Some(CancelRule::new(
                "$/cancelRequest",
                "id",
                Some(ErrorCode::REQUEST_CANCELLED),
            )),
            progress: Some(ProgressRule::new("$/progress", "token")),
        }
    }

    /// The Model Context Protocol: `notifications/cancelled {requestId}`, after
    /// which no answer is sent, and `notifications/progress {progressToken}`.
    ///
    /// ```
    /// assert_eq!(caudal::Dialect::mcp().cancel.unwrap().answer, None);
    /// ```
    #[must_use]
    pub fn mcp() -> Self {
        Self {
            cancel: Some(CancelRule::new(
                "notifications/cancelled",
                "requestId",
                None,
            )),
            progress: Some(ProgressRule::new("notifications/progress", "progressToken")),
        }
    }

    /// Returns true if this method belongs to the dialect.
    #[inline]
    pub(crate) fn knows(&self, method: &str) -> bool {
        self.cancel
            .as_ref()
            .is_some_and(|cancel| cancel.method == method)
            || self
                .progress
                .as_ref()
                .is_some_and(|progress| progress.method == method)
    }

    /// The request that a notification cancels: `None` if it cancels nothing,
    /// `Some(None)` if it should and names no id.
    pub(crate) fn cancelled_id(
        &self,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> Option<Option<IdKey>> {
        let cancel = self
            .cancel
            .as_ref()
            .filter(|cancel| cancel.method == method)?;
        let id = member(params, &cancel.member);
        Some(id.and_then(|id| IdKey::parse(&id)))
    }

    /// The token of a progress report.
    pub(crate) fn progress_token(
        &self,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> Option<IdKey> {
        let progress = self
            .progress
            .as_ref()
            .filter(|progress| progress.method == method)?;
        IdKey::parse(&member(params, &progress.member)?)
    }
}

/// JSON text of one member of params by name.
pub(crate) fn member(params: Option<RawJson<'_>>, name: &str) -> Option<String> {
    let mut members: HashMap<String, Box<RawValue>> = params?.read().ok()?;
    members.remove(name).map(|value| value.get().to_owned())
}

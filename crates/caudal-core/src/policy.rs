//! Policy of a decoder: limits, and choices that the specification leaves open.

/// Limits and choices for [`decode`](crate::decode::decode). Every field has a setter of the
/// same name.
///
/// The defaults suit a server with untrusted clients:
///
/// ```
/// use caudal_core::{NullId, Policy};
///
/// let policy = Policy::default()
///     .max_message(16 * 1024 * 1024)
///     .null_id(NullId::Reject);
/// ```
///
/// | limit | default | beyond it |
/// |---|---|---|
/// | `max_message` | 1 MiB | -32600 `Request payload too large`, `id` null |
/// | `max_depth` | 128 | -32600 with the request's id |
/// | `max_batch` | 1,000 | one -32600 object, `id` null |
/// | `max_id` | 1 KiB | -32600, `id` null |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Maximum bytes of an incoming message. A longer response fails its call with
    /// [`CallError::TooLarge`](crate::CallError::TooLarge) if the id is in its first
    /// 2 KiB. Outgoing messages have no limit.
    pub max_message: usize,
    /// Maximum nesting of arrays and objects. The object of the message counts as a
    /// level, and so does the array of a batch. `serde_json` reads at most 128 levels
    /// into a type or a `Value`.
    pub max_depth: usize,
    /// Maximum entries of a batch. Each takes about 100 bytes while the batch is decoded.
    pub max_batch: usize,
    /// Maximum bytes of an id, as JSON text.
    pub max_id: usize,
    /// Handling of requests whose id is null.
    pub null_id: NullId,
    /// Handling of params that are neither array nor object.
    pub scalar_params: ScalarParams,
    /// Handling of members that the specification does not define.
    pub extra_members: ExtraMembers,
    /// Handling of responses in the form of JSON-RPC 1.0.
    pub old_responses: OldResponses,
    /// Amount of detail in error responses.
    pub error_detail: ErrorDetail,
}

impl Policy {
    setters! {
        max_message: usize,
        max_depth: usize,
        max_batch: usize,
        max_id: usize,
        null_id: NullId,
        scalar_params: ScalarParams,
        extra_members: ExtraMembers,
        old_responses: OldResponses,
        error_detail: ErrorDetail,
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_message: 1024 * 1024,
            max_depth: 128,
            max_batch: 1_000,
            max_id: 1024,
            null_id: NullId::default(),
            scalar_params: ScalarParams::default(),
            extra_members: ExtraMembers::default(),
            old_responses: OldResponses::default(),
            error_detail: ErrorDetail::default(),
        }
    }
}

/// Handling of requests whose id is null.
///
/// ```
/// assert_eq!(caudal_core::NullId::default(), caudal_core::NullId::Accept);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullId {
    /// Handle it as a request, and answer with `"id":null`.
    #[default]
    Accept,
    /// Answer with -32600.
    Reject,
}

/// Handling of params that are neither array nor object.
///
/// ```
/// use caudal_core::ScalarParams;
///
/// assert_eq!(ScalarParams::default(), ScalarParams::InvalidParams);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScalarParams {
    /// Answer with -32602.
    #[default]
    InvalidParams,
    /// Answer with -32600.
    InvalidRequest,
    /// Pass them to the handler.
    Accept,
}

/// Handling of members that the specification does not define.
///
/// ```
/// use caudal_core::ExtraMembers;
///
/// assert_eq!(ExtraMembers::default(), ExtraMembers::Ignore);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtraMembers {
    /// Ignore them.
    #[default]
    Ignore,
    /// Answer with -32600.
    Reject,
}

/// Handling of responses in the form of JSON-RPC 1.0.
///
/// | response | [`Reject`](Self::Reject) | [`Accept`](Self::Accept) |
/// |---|---|---|
/// | `"result":3,"error":null` | refused | the result 3 |
/// | `"result":null,"error":{…}` | refused | the error |
/// | `"result":null,"error":null` | refused | the result null |
/// | `"result":3,"error":{…}` | refused | refused |
/// | `"id":"1"` while call 1 waits | ignored | answers call 1 |
///
/// The last line applies to [`IdFormat::Integer`](crate::IdFormat::Integer): the string
/// must be the number as it was sent, so `"01"` and `"1.0"` are ignored. UUIDs are
/// strings in any case.
///
/// All other rules stay: `"error":null` alone is not a response, an error has `code` and
/// `message`, and `jsonrpc` is `"2.0"`. The owned
/// [`JsonRpcResponse`](crate::JsonRpcResponse) has no policy, and refuses the first four
/// lines.
///
/// ```
/// use caudal_core::{Message, OldResponses, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1,"result":3,"error":null}"#;
/// assert!(matches!(decode(bytes, &Policy::default()), Message::Invalid(_)));
///
/// let policy = Policy::default().old_responses(OldResponses::Accept);
/// let Message::Response(response) = decode(bytes, &policy) else { panic!() };
/// assert_eq!(response.outcome.unwrap().as_str(), "3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldResponses {
    /// Refuse a response with both members, and ignore a string in place of a number.
    #[default]
    Reject,
    /// Treat a null beside the other member as absent, and a string as the number in it.
    Accept,
}

/// Amount of detail in error responses.
///
/// ```
/// assert_eq!(caudal_core::ErrorDetail::default(), caudal_core::ErrorDetail::Full);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorDetail {
    /// Say what was wrong, where, and what was expected.
    #[default]
    Full,
    /// Send the text of the specification and no data.
    Minimal,
}

//! What a decoder accepts: limits, and the choices the specification leaves.

/// Limits and choices for [`decode`](crate::decode::decode).
///
/// The defaults are those of a careful server. Every field may be set:
///
/// ```
/// use caudal_core::{NullId, Policy};
///
/// let mut policy = Policy::default();
/// policy.max_message = 16 * 1024 * 1024;
/// policy.null_id = NullId::Reject;
/// ```
///
/// | limit | default | past it |
/// |---|---|---|
/// | `max_message` | 1 MiB | -32600 `Request payload too large`, `id` null |
/// | `max_depth` | 128 | -32600 with the request's id |
/// | `max_batch` | 1,000 | one -32600 object, `id` null |
/// | `max_id` | 1 KiB | -32600, `id` null |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The longest message in bytes. It counts for what comes in, answers to
    /// calls of ours among it: one that is longer ends its call with
    /// [`CallError::TooLarge`](crate::CallError::TooLarge) if its first 2 KiB
    /// tell which call that is. What is sent has no limit.
    pub max_message: usize,
    /// The deepest nesting of arrays and objects; the message's own object
    /// (and the batch's array) is a level. `serde_json` itself reads no deeper
    /// than 128 levels into a type or a `Value`.
    pub max_depth: usize,
    /// The most entries of a batch. Each takes about 100 bytes while the batch
    /// is decoded.
    pub max_batch: usize,
    /// The longest id, in bytes of JSON text.
    pub max_id: usize,
    /// Whether a request may have the id null.
    pub null_id: NullId,
    /// What becomes of params that are neither array nor object.
    pub scalar_params: ScalarParams,
    /// What becomes of members that the specification does not know.
    pub extra_members: ExtraMembers,
    /// Responses in the form of JSON-RPC 1.0: refused, or accepted.
    pub old_responses: OldResponses,
    /// How much an error answer tells.
    pub error_detail: ErrorDetail,
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

/// What becomes of a request whose id is null.
///
/// ```
/// assert_eq!(caudal_core::NullId::default(), caudal_core::NullId::Accept);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullId {
    /// It is a request and is answered with `"id":null`.
    #[default]
    Accept,
    /// -32600.
    Reject,
}

/// What becomes of params that are neither array nor object.
///
/// ```
/// use caudal_core::ScalarParams;
///
/// assert_eq!(ScalarParams::default(), ScalarParams::InvalidParams);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScalarParams {
    /// -32602.
    #[default]
    InvalidParams,
    /// -32600.
    InvalidRequest,
    /// They are passed to the handler.
    Accept,
}

/// What becomes of members that the specification does not know.
///
/// ```
/// use caudal_core::ExtraMembers;
///
/// assert_eq!(ExtraMembers::default(), ExtraMembers::Ignore);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtraMembers {
    /// They are passed over.
    #[default]
    Ignore,
    /// -32600.
    Reject,
}

/// Responses of servers that still answer as JSON-RPC 1.0 has it.
///
/// | response | [`Reject`](Self::Reject) | [`Accept`](Self::Accept) |
/// |---|---|---|
/// | `"result":3,"error":null` | refused | the result 3 |
/// | `"result":null,"error":{…}` | refused | the error |
/// | `"result":null,"error":null` | refused | the result null |
/// | `"result":3,"error":{…}` | refused | refused |
/// | `"id":"1"`, where call 1 waits | answers nobody | answers call 1 |
///
/// The last line is for ids that count up, [`IdFormat::Integer`](crate::IdFormat::Integer):
/// the string must be the number as it was sent, so `"01"` and `"1.0"` answer nobody.
/// A UUID is sent as a string, and comes back as one in any case.
///
/// All else is as strict as ever: `"error":null` alone is no response, an error has
/// `code` and `message`, and `jsonrpc` is `"2.0"`. The owned
/// [`JsonRpcResponse`](crate::JsonRpcResponse) knows no policy, and refuses the first four
/// lines.
///
/// ```
/// use caudal_core::{Message, OldResponses, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1,"result":3,"error":null}"#;
/// let mut policy = Policy::default();
/// assert!(matches!(decode(bytes, &policy), Message::Invalid(_)));
///
/// policy.old_responses = OldResponses::Accept;
/// let Message::Response(response) = decode(bytes, &policy) else { panic!() };
/// assert_eq!(response.outcome.unwrap().as_str(), "3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OldResponses {
    /// A response with both members is refused, and a string is no number.
    #[default]
    Reject,
    /// A null beside the other member counts as absent, and a string may be a number.
    Accept,
}

/// How much an error answer tells.
///
/// ```
/// assert_eq!(caudal_core::ErrorDetail::default(), caudal_core::ErrorDetail::Full);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorDetail {
    /// What was wrong, where, and what was expected.
    #[default]
    Full,
    /// The specification's bare text and no data.
    Minimal,
}

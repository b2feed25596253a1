//! Responses, single and in batches.

use serde::Serialize;

use super::EncodeError;
use super::output::{Output, WireId, make_room, or_restore, put_plain, put_value};
use crate::decode::ErrorObject;
use crate::error::JsonRpcError;
use crate::raw_json::RawJson;

#[inline]
fn put_reply_head<B: Output>(out: &mut B, id: impl WireId, outcome: &str) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    id.write_to(out);
    out.put(outcome.as_bytes());
}

/// Appends a successful response. A float that is NaN or infinite has no JSON form and
/// is written as `null`, as `serde_json` does.
///
/// # Errors
/// [`EncodeError::Value`] if the result does not serialise: answer with an
/// [`Incident`](crate::Incident) instead.
///
/// ```
/// use caudal_core::{Message, Policy, decode, encode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1e2,"method":"add","params":[1,2]}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
/// let mut out = Vec::new();
/// encode::reply(&mut out, request.id, &3)?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1e2,"result":3}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
#[inline]
pub fn reply<B: Output, T: Serialize + ?Sized>(
    out: &mut B,
    id: impl WireId,
    result: &T,
) -> Result<(), EncodeError> {
    or_restore(out, |out| {
        put_reply_head(out, id, r#","result":"#);
        put_value(out, result)?;
        out.put(b"}");
        Ok(())
    })
}

/// Appends a successful response whose result is JSON text.
///
/// ```
/// use caudal_core::{RawJson, RequestId, encode};
///
/// let mut out = Vec::new();
/// encode::reply_raw(&mut out, &RequestId::from(1), RawJson::parse("[1.50]")?);
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":[1.50]}"#);
/// # Ok::<(), caudal_core::DecodeError>(())
/// ```
pub fn reply_raw<B: Output>(out: &mut B, id: impl WireId, result: RawJson<'_>) {
    make_room(out, result);
    put_reply_head(out, id, r#","result":"#);
    out.put(result.as_str().as_bytes());
    out.put(b"}");
}

/// Appends an error response. Its id is [`Id::NULL`](crate::Id::NULL) if that of the
/// request is not known.
///
/// ```
/// use caudal_core::{Id, JsonRpcError, encode};
///
/// let mut out = Vec::new();
/// encode::error(&mut out, Id::NULL, &JsonRpcError::parse_error());
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
/// );
/// ```
pub fn error<B: Output>(out: &mut B, id: impl WireId, error: &JsonRpcError) {
    put_reply_head(out, id, r#","error":"#);
    let written = put_value(out, error);
    debug_assert!(
        written.is_ok(),
        "an integer, a string and a `Value` serialise"
    );
    out.put(b"}");
}

/// Appends an error response as it was received, byte for byte; for a proxy.
///
/// ```
/// use caudal_core::{Message, Policy, RequestId, decode, encode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no","data":1e400}}"#;
/// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
/// let mut out = Vec::new();
/// encode::error_raw(&mut out, &RequestId::from(1), &response.outcome.unwrap_err());
/// assert_eq!(out, bytes);
/// ```
pub fn error_raw<B: Output>(out: &mut B, id: impl WireId, error: &ErrorObject<'_>) {
    put_reply_head(out, id, r#","error":{"code":"#);
    put_plain(out, &error.code);
    out.put(br#","message":"#);
    put_plain(out, &error.message);
    if let Some(data) = error.data {
        out.put(br#","data":"#);
        out.put(data.as_str().as_bytes());
    }
    out.put(b"}}");
}

/// Appends the responses to a batch: an array with the text that `write` appends for
/// each entry. Entries for which it appends nothing are left out. If all are left out,
/// nothing is appended.
///
/// ```
/// use caudal_core::{Message, Policy, decode, encode};
///
/// let bytes = br#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},7]"#;
/// let policy = Policy::default();
/// let Message::Batch(entries) = decode(bytes, &policy) else { panic!() };
/// let mut out = Vec::new();
/// encode::batch(&mut out, entries, |out, entry| match entry {
///     Message::Request(request) => encode::reply(out, request.id, "done").unwrap(),
///     Message::Invalid(invalid) if invalid.wants_answer() => {
///         encode::error(out, invalid.id, &invalid.to_wire(policy.error_detail));
///     }
///     _ => {}
/// });
/// let answers: Vec<serde_json::Value> = serde_json::from_slice(&out)?;
/// assert_eq!(answers.len(), 2);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn batch<B: Output, T>(
    out: &mut B,
    entries: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut B, T),
) {
    let start = out.length();
    for entry in entries {
        let before = out.length();
        out.put(if before == start { b"[" } else { b"," });
        let empty = out.length();
        write(out, entry);
        if out.length() == empty {
            out.cut(before);
        }
    }
    if out.length() > start {
        out.put(b"]");
    }
}

//! Message to bytes: written straight into the caller's buffer.
//!
//! Every function appends one whole message, or fails and leaves the buffer as
//! it was. Results and params are anything that serialises, or JSON that is
//! already text ([`RawJson`]); there is no `Value` in between.
//!
//! ```
//! use caudal_core::{RequestId, encode};
//!
//! let mut out = Vec::new();
//! encode::reply(&mut out, &RequestId::from(1), &[1, 2, 3])?;
//! assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":[1,2,3]}"#);
//! # Ok::<(), caudal_core::EncodeError>(())
//! ```

mod output;
mod prepared;

use serde::Serialize;
use thiserror::Error;

use crate::decode::{ErrorObject, is_blank};
use crate::error::JsonRpcError;
use crate::raw::RawJson;

use output::put_value;
pub use output::{Output, WireId};
pub(crate) use output::{or_restore, put_plain, sealed};
pub use prepared::{Prepared, prepare};

/// Why a message was not written. The buffer is as it was.
///
/// ```
/// use caudal_core::{EncodeError, encode};
///
/// let mut out = Vec::new();
/// let error = encode::notification(&mut out, " ", &[1]).unwrap_err();
/// assert!(matches!(error, EncodeError::BlankMethod));
/// assert!(out.is_empty());
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value's own `Serialize` failed.
    #[error("the value could not be serialised")]
    Value(#[source] serde_json::Error),
    /// A method must have a name.
    #[error("`method` must not be blank")]
    BlankMethod,
    /// Params must be an array or an object.
    #[error(
        "`params` must be an array, an object or nothing; put a single value into a tuple: `(value,)`"
    )]
    ScalarParams,
}

#[inline]
fn put_reply_head<B: Output>(out: &mut B, id: impl WireId, outcome: &str) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    id.write_to(out);
    out.put(outcome.as_bytes());
}

/// Appends a success. A float that is not a number has no JSON form and is
/// written as `null`, as `serde_json` does.
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

/// Appends a success whose result is JSON already.
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

/// Appends an error; [`Id::NULL`](crate::Id::NULL) where the request's id is not known.
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

/// Appends an error as it was received, its data to the letter; for a bridge.
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

/// Appends the answers to a batch: an array of what `write` appends for each
/// entry. An entry for which it appends nothing has no place in it, and if there
/// is none at all, nothing is appended.
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

/// Appends a request. Params that serialise to `null`, such as `&()`, are left
/// out.
///
/// # Errors
/// The method is blank, or the params do not serialise or are neither array
/// nor object.
///
/// ```
/// use caudal_core::{RequestId, encode};
///
/// let mut out = Vec::new();
/// encode::call(&mut out, &RequestId::from(1), "add", &(1, 2))?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
pub fn call<B: Output, T: Serialize + ?Sized>(
    out: &mut B,
    id: impl WireId,
    method: &str,
    params: &T,
) -> Result<(), EncodeError> {
    or_restore(out, |out| {
        put_call_head(out, id);
        put_method_and_params(out, method, |out| put_value(out, params))
    })
}

/// Appends a request whose params are JSON already.
///
/// # Errors
/// The method is blank, or the params are neither array, object nor null.
///
/// ```
/// use caudal_core::{RawJson, RequestId, encode};
///
/// let mut out = Vec::new();
/// encode::call_raw(&mut out, &RequestId::from(1), "add", RawJson::parse("[1,2]")?)?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn call_raw<B: Output>(
    out: &mut B,
    id: impl WireId,
    method: &str,
    params: RawJson<'_>,
) -> Result<(), EncodeError> {
    or_restore(out, |out| {
        make_room(out, params);
        put_call_head(out, id);
        put_method_and_params(out, method, |out| put_raw(out, params))
    })
}

/// Appends a notification. Params that serialise to `null`, such as `&()`, are
/// left out.
///
/// # Errors
/// The method is blank, or the params do not serialise or are neither array
/// nor object.
///
/// ```
/// use caudal_core::encode;
///
/// let mut out = Vec::new();
/// encode::notification(&mut out, "tick", &[1])?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"tick","params":[1]}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
pub fn notification<B: Output, T: Serialize + ?Sized>(
    out: &mut B,
    method: &str,
    params: &T,
) -> Result<(), EncodeError> {
    or_restore(out, |out| {
        out.put(br#"{"jsonrpc":"2.0","#);
        put_method_and_params(out, method, |out| put_value(out, params))
    })
}

/// Appends a notification whose params are JSON already.
///
/// # Errors
/// The method is blank, or the params are neither array, object nor null.
///
/// ```
/// use caudal_core::{RawJson, encode};
///
/// let mut out = Vec::new();
/// encode::notification_raw(&mut out, "tick", RawJson::NULL)?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"tick"}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
pub fn notification_raw<B: Output>(
    out: &mut B,
    method: &str,
    params: RawJson<'_>,
) -> Result<(), EncodeError> {
    or_restore(out, |out| {
        make_room(out, params);
        out.put(br#"{"jsonrpc":"2.0","#);
        put_method_and_params(out, method, |out| put_raw(out, params))
    })
}

/// Makes room for a message around `raw`, so that a large one is not followed
/// by a doubling of the buffer for its last brace.
fn make_room<B: Output>(out: &mut B, raw: RawJson<'_>) {
    const AROUND: usize = 128;
    out.make_room(raw.as_str().len() + AROUND);
}

fn put_call_head<B: Output>(out: &mut B, id: impl WireId) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    id.write_to(out);
    out.put(b",");
}

#[expect(clippy::unnecessary_wraps, reason = "stands beside `put_value`")]
fn put_raw<B: Output>(out: &mut B, raw: RawJson<'_>) -> Result<(), EncodeError> {
    out.put(raw.as_str().as_bytes());
    Ok(())
}

#[inline]
fn put_method_and_params<B: Output>(
    out: &mut B,
    method: &str,
    put_params: impl FnOnce(&mut B) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    const PARAMS: &[u8] = br#","params":"#;
    if is_blank(method) {
        return Err(EncodeError::BlankMethod);
    }
    out.put(br#""method":"#);
    put_value(out, method)?;
    let without = out.length();
    out.put(PARAMS);
    let start = out.length();
    put_params(out)?;
    let written = out.as_mut().get(start..).unwrap_or_default();
    match written {
        [b'[' | b'{', ..] => {}
        b"null" => out.cut(without),
        _ => return Err(EncodeError::ScalarParams),
    }
    out.put(b"}");
    Ok(())
}

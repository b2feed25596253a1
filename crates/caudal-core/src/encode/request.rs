//! Requests and notifications.

use serde::Serialize;

use super::EncodeError;
use super::output::{Output, WireId, make_room, or_restore, put_value};
use crate::decode::is_blank;
use crate::raw_json::RawJson;

/// Appends a request. Params that serialise to `null`, such as `&()`, are omitted.
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
    .map(drop)
}

/// Appends a request whose params are JSON text.
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
    .map(drop)
}

/// Appends a notification. Params that serialise to `null`, such as `&()`, are omitted.
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
    .map(drop)
}

/// Appends a notification whose params are JSON text.
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
    .map(drop)
}

pub(super) fn put_call_head<B: Output>(out: &mut B, id: impl WireId) {
    out.put(br#"{"jsonrpc":"2.0","id":"#);
    id.write_to(out);
    out.put(b",");
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of `put_value`")]
fn put_raw<B: Output>(out: &mut B, raw: RawJson<'_>) -> Result<(), EncodeError> {
    out.put(raw.as_str().as_bytes());
    Ok(())
}

/// Appends the members after the id, and the end of the object. Returns the offset of the
/// params, if there are any.
#[inline]
pub(super) fn put_method_and_params<B: Output>(
    out: &mut B,
    method: &str,
    put_params: impl FnOnce(&mut B) -> Result<(), EncodeError>,
) -> Result<Option<usize>, EncodeError> {
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
    let at = match written {
        [b'[' | b'{', ..] => Some(start),
        b"null" => {
            out.cut(without);
            None
        }
        _ => return Err(EncodeError::ScalarParams),
    };
    out.put(b"}");
    Ok(at)
}

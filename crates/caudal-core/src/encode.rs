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

use std::io;

use bytes::BytesMut;
use serde::Serialize;
use thiserror::Error;

use crate::decode::{ErrorObject, Id, is_blank};
use crate::error::JsonRpcError;
use crate::id::RequestId;
use crate::raw::RawJson;

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

/// A buffer that messages are appended to: `Vec<u8>` or [`BytesMut`].
///
/// ```
/// use caudal_core::{Id, encode};
///
/// let mut out = bytes::BytesMut::new();
/// encode::reply(&mut out, Id::NULL, &true)?;
/// assert_eq!(&out[..], br#"{"jsonrpc":"2.0","id":null,"result":true}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "messages cannot be appended to `{Self}`",
    note = "they are appended to a `Vec<u8>` or a `BytesMut`"
)]
pub trait Output: sealed::Output {}
impl<B: sealed::Output> Output for B {}

/// An id that can be written: a request's own [`Id`], a [`RequestId`], or the
/// [`CallId`](crate::CallId) of an outgoing call.
///
/// ```
/// use caudal_core::{RequestId, encode};
///
/// let mut out = Vec::new();
/// encode::call(&mut out, &RequestId::from("a"), "ping", &())?;
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#);
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as an id",
    note = "use a request's own `Id`, `&RequestId::from(…)`, or the `CallId` of a pending call"
)]
pub trait WireId: sealed::WireId + Copy {}
impl<I: sealed::WireId + Copy> WireId for I {}

#[expect(
    unnameable_types,
    reason = "sealed: callers use these traits and cannot add to them"
)]
pub(crate) mod sealed {
    pub trait Output: AsMut<[u8]> {
        fn put(&mut self, bytes: &[u8]);
        fn make_room(&mut self, bytes: usize);
        fn length(&self) -> usize;
        fn cut(&mut self, length: usize);
    }

    pub trait WireId {
        fn write_to<B: Output>(&self, out: &mut B);
    }
}

macro_rules! output {
    ($($buffer:ty),*) => {$(
        impl sealed::Output for $buffer {
            #[inline]
            fn put(&mut self, bytes: &[u8]) {
                self.extend_from_slice(bytes);
            }

            fn make_room(&mut self, bytes: usize) {
                self.reserve(bytes);
            }

            fn length(&self) -> usize {
                self.len()
            }

            fn cut(&mut self, length: usize) {
                self.truncate(length);
            }
        }
    )*};
}
output!(Vec<u8>, BytesMut);

impl sealed::WireId for Id<'_> {
    #[inline]
    fn write_to<B: sealed::Output>(&self, out: &mut B) {
        out.put(self.as_str().as_bytes());
    }
}

impl sealed::WireId for &RequestId {
    fn write_to<B: sealed::Output>(&self, out: &mut B) {
        put_plain(out, self);
    }
}

struct Writer<'a, B>(&'a mut B);

impl<B: sealed::Output> io::Write for Writer<'_, B> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.put(bytes);
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.put(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[inline]
fn put_value<B: Output, T: Serialize + ?Sized>(out: &mut B, value: &T) -> Result<(), EncodeError> {
    serde_json::to_writer(Writer(out), value).map_err(EncodeError::Value)
}

/// Appends a value whose own `Serialize` cannot fail: an integer, a string, a
/// `Value`.
#[inline]
pub(crate) fn put_plain<B: Output, T: Serialize + ?Sized>(out: &mut B, value: &T) {
    let written = put_value(out, value);
    debug_assert!(written.is_ok(), "it is written into memory");
}

/// Runs `write`; unless it succeeds, cuts `out` back to what it was. A panic
/// in somebody's `Serialize` is no success either.
#[inline]
pub(crate) fn or_restore<B: Output, E>(
    out: &mut B,
    write: impl FnOnce(&mut B) -> Result<(), E>,
) -> Result<(), E> {
    struct Restore<'a, B: sealed::Output>(&'a mut B, usize);
    impl<B: sealed::Output> Drop for Restore<'_, B> {
        fn drop(&mut self) {
            self.0.cut(self.1);
        }
    }
    let start = out.length();
    let mut restore = Restore(out, start);
    write(restore.0)?;
    // What is there now stays there.
    restore.1 = restore.0.length();
    Ok(())
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

/// Appends an error; [`Id::NULL`] where the request's id is not known.
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

/// A method and its params, serialised before their id is known.
///
/// Made by [`prepare`]. It can be written many times: to many connections, or
/// again under another id.
///
/// ```
/// use caudal_core::{RequestId, encode};
///
/// let (mut scratch, mut out) = (Vec::new(), Vec::new());
/// let tick = encode::prepare(&mut scratch, "tick", &[1])?;
/// tick.notification(&mut out);
/// tick.call(&mut out, &RequestId::from(7));
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","method":"tick","params":[1]}{"jsonrpc":"2.0","id":7,"method":"tick","params":[1]}"#,
/// );
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a>(&'a [u8]);

impl Prepared<'_> {
    /// Appends a request with this id.
    ///
    /// ```
    /// # use caudal_core::{RequestId, encode};
    /// let (mut scratch, mut out) = (Vec::new(), Vec::new());
    /// encode::prepare(&mut scratch, "ping", &())?.call(&mut out, &RequestId::from(1));
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    pub fn call<B: Output>(self, out: &mut B, id: impl WireId) {
        put_call_head(out, id);
        out.put(self.0);
    }

    /// Appends a notification.
    ///
    /// ```
    /// # use caudal_core::encode;
    /// let (mut scratch, mut out) = (Vec::new(), Vec::new());
    /// encode::prepare(&mut scratch, "tick", &())?.notification(&mut out);
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"tick"}"#);
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    pub fn notification<B: Output>(self, out: &mut B) {
        out.put(br#"{"jsonrpc":"2.0","#);
        out.put(self.0);
    }
}

/// Serialises a method and its params into `scratch`, whose old content goes.
///
/// # Errors
/// As [`call`].
///
/// ```
/// # use caudal_core::{EncodeError, encode};
/// let error = encode::prepare(&mut Vec::new(), "sum", &7).unwrap_err();
/// assert!(matches!(error, EncodeError::ScalarParams));
/// ```
pub fn prepare<'a, T: Serialize + ?Sized>(
    scratch: &'a mut Vec<u8>,
    method: &str,
    params: &T,
) -> Result<Prepared<'a>, EncodeError> {
    scratch.clear();
    or_restore(scratch, |out| {
        put_method_and_params(out, method, |out| put_value(out, params))
    })?;
    Ok(Prepared(scratch))
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

//! Buffers and ids that messages are written with.

use std::io;

use bytes::BytesMut;
use serde::Serialize;

use super::EncodeError;
use crate::decode::Id;
use crate::raw_json::RawJson;
use crate::request_id::RequestId;

/// Buffer to append messages to: `Vec<u8>` or [`BytesMut`].
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
    note = "use a `Vec<u8>` or a `BytesMut`"
)]
pub trait Output: sealed::Output {}
impl<B: sealed::Output> Output for B {}

/// Id that can be written: the [`Id`] of a decoded request, a [`RequestId`], or the
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
    note = "use the `Id` of a decoded request, `&RequestId::from(…)`, or the `CallId` of an outgoing call"
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
pub(super) fn put_value<B: Output, T: Serialize + ?Sized>(
    out: &mut B,
    value: &T,
) -> Result<(), EncodeError> {
    serde_json::to_writer(Writer(out), value).map_err(EncodeError::Value)
}

/// Appends a value whose `Serialize` cannot fail: an integer, a string, a `Value`.
#[inline]
pub(crate) fn put_plain<B: Output, T: Serialize + ?Sized>(out: &mut B, value: &T) {
    let written = put_value(out, value);
    debug_assert!(written.is_ok(), "a buffer in memory takes every byte");
}

/// Runs `write`, and truncates `out` to its previous length if `write` fails or panics. An
/// application's `Serialize` may panic.
#[inline]
pub(crate) fn or_restore<B: Output, T, E>(
    out: &mut B,
    write: impl FnOnce(&mut B) -> Result<T, E>,
) -> Result<T, E> {
    struct Restore<'a, B: sealed::Output>(&'a mut B, usize);
    impl<B: sealed::Output> Drop for Restore<'_, B> {
        fn drop(&mut self) {
            self.0.cut(self.1);
        }
    }
    let start = out.length();
    let mut restore = Restore(out, start);
    let value = write(restore.0)?;
    // Success: the new length stays.
    restore.1 = restore.0.length();
    Ok(value)
}

/// Reserves room for `raw` and the message around it, so that the last brace of a large
/// message does not double the buffer.
pub(super) fn make_room<B: Output>(out: &mut B, raw: RawJson<'_>) {
    const AROUND: usize = 128;
    out.make_room(raw.as_str().len() + AROUND);
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_value_that_is_written_in_pieces_is_appended_whole() {
        let mut out = BytesMut::from("[");
        let mut writer = Writer(&mut out);
        assert_eq!(writer.write(b"1,").unwrap(), 2);
        writer.write_all(b"2]").unwrap();
        writer.flush().unwrap();
        assert_eq!(out, "[1,2]");
    }
}

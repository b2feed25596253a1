//! Messages that are serialised once and written many times.

use serde::Serialize;

use super::output::{or_restore, put_value};
use super::request::{put_call_head, put_method_and_params};
use super::{EncodeError, Output, WireId};

/// Method and params, serialised before the id is known.
///
/// [`prepare`] creates it. It can be written many times: to many connections, or
/// again with another id.
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

/// Serialises a method and its params into `scratch`, and drops its old content.
///
/// # Errors
/// The same as for [`call`](super::call).
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

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
/// let mut out = Vec::new();
/// let tick = encode::prepare(Vec::new(), "tick", &[1])?;
/// tick.notification(&mut out);
/// tick.call(&mut out, &RequestId::from(7));
/// assert_eq!(
///     out,
///     br#"{"jsonrpc":"2.0","method":"tick","params":[1]}{"jsonrpc":"2.0","id":7,"method":"tick","params":[1]}"#,
/// );
/// # Ok::<(), caudal_core::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prepared {
    text: Vec<u8>,
    /// Offset of the params in `text`.
    params: Option<usize>,
}

impl Prepared {
    /// Appends a request with this id.
    ///
    /// ```
    /// # use caudal_core::{RequestId, encode};
    /// let mut out = Vec::new();
    /// encode::prepare(Vec::new(), "ping", &())?.call(&mut out, &RequestId::from(1));
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    pub fn call<B: Output>(&self, out: &mut B, id: impl WireId) {
        put_call_head(out, id);
        out.put(&self.text);
    }

    /// Appends a notification.
    ///
    /// ```
    /// # use caudal_core::encode;
    /// let mut out = Vec::new();
    /// encode::prepare(Vec::new(), "tick", &())?.notification(&mut out);
    /// assert_eq!(out, br#"{"jsonrpc":"2.0","method":"tick"}"#);
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    pub fn notification<B: Output>(&self, out: &mut B) {
        out.put(br#"{"jsonrpc":"2.0","#);
        out.put(&self.text);
    }

    /// Returns the params as JSON, if there are any.
    ///
    /// ```
    /// # use caudal_core::encode;
    /// assert_eq!(encode::prepare(Vec::new(), "add", &(1, 2))?.params(), Some("[1,2]"));
    /// assert_eq!(encode::prepare(Vec::new(), "ping", &())?.params(), None);
    /// # Ok::<(), caudal_core::EncodeError>(())
    /// ```
    #[must_use]
    pub fn params(&self) -> Option<&str> {
        let text = self.text.get(self.params?..)?.strip_suffix(b"}")?;
        str::from_utf8(text).ok()
    }

    /// Returns the buffer, so that it can be used again.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        self.text
    }
}

/// Serialises a method and its params into `buffer`, and drops its old content.
///
/// # Errors
/// The same as for [`call`](super::call).
///
/// ```
/// # use caudal_core::{EncodeError, encode};
/// let error = encode::prepare(Vec::new(), "sum", &7).unwrap_err();
/// assert!(matches!(error, EncodeError::ScalarParams));
/// ```
pub fn prepare<T: Serialize + ?Sized>(
    mut buffer: Vec<u8>,
    method: &str,
    params: &T,
) -> Result<Prepared, EncodeError> {
    buffer.clear();
    let mut at = None;
    or_restore(&mut buffer, |out| {
        at = put_method_and_params(out, method, |out| put_value(out, params))?;
        Ok(())
    })?;
    Ok(Prepared {
        text: buffer,
        params: at,
    })
}

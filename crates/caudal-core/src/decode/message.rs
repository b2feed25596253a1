//! A decoded message, borrowed from its bytes.

use std::borrow::Cow;

use serde::Deserialize;

use super::id::Id;
use super::invalid::Invalid;
use crate::error::{CallError, ErrorCode, JsonRpcError};
use crate::raw_json::RawJson;

/// What a frame turned out to be.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1.0,"method":"add","params":[1,2]}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else {
///     panic!("a request");
/// };
/// assert_eq!(request.method, "add");
/// assert_eq!(request.id.as_str(), "1.0"); // echoed byte for byte
/// let (a, b): (i64, i64) = request.params.unwrap().read()?;
/// assert_eq!(a + b, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// A call that wants an answer.
    Request(Request<'a>),
    /// A call that wants none.
    Notification(Notification<'a>),
    /// The answer to a call of ours.
    Response(Response<'a>),
    /// Several of the others; never a batch again, never empty.
    Batch(Vec<Self>),
    /// Not a valid message.
    Invalid(Invalid<'a>),
}

/// A call that wants an answer.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(request.id.as_str(), r#""a""#);
/// assert_eq!(request.params, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Its id, to be echoed.
    pub id: Id<'a>,
    /// The method; borrowed unless it was spelled with escapes.
    pub method: Cow<'a, str>,
    /// The params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

impl<'a> Request<'a> {
    /// The params as `T`: a tuple by position, a struct by name.
    ///
    /// # Errors
    /// The -32602 with which to answer if they do not have that shape, or are
    /// missing and `T` cannot do without.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}"#;
    /// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
    /// let error = request.read_params::<(i64, i64)>().unwrap_err();
    /// assert_eq!((error.code.get(), error.message.as_str()), (-32602, "Invalid params"));
    /// ```
    pub fn read_params<T: Deserialize<'a>>(&self) -> Result<T, JsonRpcError> {
        let Some(params) = self.params else {
            let missing = |_| JsonRpcError::invalid_params().and_data("`params` is missing");
            return RawJson::NULL.read().map_err(missing);
        };
        params
            .read()
            .map_err(|error| JsonRpcError::wrong_params::<T>(Some(params), &error))
    }
}

/// A call that wants no answer, and never gets one.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","method":"tick","params":[1]}"#;
/// let Message::Notification(tick) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(tick.method, "tick");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification<'a> {
    /// The method; borrowed unless it was spelled with escapes.
    pub method: Cow<'a, str>,
    /// The params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

/// The answer to a call.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":7,"result":null}"#;
/// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(response.id.as_i64(), Some(7));
/// assert_eq!(response.outcome.unwrap().as_str(), "null"); // null is a result
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response<'a> {
    /// The id of the call, or null where the other side could not read it.
    pub id: Id<'a>,
    /// The result, or the error.
    pub outcome: Result<RawJson<'a>, ErrorObject<'a>>,
}

impl<'a> Response<'a> {
    /// The result as `T`, for the caller.
    ///
    /// # Errors
    /// [`CallError::Remote`] with the error of the response, or
    /// [`CallError::Result`] if the result does not have the shape of `T`.
    ///
    /// ```
    /// use caudal_core::{CallError, Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":7,"result":[1,2]}"#;
    /// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
    /// let (a, b): (i64, i64) = response.read()?;
    /// assert_eq!(a + b, 3);
    /// # Ok::<(), CallError>(())
    /// ```
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, CallError> {
        match &self.outcome {
            Ok(result) => result.read().map_err(CallError::Result),
            Err(error) => Err(CallError::Remote(error.clone().into())),
        }
    }
}

/// The error of a response, borrowed.
///
/// ```
/// use caudal_core::{ErrorCode, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#;
/// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(response.outcome.unwrap_err().code, ErrorCode::METHOD_NOT_FOUND);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorObject<'a> {
    /// Its code.
    pub code: ErrorCode,
    /// Its message; borrowed unless it was spelled with escapes.
    pub message: Cow<'a, str>,
    /// Its data; `null` is data.
    pub data: Option<RawJson<'a>>,
}

//! Decoded messages, borrowed from their bytes.

use std::borrow::Cow;

use serde::Deserialize;

use super::id::Id;
use super::invalid::Invalid;
use crate::error::{CallError, ErrorCode, JsonRpcError};
use crate::raw_json::RawJson;

/// Message that a frame contains, borrowed from its bytes.
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
    /// Call that expects a response.
    Request(Request<'a>),
    /// Call without a response.
    Notification(Notification<'a>),
    /// Response to an outgoing call.
    Response(Response<'a>),
    /// Several messages; never empty, never nested.
    Batch(Vec<Self>),
    /// Bytes that are not a valid message.
    Invalid(Invalid<'a>),
}

/// Call that expects a response.
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
    /// Id to echo.
    pub id: Id<'a>,
    /// Method; borrowed unless it is written with escapes.
    pub method: Cow<'a, str>,
    /// Params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

impl<'a> Request<'a> {
    /// Reads the params as `T`: a tuple by position, a struct by name.
    ///
    /// # Errors
    /// The -32602 to answer with, if the params do not fit `T` or are missing.
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

/// Call without a response.
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
    /// Method; borrowed unless it is written with escapes.
    pub method: Cow<'a, str>,
    /// Params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

/// Response to a call.
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
    /// Id of the call, or null if the other side could not read it.
    pub id: Id<'a>,
    /// Result or error.
    pub outcome: Result<RawJson<'a>, ErrorObject<'a>>,
}

impl<'a> Response<'a> {
    /// Reads the result as `T`.
    ///
    /// # Errors
    /// [`CallError::Remote`] with the error of the response, or
    /// [`CallError::Result`] if the result does not fit `T`.
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

/// Error of a response, borrowed from its bytes.
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
    /// Error code.
    pub code: ErrorCode,
    /// Message; borrowed unless it is written with escapes.
    pub message: Cow<'a, str>,
    /// Additional data; `null` counts as data.
    pub data: Option<RawJson<'a>>,
}

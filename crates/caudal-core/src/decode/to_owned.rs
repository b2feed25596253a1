//! Conversion of borrowed messages into owned ones.

use serde_json::Value;

use super::error::DecodeError;
use super::message::{ErrorObject, Notification, Request, Response};
use crate::error::JsonRpcError;
use crate::message::{JsonRpcNotification, JsonRpcRequest, JsonRpcResponse};
use crate::raw_json::RawJson;

/// Reason why a borrowed message has no owned form.
///
/// The owned types hold ids as `i64` or `String` and params as `Value`; the
/// borrowed ones hold any JSON.
///
/// ```
/// use caudal_core::{JsonRpcRequest, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
/// let error = JsonRpcRequest::try_from(request).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`id` must be an integer that fits i64, found the number 1.5",
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToOwnedError {
    /// The id is not a string, an `i64` or null.
    #[error(transparent)]
    Id(#[from] DecodeError),
    /// Params, result or data cannot be held as a `Value`.
    #[error("the value cannot be held as `serde_json::Value`")]
    Value(#[from] serde_json::Error),
}

fn owned(raw: Option<RawJson<'_>>) -> Result<Option<Value>, serde_json::Error> {
    raw.map(RawJson::to_value).transpose()
}

impl TryFrom<Request<'_>> for JsonRpcRequest {
    type Error = ToOwnedError;

    fn try_from(request: Request<'_>) -> Result<Self, ToOwnedError> {
        Ok(Self {
            jsonrpc: crate::Version,
            id: request.id.to_request_id()?,
            method: request.method.into_owned(),
            params: owned(request.params)?,
        })
    }
}

impl TryFrom<Notification<'_>> for JsonRpcNotification {
    type Error = ToOwnedError;

    fn try_from(notification: Notification<'_>) -> Result<Self, ToOwnedError> {
        let Notification { method, params } = notification;
        Ok(Self::new(method, owned(params)?))
    }
}

/// Data that a `Value` cannot hold, such as `1e400`, becomes a string of its text.
impl From<ErrorObject<'_>> for JsonRpcError {
    fn from(error: ErrorObject<'_>) -> Self {
        let mut owned = Self::new(error.code, error.message);
        owned.data = error
            .data
            .map(|raw| raw.to_value().unwrap_or_else(|_| Value::from(raw.as_str())));
        owned
    }
}

impl TryFrom<Response<'_>> for JsonRpcResponse {
    type Error = ToOwnedError;

    fn try_from(response: Response<'_>) -> Result<Self, ToOwnedError> {
        let id = response.id.to_request_id()?;
        let jsonrpc = crate::Version;
        Ok(match response.outcome {
            Ok(result) => Self::Success {
                jsonrpc,
                id,
                result: result.to_value()?,
            },
            Err(error) => Self::Error {
                jsonrpc,
                id,
                error: error.into(),
            },
        })
    }
}

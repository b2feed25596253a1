//! Error object of a response.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::code::ErrorCode;
use super::display::DataSuffix;
use crate::decode::{DecodeError, Member, cut};
use crate::message::ErrorMembers;

/// Error object of a response: a code, a message, and optional data.
///
/// It implements `std::error::Error`, so `?` works in a handler, but it is data that is
/// sent to the other side; it keeps no internal cause. `Display` shows the beginning of
/// the data, unless the message contains it.
///
/// ```
/// use caudal_core::{ErrorCode, JsonRpcError};
/// use serde_json::json;
///
/// let error = JsonRpcError::with_data(1001, "out of stock", json!({ "sku": "A1" }));
/// assert_eq!(error.code, ErrorCode::from(1001));
/// assert_eq!(error.to_string(), r#"out of stock (code 1001): {"sku":"A1"}"#);
/// assert_eq!(
///     serde_json::to_string(&error)?,
///     r#"{"code":1001,"message":"out of stock","data":{"sku":"A1"}}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Error)]
#[serde(try_from = "ErrorMembers")]
#[error("{message} (code {code}){}", DataSuffix(.message, .data.as_ref()))]
pub struct JsonRpcError {
    /// Kind of the error.
    pub code: ErrorCode,
    /// One sentence for people.
    pub message: String,
    /// Additional data; `Some(Value::Null)` is sent as `"data":null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl JsonRpcError {
    /// Creates an error without data.
    ///
    /// ```
    /// use caudal_core::JsonRpcError;
    ///
    /// assert_eq!(JsonRpcError::new(1, "no").data, None);
    /// ```
    pub fn new(code: impl Into<ErrorCode>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }

    /// Creates an error with data.
    ///
    /// ```
    /// use caudal_core::JsonRpcError;
    ///
    /// assert_eq!(JsonRpcError::with_data(1, "no", 7).data, Some(7.into()));
    /// ```
    pub fn with_data(
        code: impl Into<ErrorCode>,
        message: impl Into<String>,
        data: impl Into<Value>,
    ) -> Self {
        Self::new(code, message).and_data(data)
    }

    /// Returns the error with this data.
    ///
    /// ```
    /// use caudal_core::JsonRpcError;
    ///
    /// let error = JsonRpcError::invalid_params().and_data("`a` must be positive");
    /// assert_eq!(error.message, "Invalid params");
    /// ```
    #[must_use]
    pub fn and_data(mut self, data: impl Into<Value>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Returns the error with this message.
    ///
    /// ```
    /// use caudal_core::JsonRpcError;
    ///
    /// let error = JsonRpcError::invalid_params().and_message("`a` must be positive");
    /// assert_eq!(error.code, -32602);
    /// ```
    #[must_use]
    pub fn and_message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Creates -32700 with the text of the specification.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::parse_error().message, "Parse error");
    /// ```
    #[must_use]
    pub fn parse_error() -> Self {
        Self::standard(ErrorCode::PARSE_ERROR)
    }

    /// Creates -32600 with the text of the specification.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::invalid_request().message, "Invalid Request");
    /// ```
    #[must_use]
    pub fn invalid_request() -> Self {
        Self::standard(ErrorCode::INVALID_REQUEST)
    }

    /// Creates -32601 with the text of the specification.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::method_not_found().message, "Method not found");
    /// ```
    #[must_use]
    pub fn method_not_found() -> Self {
        Self::standard(ErrorCode::METHOD_NOT_FOUND)
    }

    /// Creates -32601 with the name of the method, shortened to 128 characters, in the
    /// message and in `data.method`.
    ///
    /// ```
    /// let error = caudal_core::JsonRpcError::unknown_method("foo");
    /// assert_eq!(error.message, "Method not found: foo");
    /// assert_eq!(error.data.unwrap()["method"], "foo");
    /// ```
    #[must_use]
    pub fn unknown_method(name: &str) -> Self {
        const SHOWN: usize = 128;
        let name = cut(name, SHOWN);
        Self::method_not_found()
            .and_message(format!("Method not found: {name}"))
            .and_data(json!({ "method": name }))
    }

    /// Creates -32602 with the text of the specification.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::invalid_params().message, "Invalid params");
    /// ```
    #[must_use]
    pub fn invalid_params() -> Self {
        Self::standard(ErrorCode::INVALID_PARAMS)
    }

    /// Creates -32603 with the text of the specification. To find the cause in the log,
    /// create an [`Incident`](super::Incident).
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::internal_error().message, "Internal error");
    /// ```
    #[must_use]
    pub fn internal_error() -> Self {
        Self::standard(ErrorCode::INTERNAL_ERROR)
    }

    fn standard(code: ErrorCode) -> Self {
        Self::new(code, code.message().unwrap_or_default())
    }
}

impl TryFrom<ErrorMembers> for JsonRpcError {
    type Error = DecodeError;

    fn try_from(members: ErrorMembers) -> Result<Self, DecodeError> {
        let code = members.code.ok_or(DecodeError::Missing {
            member: Member::Code,
        })?;
        let message = members.message.ok_or(DecodeError::Missing {
            member: Member::Message,
        })?;
        Ok(Self {
            code: ErrorCode::try_from(&code)?,
            message: Member::Message.string(message)?,
            data: members.data,
        })
    }
}

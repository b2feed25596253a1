//! The error object that travels.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use super::code::ErrorCode;
use super::display::Shown;
use crate::decode::{DecodeError, Member, cut};
use crate::message::ErrorMembers;

/// The `error` of a response: a code, a message, and data if there is any.
///
/// It is a `std::error::Error`, so `?` carries it through a handler, but it is
/// data: it says what the other side was told, not what went wrong inside. What it
/// prints has the beginning of its data, unless the message tells that already.
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
#[error("{message} (code {code}){}", Shown(.message, .data.as_ref()))]
pub struct JsonRpcError {
    /// What kind of error it is.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub message: String,
    /// Anything more; `Some(Value::Null)` travels as `"data":null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl JsonRpcError {
    /// An error without data.
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

    /// An error with data.
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

    /// The same error, with this data.
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

    /// The same error, with this message.
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

    /// -32700 with the specification's text.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::parse_error().message, "Parse error");
    /// ```
    #[must_use]
    pub fn parse_error() -> Self {
        Self::standard(ErrorCode::PARSE_ERROR)
    }

    /// -32600 with the specification's text.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::invalid_request().message, "Invalid Request");
    /// ```
    #[must_use]
    pub fn invalid_request() -> Self {
        Self::standard(ErrorCode::INVALID_REQUEST)
    }

    /// -32601 with the specification's text.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::method_not_found().message, "Method not found");
    /// ```
    #[must_use]
    pub fn method_not_found() -> Self {
        Self::standard(ErrorCode::METHOD_NOT_FOUND)
    }

    /// -32601 that names the method, in the message (cut at 128 characters)
    /// and in `data.method`.
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

    /// -32602 with the specification's text.
    ///
    /// ```
    /// assert_eq!(caudal_core::JsonRpcError::invalid_params().message, "Invalid params");
    /// ```
    #[must_use]
    pub fn invalid_params() -> Self {
        Self::standard(ErrorCode::INVALID_PARAMS)
    }

    /// -32603 with the specification's text. For a failure whose cause should
    /// be found again in the log, make an [`Incident`](super::Incident).
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

//! Error codes: named constants, and any other integer.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::decode::{DecodeError, Found, Member};

/// Code of an error: any integer that fits `i64`.
///
/// ```
/// use caudal_core::{CodeClass, ErrorCode};
///
/// assert_eq!(ErrorCode::METHOD_NOT_FOUND, ErrorCode::from(-32601));
/// assert_eq!(ErrorCode::METHOD_NOT_FOUND.message(), Some("Method not found"));
/// assert_eq!(ErrorCode::from(-32050).class(), CodeClass::Server);
/// assert_eq!(ErrorCode::from(1001).class(), CodeClass::Application);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(i64);

/// Range of an error code.
///
/// ```
/// # use caudal_core::{CodeClass, ErrorCode};
/// assert_eq!(ErrorCode::PARSE_ERROR.class(), CodeClass::Standard);
/// assert_eq!(ErrorCode::from(-32500).class(), CodeClass::Reserved);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodeClass {
    /// One of the five codes of the specification.
    Standard,
    /// -32099 to -32000: for implementations of servers.
    Server,
    /// The rest of -32768 to -32000: reserved.
    Reserved,
    /// Every other integer: for the application.
    Application,
}

impl ErrorCode {
    /// -32700: the text is not JSON.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::PARSE_ERROR.get(), -32700);
    /// ```
    pub const PARSE_ERROR: Self = Self(-32700);
    /// -32600: the JSON is not a valid request.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::INVALID_REQUEST.get(), -32600);
    /// ```
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// -32601: there is no such method.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::METHOD_NOT_FOUND.get(), -32601);
    /// ```
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// -32602: the params do not fit the method.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::INVALID_PARAMS.get(), -32602);
    /// ```
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// -32603: the server failed.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::INTERNAL_ERROR.get(), -32603);
    /// ```
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// -32000: the server has reached a limit and did not run the request. A later
    /// try may succeed.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::SERVER_OVERLOADED.get(), -32000);
    /// ```
    pub const SERVER_OVERLOADED: Self = Self(-32000);
    /// -32001: the handler took longer than its method may. It may have had effects.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::REQUEST_TIMEOUT.get(), -32001);
    /// ```
    pub const REQUEST_TIMEOUT: Self = Self(-32001);
    /// -32010: the server is shutting down and did not run the request. A new
    /// connection may reach another instance.
    ///
    /// No other protocol uses this number: EIP-1474 has -32001 to -32006, LSP -32001,
    /// -32002 and -32899 to -32800, MCP -32002 and -32099 to -32020.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::SHUTTING_DOWN.get(), -32010);
    /// ```
    pub const SHUTTING_DOWN: Self = Self(-32010);
    /// -32011: the method calls its caller back, and the request came without a connection
    /// on which that is possible, such as a single POST.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::CALLBACK_REQUIRED.get(), -32011);
    /// ```
    pub const CALLBACK_REQUIRED: Self = Self(-32011);
    /// -32800: the caller cancelled the request; the `RequestCancelled` of LSP.
    ///
    /// ```
    /// assert_eq!(caudal_core::ErrorCode::REQUEST_CANCELLED.get(), -32800);
    /// ```
    pub const REQUEST_CANCELLED: Self = Self(-32800);

    /// Returns the integer.
    ///
    /// ```
    /// # use caudal_core::ErrorCode;
    /// assert_eq!(ErrorCode::PARSE_ERROR.get(), -32700);
    /// ```
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Returns the specification's text for a standard code.
    ///
    /// ```
    /// # use caudal_core::ErrorCode;
    /// assert_eq!(ErrorCode::PARSE_ERROR.message(), Some("Parse error"));
    /// assert_eq!(ErrorCode::from(1).message(), None);
    /// ```
    #[must_use]
    pub const fn message(self) -> Option<&'static str> {
        match self {
            Self::PARSE_ERROR => Some("Parse error"),
            Self::INVALID_REQUEST => Some("Invalid Request"),
            Self::METHOD_NOT_FOUND => Some("Method not found"),
            Self::INVALID_PARAMS => Some("Invalid params"),
            Self::INTERNAL_ERROR => Some("Internal error"),
            _ => None,
        }
    }

    /// Returns the range that the code belongs to.
    ///
    /// ```
    /// # use caudal_core::{CodeClass, ErrorCode};
    /// assert_eq!(ErrorCode::from(-32000).class(), CodeClass::Server);
    /// ```
    #[must_use]
    pub const fn class(self) -> CodeClass {
        match self.0 {
            _ if self.message().is_some() => CodeClass::Standard,
            -32099..=-32000 => CodeClass::Server,
            -32768..=-32100 => CodeClass::Reserved,
            _ => CodeClass::Application,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for ErrorCode {
    fn from(code: i64) -> Self {
        Self(code)
    }
}

impl From<i32> for ErrorCode {
    fn from(code: i32) -> Self {
        Self(i64::from(code))
    }
}

impl From<ErrorCode> for i64 {
    fn from(code: ErrorCode) -> Self {
        code.0
    }
}

impl PartialEq<i64> for ErrorCode {
    fn eq(&self, other: &i64) -> bool {
        self.0 == *other
    }
}

impl TryFrom<&Value> for ErrorCode {
    type Error = DecodeError;

    fn try_from(value: &Value) -> Result<Self, DecodeError> {
        value
            .as_i64()
            .map(Self)
            .ok_or_else(|| DecodeError::WrongType {
                member: Member::Code,
                expected: "an integer that fits i64",
                found: Found::value(value),
            })
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::try_from(&value).map_err(serde::de::Error::custom)
    }
}

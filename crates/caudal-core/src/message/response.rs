//! Responses to requests.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::members::{EnvelopeMembers, ErrorMembers};
use super::version::Version;
use crate::decode::{DecodeError, Found, Member};
use crate::error::JsonRpcError;
use crate::request_id::RequestId;

/// Response to a request: either a result or an error.
///
/// `Deserialize` has no [`Policy`](crate::Policy) and refuses a null beside the other
/// member. For old servers use [`decode`](crate::decode::decode) with
/// [`OldResponses::Accept`](crate::OldResponses::Accept), and convert the message.
///
/// ```
/// use caudal_core::{JsonRpcError, JsonRpcResponse, RequestId};
///
/// let yes = JsonRpcResponse::success(1, 3);
/// assert_eq!(serde_json::to_string(&yes)?, r#"{"jsonrpc":"2.0","id":1,"result":3}"#);
///
/// let no = JsonRpcResponse::error(None, JsonRpcError::parse_error());
/// assert_eq!(
///     serde_json::to_string(&no)?,
///     r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Untagged for writing; `EnvelopeMembers` reads by presence.
#[serde(untagged, try_from = "EnvelopeMembers")]
pub enum JsonRpcResponse {
    /// The call succeeded.
    Success {
        /// Always `"2.0"`.
        jsonrpc: Version,
        /// Id of the request; `None` is the JSON null.
        id: Option<RequestId>,
        /// Result; null counts as one.
        result: Value,
    },
    /// The call failed.
    Error {
        /// Always `"2.0"`.
        jsonrpc: Version,
        /// Id of the request; `None` if it was null or could not be read.
        id: Option<RequestId>,
        /// Error object.
        error: JsonRpcError,
    },
}

impl JsonRpcResponse {
    /// Creates a successful response.
    ///
    /// ```
    /// use caudal_core::JsonRpcResponse;
    ///
    /// assert!(JsonRpcResponse::success("a", "done").is_success());
    /// ```
    pub fn success(id: impl Into<RequestId>, result: impl Into<Value>) -> Self {
        Self::Success {
            jsonrpc: Version,
            id: Some(id.into()),
            result: result.into(),
        }
    }

    /// Creates an error response; the id is `None` if that of the request is not known.
    ///
    /// ```
    /// use caudal_core::{JsonRpcError, JsonRpcResponse};
    ///
    /// let response = JsonRpcResponse::error(Some(7.into()), JsonRpcError::method_not_found());
    /// assert!(!response.is_success());
    /// ```
    #[must_use]
    pub const fn error(id: Option<RequestId>, error: JsonRpcError) -> Self {
        Self::Error {
            jsonrpc: Version,
            id,
            error,
        }
    }

    /// Returns true if the call succeeded.
    ///
    /// ```
    /// # use caudal_core::JsonRpcResponse;
    /// assert!(JsonRpcResponse::success(1, ()).is_success());
    /// ```
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    /// Returns the id; `None` is the JSON null.
    ///
    /// ```
    /// # use caudal_core::{JsonRpcResponse, RequestId};
    /// assert_eq!(JsonRpcResponse::success(1, ()).id(), Some(&RequestId::from(1)));
    /// ```
    #[must_use]
    pub const fn id(&self) -> Option<&RequestId> {
        let (Self::Success { id, .. } | Self::Error { id, .. }) = self;
        id.as_ref()
    }

    /// Returns the result, if the call succeeded.
    ///
    /// ```
    /// # use caudal_core::JsonRpcResponse;
    /// assert_eq!(JsonRpcResponse::success(1, 5).result(), Some(&5.into()));
    /// ```
    #[must_use]
    pub const fn result(&self) -> Option<&Value> {
        match self {
            Self::Success { result, .. } => Some(result),
            Self::Error { .. } => None,
        }
    }

    /// Returns the error, if the call failed.
    ///
    /// ```
    /// # use caudal_core::JsonRpcResponse;
    /// assert_eq!(JsonRpcResponse::success(1, 5).as_error(), None);
    /// ```
    #[must_use]
    pub const fn as_error(&self) -> Option<&JsonRpcError> {
        match self {
            Self::Success { .. } => None,
            Self::Error { error, .. } => Some(error),
        }
    }

    /// Converts to a `Result`, for `?`.
    ///
    /// # Errors
    /// The error of the response.
    ///
    /// ```
    /// # use caudal_core::JsonRpcResponse;
    /// let result = JsonRpcResponse::success(1, 5).into_result()?;
    /// assert_eq!(result, 5);
    /// # Ok::<(), caudal_core::JsonRpcError>(())
    /// ```
    pub fn into_result(self) -> Result<Value, JsonRpcError> {
        match self {
            Self::Success { result, .. } => Ok(result),
            Self::Error { error, .. } => Err(error),
        }
    }
}

impl TryFrom<EnvelopeMembers> for JsonRpcResponse {
    type Error = DecodeError;

    fn try_from(mut members: EnvelopeMembers) -> Result<Self, DecodeError> {
        let jsonrpc = members.version()?;
        members.forbid("response", Member::Method)?;
        let id = members.id()?;
        match (members.take(Member::Result), members.take(Member::Error)) {
            (Some(result), None) => Ok(Self::Success {
                jsonrpc,
                id,
                result,
            }),
            (None, Some(error)) => Ok(Self::Error {
                jsonrpc,
                id,
                error: read_error(error)?,
            }),
            (Some(_), Some(_)) => Err(DecodeError::TwoOutcomes),
            (None, None) => Err(DecodeError::NoOutcome),
        }
    }
}

fn read_error(error: Value) -> Result<JsonRpcError, DecodeError> {
    let Value::Object(mut members) = error else {
        return Err(DecodeError::WrongType {
            member: Member::Error,
            expected: "an object",
            found: Found::value(&error),
        });
    };
    ErrorMembers {
        code: members.remove("code"),
        message: members.remove("message"),
        data: members.remove("data"),
    }
    .try_into()
}

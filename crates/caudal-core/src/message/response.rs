//! The answer to a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::members::{EnvelopeMembers, ErrorMembers};
use super::version::Version;
use crate::decode::{DecodeError, Found, Member};
use crate::error::JsonRpcError;
use crate::request_id::RequestId;

/// The answer to a request: a result or an error, never both, never neither.
///
/// Reading one knows no [`Policy`](crate::Policy): a null beside the other member is
/// refused. Read what an old server sends with [`decode`](crate::decode::decode) and
/// [`OldResponses::Accept`](crate::OldResponses::Accept), and convert it.
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
// Only written untagged: reading goes by which members are present.
#[serde(untagged, try_from = "EnvelopeMembers")]
pub enum JsonRpcResponse {
    /// The call succeeded.
    Success {
        /// Always `"2.0"`.
        jsonrpc: Version,
        /// The request's id; `None` answers a request whose id was null.
        id: Option<RequestId>,
        /// The result; null is one.
        result: Value,
    },
    /// The call failed.
    Error {
        /// Always `"2.0"`.
        jsonrpc: Version,
        /// The request's id; `None` where it was null or could not be read.
        id: Option<RequestId>,
        /// What went wrong.
        error: JsonRpcError,
    },
}

impl JsonRpcResponse {
    /// A success.
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

    /// An error; `None` where the request's id is not known.
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

    /// Whether it is a success.
    ///
    /// ```
    /// # use caudal_core::JsonRpcResponse;
    /// assert!(JsonRpcResponse::success(1, ()).is_success());
    /// ```
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    /// The id, for correlation; `None` is the JSON null.
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

    /// The result, if it is a success.
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

    /// The error, if it is one.
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

    /// The outcome as a `Result`, for `?`.
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

//! Requests: calls that expect a response.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::members::EnvelopeMembers;
use super::version::Version;
use super::{is_absent, serialize_method};
use crate::decode::DecodeError;
use crate::request_id::RequestId;

/// Call that expects a response.
///
/// ```
/// use caudal_core::JsonRpcRequest;
/// use serde_json::json;
///
/// let request = JsonRpcRequest::new(1, "add", json!([1, 2]));
/// assert_eq!(
///     serde_json::to_string(&request)?,
///     r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EnvelopeMembers")]
pub struct JsonRpcRequest {
    /// Always `"2.0"`.
    pub jsonrpc: Version,
    /// Id that the response repeats. `None` is the JSON null that some clients send; the
    /// constructor does not create it.
    pub id: Option<RequestId>,
    /// Method to call. A blank one is refused when written.
    #[serde(serialize_with = "serialize_method")]
    pub method: String,
    /// Params, if any. `Some(Value::Null)` counts as none.
    #[serde(skip_serializing_if = "is_absent")]
    pub params: Option<Value>,
}

impl JsonRpcRequest {
    /// Creates a request; `None` for no params.
    ///
    /// ```
    /// use caudal_core::JsonRpcRequest;
    ///
    /// let ping = JsonRpcRequest::new("a-1", "ping", None);
    /// assert_eq!(ping.params, None);
    /// ```
    pub fn new(
        id: impl Into<RequestId>,
        method: impl Into<String>,
        params: impl Into<Option<Value>>,
    ) -> Self {
        Self {
            jsonrpc: Version,
            id: Some(id.into()),
            method: method.into(),
            params: params.into().filter(|params| !params.is_null()),
        }
    }

    /// Returns the id, unless it is null.
    ///
    /// ```
    /// use caudal_core::{JsonRpcRequest, RequestId};
    ///
    /// let request = JsonRpcRequest::new(1, "ping", None);
    /// assert_eq!(request.id(), Some(&RequestId::from(1)));
    /// ```
    #[must_use]
    pub const fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }
}

impl TryFrom<EnvelopeMembers> for JsonRpcRequest {
    type Error = DecodeError;

    fn try_from(mut members: EnvelopeMembers) -> Result<Self, DecodeError> {
        Ok(Self {
            jsonrpc: members.version()?,
            id: members.id()?,
            method: members.method()?,
            params: members.params(),
        })
    }
}

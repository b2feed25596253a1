//! Notifications: calls without a response.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::members::EnvelopeMembers;
use super::version::Version;
use super::{is_absent, serialize_method};
use crate::decode::{DecodeError, Member};

/// Call without a response.
///
/// ```
/// use caudal_core::JsonRpcNotification;
/// use serde_json::json;
///
/// let tick = JsonRpcNotification::new("tick", json!({ "n": 1 }));
/// assert_eq!(
///     serde_json::to_string(&tick)?,
///     r#"{"jsonrpc":"2.0","method":"tick","params":{"n":1}}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "EnvelopeMembers")]
pub struct JsonRpcNotification {
    /// Always `"2.0"`.
    pub jsonrpc: Version,
    /// Method to call. A blank one is refused when written.
    #[serde(serialize_with = "serialize_method")]
    pub method: String,
    /// Params, if any. `Some(Value::Null)` counts as none.
    #[serde(skip_serializing_if = "is_absent")]
    pub params: Option<Value>,
}

impl JsonRpcNotification {
    /// Creates a notification; `None` for no params.
    ///
    /// ```
    /// use caudal_core::JsonRpcNotification;
    ///
    /// assert_eq!(JsonRpcNotification::new("exit", None).method, "exit");
    /// ```
    pub fn new(method: impl Into<String>, params: impl Into<Option<Value>>) -> Self {
        Self {
            jsonrpc: Version,
            method: method.into(),
            params: params.into().filter(|params| !params.is_null()),
        }
    }
}

impl TryFrom<EnvelopeMembers> for JsonRpcNotification {
    type Error = DecodeError;

    fn try_from(mut members: EnvelopeMembers) -> Result<Self, DecodeError> {
        let jsonrpc = members.version()?;
        members.forbid("notification", Member::Id)?;
        Ok(Self {
            jsonrpc,
            method: members.method()?,
            params: members.params(),
        })
    }
}

//! Owned messages: created in one line, checked when read.
//!
//! ```
//! use caudal_core::message::JsonRpcRequest;
//!
//! let request = JsonRpcRequest::new(1, "ping", None);
//! let text = serde_json::to_string(&request)?;
//! assert_eq!(serde_json::from_str::<JsonRpcRequest>(&text)?, request);
//! # Ok::<(), serde_json::Error>(())
//! ```

mod members;
mod notification;
mod request;
mod response;
mod version;

pub(crate) use members::ErrorMembers;
pub use notification::JsonRpcNotification;
pub use request::JsonRpcRequest;
pub use response::JsonRpcResponse;
pub use version::Version;

use serde::{Serializer, ser::Error};
use serde_json::Value;

use crate::decode::is_blank;
use crate::encode::EncodeError;

/// Writes the method unless it is blank: the other side would refuse that.
fn serialize_method<S: Serializer>(method: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if is_blank(method) {
        return Err(S::Error::custom(EncodeError::BlankMethod));
    }
    serializer.serialize_str(method)
}

/// Returns true if the params are not written: `"params":null` means no params.
fn is_absent(params: &Option<Value>) -> bool {
    matches!(params, None | Some(Value::Null))
}

//! Version marker: the `jsonrpc` member, always `"2.0"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::decode::{DecodeError, Found};

/// The `jsonrpc` member of every message.
///
/// It has no content: it is written as `"2.0"`, and reading anything else fails.
///
/// ```
/// use caudal_core::Version;
///
/// assert_eq!(serde_json::to_string(&Version)?, r#""2.0""#);
/// assert!(serde_json::from_str::<Version>(r#""1.0""#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version;

impl Version {
    /// Text of the only version.
    ///
    /// ```
    /// assert_eq!(caudal_core::Version::TEXT, "2.0");
    /// ```
    pub const TEXT: &'static str = "2.0";
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::TEXT)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::try_from(&value).map_err(serde::de::Error::custom)
    }
}

impl TryFrom<&Value> for Version {
    type Error = DecodeError;

    fn try_from(value: &Value) -> Result<Self, DecodeError> {
        match value {
            Value::String(text) if text == Self::TEXT => Ok(Self),
            other => Err(DecodeError::WrongVersion {
                found: Found::value(other),
            }),
        }
    }
}

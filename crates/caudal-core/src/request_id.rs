//! Owned request id: a string or an integer, never null.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::decode::{DecodeError, Found, Member};

/// Id of a request and its response.
///
/// JSON null is not an id: fields that may be null have the type `Option<RequestId>`. A
/// number that is not an integer, or does not fit `i64`, is refused; a server that only
/// echoes ids uses the borrowed [`Id`](crate::Id), which keeps every id byte for byte.
///
/// ```
/// use caudal_core::RequestId;
///
/// let number = RequestId::from(7);
/// let string = RequestId::from("7");
/// assert_ne!(number, string);
/// assert_eq!(number.to_string(), "7");
/// assert_eq!(string.to_string(), r#""7""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// Integer id.
    Number(i64),
    /// String id; may be empty.
    String(String),
}

impl RequestId {
    /// Returns the integer, if the id is one.
    ///
    /// ```
    /// # use caudal_core::RequestId;
    /// assert_eq!(RequestId::from(7).as_i64(), Some(7));
    /// assert_eq!(RequestId::from("7").as_i64(), None);
    /// ```
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::String(_) => None,
        }
    }

    /// Returns the string, if the id is one.
    ///
    /// ```
    /// # use caudal_core::RequestId;
    /// assert_eq!(RequestId::from("a").as_str(), Some("a"));
    /// assert_eq!(RequestId::from(7).as_str(), None);
    /// ```
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::String(string) => Some(string),
        }
    }
}

/// Formats the id as JSON, so that `7` and `"7"` differ.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::String(string) => {
                let json = serde_json::to_string(string).map_err(|_| fmt::Error)?;
                f.write_str(&json)
            }
        }
    }
}

impl TryFrom<Value> for RequestId {
    type Error = DecodeError;

    fn try_from(value: Value) -> Result<Self, DecodeError> {
        match value {
            Value::String(string) => Ok(Self::String(string)),
            Value::Number(ref number) => {
                number
                    .as_i64()
                    .map(Self::Number)
                    .ok_or_else(|| DecodeError::WrongType {
                        member: Member::Id,
                        expected: "an integer that fits i64",
                        found: Found::value(&value),
                    })
            }
            other => Err(DecodeError::WrongType {
                member: Member::Id,
                expected: "a string or an integer",
                found: Found::value(&other),
            }),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::try_from(value).map_err(serde::de::Error::custom)
    }
}

impl From<String> for RequestId {
    fn from(id: String) -> Self {
        Self::String(id)
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self::String(id.to_owned())
    }
}

impl From<&String> for RequestId {
    fn from(id: &String) -> Self {
        Self::String(id.clone())
    }
}

impl From<&Self> for RequestId {
    fn from(id: &Self) -> Self {
        id.clone()
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for RequestId {
            fn from(id: $integer) -> Self {
                Self::Number(i64::from(id))
            }
        }
    )*};
}
from_integers!(i8, i16, i32, i64, u8, u16, u32);

/// Fails for a number that does not fit `i64`.
impl TryFrom<u64> for RequestId {
    type Error = std::num::TryFromIntError;

    fn try_from(id: u64) -> Result<Self, Self::Error> {
        i64::try_from(id).map(Self::Number)
    }
}

/// Fails for a number that does not fit `i64`.
impl TryFrom<usize> for RequestId {
    type Error = std::num::TryFromIntError;

    fn try_from(id: usize) -> Result<Self, Self::Error> {
        i64::try_from(id).map(Self::Number)
    }
}

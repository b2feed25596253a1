//! JSON text that is known to be valid.

use serde::Deserialize;
use serde_json::Value;

use crate::decode::DecodeError;
use crate::scan::{Kind, NotJson, Scanner};

/// Valid JSON text, borrowed from a message.
///
/// Params and results stay text until they are read as a type of the application.
/// Numbers keep every digit, and forwarding a message costs one scan.
///
/// ```
/// use caudal_core::RawJson;
///
/// let raw = RawJson::parse(r#"{"exact": 0.1000000000000000055}"#)?;
/// assert_eq!(raw.as_str(), r#"{"exact": 0.1000000000000000055}"#);
/// # Ok::<(), caudal_core::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawJson<'a>(&'a str);

impl<'a> RawJson<'a> {
    /// The JSON `null`.
    ///
    /// ```
    /// assert_eq!(caudal_core::RawJson::NULL.to_string(), "null");
    /// ```
    pub const NULL: RawJson<'static> = RawJson("null");

    /// Checks that `text` is exactly one JSON value, and wraps it.
    ///
    /// White space around the value is removed. There is no limit on depth or size, so
    /// use this for trusted text only.
    ///
    /// # Errors
    /// [`DecodeError::Syntax`] with the place of the fault.
    ///
    /// ```
    /// use caudal_core::RawJson;
    ///
    /// assert_eq!(RawJson::parse(" [1, 2] ")?.as_str(), "[1, 2]");
    /// assert!(RawJson::parse("[1, 2").is_err());
    /// # Ok::<(), caudal_core::DecodeError>(())
    /// ```
    pub fn parse(text: &'a str) -> Result<Self, DecodeError> {
        let mut scan = Scanner::new(text);
        let value = scan.value().and_then(|value| scan.end().map(|()| value));
        value.map(Self).map_err(|NotJson| scan.fault())
    }

    /// Wraps text that the scanner has accepted.
    #[inline]
    pub(crate) const fn scanned(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the text.
    ///
    /// ```
    /// # use caudal_core::RawJson;
    /// assert_eq!(RawJson::NULL.as_str(), "null");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns the type of the value.
    ///
    /// ```
    /// # use caudal_core::{Kind, RawJson};
    /// assert_eq!(RawJson::NULL.kind(), Kind::Null);
    /// ```
    #[must_use]
    pub fn kind(self) -> Kind {
        Kind::of(self.0)
    }

    /// Reads the value as `T`, which may borrow from the message.
    ///
    /// # Errors
    /// The value does not fit `T`.
    ///
    /// ```
    /// use caudal_core::RawJson;
    ///
    /// let (name, age): (&str, u8) = RawJson::parse(r#"["Ada", 36]"#)?.read()?;
    /// assert_eq!((name, age), ("Ada", 36));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<T: Deserialize<'a>>(self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0)
    }

    /// Reads the value as a [`Value`].
    ///
    /// # Errors
    /// A number is too large for `f64`, or the nesting is too deep for
    /// `serde_json`.
    ///
    /// ```
    /// use caudal_core::RawJson;
    /// use serde_json::json;
    ///
    /// assert_eq!(RawJson::parse("[1]")?.to_value()?, json!([1]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_value(self) -> Result<Value, serde_json::Error> {
        self.read()
    }
}

impl std::fmt::Display for RawJson<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

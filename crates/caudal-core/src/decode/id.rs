//! Id of a decoded message, borrowed from its bytes.

use std::borrow::Cow;

use super::error::DecodeError;
use super::member::Member;
use crate::policy::OldResponses;
use crate::raw_json::RawJson;
use crate::request_id::RequestId;
use crate::scan::{Kind, string_value};

/// JSON text of an id: a string, a number of any form, or null.
///
/// A server echoes it and does not need to read it.
///
/// ```
/// use caudal_core::{Id, RequestId};
///
/// assert!(Id::NULL.is_null());
/// assert_eq!(Id::NULL.to_request_id(), Ok(None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// The id `null`.
    ///
    /// ```
    /// assert_eq!(caudal_core::Id::NULL.to_string(), "null");
    /// ```
    pub const NULL: Id<'static> = Id("null");

    /// Checks that `text` is an id, and wraps it: for an id that was stored as text,
    /// or that came in the params of another message.
    ///
    /// # Errors
    /// The text is not JSON, or not a string, a number or null.
    ///
    /// ```
    /// use caudal_core::Id;
    ///
    /// let kept: String = Id::parse("1.0")?.to_string();
    /// assert_eq!(Id::parse(&kept)?.as_str(), "1.0");
    /// assert!(Id::parse("[1]").is_err());
    /// # Ok::<(), caudal_core::DecodeError>(())
    /// ```
    pub fn parse(text: &'a str) -> Result<Self, DecodeError> {
        let raw = RawJson::parse(text)?;
        match raw.kind() {
            Kind::String | Kind::Number | Kind::Null => Ok(Self(raw.as_str())),
            Kind::Bool | Kind::Array | Kind::Object => Err(DecodeError::wrong_type(
                Member::Id,
                "a string, a number or null",
                raw.as_str(),
            )),
        }
    }

    /// Wraps text that the scanner has accepted as a string, number or null.
    #[inline]
    pub(super) const fn scanned(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the JSON text.
    ///
    /// ```
    /// assert_eq!(caudal_core::Id::NULL.as_str(), "null");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Returns true if the id is null.
    ///
    /// ```
    /// assert!(caudal_core::Id::NULL.is_null());
    /// ```
    #[must_use]
    pub fn is_null(self) -> bool {
        Kind::of(self.0) == Kind::Null
    }

    /// Returns the integer, if it is one that fits `i64`. `7.0` is `7`: some languages
    /// cannot write it in another way.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":7.0,"result":true}"#;
    /// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
    /// assert_eq!(response.id.as_i64(), Some(7));
    /// ```
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        let (integer, fraction) = self.0.split_once('.').unwrap_or((self.0, ""));
        let whole = fraction.bytes().all(|digit| digit == b'0');
        integer.parse().ok().filter(|_| whole)
    }

    /// Returns true if a response with this id answers the call `own`.
    ///
    /// Ids are compared as JSON values: `1.0` answers call 1. With
    /// [`OldResponses::Accept`] the string `"1"` does so too.
    ///
    /// ```
    /// use caudal_core::{Id, OldResponses, RequestId};
    ///
    /// let (id, own) = (Id::parse("\"1\"")?, RequestId::from(1));
    /// assert!(!id.answers(&own, OldResponses::Reject));
    /// assert!(id.answers(&own, OldResponses::Accept));
    /// # Ok::<(), caudal_core::DecodeError>(())
    /// ```
    #[must_use]
    pub fn answers(self, own: &RequestId, old: OldResponses) -> bool {
        match own {
            RequestId::Number(number) => self.call_number(old) == Some(*number),
            RequestId::String(string) => self.as_string().is_some_and(|id| id == *string),
        }
    }

    /// Returns the number of the call that a response with this id answers.
    #[inline]
    pub(crate) fn call_number(self, old: OldResponses) -> Option<i64> {
        match self.as_i64() {
            None if old == OldResponses::Accept => self.quoted_integer(),
            number => number,
        }
    }

    /// Returns the integer that a string spells, if it is spelled as it would be sent.
    #[cold]
    fn quoted_integer(self) -> Option<i64> {
        let string = self.as_string()?;
        let number: i64 = string.parse().ok()?;
        // `+1` and `01` are numbers to `parse`.
        (number.to_string() == *string).then_some(number)
    }

    /// Returns the string without escapes, if the id is a string.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":"\u0061","result":true}"#;
    /// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
    /// assert_eq!(response.id.as_string().unwrap(), "a");
    /// ```
    #[must_use]
    pub fn as_string(self) -> Option<Cow<'a, str>> {
        (Kind::of(self.0) == Kind::String).then(|| string_value(self.0))
    }

    /// Converts to the owned id; null becomes `None`.
    ///
    /// # Errors
    /// [`DecodeError::WrongType`]: a number that is not an integer or does not
    /// fit `i64` has no owned form. Echo it instead.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, RequestId, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":"a","method":"m"}"#;
    /// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
    /// assert_eq!(request.id.to_request_id()?, Some(RequestId::from("a")));
    /// # Ok::<(), caudal_core::DecodeError>(())
    /// ```
    pub fn to_request_id(self) -> Result<Option<RequestId>, DecodeError> {
        if self.is_null() {
            return Ok(None);
        }
        if let Some(string) = self.as_string() {
            return Ok(Some(RequestId::String(string.into_owned())));
        }
        match plain_integer(self.0) {
            Some(number) => Ok(Some(RequestId::Number(number))),
            None => Err(DecodeError::wrong_type(
                Member::Id,
                "an integer that fits i64",
                self.0,
            )),
        }
    }
}

/// Reads an integer that is written without fraction or exponent. `-0` is refused: an
/// `i64` would lose its sign.
pub(super) fn plain_integer(raw: &str) -> Option<i64> {
    raw.parse().ok().filter(|_| raw != "-0")
}

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

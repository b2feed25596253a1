//! A decoded message, borrowed from its bytes.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::error::{DecodeError, Found, Member};
use crate::error::{CallError, ErrorCode, JsonRpcError};
use crate::id::RequestId;
use crate::message::{JsonRpcNotification, JsonRpcRequest, JsonRpcResponse};
use crate::policy::{ErrorDetail, OldResponses};
use crate::raw::RawJson;
use crate::scan::{Kind, string_value};

/// What a frame turned out to be.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1.0,"method":"add","params":[1,2]}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else {
///     panic!("a request");
/// };
/// assert_eq!(request.method, "add");
/// assert_eq!(request.id.as_str(), "1.0"); // echoed byte for byte
/// let (a, b): (i64, i64) = request.params.unwrap().read()?;
/// assert_eq!(a + b, 3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// A call that wants an answer.
    Request(Request<'a>),
    /// A call that wants none.
    Notification(Notification<'a>),
    /// The answer to a call of ours.
    Response(Response<'a>),
    /// Several of the others; never a batch again, never empty.
    Batch(Vec<Self>),
    /// Not a valid message.
    Invalid(Invalid<'a>),
}

/// A call that wants an answer.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(request.id.as_str(), r#""a""#);
/// assert_eq!(request.params, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Its id, to be echoed.
    pub id: Id<'a>,
    /// The method; borrowed unless it was spelled with escapes.
    pub method: Cow<'a, str>,
    /// The params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

impl<'a> Request<'a> {
    /// The params as `T`: a tuple by position, a struct by name.
    ///
    /// # Errors
    /// The -32602 with which to answer if they do not have that shape, or are
    /// missing and `T` cannot do without.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1]}"#;
    /// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
    /// let error = request.read_params::<(i64, i64)>().unwrap_err();
    /// assert_eq!((error.code.get(), error.message.as_str()), (-32602, "Invalid params"));
    /// ```
    pub fn read_params<T: Deserialize<'a>>(&self) -> Result<T, JsonRpcError> {
        let Some(params) = self.params else {
            let missing = |_| JsonRpcError::invalid_params().and_data("`params` is missing");
            return RawJson::NULL.read().map_err(missing);
        };
        params
            .read()
            .map_err(|error| JsonRpcError::wrong_params::<T>(Some(params), &error))
    }
}

/// A call that wants no answer, and never gets one.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","method":"tick","params":[1]}"#;
/// let Message::Notification(tick) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(tick.method, "tick");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification<'a> {
    /// The method; borrowed unless it was spelled with escapes.
    pub method: Cow<'a, str>,
    /// The params; `null` counts as none.
    pub params: Option<RawJson<'a>>,
}

/// The answer to a call.
///
/// ```
/// use caudal_core::{Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":7,"result":null}"#;
/// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(response.id.as_i64(), Some(7));
/// assert_eq!(response.outcome.unwrap().as_str(), "null"); // null is a result
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response<'a> {
    /// The id of the call, or null where the other side could not read it.
    pub id: Id<'a>,
    /// The result, or the error.
    pub outcome: Result<RawJson<'a>, ErrorObject<'a>>,
}

impl<'a> Response<'a> {
    /// The result as `T`, for the caller.
    ///
    /// # Errors
    /// [`CallError::Remote`] with the error of the response, or
    /// [`CallError::Result`] if the result does not have the shape of `T`.
    ///
    /// ```
    /// use caudal_core::{CallError, Message, Policy, decode};
    ///
    /// let bytes = br#"{"jsonrpc":"2.0","id":7,"result":[1,2]}"#;
    /// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
    /// let (a, b): (i64, i64) = response.read()?;
    /// assert_eq!(a + b, 3);
    /// # Ok::<(), CallError>(())
    /// ```
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, CallError> {
        match &self.outcome {
            Ok(result) => result.read().map_err(CallError::Result),
            Err(error) => Err(CallError::Remote(error.clone().into())),
        }
    }
}

/// The error of a response, borrowed.
///
/// ```
/// use caudal_core::{ErrorCode, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#;
/// let Message::Response(response) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(response.outcome.unwrap_err().code, ErrorCode::METHOD_NOT_FOUND);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorObject<'a> {
    /// Its code.
    pub code: ErrorCode,
    /// Its message; borrowed unless it was spelled with escapes.
    pub message: Cow<'a, str>,
    /// Its data; `null` is data.
    pub data: Option<RawJson<'a>>,
}

/// Bytes that are not a valid message, and what to do about them.
///
/// ```
/// use caudal_core::{ErrorDetail, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":5,"method":1}"#;
/// let Message::Invalid(invalid) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(invalid.code, -32600);
/// assert_eq!(invalid.id.as_str(), "5");
/// assert!(invalid.wants_answer());
/// assert_eq!(
///     invalid.to_wire(ErrorDetail::Full).message,
///     "Invalid Request: `method` must be a string, found the number 1",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invalid<'a> {
    /// The code of the answer.
    pub code: ErrorCode,
    /// The id of the answer: the request's where it is a valid one, else null.
    pub id: Id<'a>,
    /// What is wrong.
    pub cause: DecodeError,
    /// What it would be if it were valid.
    pub kind: InvalidKind,
}

/// What an invalid message would be if it were valid.
///
/// ```
/// use caudal_core::{InvalidKind, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":5,"result":1,"error":{}}"#;
/// let Message::Invalid(invalid) = decode(bytes, &Policy::default()) else { panic!() };
/// assert_eq!(invalid.kind, InvalidKind::Response);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidKind {
    /// A request, or nobody knows: it is answered.
    Request,
    /// A notification in all but its content: it is never answered.
    Notification,
    /// A response: it is never answered. If its id is that of a call of ours,
    /// that call has failed.
    Response,
}

impl<'a> Invalid<'a> {
    pub(super) const fn unidentified(cause: DecodeError) -> Self {
        Self {
            code: cause.code(),
            id: Id::NULL,
            cause,
            kind: InvalidKind::Request,
        }
    }

    /// Whether the sender is told.
    ///
    /// ```
    /// use caudal_core::{Message, Policy, decode};
    ///
    /// let tick = br#"{"jsonrpc":"2.0","method":"tick","params":7}"#;
    /// let Message::Invalid(invalid) = decode(tick, &Policy::default()) else { panic!() };
    /// assert!(!invalid.wants_answer()); // it is a notification
    /// ```
    #[must_use]
    pub fn wants_answer(&self) -> bool {
        self.kind == InvalidKind::Request
    }

    /// The error object that tells the sender.
    ///
    /// ```
    /// use caudal_core::{ErrorDetail, Message, Policy, decode};
    ///
    /// let Message::Invalid(invalid) = decode(b"[", &Policy::default()) else { panic!() };
    /// assert_eq!(invalid.to_wire(ErrorDetail::Minimal).message, "Parse error");
    /// ```
    #[must_use]
    pub fn to_wire(&self, detail: ErrorDetail) -> JsonRpcError {
        self.cause.to_wire_as(self.code, detail)
    }
}

/// An id as it stands in the message: a string, a number of any form, or null.
///
/// A server echoes it and never needs to read it.
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

    /// Checks that `text` is an id, and wraps it: for one that was kept as text,
    /// or that came in the params of another message.
    ///
    /// # Errors
    /// It is not JSON, or not a string, a number or null.
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
            Kind::Bool | Kind::Array | Kind::Object => Err(DecodeError::WrongType {
                member: Member::Id,
                expected: "a string, a number or null",
                found: Found::raw(raw.as_str()),
            }),
        }
    }

    /// Wraps text that the scanner has accepted as a string, number or null.
    #[inline]
    pub(super) const fn scanned(text: &'a str) -> Self {
        Self(text)
    }

    /// The JSON text.
    ///
    /// ```
    /// assert_eq!(caudal_core::Id::NULL.as_str(), "null");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether it is null.
    ///
    /// ```
    /// assert!(caudal_core::Id::NULL.is_null());
    /// ```
    #[must_use]
    pub fn is_null(self) -> bool {
        Kind::of(self.0) == Kind::Null
    }

    /// The integer, if it is one that fits `i64`. `7.0` is `7`: some languages
    /// know no other way to write it.
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

    /// Returns whether a response with this id answers the call `own`.
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

    /// Returns the integer that a string spells in the way in which it would be sent.
    #[cold]
    fn quoted_integer(self) -> Option<i64> {
        let string = self.as_string()?;
        let number: i64 = string.parse().ok()?;
        // `+1` and `01` are numbers to `parse`.
        (number.to_string() == *string).then_some(number)
    }

    /// The string, with its escapes undone, if it is one.
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

    /// The owned id; null is `None`.
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
            None => Err(DecodeError::WrongType {
                member: Member::Id,
                expected: "an integer that fits i64",
                found: Found::raw(self.0),
            }),
        }
    }
}

/// The integer that a JSON number is, written without fraction or exponent.
/// `-0` is none: as an `i64` it would lose its sign.
pub(super) fn plain_integer(raw: &str) -> Option<i64> {
    raw.parse().ok().filter(|_| raw != "-0")
}

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Why a borrowed message has no owned form.
///
/// The owned types hold ids as `i64` or `String` and params as `Value`; the
/// borrowed ones hold any JSON.
///
/// ```
/// use caudal_core::{JsonRpcRequest, Message, Policy, decode};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#;
/// let Message::Request(request) = decode(bytes, &Policy::default()) else { panic!() };
/// let error = JsonRpcRequest::try_from(request).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`id` must be an integer that fits i64, found the number 1.5",
/// );
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToOwnedError {
    /// The id is not a string, an `i64` or null.
    #[error(transparent)]
    Id(#[from] DecodeError),
    /// Params, result or data cannot be held as a `Value`.
    #[error("the value cannot be held as `serde_json::Value`")]
    Value(#[from] serde_json::Error),
}

fn owned(raw: Option<RawJson<'_>>) -> Result<Option<Value>, serde_json::Error> {
    raw.map(RawJson::to_value).transpose()
}

impl TryFrom<Request<'_>> for JsonRpcRequest {
    type Error = ToOwnedError;

    fn try_from(request: Request<'_>) -> Result<Self, ToOwnedError> {
        Ok(Self {
            jsonrpc: crate::Version,
            id: request.id.to_request_id()?,
            method: request.method.into_owned(),
            params: owned(request.params)?,
        })
    }
}

impl TryFrom<Notification<'_>> for JsonRpcNotification {
    type Error = ToOwnedError;

    fn try_from(notification: Notification<'_>) -> Result<Self, ToOwnedError> {
        let Notification { method, params } = notification;
        Ok(Self::new(method, owned(params)?))
    }
}

/// Keeps code and message in any case. Data that a `Value` cannot hold, such as
/// `1e400`, becomes a string of its text.
impl From<ErrorObject<'_>> for JsonRpcError {
    fn from(error: ErrorObject<'_>) -> Self {
        let mut owned = Self::new(error.code, error.message);
        owned.data = error
            .data
            .map(|raw| raw.to_value().unwrap_or_else(|_| Value::from(raw.as_str())));
        owned
    }
}

impl TryFrom<Response<'_>> for JsonRpcResponse {
    type Error = ToOwnedError;

    fn try_from(response: Response<'_>) -> Result<Self, ToOwnedError> {
        let id = response.id.to_request_id()?;
        let jsonrpc = crate::Version;
        Ok(match response.outcome {
            Ok(result) => Self::Success {
                jsonrpc,
                id,
                result: result.to_value()?,
            },
            Err(error) => Self::Error {
                jsonrpc,
                id,
                error: error.into(),
            },
        })
    }
}

//! Rules of the specification: from the members of a message to its type.

use super::envelope::{Envelope, Method};
use super::error::{DecodeError, Found, cut};
use super::error_object::{read_both, read_error};
use super::id::Id;
use super::invalid::{Invalid, InvalidKind};
use super::member::Member;
use super::message::{Message, Notification, Request, Response};
use crate::error::ErrorCode;
use crate::message::Version;
use crate::policy::{ExtraMembers, NullId, Policy, ScalarParams};
use crate::raw_json::RawJson;
use crate::scan::{Kind, Text, string_value};

impl<'a> Envelope<'a> {
    /// Returns the message that the members make up. `deepest` is its nesting depth.
    #[inline]
    pub(super) fn classify(&self, policy: &Policy, deepest: usize) -> Message<'a> {
        match self.check(policy, deepest) {
            Ok(message) => message,
            Err(fault) => Message::Invalid(self.invalid(*fault, policy)),
        }
    }

    #[cold]
    fn invalid(&self, fault: Fault, policy: &Policy) -> Invalid<'a> {
        // A member that appears twice has no value to echo.
        let id = self.id.filter(|_| !self.id_twice);
        let id = id.and_then(|raw| id_of(raw, policy));
        let kind = if self.is_response() {
            InvalidKind::Response
        } else if fault.in_content && self.id.is_none() {
            InvalidKind::Notification
        } else {
            InvalidKind::Request
        };
        Invalid {
            code: fault.code,
            id: id.unwrap_or(Id::NULL),
            cause: fault.cause,
            kind,
        }
    }

    /// Returns true for a response, valid or not.
    #[inline]
    const fn is_response(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }

    #[inline]
    fn check(&self, policy: &Policy, deepest: usize) -> Result<Message<'a>, Box<Fault>> {
        if let Some(member) = self.duplicate {
            return refuse(DecodeError::Duplicate { member });
        }
        match self.version {
            Some(r#""2.0""#) => {}
            Some(raw) => check_version(raw)?,
            None => return refuse(DecodeError::missing(Member::Version)),
        }
        let id = match self.id {
            Some(raw) => Some(check_id(raw, policy)?),
            None => None,
        };
        if self.is_response() {
            return self.check_response(policy, deepest, id);
        }
        if policy.null_id == NullId::Reject && id == Some(Id::NULL) {
            return refuse(DecodeError::NullId);
        }
        let method = match self.method {
            Some(Method::Name(name)) => name.value(),
            Some(Method::Other(raw)) => {
                return refuse(DecodeError::wrong_type(Member::Method, "a string", raw));
            }
            None => return refuse(DecodeError::missing(Member::Method)),
        };
        if is_blank(&method) {
            return refuse(DecodeError::BlankMethod);
        }
        // From here on a message without id is a notification. It is never answered, also if
        // the rest is invalid.
        let params = match self.params {
            None | Some("null") => None,
            Some(raw) => {
                if !Kind::of(raw).is_structured() {
                    check_scalar(raw, policy)?;
                }
                Some(RawJson::scanned(raw))
            }
        };
        if policy.extra_members == ExtraMembers::Reject {
            let others = [(self.result, Member::Result), (self.error, Member::Error)];
            check_unknown(self.unknown, &others)?;
        }
        check_depth(deepest, policy)?;
        Ok(match id {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    fn check_response(
        &self,
        policy: &Policy,
        deepest: usize,
        id: Option<Id<'a>>,
    ) -> Result<Message<'a>, Box<Fault>> {
        let Some(id) = id else {
            return refuse(DecodeError::missing(Member::Id));
        };
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(RawJson::scanned(result)),
            (None, Some(error)) => match read_error(error) {
                Ok(error) => Err(error),
                Err(fault) => return refuse(fault),
            },
            (Some(result), Some(error)) => match read_both(result, error, policy) {
                Ok(outcome) => outcome,
                Err(fault) => return refuse(fault),
            },
            (None, None) => return refuse(DecodeError::NoOutcome),
        };
        if policy.extra_members == ExtraMembers::Reject {
            check_unknown(self.unknown, &[(self.params, Member::Params)])?;
        }
        check_depth(deepest, policy)?;
        Ok(Message::Response(Response { id, outcome }))
    }
}

/// Reason why a message is refused.
struct Fault {
    code: ErrorCode,
    cause: DecodeError,
    /// True if only the content is wrong. Without an id such a message is a notification.
    in_content: bool,
}

#[cold]
fn refuse<T>(cause: DecodeError) -> Result<T, Box<Fault>> {
    let (code, in_content) = (cause.code(), false);
    Err(Box::new(Fault {
        code,
        cause,
        in_content,
    }))
}

#[cold]
fn refuse_content<T>(code: ErrorCode, cause: DecodeError) -> Result<T, Box<Fault>> {
    let in_content = true;
    Err(Box::new(Fault {
        code,
        cause,
        in_content,
    }))
}

#[cold]
fn check_version(raw: &str) -> Result<(), Box<Fault>> {
    if Kind::of(raw) == Kind::String && string_value(raw) == Version::TEXT {
        return Ok(());
    }
    refuse(DecodeError::WrongVersion {
        found: Found::raw(raw),
    })
}

/// Returns a scanned value as an id, if it is a valid one.
pub(super) fn id_of<'a>(raw: &'a str, policy: &Policy) -> Option<Id<'a>> {
    check_id(raw, policy).ok()
}

#[inline]
fn check_id<'a>(raw: &'a str, policy: &Policy) -> Result<Id<'a>, Box<Fault>> {
    match Kind::of(raw) {
        Kind::String | Kind::Number if raw.len() > policy.max_id => {
            refuse(DecodeError::IdTooLong {
                length: raw.len(),
                limit: policy.max_id,
            })
        }
        Kind::String | Kind::Number | Kind::Null => Ok(Id::scanned(raw)),
        Kind::Bool | Kind::Array | Kind::Object => refuse(DecodeError::wrong_type(
            Member::Id,
            "a string, a number or null",
            raw,
        )),
    }
}

/// Returns true if the name of a method is empty or only white space.
#[inline]
pub(crate) fn is_blank(method: &str) -> bool {
    match method.as_bytes().first() {
        Some(b'!'..=b'~') => false,
        _ => method.chars().all(char::is_whitespace),
    }
}

#[cold]
fn check_scalar(raw: &str, policy: &Policy) -> Result<(), Box<Fault>> {
    let code = match policy.scalar_params {
        ScalarParams::Accept => return Ok(()),
        ScalarParams::InvalidParams => ErrorCode::INVALID_PARAMS,
        ScalarParams::InvalidRequest => ErrorCode::INVALID_REQUEST,
    };
    refuse_content(
        code,
        DecodeError::wrong_type(Member::Params, "an array or an object", raw),
    )
}

#[cold]
fn check_unknown(
    unknown: Option<Text<'_>>,
    others: &[(Option<&str>, Member)],
) -> Result<(), Box<Fault>> {
    /// Maximum characters of a name in an error.
    const SHOWN: usize = 40;
    let other = others.iter().find(|(value, _)| value.is_some());
    let name = match (unknown, other) {
        (Some(name), _) => cut(&name.value(), SHOWN),
        (None, Some((_, member))) => member.name().to_owned(),
        (None, None) => return Ok(()),
    };
    refuse_content(
        ErrorCode::INVALID_REQUEST,
        DecodeError::UnknownMember { name: name.into() },
    )
}

#[inline]
fn check_depth(deepest: usize, policy: &Policy) -> Result<(), Box<Fault>> {
    if deepest <= policy.max_depth {
        return Ok(());
    }
    let limit = policy.max_depth;
    refuse_content(ErrorCode::INVALID_REQUEST, DecodeError::TooDeep { limit })
}

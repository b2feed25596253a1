//! The members of one message, and what they make of it.

use super::error::{DecodeError, Found, Member, cut};
use super::message::{ErrorObject, Id, Invalid, Message, Notification, Request, Response};
use crate::error::ErrorCode;
use crate::message::Version;
use crate::policy::{ExtraMembers, NullId, Policy, ScalarParams};
use crate::raw::RawJson;
use crate::scan::{Kind, Scanner, StringSpan, Syntax, SyntaxError};

/// The members of one message as they were found: raw text, by presence.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope<'a> {
    version: Option<&'a str>,
    id: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<Result<ErrorObject<'a>, DecodeError>>,
    /// The first member that stands twice, and whether `id` is one of those.
    duplicate: Option<Member>,
    id_twice: bool,
    unknown: Option<StringSpan<'a>>,
}

/// What follows a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another member.
    Member,
    /// The end of the object.
    End,
    /// The value of `params`, which the caller wanted to read itself.
    Params,
}

impl<'a> Envelope<'a> {
    /// Reads an object's members from the first on; the cursor stands on `{`.
    #[inline]
    pub(super) fn read(&mut self, scan: &mut Scanner<'a>, park: bool) -> Result<Next, Syntax> {
        scan.enter();
        if scan.next_token() == Some(b'}') {
            scan.leave();
            return Ok(Next::End);
        }
        self.read_members(scan, park)
    }

    /// Reads members from the one under the cursor to the end of the object,
    /// or, if `park` is set, to the value of `params` after a `method`.
    #[inline]
    pub(super) fn read_members(
        &mut self,
        scan: &mut Scanner<'a>,
        park: bool,
    ) -> Result<Next, Syntax> {
        loop {
            let name = scan.name()?;
            let member = if name.escaped {
                Member::of_envelope(name.value().as_bytes())
            } else {
                Member::of_envelope(name.inner.as_bytes())
            };
            if park
                && member == Some(Member::Params)
                && self.params.is_none()
                && self.method.is_some()
            {
                return Ok(Next::Params);
            }
            self.read_value(scan, member, name)?;
            if after_value(scan)? == Next::End {
                return Ok(Next::End);
            }
        }
    }

    #[inline]
    fn read_value(
        &mut self,
        scan: &mut Scanner<'a>,
        member: Option<Member>,
        name: StringSpan<'a>,
    ) -> Result<(), Syntax> {
        let repeated = match member {
            Some(Member::Version) => self.version.replace(scan.value()?).is_some(),
            Some(Member::Id) => self.id.replace(scan.value()?).is_some(),
            Some(Member::Method) => self.method.replace(scan.value()?).is_some(),
            Some(Member::Params) => self.params.replace(scan.value()?).is_some(),
            Some(Member::Result) => self.result.replace(scan.value()?).is_some(),
            Some(Member::Error) => self.error.replace(read_error(scan)?).is_some(),
            _ => {
                scan.value()?;
                self.unknown.get_or_insert(name);
                false
            }
        };
        if repeated {
            self.duplicate = self.duplicate.or(member);
            self.id_twice |= member == Some(Member::Id);
        }
        Ok(())
    }

    /// Records params that were read by the caller.
    pub(super) const fn set_params(&mut self, text: &'a str) {
        self.params = Some(text);
    }

    /// What the members make of the message. `deepest` is how deep it nests.
    #[inline]
    pub(super) fn classify(self, policy: &Policy, deepest: usize) -> Message<'a> {
        // A member that stands twice has no value to echo.
        let id = match self.id {
            Some(raw) if !self.id_twice => check_id(raw, policy).ok(),
            _ => None,
        };
        let called = self.id.is_some() || self.method.is_none();
        let answers = self.method.is_none() && (self.result.is_some() || self.error.is_some());
        match self.check(policy, deepest, answers) {
            Ok(message) => message,
            Err(fault) => {
                let (code, cause, notified) = *fault;
                Message::Invalid(Invalid {
                    code,
                    id: id.unwrap_or(Id::NULL),
                    cause,
                    wants_answer: !answers && (called || !notified),
                })
            }
        }
    }

    #[inline]
    fn check(
        self,
        policy: &Policy,
        deepest: usize,
        answers: bool,
    ) -> Result<Message<'a>, Box<Fault>> {
        if let Some(member) = self.duplicate {
            return refuse(DecodeError::Duplicate { member });
        }
        match self.version {
            Some(r#""2.0""#) => {}
            Some(raw) => check_version(raw)?,
            None => {
                return refuse(DecodeError::Missing {
                    member: Member::Version,
                });
            }
        }
        let id = match self.id {
            Some(raw) => Some(check_id(raw, policy)?),
            None => None,
        };
        if answers {
            return self.check_response(policy, deepest, id);
        }
        if id == Some(Id::NULL) && policy.null_id == NullId::Reject {
            return refuse(DecodeError::NullId);
        }
        let method = match self.method {
            Some(raw) => method_name(raw)?,
            None => {
                return refuse(DecodeError::Missing {
                    member: Member::Method,
                });
            }
        };
        // From here on a message without id is a notification, whatever else
        // is wrong with it, and is never answered.
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
            let known = [
                (self.result.is_some(), Member::Result),
                (self.error.is_some(), Member::Error),
            ];
            check_unknown(self.unknown, &known)?;
        }
        check_depth(deepest, policy)?;
        Ok(match id {
            Some(id) => Message::Request(Request { id, method, params }),
            None => Message::Notification(Notification { method, params }),
        })
    }

    fn check_response(
        self,
        policy: &Policy,
        deepest: usize,
        id: Option<Id<'a>>,
    ) -> Result<Message<'a>, Box<Fault>> {
        let Some(id) = id else {
            return refuse(DecodeError::Missing { member: Member::Id });
        };
        let outcome = match (self.result, self.error) {
            (Some(result), None) => Ok(RawJson::scanned(result)),
            (None, Some(Ok(error))) => Err(error),
            (None, Some(Err(fault))) => return refuse(fault),
            (Some(_), Some(_)) => return refuse(DecodeError::TwoOutcomes),
            (None, None) => return refuse(DecodeError::NoOutcome),
        };
        if policy.extra_members == ExtraMembers::Reject {
            check_unknown(self.unknown, &[(self.params.is_some(), Member::Params)])?;
        }
        check_depth(deepest, policy)?;
        Ok(Message::Response(Response { id, outcome }))
    }
}

/// The code, the cause, and whether the message is a notification by all the
/// rules that make it one.
type Fault = (ErrorCode, DecodeError, bool);

#[cold]
fn refuse<T>(cause: DecodeError) -> Result<T, Box<Fault>> {
    Err(Box::new((cause.code(), cause, false)))
}

#[cold]
fn refuse_content<T>(code: ErrorCode, cause: DecodeError) -> Result<T, Box<Fault>> {
    Err(Box::new((code, cause, true)))
}

/// Reads what follows a value of the envelope.
#[inline]
pub(super) fn after_value(scan: &mut Scanner<'_>) -> Result<Next, Syntax> {
    match scan.next_token() {
        Some(b',') => {
            scan.pos += 1;
            Ok(Next::Member)
        }
        Some(b'}') => {
            scan.leave();
            Ok(Next::End)
        }
        _ => scan.unexpected(SyntaxError::ExpectedCommaOrBrace),
    }
}

#[cold]
fn check_version(raw: &str) -> Result<(), Box<Fault>> {
    if Kind::of(raw) == Kind::String && StringSpan::of(raw).value() == Version::TEXT {
        return Ok(());
    }
    refuse(DecodeError::WrongVersion {
        found: Found::raw(raw),
    })
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
        Kind::Bool | Kind::Array | Kind::Object => refuse(DecodeError::WrongType {
            member: Member::Id,
            expected: "a string, a number or null",
            found: Found::raw(raw),
        }),
    }
}

#[inline]
fn method_name(raw: &str) -> Result<std::borrow::Cow<'_, str>, Box<Fault>> {
    if Kind::of(raw) != Kind::String {
        return refuse(DecodeError::WrongType {
            member: Member::Method,
            expected: "a string",
            found: Found::raw(raw),
        });
    }
    let method = StringSpan::of(raw).value();
    if is_blank(&method) {
        return refuse(DecodeError::BlankMethod);
    }
    Ok(method)
}

/// Whether a method's name is no name: empty, or nothing but white space.
pub(crate) fn is_blank(method: &str) -> bool {
    method.chars().all(char::is_whitespace)
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
        DecodeError::WrongType {
            member: Member::Params,
            expected: "an array or an object",
            found: Found::raw(raw),
        },
    )
}

#[cold]
fn check_unknown(
    unknown: Option<StringSpan<'_>>,
    others: &[(bool, Member)],
) -> Result<(), Box<Fault>> {
    /// How much of a name is shown.
    const SHOWN: usize = 40;
    let other = others.iter().find(|(present, _)| *present);
    let name = match (unknown, other) {
        (Some(span), _) => cut(&span.value(), SHOWN),
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

/// Reads the value of `error`: its members, or what is wrong with it.
fn read_error<'a>(scan: &mut Scanner<'a>) -> Result<Result<ErrorObject<'a>, DecodeError>, Syntax> {
    if scan.next_token() != Some(b'{') {
        let found = Found::raw(scan.value()?);
        return Ok(Err(DecodeError::WrongType {
            member: Member::Error,
            expected: "an object",
            found,
        }));
    }
    let (mut code, mut message, mut data) = (None, None, None);
    let mut duplicate = None;
    scan.enter();
    if scan.next_token() == Some(b'}') {
        scan.leave();
    } else {
        loop {
            let member = Member::of_error(scan.name()?.value().as_bytes());
            let value = scan.value()?;
            let repeated = match member {
                Some(Member::Code) => code.replace(value).is_some(),
                Some(Member::Message) => message.replace(value).is_some(),
                Some(Member::Data) => data.replace(value).is_some(),
                _ => false,
            };
            if repeated {
                duplicate = duplicate.or(member);
            }
            if after_value(scan)? == Next::End {
                break;
            }
        }
    }
    if let Some(member) = duplicate {
        return Ok(Err(DecodeError::Duplicate { member }));
    }
    Ok(error_object(code, message, data))
}

fn error_object<'a>(
    code: Option<&'a str>,
    message: Option<&'a str>,
    data: Option<&'a str>,
) -> Result<ErrorObject<'a>, DecodeError> {
    let code = code.ok_or(DecodeError::Missing {
        member: Member::Code,
    })?;
    let message = message.ok_or(DecodeError::Missing {
        member: Member::Message,
    })?;
    let Ok(number) = code.parse::<i64>() else {
        return Err(DecodeError::WrongType {
            member: Member::Code,
            expected: "an integer that fits i64",
            found: Found::raw(code),
        });
    };
    if Kind::of(message) != Kind::String {
        return Err(DecodeError::WrongType {
            member: Member::Message,
            expected: "a string",
            found: Found::raw(message),
        });
    }
    Ok(ErrorObject {
        code: ErrorCode::from(number),
        message: StringSpan::of(message).value(),
        data: data.map(RawJson::scanned),
    })
}

//! The members of one message, and what they make of it.

use std::borrow::Cow;

use super::error::{DecodeError, Found, Member, cut};
use super::message::{
    ErrorObject, Id, Invalid, InvalidKind, Message, Notification, Request, Response, plain_integer,
};
use crate::error::ErrorCode;
use crate::message::Version;
use crate::policy::{ExtraMembers, NullId, OldResponses, Policy, ScalarParams};
use crate::raw::RawJson;
use crate::scan::{Kind, NotJson, Scanner, SyntaxError, Text, string_value};

/// The members of one message as they were found: raw text, by presence.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope<'a> {
    version: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<Method<'a>>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
    /// The first member that is none of these.
    unknown: Option<Text<'a>>,
    /// The first member that stands twice, and whether `id` is one of those.
    duplicate: Option<Member>,
    id_twice: bool,
}

/// The value of `method`.
#[derive(Clone, Copy, Debug)]
enum Method<'a> {
    Name(Text<'a>),
    /// Something else, as it stands.
    Other(&'a str),
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
    pub(super) fn read(&mut self, scan: &mut Scanner<'a>, park: bool) -> Result<Next, NotJson> {
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
    ) -> Result<Next, NotJson> {
        loop {
            scan.next_token();
            // What nearly everybody writes; anything else takes the long way.
            match scan.peek_behind() {
                Some(b'j') if self.version.is_none() && scan.eat(r#""jsonrpc":"2.0""#) => {
                    self.version = Some(r#""2.0""#);
                }
                Some(b'i') if self.id.is_none() && scan.eat(r#""id":"#) => {
                    self.id = Some(read_id(scan)?);
                }
                Some(b'm') if self.method.is_none() && scan.eat(r#""method":"#) => {
                    self.method = Some(read_method(scan)?);
                }
                Some(b'p') if self.params.is_none() && scan.eat(r#""params":"#) => {
                    if park && self.method.is_some() {
                        return Ok(Next::Params);
                    }
                    self.params = Some(scan.value()?);
                }
                Some(b'r') if self.result.is_none() && scan.eat(r#""result":"#) => {
                    self.result = Some(scan.value()?);
                }
                Some(b'e') if self.error.is_none() && scan.eat(r#""error":"#) => {
                    self.error = Some(scan.value()?);
                }
                _ => {
                    if self.read_other(scan, park)? == Next::Params {
                        return Ok(Next::Params);
                    }
                }
            }
            if after_value(scan)? == Next::End {
                return Ok(Next::End);
            }
        }
    }

    /// Reads a member that is not written as usual, not known, or not the first of its
    /// name.
    #[inline(never)]
    fn read_other(&mut self, scan: &mut Scanner<'a>, park: bool) -> Result<Next, NotJson> {
        let name = scan.name()?;
        let member = Member::of_envelope(name.value().as_bytes());
        let repeated = match member {
            Some(Member::Version) => self.version.replace(scan.value()?).is_some(),
            Some(Member::Id) => self.id.replace(scan.value()?).is_some(),
            Some(Member::Method) => self.method.replace(read_method(scan)?).is_some(),
            Some(Member::Params) if park && self.params.is_none() && self.method.is_some() => {
                return Ok(Next::Params);
            }
            Some(Member::Params) => self.params.replace(scan.value()?).is_some(),
            Some(Member::Result) => self.result.replace(scan.value()?).is_some(),
            Some(Member::Error) => self.error.replace(scan.value()?).is_some(),
            _ => {
                self.unknown.get_or_insert(name);
                scan.value()?;
                false
            }
        };
        if repeated {
            self.duplicate = self.duplicate.or(member);
            self.id_twice |= member == Some(Member::Id);
        }
        Ok(Next::Member)
    }

    /// The method's name, if one has been read.
    pub(super) fn method_name(&self) -> Option<Cow<'a, str>> {
        match self.method {
            Some(Method::Name(name)) => Some(name.value()),
            _ => None,
        }
    }

    /// Records params that were read by the caller.
    pub(super) const fn set_params(&mut self, text: &'a str) {
        self.params = Some(text);
    }

    /// What the members make of the message. `deepest` is how deep it nests.
    #[inline]
    pub(super) fn classify(&self, policy: &Policy, deepest: usize) -> Message<'a> {
        match self.check(policy, deepest) {
            Ok(message) => message,
            Err(fault) => Message::Invalid(self.invalid(*fault, policy)),
        }
    }

    #[cold]
    fn invalid(&self, fault: Fault, policy: &Policy) -> Invalid<'a> {
        // A member that stands twice has no value to echo.
        let id = self.id.filter(|_| !self.id_twice);
        let id = id.and_then(|raw| id_of(raw, policy));
        let kind = if self.answers() {
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

    /// Whether it is a response, or would be one if it were valid.
    #[inline]
    const fn answers(&self) -> bool {
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
            None => return refuse(missing(Member::Version)),
        }
        let id = match self.id {
            Some(raw) => Some(check_id(raw, policy)?),
            None => None,
        };
        if self.answers() {
            return self.check_response(policy, deepest, id);
        }
        if policy.null_id == NullId::Reject && id == Some(Id::NULL) {
            return refuse(DecodeError::NullId);
        }
        let method = match self.method {
            Some(Method::Name(name)) => name.value(),
            Some(Method::Other(raw)) => return refuse(wrong(Member::Method, "a string", raw)),
            None => return refuse(missing(Member::Method)),
        };
        if is_blank(&method) {
            return refuse(DecodeError::BlankMethod);
        }
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
            return refuse(missing(Member::Id));
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

/// Why a message is refused.
struct Fault {
    code: ErrorCode,
    cause: DecodeError,
    /// Whether all is well but the content, so that without an id it is a
    /// notification.
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

const fn missing(member: Member) -> DecodeError {
    DecodeError::Missing { member }
}

fn wrong(member: Member, expected: &'static str, raw: &str) -> DecodeError {
    DecodeError::WrongType {
        member,
        expected,
        found: Found::raw(raw),
    }
}

/// Most ids are short numbers.
#[inline]
fn read_id<'a>(scan: &mut Scanner<'a>) -> Result<&'a str, NotJson> {
    match scan.few_digits() {
        Some(digits) => Ok(digits),
        None => scan.value(),
    }
}

#[inline]
fn read_method<'a>(scan: &mut Scanner<'a>) -> Result<Method<'a>, NotJson> {
    if scan.next_token() == Some(b'"') {
        scan.string().map(Method::Name)
    } else {
        scan.value().map(Method::Other)
    }
}

/// Reads what follows a value of the envelope.
#[inline]
pub(super) fn after_value(scan: &mut Scanner<'_>) -> Result<Next, NotJson> {
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
    if Kind::of(raw) == Kind::String && string_value(raw) == Version::TEXT {
        return Ok(());
    }
    refuse(DecodeError::WrongVersion {
        found: Found::raw(raw),
    })
}

/// The id that a scanned value is, if it is one.
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
        Kind::Bool | Kind::Array | Kind::Object => {
            refuse(wrong(Member::Id, "a string, a number or null", raw))
        }
    }
}

/// Whether a method's name is no name: empty, or nothing but white space.
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
    refuse_content(code, wrong(Member::Params, "an array or an object", raw))
}

#[cold]
fn check_unknown(
    unknown: Option<Text<'_>>,
    others: &[(Option<&str>, Member)],
) -> Result<(), Box<Fault>> {
    /// How much of a name is shown.
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

/// The members of an error object, and the first that stands twice.
#[derive(Default)]
struct ErrorEnvelope<'a> {
    code: Option<&'a str>,
    message: Option<&'a str>,
    data: Option<&'a str>,
    duplicate: Option<Member>,
}

impl<'a> ErrorEnvelope<'a> {
    /// Reads the members; the cursor stands on `{`.
    fn read(scan: &mut Scanner<'a>) -> Result<Self, NotJson> {
        let mut found = Self::default();
        scan.enter();
        if scan.next_token() == Some(b'}') {
            return Ok(found);
        }
        loop {
            let member = Member::of_error(scan.name()?.value().as_bytes());
            let value = Some(scan.value()?);
            let repeated = match member {
                Some(Member::Code) => std::mem::replace(&mut found.code, value),
                Some(Member::Message) => std::mem::replace(&mut found.message, value),
                Some(Member::Data) => std::mem::replace(&mut found.data, value),
                _ => None,
            };
            if repeated.is_some() {
                found.duplicate = found.duplicate.or(member);
            }
            if after_value(scan)? == Next::End {
                return Ok(found);
            }
        }
    }
}

/// The outcome of a response with both members: a null beside the other may count as
/// absent, and two are a result.
#[cold]
fn read_both<'a>(
    result: &'a str,
    error: &'a str,
    policy: &Policy,
) -> Result<Result<RawJson<'a>, ErrorObject<'a>>, DecodeError> {
    match (Kind::of(result), Kind::of(error)) {
        _ if policy.old_responses == OldResponses::Reject => Err(DecodeError::TwoOutcomes),
        (_, Kind::Null) => Ok(Ok(RawJson::scanned(result))),
        (Kind::Null, _) => read_error(error).map(Err),
        _ => Err(DecodeError::TwoOutcomes),
    }
}

/// Reads the value of `error`, which the scanner has accepted.
fn read_error(raw: &str) -> Result<ErrorObject<'_>, DecodeError> {
    if Kind::of(raw) != Kind::Object {
        return Err(wrong(Member::Error, "an object", raw));
    }
    let mut scan = Scanner::new(raw);
    let found = ErrorEnvelope::read(&mut scan).map_err(|NotJson| scan.fault())?;
    if let Some(member) = found.duplicate {
        return Err(DecodeError::Duplicate { member });
    }
    let code = found.code.ok_or(missing(Member::Code))?;
    let message = found.message.ok_or(missing(Member::Message))?;
    let Some(number) = plain_integer(code) else {
        return Err(wrong(Member::Code, "an integer that fits i64", code));
    };
    if Kind::of(message) != Kind::String {
        return Err(wrong(Member::Message, "a string", message));
    }
    Ok(ErrorObject {
        code: ErrorCode::from(number),
        message: string_value(message),
        data: found.data.map(RawJson::scanned),
    })
}

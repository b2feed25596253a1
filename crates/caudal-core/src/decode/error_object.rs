//! The `error` member of a response.

use super::envelope::{Next, after_value};
use super::error::DecodeError;
use super::id::plain_integer;
use super::member::Member;
use super::message::ErrorObject;
use crate::error::ErrorCode;
use crate::policy::{OldResponses, Policy};
use crate::raw_json::RawJson;
use crate::scan::{Kind, NotJson, Scanner, string_value};

/// Members of an error object: raw text, by presence.
#[derive(Default)]
struct ErrorEnvelope<'a> {
    code: Option<&'a str>,
    message: Option<&'a str>,
    data: Option<&'a str>,
    /// First member that appears twice.
    duplicate: Option<Member>,
}

impl<'a> ErrorEnvelope<'a> {
    /// Reads the members; the cursor is on `{`.
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

/// Returns the outcome of a response with both `result` and `error`. If the policy
/// accepts old responses, a null beside the other counts as absent; two nulls are the
/// result null.
#[cold]
pub(super) fn read_both<'a>(
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

/// Reads the value of `error`, which the scanner has accepted as JSON.
pub(super) fn read_error(raw: &str) -> Result<ErrorObject<'_>, DecodeError> {
    if Kind::of(raw) != Kind::Object {
        return Err(DecodeError::wrong_type(Member::Error, "an object", raw));
    }
    let mut scan = Scanner::new(raw);
    let found = ErrorEnvelope::read(&mut scan).map_err(|NotJson| scan.fault())?;
    if let Some(member) = found.duplicate {
        return Err(DecodeError::Duplicate { member });
    }
    let code = found.code.ok_or(DecodeError::missing(Member::Code))?;
    let message = found.message.ok_or(DecodeError::missing(Member::Message))?;
    let Some(number) = plain_integer(code) else {
        return Err(DecodeError::wrong_type(
            Member::Code,
            "an integer that fits i64",
            code,
        ));
    };
    if Kind::of(message) != Kind::String {
        return Err(DecodeError::wrong_type(
            Member::Message,
            "a string",
            message,
        ));
    }
    Ok(ErrorObject {
        code: ErrorCode::from(number),
        message: string_value(message),
        data: found.data.map(RawJson::scanned),
    })
}

//! Reading the members of one message.

use std::borrow::Cow;

use super::member::Member;
use crate::scan::{NotJson, Scanner, SyntaxError, Text};

/// Members of one message: raw text, by presence.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) version: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) method: Option<Method<'a>>,
    pub(super) params: Option<&'a str>,
    pub(super) result: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    /// First member with another name.
    pub(super) unknown: Option<Text<'a>>,
    /// First member that appears twice.
    pub(super) duplicate: Option<Member>,
    /// True if `id` appears twice.
    pub(super) id_twice: bool,
}

/// Value of `method`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Method<'a> {
    Name(Text<'a>),
    /// Raw text of a value that is not a string.
    Other(&'a str),
}

/// Text that follows a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another member.
    Member,
    /// The end of the object.
    End,
    /// The value of `params`, which the caller reads itself.
    Params,
}

impl<'a> Envelope<'a> {
    /// Reads the members of an object; the cursor is on `{`.
    #[inline]
    pub(super) fn read(
        &mut self,
        scan: &mut Scanner<'a>,
        stop_before_params: bool,
    ) -> Result<Next, NotJson> {
        scan.enter();
        if scan.next_token() == Some(b'}') {
            scan.leave();
            return Ok(Next::End);
        }
        self.read_members(scan, stop_before_params)
    }

    /// Reads members from the cursor to the end of the object or, if
    /// `stop_before_params` is set, to the value of `params` after a `method`.
    #[inline]
    pub(super) fn read_members(
        &mut self,
        scan: &mut Scanner<'a>,
        stop_before_params: bool,
    ) -> Result<Next, NotJson> {
        loop {
            scan.next_token();
            // The usual spelling is compared as a whole; others take the slow path.
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
                    if stop_before_params && self.method.is_some() {
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
                    if self.read_other(scan, stop_before_params)? == Next::Params {
                        return Ok(Next::Params);
                    }
                }
            }
            if after_value(scan)? == Next::End {
                return Ok(Next::End);
            }
        }
    }

    /// Reads a member that has an unusual spelling, is unknown, or is not the first of
    /// its name.
    #[inline(never)]
    fn read_other(
        &mut self,
        scan: &mut Scanner<'a>,
        stop_before_params: bool,
    ) -> Result<Next, NotJson> {
        let name = scan.name()?;
        let member = Member::of_envelope(name.value().as_bytes());
        let repeated = match member {
            Some(Member::Version) => self.version.replace(scan.value()?).is_some(),
            Some(Member::Id) => self.id.replace(scan.value()?).is_some(),
            Some(Member::Method) => self.method.replace(read_method(scan)?).is_some(),
            Some(Member::Params)
                if stop_before_params && self.params.is_none() && self.method.is_some() =>
            {
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

    /// Returns the name of the method, if it has been read.
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
}

/// Reads the value of `id`. Most ids are short numbers.
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

/// Reads the comma or the brace after the value of a member.
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

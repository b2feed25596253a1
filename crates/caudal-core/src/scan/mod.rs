//! One validating pass over JSON text: no recursion, no allocation.
//!
//! The scanner accepts exactly what `serde_json` accepts as a `Value`, except
//! that a number may be of any size: text that is passed on is never read as
//! a float.

mod nesting;
mod string;

use thiserror::Error;

pub(crate) use nesting::Nesting;
pub(crate) use string::StringSpan;

/// Why a text is not JSON.
///
/// ```
/// use caudal_core::{RawJson, SyntaxError};
///
/// let error = RawJson::parse("[1,]").unwrap_err();
/// assert_eq!(error.to_string(), "not JSON at byte 3: expected a value");
/// # let _ = SyntaxError::ExpectedValue;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum SyntaxError {
    /// Something else stands where a value must begin.
    #[error("expected a value")]
    ExpectedValue,
    /// A member's name must be a string.
    #[error("expected a member name in double quotes")]
    ExpectedName,
    /// A member's name must be followed by a colon.
    #[error("expected `:`")]
    ExpectedColon,
    /// An array goes on or ends after each element.
    #[error("expected `,` or `]`")]
    ExpectedCommaOrBracket,
    /// An object goes on or ends after each member.
    #[error("expected `,` or `}}`")]
    ExpectedCommaOrBrace,
    /// A number is cut short or misspelled.
    #[error("malformed number")]
    BadNumber,
    /// An escape that JSON does not know.
    #[error("unknown escape in a string")]
    BadEscape,
    /// Half of a surrogate pair.
    #[error("half a surrogate pair in a string")]
    LoneSurrogate,
    /// A control character must be escaped.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// The text ends inside a string.
    #[error("the text ends inside a string")]
    UnclosedString,
    /// The text ends where more must follow.
    #[error("the text ends too early")]
    UnexpectedEnd,
    /// A message is one JSON value and nothing after it.
    #[error("more text after the message")]
    TrailingText,
    /// A byte order mark is not JSON.
    #[error("a byte order mark")]
    ByteOrderMark,
}

/// A [`SyntaxError`] and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    pub(crate) offset: usize,
    pub(crate) error: SyntaxError,
}

/// What a JSON value is, told from its first byte.
///
/// ```
/// use caudal_core::{Kind, RawJson};
///
/// assert_eq!(RawJson::parse("[1,2]")?.kind(), Kind::Array);
/// # Ok::<(), caudal_core::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number of any size and form.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The kind of a valid JSON text.
    #[inline]
    pub(crate) fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }

    /// Whether it may be the `params` of a call.
    #[inline]
    pub(crate) const fn is_structured(self) -> bool {
        matches!(self, Self::Array | Self::Object)
    }
}

/// A cursor over a text that is known to be UTF-8.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub(crate) pos: usize,
    /// How many containers are open around the cursor.
    pub(crate) depth: usize,
    /// The most that were ever open since this was last reset.
    pub(crate) deepest: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            pos: 0,
            depth: 0,
            deepest: 0,
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// The text between two positions that are known to be boundaries.
    #[inline]
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Everything from the cursor on.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    #[cold]
    pub(crate) fn fail<T>(&self, error: SyntaxError) -> Result<T, Syntax> {
        self.fail_at(self.pos, error)
    }

    #[cold]
    fn fail_at<T>(&self, offset: usize, error: SyntaxError) -> Result<T, Syntax> {
        Err(Syntax { offset, error })
    }

    /// Fails with `error`, or says that the text has ended if it has.
    #[cold]
    pub(crate) fn unexpected<T>(&self, error: SyntaxError) -> Result<T, Syntax> {
        if self.pos >= self.bytes.len() {
            self.fail(SyntaxError::UnexpectedEnd)
        } else {
            self.fail(error)
        }
    }

    /// The next byte that is not white space; the cursor stands on it.
    #[inline]
    pub(crate) fn next_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.pos += 1,
                other => return other,
            }
        }
    }

    /// Steps into a container whose opening byte is under the cursor.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.pos += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    /// Steps out of a container whose closing byte is under the cursor.
    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.pos += 1;
        self.depth -= 1;
    }

    /// Reads a member's name and its colon.
    #[inline]
    pub(crate) fn name(&mut self) -> Result<StringSpan<'a>, Syntax> {
        if self.next_token() != Some(b'"') {
            return self.unexpected(SyntaxError::ExpectedName);
        }
        let name = self.string()?;
        if self.next_token() != Some(b':') {
            return self.unexpected(SyntaxError::ExpectedColon);
        }
        self.pos += 1;
        Ok(name)
    }

    /// Reads one value of any kind and returns its text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a str, Syntax> {
        let first = self.next_token();
        let start = self.pos;
        match first {
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar(first)?,
        }
        Ok(self.slice(start, self.pos))
    }

    /// Reads a value that is neither array nor object.
    #[inline]
    fn scalar(&mut self, first: Option<u8>) -> Result<(), Syntax> {
        match first {
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.unexpected(SyntaxError::ExpectedValue),
        }
    }

    /// Reads an array or object, whatever it holds, without recursion.
    fn container(&mut self) -> Result<(), Syntax> {
        let mut nesting = Nesting::default();
        loop {
            // A value begins here.
            let first = self.next_token();
            match first {
                Some(b'[') => {
                    nesting.open(false);
                    self.enter();
                    if self.next_token() != Some(b']') {
                        continue;
                    }
                }
                Some(b'{') => {
                    nesting.open(true);
                    self.enter();
                    if self.next_token() != Some(b'}') {
                        self.name()?;
                        continue;
                    }
                }
                _ => self.scalar(first)?,
            }
            // A value has ended, or an empty container is about to.
            loop {
                let in_object = nesting.in_object();
                match self.next_token() {
                    Some(b',') => {
                        self.pos += 1;
                        if in_object {
                            self.name()?;
                        }
                        break;
                    }
                    Some(b'}') if in_object => {}
                    Some(b']') if !in_object => {}
                    _ if in_object => return self.unexpected(SyntaxError::ExpectedCommaOrBrace),
                    _ => return self.unexpected(SyntaxError::ExpectedCommaOrBracket),
                }
                nesting.close();
                self.leave();
                if nesting.depth() == 0 {
                    return Ok(());
                }
            }
        }
    }

    #[inline]
    fn literal(&mut self, word: &str) -> Result<(), Syntax> {
        if self.rest().starts_with(word) {
            self.pos += word.len();
            Ok(())
        } else {
            self.fail(SyntaxError::ExpectedValue)
        }
    }

    #[inline]
    fn number(&mut self) -> Result<(), Syntax> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    #[inline]
    fn digits(&mut self) -> Result<(), Syntax> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        if self.pos == start {
            return self.unexpected(SyntaxError::BadNumber);
        }
        Ok(())
    }
}

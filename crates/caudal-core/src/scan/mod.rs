//! One validating pass over JSON text: no recursion, no allocation.
//!
//! The scanner accepts exactly what `serde_json` accepts as a `Value`, except
//! that a number may be of any size: text that is passed on is never read as
//! a float.

mod nesting;
mod string;

use thiserror::Error;

use crate::decode::DecodeError;

pub(crate) use nesting::Nesting;
pub(crate) use string::{Text, string_value};

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

/// The text is not JSON; [`Scanner::fault`] says why. Of no size, so that what
/// the scanner's functions return stays in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

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
///
/// What is rare (white space, escapes, faults) is a function of its own that
/// takes the scanner by value and gives it back, so that the loop over what is
/// common keeps it in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    pub(crate) pos: usize,
    /// How many containers are open around the cursor.
    pub(crate) depth: usize,
    /// The most that were ever open since this was last reset.
    pub(crate) deepest: usize,
    /// Why the text is not JSON, once it is known not to be.
    error: SyntaxError,
}

impl<'a> Scanner<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self {
            text,
            pos: 0,
            depth: 0,
            deepest: 0,
            error: SyntaxError::UnexpectedEnd,
        }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    /// The byte behind the one under the cursor.
    #[inline]
    pub(crate) fn peek_behind(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos + 1).copied()
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

    /// What is wrong where the cursor stands, after a [`NotJson`].
    pub(crate) const fn fault(&self) -> DecodeError {
        DecodeError::Syntax {
            offset: self.pos,
            error: self.error,
        }
    }

    #[inline]
    pub(crate) const fn fail<T>(&mut self, error: SyntaxError) -> Result<T, NotJson> {
        self.error = error;
        Err(NotJson)
    }

    #[inline]
    const fn fail_at<T>(&mut self, offset: usize, error: SyntaxError) -> Result<T, NotJson> {
        self.pos = offset;
        self.fail(error)
    }

    /// Fails with `error`, or says that the text has ended if it has.
    #[inline]
    pub(crate) const fn unexpected<T>(&mut self, error: SyntaxError) -> Result<T, NotJson> {
        if self.pos >= self.text.len() {
            self.fail(SyntaxError::UnexpectedEnd)
        } else {
            self.fail(error)
        }
    }

    /// The next byte that is not white space; the cursor stands on it.
    #[inline]
    pub(crate) fn next_token(&mut self) -> Option<u8> {
        match self.peek() {
            Some(byte) if byte > b' ' => Some(byte),
            _ => {
                self.pos = self.after_space();
                self.peek()
            }
        }
    }

    /// Where white space ends.
    #[inline(never)]
    fn after_space(self) -> usize {
        let is_space = |b: &&u8| matches!(b, b' ' | b'\n' | b'\r' | b'\t');
        let rest = self.text.as_bytes().get(self.pos..).unwrap_or_default();
        self.pos + rest.iter().take_while(is_space).count()
    }

    /// Moves past `expected` if it comes next.
    #[inline]
    pub(crate) fn eat(&mut self, expected: &str) -> bool {
        let end = self.pos + expected.len();
        let eaten = self.text.as_bytes().get(self.pos..end) == Some(expected.as_bytes());
        if eaten {
            self.pos = end;
        }
        eaten
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
    pub(crate) fn name(&mut self) -> Result<Text<'a>, NotJson> {
        if self.next_token() != Some(b'"') {
            return self.unexpected(SyntaxError::ExpectedName);
        }
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    /// Moves past a member's name and its colon.
    #[inline(always)]
    fn skip_name(&mut self) -> Result<(), NotJson> {
        if self.next_token() != Some(b'"') {
            return self.unexpected(SyntaxError::ExpectedName);
        }
        self.skip_string()?;
        self.colon()
    }

    #[inline(always)]
    fn colon(&mut self) -> Result<(), NotJson> {
        if self.next_token() != Some(b':') {
            return self.unexpected(SyntaxError::ExpectedColon);
        }
        self.pos += 1;
        Ok(())
    }

    /// Makes sure that nothing follows.
    #[inline]
    pub(crate) fn end(&mut self) -> Result<(), NotJson> {
        match self.next_token() {
            None => Ok(()),
            Some(_) => self.fail(SyntaxError::TrailingText),
        }
    }

    /// Reads one value of any kind and returns its text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<&'a str, NotJson> {
        let first = self.next_token();
        let start = self.pos;
        match first {
            Some(b'{' | b'[') => self.container()?,
            _ => self.scalar(first)?,
        }
        Ok(self.slice(start, self.pos))
    }

    /// Reads a number as most ids are: a few digits, and the next member or the end of
    /// the object behind them. If it is anything else, nothing is read.
    #[inline(always)]
    pub(crate) fn few_digits(&mut self) -> Option<&'a str> {
        let word = self.text.as_bytes().get(self.pos..)?.first_chunk()?;
        let word = u64::from_le_bytes(*word);
        let count = leading_digits(word);
        let [first, ..] = word.to_le_bytes();
        let [behind, ..] = word.unbounded_shr(count * 8).to_le_bytes();
        let ends = matches!(behind, b',' | b'}');
        if !ends || count == 0 || (first == b'0' && count > 1) {
            return None;
        }
        let start = self.pos;
        self.pos += count as usize;
        Some(self.slice(start, self.pos))
    }

    /// Reads a value that is neither array nor object.
    #[inline(always)]
    fn scalar(&mut self, first: Option<u8>) -> Result<(), NotJson> {
        match first {
            Some(b'"') => self.skip_string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.unexpected(SyntaxError::ExpectedValue),
        }
    }

    /// Reads an array or object, whatever it holds, without recursion.
    #[inline(never)]
    fn container(&mut self) -> Result<(), NotJson> {
        let mut scan = *self;
        let read = scan.read_container();
        *self = scan;
        read
    }

    #[inline(always)]
    fn read_container(&mut self) -> Result<(), NotJson> {
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
                        self.skip_name()?;
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
                            self.skip_name()?;
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

    #[inline(always)]
    fn literal(&mut self, word: &str) -> Result<(), NotJson> {
        if self.eat(word) {
            return Ok(());
        }
        self.fail(SyntaxError::ExpectedValue)
    }

    #[inline(always)]
    fn number(&mut self) -> Result<(), NotJson> {
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
    #[inline(always)]
    fn digits(&mut self) -> Result<(), NotJson> {
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

/// How many of the first bytes of `word` are digits.
#[inline]
const fn leading_digits(word: u64) -> u32 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // A digit becomes its value, and only what is more than nine gets the high bit.
    let values = word ^ (ONES * b'0' as u64);
    let others = (values & !HIGH).wrapping_add(ONES * (0x7f - 9)) | values;
    (others & HIGH).trailing_zeros() / 8
}

#[cfg(test)]
mod tests {
    use super::{Scanner, leading_digits};

    #[test]
    fn every_byte_that_is_no_digit_ends_a_run() {
        for byte in 0..=u8::MAX {
            for at in 0..8_usize {
                let mut word = *b"01928374";
                word[at] = byte;
                let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
                let found = leading_digits(u64::from_le_bytes(word));
                assert_eq!(found as usize, digits, "{word:?}");
            }
        }
    }

    #[test]
    fn few_digits_are_read_only_where_they_are_a_whole_number() {
        for (text, found) in [
            ("1,\"method\":", Some("1")),
            ("0}      ", Some("0")),
            ("1234567,", Some("1234567")),
            ("1234567}", Some("1234567")),
            ("12345678,", None),
            ("01,     ", None),
            ("00}     ", None),
            ("1.5,    ", None),
            ("1e5,    ", None),
            ("-1,     ", None),
            ("1 ,     ", None),
            ("1],     ", None),
            (",       ", None),
            ("}       ", None),
            ("\"1\",   ", None),
            ("1,", None),
            ("", None),
        ] {
            let mut scan = Scanner::new(text);
            assert_eq!(scan.few_digits(), found, "{text}");
            assert_eq!(scan.pos, found.map_or(0, str::len), "{text}");
        }
    }
}

//! JSON strings: finding the end, checking and decoding escapes.

use std::borrow::Cow;

use super::{NotJson, Scanner, SyntaxError};

/// Marks the bytes of `word` that end a run of plain string bytes: a quote, a
/// backslash or a control character. The lowest mark is exact.
#[inline]
const fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // A byte that borrows is zero after the xor, or below a space; the bytes
    // of other characters, whose high bit is set, are masked out.
    let quote = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * b' ' as u64);
    (quote | backslash | control) & !word & HIGH
}

/// String that the scanner has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    /// Text between the quotes, with its escapes.
    inner: &'a str,
    escaped: bool,
}

impl<'a> Text<'a> {
    /// Returns the value; borrowed unless the string has escapes.
    #[inline]
    pub(crate) fn value(self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.inner))
        } else {
            Cow::Borrowed(self.inner)
        }
    }
}

/// Returns the value of a string, given with its quotes, that the scanner has accepted.
pub(crate) fn string_value(raw: &str) -> Cow<'_, str> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let escaped = memchr::memchr(b'\\', inner.as_bytes()).is_some();
    Text { inner, escaped }.value()
}

impl<'a> Scanner<'a> {
    /// Reads a string; the cursor is on its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Text<'a>, NotJson> {
        let start = self.pos + 1;
        let escaped = self.skip_string()?;
        let inner = self.slice(start, self.pos - 1);
        Ok(Text { inner, escaped })
    }

    /// Moves past a string, and returns true if it has escapes; the cursor is on its
    /// opening quote.
    #[inline(always)]
    pub(super) fn skip_string(&mut self) -> Result<bool, NotJson> {
        self.pos += 1;
        self.skip_plain_words();
        if self.peek() == Some(b'"') {
            self.pos += 1;
            return Ok(false);
        }
        let (scan, read) = self.rest_of_string();
        *self = scan;
        read
    }

    /// Moves past plain bytes, eight at a time, to the first special one or
    /// to the last few bytes of the text.
    #[inline(always)]
    fn skip_plain_words(&mut self) {
        let mut pos = self.pos;
        let bytes = self.text.as_bytes();
        while let Some(word) = bytes.get(pos..).and_then(<[u8]>::first_chunk) {
            let marks = special(u64::from_le_bytes(*word));
            if marks != 0 {
                pos += marks.trailing_zeros() as usize / 8;
                break;
            }
            pos += 8;
        }
        self.pos = pos;
    }

    /// Moves past the rest of a string with escapes, and byte by byte at the end of the
    /// text.
    #[inline(never)]
    fn rest_of_string(mut self) -> (Self, Result<bool, NotJson>) {
        let mut escaped = false;
        let read = loop {
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    break Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    if self.escape().is_err() {
                        break Err(NotJson);
                    }
                    self.skip_plain_words();
                }
                Some(0..b' ') => break self.fail(SyntaxError::ControlCharacter),
                Some(_) => self.pos += 1,
                None => break self.fail(SyntaxError::UnclosedString),
            }
        };
        (self, read)
    }

    /// Checks an escape; the cursor is on its backslash.
    fn escape(&mut self) -> Result<(), NotJson> {
        let start = self.pos;
        self.pos += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.pos += 1;
                Ok(())
            }
            Some(b'u') => {
                self.pos += 1;
                match self.hex4()? {
                    0xDC00..=0xDFFF => self.fail_at(start, SyntaxError::LoneSurrogate),
                    0xD800..=0xDBFF => self.low_surrogate(start),
                    _ => Ok(()),
                }
            }
            Some(_) => self.fail_at(start, SyntaxError::BadEscape),
            None => self.fail(SyntaxError::UnclosedString),
        }
    }

    /// Checks that a low surrogate follows a high one: half a character has no UTF-8
    /// form, so a `String` cannot hold it.
    fn low_surrogate(&mut self, start: usize) -> Result<(), NotJson> {
        if !self.rest().starts_with("\\u") {
            return self.fail_at(start, SyntaxError::LoneSurrogate);
        }
        self.pos += 2;
        match self.hex4()? {
            0xDC00..=0xDFFF => Ok(()),
            _ => self.fail_at(start, SyntaxError::LoneSurrogate),
        }
    }

    fn hex4(&mut self) -> Result<u32, NotJson> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(byte) = self.peek() else {
                return self.fail(SyntaxError::UnclosedString);
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                return self.fail(SyntaxError::BadEscape);
            };
            code = code << 4 | digit;
            self.pos += 1;
        }
        Ok(code)
    }
}

/// Decodes the escapes of a string that [`Scanner::string`] has accepted.
#[cold]
fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escape.chars();
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let mut unit = take_hex4(&mut chars);
                if (0xD800..0xDC00).contains(&unit) {
                    chars.nth(1); // the `\u` of the low half
                    let low = take_hex4(&mut chars);
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low.wrapping_sub(0xDC00) & 0x3FF);
                }
                out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(itself) => out.push(itself),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

fn take_hex4(chars: &mut std::str::Chars<'_>) -> u32 {
    chars
        .by_ref()
        .take(4)
        .fold(0, |code, c| code << 4 | c.to_digit(16).unwrap_or_default())
}

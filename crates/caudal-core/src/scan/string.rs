//! JSON strings: finding the end, checking escapes, undoing them.

use std::borrow::Cow;

use super::{Scanner, Syntax, SyntaxError};

/// Marks the bytes of `word` that end a run of plain string bytes: a quote, a
/// backslash or a control character. The lowest mark is exact.
#[inline]
const fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | backslash | control) & HIGH
}

/// The span of a string's content, between its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringSpan<'a> {
    /// The text between the quotes, escapes untouched.
    pub(crate) inner: &'a str,
    pub(crate) escaped: bool,
}

impl<'a> StringSpan<'a> {
    /// The span of a whole string that the scanner has accepted, quotes and all.
    #[inline]
    pub(crate) fn of(raw: &'a str) -> Self {
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        Self {
            inner,
            escaped: memchr::memchr(b'\\', inner.as_bytes()).is_some(),
        }
    }

    /// The string's value; borrowed unless it was spelled with escapes.
    pub(crate) fn value(self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.inner))
        } else {
            Cow::Borrowed(self.inner)
        }
    }
}

impl<'a> Scanner<'a> {
    /// Reads a string; the cursor stands on its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<StringSpan<'a>, Syntax> {
        let start = self.pos + 1;
        self.pos = start;
        let mut escaped = false;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.fail(SyntaxError::ControlCharacter),
                None => return self.fail(SyntaxError::UnclosedString),
            }
        }
        let inner = self.slice(start, self.pos);
        self.pos += 1;
        Ok(StringSpan { inner, escaped })
    }

    /// Moves past bytes that need no look: up to a quote, a backslash, a
    /// control character or the end.
    #[inline]
    fn skip_plain(&mut self) {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        let (words, _) = rest.as_chunks::<8>();
        for word in words {
            let marks = special(u64::from_le_bytes(*word));
            if marks != 0 {
                self.pos += marks.trailing_zeros() as usize / 8;
                return;
            }
            self.pos += 8;
        }
        while let Some(byte) = self.peek()
            && byte != b'"'
            && byte != b'\\'
            && byte >= 0x20
        {
            self.pos += 1;
        }
    }

    /// Checks an escape; the cursor stands on its backslash.
    fn escape(&mut self) -> Result<(), Syntax> {
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

    /// A high surrogate must be followed by a low one: half a character has no
    /// UTF-8 form, so no `String` could hold it.
    fn low_surrogate(&mut self, start: usize) -> Result<(), Syntax> {
        let follows = self.bytes.get(self.pos..self.pos + 2) == Some(b"\\u".as_slice());
        if !follows {
            return self.fail_at(start, SyntaxError::LoneSurrogate);
        }
        self.pos += 2;
        match self.hex4()? {
            0xDC00..=0xDFFF => Ok(()),
            _ => self.fail_at(start, SyntaxError::LoneSurrogate),
        }
    }

    fn hex4(&mut self) -> Result<u32, Syntax> {
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

/// Undoes the escapes of a string that [`Scanner::string`] has accepted.
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

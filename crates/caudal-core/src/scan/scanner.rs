//! Scanner: a cursor that checks the JSON text that it passes.

use super::{Nesting, NotJson, SyntaxError, Text};
use crate::decode::DecodeError;

/// Cursor over a text that is known to be UTF-8.
///
/// The rare cases (white space, escapes, faults) are functions of their own that take
/// the scanner by value and return it, so that the main loop keeps it in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(crate) pos: usize,
    /// Number of containers that are open at the cursor.
    pub(crate) depth: usize,
    /// Largest `depth` since this was last reset.
    pub(crate) deepest: usize,
    /// Reason why the text is not JSON, after a [`NotJson`].
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

    /// Returns the byte after the one at the cursor.
    #[inline]
    pub(crate) fn peek_behind(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos + 1).copied()
    }

    /// Returns the text between two positions that are character boundaries.
    #[inline]
    pub(crate) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the text from the cursor on.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Returns the error at the cursor, after a [`NotJson`].
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
    pub(super) const fn fail_at<T>(
        &mut self,
        offset: usize,
        error: SyntaxError,
    ) -> Result<T, NotJson> {
        self.pos = offset;
        self.fail(error)
    }

    /// Fails with `error`, or with `UnexpectedEnd` at the end of the text.
    #[inline]
    pub(crate) const fn unexpected<T>(&mut self, error: SyntaxError) -> Result<T, NotJson> {
        if self.pos >= self.text.len() {
            self.fail(SyntaxError::UnexpectedEnd)
        } else {
            self.fail(error)
        }
    }

    /// Moves to the next byte that is not white space, and returns it.
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

    /// Returns the position after the white space.
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

    /// Enters a container; the cursor is on its opening byte.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.pos += 1;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
    }

    /// Leaves a container; the cursor is on its closing byte.
    #[inline]
    pub(crate) const fn leave(&mut self) {
        self.pos += 1;
        self.depth -= 1;
    }

    /// Reads the name of a member and the colon.
    #[inline]
    pub(crate) fn name(&mut self) -> Result<Text<'a>, NotJson> {
        if self.next_token() != Some(b'"') {
            return self.unexpected(SyntaxError::ExpectedName);
        }
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    /// Moves past the name of a member and the colon.
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

    /// Checks that only white space follows.
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

    /// Reads an array or object of any content, without recursion.
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
            // The start of a value.
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
            // The end of a value, or of an empty container.
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
}

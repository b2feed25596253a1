//! `Content-Length` frames, as the Language Server Protocol has them.
//!
//! Written: `Content-Length: N`, `\r\n\r\n`, N bytes.
//!
//! Read: header names in any case; any other header is passed over; white
//! space around names and values; `\n` alone as a line end; blank lines before
//! the first header; a `Content-Type` whose charset is `utf-8` or `utf8`. A
//! line that does not begin with a header's name and a colon is a print that
//! went astray: it is reported and dropped. That is safe, because no JSON
//! string can hold a raw line break, so no content can pass for a header line.
//!
//! `Content-Length: N` at the end of a line is that header wherever on the line
//! it begins: behind a print without a line break, or behind a body of unknown
//! length. The print is reported like a stray line. `X-Content-Length` is
//! another header.
//!
//! A block of headers without a length is reported once. What follows is
//! dropped up to the next `Content-Length`.

use memchr::memchr;

use super::{FrameError, HEAD, Step};
use crate::decode::cut;
use crate::encode::Output;

/// Maximum bytes of a header line.
const MAX_LINE: usize = 8 * 1024;

/// Maximum length of a body that is skipped. A larger length counts as a corrupt header,
/// because skipping it could wait for ever.
const MAX_SKIPPED: u64 = u32::MAX as u64;

const LENGTH: &[u8] = b"content-length";

/// Maximum bytes of a header that are shown in an error.
const SHOWN: usize = 64;

/// The state between two looks at the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    stage: Stage,
    /// True if a known header has begun a frame.
    begun: bool,
    /// The lines that have come since the last frame or blank line.
    seen: Seen,
    /// Number of bytes of the current header line that are known to hold no newline.
    searched: usize,
    length: Option<u64>,
    /// The charset fault of this frame, reported when its headers end.
    charset: Option<FrameError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Headers,
    Body(usize),
    /// A body that is too large, which is reported when its first bytes are there.
    TooLarge(u64),
    Skip(u64),
    /// Everything up to the next `Content-Length`. `cut` says that the first part of
    /// the current line was dropped already.
    Seek {
        cut: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    #[default]
    Nothing,
    /// Stray lines only, each of which was reported.
    Stray,
    Header,
}

impl Header {
    pub(super) fn step(&mut self, buffer: &[u8], limit: usize) -> Step {
        match self.stage {
            Stage::Headers => match self.whole(buffer, limit) {
                Some(step) => step,
                None => self.header_line(buffer, limit),
            },
            Stage::Body(length) if buffer.len() < length => Step::Wait { used: 0 },
            Stage::Body(length) => {
                self.stage = Stage::Headers;
                Step::Frame {
                    body: 0..length,
                    used: length,
                }
            }
            Stage::TooLarge(length) => {
                let head = HEAD.min(limit);
                match buffer.len() < head {
                    true => Step::Wait { used: 0 },
                    false => self.too_large(length, head, limit),
                }
            }
            Stage::Skip(left) => {
                let have = buffer.len() as u64;
                if have < left {
                    self.stage = Stage::Skip(left - have);
                    return Step::Wait { used: buffer.len() };
                }
                self.stage = Stage::Headers;
                // It fits into `usize`, because `left` is at most the length of the buffer.
                let used = usize::try_from(left).unwrap_or(buffer.len());
                Step::Skip { used }
            }
            Stage::Seek { cut } => self.seek(buffer, cut),
        }
    }

    /// At the end of the stream only the space between frames is a good place.
    pub(super) fn finish(&mut self, buffer: &[u8], limit: usize) -> Step {
        let used = buffer.len();
        if let Stage::TooLarge(length) = self.stage {
            return self.too_large(length, used, limit);
        }
        if self.is_seeking() || self.is_idle() && buffer.trim_ascii().is_empty() {
            Step::Wait { used }
        } else {
            let error = FrameError::Truncated;
            Step::Fault { error, used }
        }
    }

    /// Reports a body that is too large; `head` bytes of it are there.
    #[cold]
    fn too_large(&mut self, length: u64, head: usize, limit: usize) -> Step {
        self.stage = Stage::Skip(length - head as u64);
        let error = FrameError::TooLarge { limit };
        Step::Fault { error, used: head }
    }

    /// Skips the body that has begun, of which `have` bytes are there; returns whether one
    /// has.
    pub(super) const fn refuse(&mut self, have: usize) -> bool {
        match self.stage {
            Stage::Body(length) => self.stage = Stage::Skip(length.saturating_sub(have) as u64),
            Stage::TooLarge(length) => self.stage = Stage::Skip(length.saturating_sub(have as u64)),
            Stage::Headers | Stage::Skip(_) | Stage::Seek { .. } => return false,
        }
        true
    }

    /// Returns true if no frame has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Headers && !self.begun
    }

    /// Returns true if bytes are dropped up to the next `Content-Length`. They belong to no frame.
    pub(super) fn is_seeking(&self) -> bool {
        matches!(self.stage, Stage::Seek { .. })
    }

    /// Returns a frame in its usual form, if it is complete: the length is the only header.
    /// All other input is read line by line.
    #[inline]
    fn whole(&self, buffer: &[u8], limit: usize) -> Option<Step> {
        if self.begun || self.seen != Seen::Nothing || self.searched > 0 {
            return None;
        }
        let length = buffer.strip_prefix(NAME)?;
        let mut value = 0;
        let mut digits = 0;
        for digit in length
            .iter()
            .take(MAX_DIGITS)
            .take_while(|b| b.is_ascii_digit())
        {
            value = value * 10 + usize::from(digit - b'0');
            digits += 1;
        }
        let body = length.get(digits..)?.strip_prefix(END)?;
        let fits = (1..=limit.min(body.len())).contains(&value);
        let start = buffer.len() - body.len();
        fits.then_some(Step::Frame {
            body: start..start + value,
            used: start + value,
        })
    }

    fn header_line(&mut self, buffer: &[u8], limit: usize) -> Step {
        let unread = buffer.get(self.searched..).unwrap_or_default();
        let found = memchr(b'\n', unread);
        let used = self.searched + found.map_or(unread.len(), |at| at + 1);
        if used > MAX_LINE {
            let error = FrameError::HeaderTooLarge { limit: MAX_LINE };
            return Step::Fault { error, used };
        }
        if found.is_none() {
            self.searched = used;
            return Step::Wait { used: 0 };
        }
        self.searched = 0;
        let line = buffer.get(..used).unwrap_or_default();
        if line.trim_ascii().is_empty() {
            let seen = std::mem::take(&mut self.seen);
            // Headers end with `\r\n`, and stray prints with `\n`.
            let ends_headers = self.begun || seen != Seen::Nothing && line.ends_with(b"\r\n");
            return if ends_headers {
                self.end_of_headers(seen, used, limit)
            } else {
                Step::Skip { used }
            };
        }
        // A print that did not end its line is a line of its own.
        let used = length_at(line).filter(|at| *at > 0).unwrap_or(used);
        let line = line.get(..used).unwrap_or_default().trim_ascii();
        match self.header(line) {
            Ok(()) => {
                self.seen = Seen::Header;
                Step::Skip { used }
            }
            Err(error) => {
                self.seen = self.seen.max(Seen::Stray);
                Step::Fault { error, used }
            }
        }
    }

    /// Drops whole lines, and the first part of a line that is longer than any header.
    fn seek(&mut self, buffer: &[u8], cut: bool) -> Step {
        let unread = buffer.get(self.searched..).unwrap_or_default();
        let Some(end) = memchr(b'\n', unread).map(|at| self.searched + at + 1) else {
            let used = buffer.len().saturating_sub(MAX_LINE);
            self.stage = Stage::Seek {
                cut: cut || used > 0,
            };
            self.searched = buffer.len() - used;
            return Step::Wait { used };
        };
        self.searched = 0;
        let start = end.saturating_sub(MAX_LINE);
        let line = buffer.get(start..end).unwrap_or_default();
        let found = match cut || start > 0 {
            true => length_behind(line),
            false => length_at(line),
        };
        self.stage = match found {
            Some(_) => Stage::Headers,
            None => Stage::Seek { cut: false },
        };
        let used = found.map_or(end, |at| start + at);
        Step::Skip { used }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), FrameError> {
        let (name, value) = name_and_value(line);
        if !is_name(name) {
            return Err(FrameError::StrayLine { line: shown(line) });
        }
        if name.eq_ignore_ascii_case(LENGTH) {
            self.begun = true;
            if self.length.is_some() {
                return Err(FrameError::TwoLengths);
            }
            self.length = Some(length(value)?);
        } else if name.eq_ignore_ascii_case(b"content-type") {
            self.begun = true;
            let value = (!is_utf8(value)).then(|| shown(value));
            self.charset = value.map(|value| FrameError::WrongCharset { value });
        }
        Ok(())
    }

    fn end_of_headers(&mut self, seen: Seen, used: usize, limit: usize) -> Step {
        self.begun = false;
        let charset = self.charset.take();
        let Some(length) = self.length.take() else {
            self.stage = Stage::Seek { cut: false };
            if seen != Seen::Header {
                return Step::Skip { used };
            }
            let error = FrameError::MissingLength;
            return Step::Fault { error, used };
        };
        let fits = usize::try_from(length)
            .ok()
            .filter(|length| *length <= limit);
        let (stage, fault) = match (charset, fits) {
            (_, Some(0)) => (Stage::Skip(length), Some(FrameError::EmptyBody)),
            (Some(error), _) => (Stage::Skip(length), Some(error)),
            (None, None) => (Stage::TooLarge(length), None),
            (None, Some(length)) => (Stage::Body(length), None),
        };
        self.stage = stage;
        match fault {
            Some(error) => Step::Fault { error, used },
            None => Step::Skip { used },
        }
    }
}

/// The place on a line where a `Content-Length` header begins.
fn length_at(line: &[u8]) -> Option<usize> {
    let (name, _) = name_and_value(line);
    match name.eq_ignore_ascii_case(LENGTH) {
        true => Some(0),
        false => length_behind(line),
    }
}

/// The place on a line where a `Content-Length` header begins whose value ends the line.
fn length_behind(line: &[u8]) -> Option<usize> {
    let line = line.trim_ascii_end();
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (line, digits) = line.split_at(line.len() - digits);
    let line = line.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let (before, name) = line.split_at(line.len().checked_sub(LENGTH.len())?);
    let is_length = name.eq_ignore_ascii_case(LENGTH) && !before.ends_with(b"-");
    (is_length && !digits.is_empty()).then_some(before.len())
}

/// A line's text before its first colon, and behind it.
fn name_and_value(line: &[u8]) -> (&[u8], &[u8]) {
    let (name, value) = line.split_at(memchr(b':', line).unwrap_or(0));
    (
        name.trim_ascii(),
        value.get(1..).unwrap_or_default().trim_ascii(),
    )
}

/// Returns true if it is a valid header name: a token of RFC 9110.
fn is_name(name: &[u8]) -> bool {
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !name.is_empty() && name.iter().all(is_token)
}

fn length(value: &[u8]) -> Result<u64, FrameError> {
    // `parse` alone would take a sign.
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| digits)
        .and_then(|text| text.parse().ok())
        .filter(|length| *length <= MAX_SKIPPED)
        .ok_or_else(|| FrameError::BadLength {
            value: shown(value),
        })
}

/// Returns true if a `Content-Type` has the charset UTF-8 or none.
fn is_utf8(value: &[u8]) -> bool {
    value
        .split(|b| *b == b';')
        .filter_map(|parameter| {
            let (name, charset) = parameter.split_at(memchr(b'=', parameter)?);
            name.trim_ascii()
                .eq_ignore_ascii_case(b"charset")
                .then(|| charset.get(1..).unwrap_or_default().trim_ascii())
        })
        .map(|charset| {
            let unquoted = charset
                .strip_prefix(b"\"")
                .and_then(|c| c.strip_suffix(b"\""));
            unquoted.unwrap_or(charset)
        })
        .all(|charset| {
            charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"utf8")
        })
}

fn shown(bytes: &[u8]) -> Box<str> {
    // Four bytes hold a character at most: no need to look at a longer line.
    let bytes = bytes.get(..SHOWN * 4).unwrap_or(bytes);
    cut(&String::from_utf8_lossy(bytes), SHOWN).into()
}

const NAME: &[u8] = b"Content-Length: ";
const END: &[u8] = b"\r\n\r\n";
/// Maximum digits of a length that is read at once. Such a number always fits.
const MAX_DIGITS: usize = 9;
/// Digits that are reserved for a length: most messages have 100 to 999 bytes.
const GUESS: usize = 3;

/// Leaves room for the header.
pub(super) fn begin<B: Output>(out: &mut B) {
    out.put(NAME);
    out.put(&[b'0'; GUESS]);
    out.put(END);
}

/// Writes the length of the body that has been appended since [`begin`].
pub(super) fn finish<B: Output>(out: &mut B, start: usize) {
    let (at, end) = (start + NAME.len(), out.length());
    let mut digits = [b'0'; 20];
    let digits = write_digits(end - at - GUESS - END.len(), &mut digits);
    if digits.len() != GUESS {
        for _ in GUESS..digits.len() {
            out.put(b"0");
        }
        out.as_mut().copy_within(at + GUESS..end, at + digits.len());
        out.cut(end + digits.len() - GUESS);
    }
    if let Some(room) = out.as_mut().get_mut(at..at + digits.len()) {
        room.copy_from_slice(digits);
    }
}

/// The decimal digits of `number`, at the end of `room`.
fn write_digits(mut number: usize, room: &mut [u8; 20]) -> &[u8] {
    let mut first = room.len();
    for (at, digit) in room.iter_mut().enumerate().rev() {
        #[expect(clippy::cast_possible_truncation, reason = "a digit")]
        let value = (number % 10) as u8;
        *digit = b'0' + value;
        first = at;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    room.get(first..).unwrap_or_default()
}

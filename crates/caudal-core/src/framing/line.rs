//! Newline-delimited frames.
//!
//! A line ends with `\n`; a `\r` before it belongs to the line end. Blank
//! lines are skipped. U+2028 and other Unicode line ends are content.

use memchr::{memchr, memchr2};

use super::{FrameError, Step};
use crate::encode::Output;

/// State between two calls of `step`.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// Number of bytes at the start of the buffer that are known to hold no newline.
    searched: usize,
    /// True while an oversized line is skipped.
    skipping: bool,
}

impl Line {
    pub(super) fn step(&mut self, buffer: &[u8], limit: usize) -> Step {
        let unread = buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr(b'\n', unread) else {
            return self.unfinished(buffer, limit);
        };
        let end = self.searched + found;
        self.searched = 0;
        let used = end + 1;
        self.line(buffer.get(..end).unwrap_or_default(), used, limit)
    }

    /// Skips the line that has begun.
    pub(super) const fn refuse(&mut self) {
        self.searched = 0;
        self.skipping = true;
    }

    /// Returns true if no line is being skipped.
    pub(super) const fn is_idle(&self) -> bool {
        !self.skipping
    }

    fn unfinished(&mut self, buffer: &[u8], limit: usize) -> Step {
        // One more than the limit may be the `\r` of the line's end.
        if !self.skipping && buffer.len() <= limit.saturating_add(1) {
            self.searched = buffer.len();
            return Step::Wait { used: 0 };
        }
        let used = buffer.len();
        self.searched = 0;
        if std::mem::replace(&mut self.skipping, true) {
            return Step::Wait { used };
        }
        let error = FrameError::TooLarge { limit };
        Step::Fault { error, used }
    }

    /// Takes the last line, which may have no newline.
    pub(super) fn finish(&mut self, buffer: &[u8], limit: usize) -> Step {
        self.searched = 0;
        if buffer.is_empty() {
            return Step::Wait { used: 0 };
        }
        self.line(buffer, buffer.len(), limit)
    }

    /// Returns the step for a complete line.
    fn line(&mut self, line: &[u8], used: usize, limit: usize) -> Step {
        let body = trim(line);
        if std::mem::take(&mut self.skipping) {
            return Step::Skip { used };
        }
        if body.len() > limit {
            let error = FrameError::TooLarge { limit };
            return Step::Fault { error, used };
        }
        if is_blank(body) {
            return Step::Skip { used };
        }
        Step::Frame {
            body: 0..body.len(),
            used,
        }
    }
}

fn trim(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|b| matches!(b, b' ' | b'\t' | b'\r'))
}

/// Ends the line that began at `start`.
pub(super) fn finish<B: Output>(out: &mut B, start: usize) {
    let body = out.as_mut().get_mut(start..).unwrap_or_default();
    // In valid JSON a raw line break is always white space.
    if memchr2(b'\n', b'\r', body).is_some() {
        for byte in body {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    out.put(b"\n");
}

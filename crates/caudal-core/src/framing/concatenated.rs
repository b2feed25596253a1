//! Concatenated JSON values.
//!
//! Objects, arrays and strings end with their closing byte. Anything else (a number,
//! a word, garbage) ends at white space or before one of those. Text that cannot be
//! JSON ends the frame at once, so that the next one is found: a closing bracket of the
//! wrong kind, a line break inside a string, and an object or array in a wrong place. A
//! truncated value therefore costs itself, and the next one if that may be part of it; a
//! stray quote costs the text up to the next line break.

use super::{FrameError, Step};
use crate::scan::Nesting;

/// State between two calls of `step`.
#[derive(Clone, Debug, Default)]
pub(super) struct Concatenated {
    /// Number of bytes of the buffer that were read.
    searched: usize,
    /// Number of bytes of the value that were read.
    length: usize,
    within: Within,
    nesting: Nesting,
    /// Containers opened behind the limit. They are only counted, since an oversized
    /// value must not take memory.
    uncounted: usize,
    /// Token that the innermost container expects.
    expects: Expects,
    /// True while an oversized value is skipped.
    skipping: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// Between two values.
    #[default]
    Gap,
    /// Inside an object or array.
    Container,
    String,
    /// After a backslash in a string.
    Escape,
    /// Inside a value without a closing byte.
    Word,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    /// An element, or the value of a member.
    #[default]
    Value,
    /// The name of a member.
    Name,
    /// A colon, a comma or the end.
    Mark,
}

/// Relation of a byte to the current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boundary {
    Inside,
    EndsHere,
    EndedBefore,
}

impl Concatenated {
    pub(super) fn step(&mut self, buffer: &[u8], limit: usize) -> Step {
        if self.within == Within::Gap {
            let used = buffer.iter().take_while(|b| is_space(**b)).count();
            if used > 0 {
                return Step::Skip { used };
            }
        }
        let unread = buffer.get(self.searched..).unwrap_or_default();
        for (offset, byte) in unread.iter().enumerate() {
            let at = self.searched + offset;
            match self.read_byte(*byte, self.length >= limit) {
                Boundary::Inside => self.length += 1,
                Boundary::EndsHere => return self.frame(at + 1, limit),
                Boundary::EndedBefore => return self.frame(at, limit),
            }
        }
        if self.skipping || buffer.len() > limit {
            let used = buffer.len();
            self.searched = 0;
            if std::mem::replace(&mut self.skipping, true) {
                return Step::Wait { used };
            }
            let error = FrameError::TooLarge { limit };
            return Step::Fault { error, used };
        }
        self.searched = buffer.len();
        Step::Wait { used: 0 }
    }

    /// Takes the last value, which may be unfinished or have no closing byte.
    pub(super) fn finish(&mut self, buffer: &[u8], limit: usize) -> Step {
        match self.within {
            Within::Gap => Step::Wait { used: buffer.len() },
            _ => self.frame(buffer.len(), limit),
        }
    }

    /// Skips the value that has begun. Brackets that open from now on are only counted.
    pub(super) fn refuse(&mut self, limit: usize) {
        self.searched = 0;
        self.length = self.length.max(limit);
        self.skipping = true;
    }

    /// Returns true if no value has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.within == Within::Gap
    }

    fn frame(&mut self, end: usize, limit: usize) -> Step {
        let skipped = self.skipping;
        self.nesting.clear();
        *self = Self {
            nesting: std::mem::take(&mut self.nesting),
            ..Self::default()
        };
        if skipped {
            return Step::Skip { used: end };
        }
        if end > limit {
            let error = FrameError::TooLarge { limit };
            return Step::Fault { error, used: end };
        }
        Step::Frame {
            body: 0..end,
            used: end,
        }
    }

    /// Reads one byte; `over` is true if the value is beyond the limit.
    fn read_byte(&mut self, byte: u8, over: bool) -> Boundary {
        match self.within {
            Within::Gap => {
                self.begin(byte);
                Boundary::Inside
            }
            Within::Word => match byte {
                b'{' | b'[' | b'"' => Boundary::EndedBefore,
                _ if is_space(byte) => Boundary::EndedBefore,
                _ => Boundary::Inside,
            },
            Within::Escape => {
                self.within = Within::String;
                Boundary::Inside
            }
            Within::String => self.in_string(byte),
            Within::Container => self.in_container(byte, over),
        }
    }

    fn begin(&mut self, byte: u8) {
        match byte {
            b'"' => self.within = Within::String,
            b'{' | b'[' => {
                self.within = Within::Container;
                self.open(byte, false);
            }
            _ => self.within = Within::Word,
        }
    }

    fn in_string(&mut self, byte: u8) -> Boundary {
        match byte {
            b'\\' => self.within = Within::Escape,
            b'\n' => return Boundary::EndsHere,
            b'"' if self.nesting.depth() == 0 => return Boundary::EndsHere,
            b'"' => self.within = Within::Container,
            _ => {}
        }
        Boundary::Inside
    }

    fn in_container(&mut self, byte: u8, over: bool) -> Boundary {
        match byte {
            _ if is_space(byte) => {}
            b'{' | b'[' if self.expects != Expects::Value => return Boundary::EndedBefore,
            b'{' | b'[' => self.open(byte, over),
            b'}' | b']' => return self.close(byte),
            b',' if self.uncounted == 0 && self.nesting.in_object() => self.expects = Expects::Name,
            b',' | b':' => self.expects = Expects::Value,
            b'"' => {
                self.within = Within::String;
                self.expects = Expects::Mark;
            }
            _ => self.expects = Expects::Mark,
        }
        Boundary::Inside
    }

    fn open(&mut self, byte: u8, over: bool) {
        if over {
            self.uncounted += 1;
        } else {
            self.nesting.open(byte == b'{');
        }
        self.expects = match byte {
            b'{' => Expects::Name,
            _ => Expects::Value,
        };
    }

    fn close(&mut self, byte: u8) -> Boundary {
        self.expects = Expects::Mark;
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return Boundary::Inside;
        }
        if self.nesting.in_object() != (byte == b'}') {
            return Boundary::EndsHere;
        }
        self.nesting.close();
        if self.nesting.depth() == 0 {
            Boundary::EndsHere
        } else {
            Boundary::Inside
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

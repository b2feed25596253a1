//! Bare JSON values, one after the other.
//!
//! Objects, arrays and strings end where they close. Anything else (a number,
//! a word, rubbish) ends at white space or where one of those begins. What
//! cannot be JSON ends its frame at once, so that the next one is found: a
//! closing bracket of the wrong kind, a line break inside a string, and an
//! object or array where none can stand. A value that is cut short therefore
//! costs itself, and the next one if it can be taken for a part of it; a stray
//! quote costs what follows it up to the next line break.

use super::{FrameError, Step};
use crate::scan::Nesting;

/// The state between two looks at the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Concatenated {
    /// How much of the buffer has been looked at.
    searched: usize,
    /// How much of the value has been looked at.
    length: usize,
    within: Within,
    nesting: Nesting,
    /// The containers opened behind the limit: only counted, since a value
    /// that is too large must not take memory.
    uncounted: usize,
    /// What an innermost container waits for.
    expects: Expects,
    /// Whether an oversized value is being skipped.
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
    /// Behind a backslash in a string.
    Escape,
    /// Inside a value that nothing closes.
    Word,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expects {
    /// An element, or a member's value.
    #[default]
    Value,
    /// A member's name.
    Name,
    /// A colon, a comma or the end.
    Mark,
}

/// What a byte is to the value at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
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
            match self.look(*byte, self.length >= limit) {
                Look::Inside => self.length += 1,
                Look::EndsHere => return self.frame(at + 1, limit),
                Look::EndedBefore => return self.frame(at, limit),
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

    /// The last value may be one that nothing closes, or an unfinished one.
    pub(super) fn finish(&mut self, buffer: &[u8], limit: usize) -> Step {
        match self.within {
            Within::Gap => Step::Wait { used: buffer.len() },
            _ => self.frame(buffer.len(), limit),
        }
    }

    /// Skips the value that has begun. What it opens from now on is only counted.
    pub(super) fn refuse(&mut self, limit: usize) {
        self.searched = 0;
        self.length = self.length.max(limit);
        self.skipping = true;
    }

    /// Whether no value has begun.
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

    /// Moves over one byte; `over` says that the value is past its limit.
    fn look(&mut self, byte: u8, over: bool) -> Look {
        match self.within {
            Within::Gap => {
                self.begin(byte);
                Look::Inside
            }
            Within::Word => match byte {
                b'{' | b'[' | b'"' => Look::EndedBefore,
                _ if is_space(byte) => Look::EndedBefore,
                _ => Look::Inside,
            },
            Within::Escape => {
                self.within = Within::String;
                Look::Inside
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

    fn in_string(&mut self, byte: u8) -> Look {
        match byte {
            b'\\' => self.within = Within::Escape,
            b'\n' => return Look::EndsHere,
            b'"' if self.nesting.depth() == 0 => return Look::EndsHere,
            b'"' => self.within = Within::Container,
            _ => {}
        }
        Look::Inside
    }

    fn in_container(&mut self, byte: u8, over: bool) -> Look {
        match byte {
            _ if is_space(byte) => {}
            b'{' | b'[' if self.expects != Expects::Value => return Look::EndedBefore,
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
        Look::Inside
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

    fn close(&mut self, byte: u8) -> Look {
        self.expects = Expects::Mark;
        if self.uncounted > 0 {
            self.uncounted -= 1;
            return Look::Inside;
        }
        if self.nesting.in_object() != (byte == b'}') {
            return Look::EndsHere;
        }
        self.nesting.close();
        if self.nesting.depth() == 0 {
            Look::EndsHere
        } else {
            Look::Inside
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

//! Bare JSON values, one after the other.
//!
//! Objects, arrays and strings end where they close. Anything else (a number,
//! a word, rubbish) ends at white space or where one of those begins. What
//! cannot be JSON ends its frame at once, so that the next one is found: a
//! closing bracket of the wrong kind, and a line break inside a string.

use super::{FrameError, Step};
use crate::scan::Nesting;

/// The state between two looks at the buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Concatenated {
    /// How much of the buffer has been looked at.
    searched: usize,
    within: Within,
    nesting: Nesting,
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
            match self.look(*byte) {
                Look::Inside => {}
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

    fn frame(&mut self, end: usize, limit: usize) -> Step {
        self.searched = 0;
        self.within = Within::Gap;
        self.nesting.clear();
        if std::mem::take(&mut self.skipping) {
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

    /// Moves over one byte.
    fn look(&mut self, byte: u8) -> Look {
        match self.within {
            Within::Gap => self.begin(byte),
            Within::Word => match byte {
                b'{' | b'[' | b'"' => Look::EndedBefore,
                _ if is_space(byte) => Look::EndedBefore,
                _ => Look::Inside,
            },
            Within::Escape => {
                self.within = Within::String;
                Look::Inside
            }
            Within::String => match byte {
                b'\\' => {
                    self.within = Within::Escape;
                    Look::Inside
                }
                b'"' if self.nesting.depth() == 0 => Look::EndsHere,
                b'"' => {
                    self.within = Within::Container;
                    Look::Inside
                }
                b'\n' => Look::EndsHere,
                _ => Look::Inside,
            },
            Within::Container => self.in_container(byte),
        }
    }

    fn begin(&mut self, byte: u8) -> Look {
        self.within = match byte {
            b'"' => Within::String,
            b'{' | b'[' => {
                self.nesting.open(byte == b'{');
                Within::Container
            }
            _ => Within::Word,
        };
        Look::Inside
    }

    fn in_container(&mut self, byte: u8) -> Look {
        match byte {
            b'"' => self.within = Within::String,
            b'{' | b'[' => self.nesting.open(byte == b'{'),
            b'}' | b']' => {
                if self.nesting.in_object() != (byte == b'}') {
                    return Look::EndsHere;
                }
                self.nesting.close();
                if self.nesting.depth() == 0 {
                    return Look::EndsHere;
                }
            }
            _ => {}
        }
        Look::Inside
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// What a byte is to the value at hand.
enum Look {
    Inside,
    EndsHere,
    EndedBefore,
}

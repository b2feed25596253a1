//! The ids of our own calls: found again without a map.
//!
//! Both formats carry the slot of the call. An integer is the slot's number,
//! counted from 1, plus a multiple of the stride; it stays below 2^53, so that
//! every JSON parser keeps it exact. A UUID has the slot in its last 32 bits,
//! under a random mask.

use std::fmt;

use crate::decode::Id;
use crate::encode::{put_plain, sealed};
use crate::entropy;
use crate::id::RequestId;

/// What the ids of our own calls look like; chosen once per connection.
///
/// ```
/// use caudal_core::IdFormat;
///
/// assert_eq!(IdFormat::default(), IdFormat::Integer);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdFormat {
    /// Integers, unique within the connection.
    #[default]
    Integer,
    /// UUIDs (version 4) as strings, unique everywhere.
    Uuid,
}

/// The id of a call of ours.
///
/// `Display` writes it as it stands on the wire.
///
/// ```
/// # use std::time::Instant;
/// use caudal_core::{IdFormat, Pending};
///
/// let mut pending = Pending::new(8, IdFormat::Integer, Instant::now());
/// assert_eq!(pending.insert((), None)?.to_string(), "1");
/// # Ok::<(), caudal_core::CallError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    key: u128,
    format: IdFormat,
}

impl CallId {
    pub(super) const fn key(self) -> u128 {
        self.key
    }

    /// The owned id.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use caudal_core::{IdFormat, Pending, RequestId};
    /// let mut pending = Pending::new(8, IdFormat::Integer, Instant::now());
    /// assert_eq!(pending.insert((), None)?.to_request_id(), RequestId::from(1));
    /// # Ok::<(), caudal_core::CallError>(())
    /// ```
    #[must_use]
    pub fn to_request_id(self) -> RequestId {
        match (self.format, i64::try_from(self.key)) {
            (IdFormat::Integer, Ok(number)) => RequestId::Number(number),
            _ => RequestId::String(Uuid(self.key).to_string()),
        }
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.format {
            IdFormat::Integer => write!(f, "{}", self.key),
            IdFormat::Uuid => write!(f, "\"{}\"", Uuid(self.key)),
        }
    }
}

impl sealed::WireId for CallId {
    fn write_to<B: sealed::Output>(&self, out: &mut B) {
        match (self.format, u64::try_from(self.key)) {
            (IdFormat::Integer, Ok(number)) => put_plain(out, &number),
            _ => out.put(&Uuid(self.key).quoted()),
        }
    }
}

/// Makes keys, and finds the slot of a key again.
#[derive(Debug)]
pub(super) struct Keys {
    format: IdFormat,
    /// The distance between two integers of one slot: a power of two.
    stride: u64,
    /// Hides the slot in a UUID.
    mask: u32,
}

/// Beyond this, parsers that use floating point lose digits.
const EXACT: u64 = 1 << 53;

impl Keys {
    pub(super) fn new(format: IdFormat, limit: usize) -> Self {
        Self {
            format,
            stride: (limit as u64).max(1).next_power_of_two(),
            #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
            mask: entropy::random_u64() as u32,
        }
    }

    /// The key of a new call in `index`, whose last call had the key `last`.
    ///
    /// An integer is not used again before 2^53 / stride calls in its slot: a
    /// late reply must not answer a newer call.
    pub(super) fn next(&self, index: u32, last: u128) -> u128 {
        match self.format {
            IdFormat::Integer => {
                let first = u128::from(index) + 1;
                let next = last + u128::from(self.stride);
                if last == 0 || next >= u128::from(EXACT) {
                    first
                } else {
                    next
                }
            }
            IdFormat::Uuid => Uuid::random(index ^ self.mask).0,
        }
    }

    pub(super) const fn call_id(&self, key: u128) -> CallId {
        CallId {
            key,
            format: self.format,
        }
    }

    /// The slot that a key belongs to, if it is one of ours.
    pub(super) fn index(&self, key: u128) -> Option<u32> {
        match self.format {
            IdFormat::Integer => {
                let number = u64::try_from(key).ok()?.checked_sub(1)?;
                u32::try_from(number & (self.stride - 1)).ok()
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the last 32 bits are meant"
            )]
            IdFormat::Uuid => Some(key as u32 ^ self.mask),
        }
    }

    /// The key that a response's id stands for, if it can be one of ours.
    pub(super) fn read(&self, id: Id<'_>) -> Option<u128> {
        match self.format {
            IdFormat::Integer => u128::try_from(id.as_i64()?).ok(),
            IdFormat::Uuid => Uuid::parse(&id.as_string()?),
        }
    }
}

/// A UUID, written with lower-case digits and hyphens.
struct Uuid(u128);

impl Uuid {
    /// Version 4, with the last 32 bits given.
    fn random(last: u32) -> Self {
        let random = entropy::random_u128() & !u128::from(u32::MAX) | u128::from(last);
        let version = random & !(0xF << 76) | 0x4 << 76;
        let variant = version & !(0x3 << 62) | 0x2 << 62;
        Self(variant)
    }

    /// As a JSON string.
    fn quoted(&self) -> [u8; 38] {
        let mut text = [b'-'; 38];
        let mut shift = 128;
        for (at, byte) in text.iter_mut().enumerate() {
            match at {
                0 | 37 => *byte = b'"',
                9 | 14 | 19 | 24 => {}
                _ => {
                    shift -= 4;
                    let digit = (self.0 >> shift & 0xF) as u32;
                    *byte = char::from_digit(digit, 16).map_or(b'0', |digit| digit as u8);
                }
            }
        }
        text
    }

    fn parse(text: &str) -> Option<u128> {
        let mut parts = text.split('-');
        let mut key = 0;
        for length in [8, 4, 4, 4, 12] {
            let part = parts.next().filter(|part| part.len() == length)?;
            for digit in part.chars() {
                key = key << 4 | u128::from(digit.to_digit(16)?);
            }
        }
        parts.next().is_none().then_some(key)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = self.quoted();
        let text = std::str::from_utf8(&quoted).unwrap_or_default();
        f.write_str(text.trim_matches('"'))
    }
}

//! The ids of our own calls: found again without a map.
//!
//! Integers count up from 1, and stay below 2^53, so that every JSON parser keeps
//! them exact; the place of one in a ring is its lowest bits. A UUID has the slot
//! of its call in its last 32 bits, under a random mask.

use std::fmt;

use crate::decode::Id;
use crate::encode::{put_plain, sealed};
use crate::entropy;
use crate::id::RequestId;
use crate::policy::OldResponses;

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
    /// The choice for strings that spell a number.
    pub(super) old: OldResponses,
    ring: Ring,
    /// Hides the slot in a UUID.
    mask: u32,
}

impl Keys {
    pub(super) fn new(format: IdFormat) -> Self {
        Self {
            format,
            old: OldResponses::default(),
            ring: Ring::default(),
            #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
            mask: entropy::random_u64() as u32,
        }
    }

    /// The key of a new call in the slot `index`.
    pub(super) fn next(&mut self, index: u32) -> u128 {
        match self.format {
            IdFormat::Integer => self.ring.insert(index).into(),
            IdFormat::Uuid => Uuid::random(index ^ self.mask).0,
        }
    }

    /// Forgets a key that nobody waits for any more.
    pub(super) fn release(&mut self, key: u128) {
        if let (IdFormat::Integer, Ok(number)) = (self.format, u64::try_from(key)) {
            self.ring.remove(number);
        }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.ring = Ring::default();
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
            IdFormat::Integer => self.ring.slot(u64::try_from(key).ok()?),
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
            IdFormat::Integer => u128::try_from(id.call_number(self.old)?).ok(),
            IdFormat::Uuid => Uuid::parse(&id.as_string()?),
        }
    }
}

/// Which slot an integer belongs to, for those that are in use.
///
/// The place of a number is its lowest bits. A number whose place is taken is
/// left out, so no two share one; when the ring is doubled they part further. It
/// is half empty at least, so a free place is near.
#[derive(Debug, Default)]
struct Ring {
    places: Vec<Place>,
    used: usize,
    last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Zero is none.
    number: u64,
    slot: u32,
}

/// Beyond this, parsers that use floating point lose digits.
const EXACT: u64 = 1 << 53;

impl Ring {
    fn place(&mut self, number: u64) -> Option<&mut Place> {
        let mask = self.places.len().wrapping_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are meant")]
        self.places.get_mut(number as usize & mask)
    }

    /// The next number. It is not used again before 2^53 others were: a late reply
    /// must not answer a newer call.
    fn insert(&mut self, slot: u32) -> u64 {
        if (self.used + 1) * 2 > self.places.len() {
            self.grow();
        }
        self.used += 1;
        loop {
            let number = (self.last + 1) % EXACT;
            self.last = number;
            match self.place(number) {
                Some(place @ Place { number: 0, .. }) if number > 0 => {
                    *place = Place { number, slot };
                    return number;
                }
                _ => {}
            }
        }
    }

    fn grow(&mut self) {
        let doubled = vec![Place::default(); (self.places.len() * 2).max(8)];
        for old in std::mem::replace(&mut self.places, doubled) {
            if let Some(place) = self.place(old.number).filter(|_| old.number > 0) {
                *place = old;
            }
        }
    }

    fn slot(&self, number: u64) -> Option<u32> {
        let mask = self.places.len().wrapping_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are meant")]
        let place = self.places.get(number as usize & mask)?;
        (place.number == number && number > 0).then_some(place.slot)
    }

    fn remove(&mut self, number: u64) {
        if let Some(place) = self.place(number).filter(|place| place.number == number) {
            *place = Place::default();
            self.used -= 1;
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

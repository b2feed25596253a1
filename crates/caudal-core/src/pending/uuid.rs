//! UUIDs of version 4 (RFC 9562).

use std::fmt;

use crate::entropy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Uuid(u128);

impl Uuid {
    pub(super) fn random() -> Self {
        let version = entropy::random_u128() & !(0xF << 76) | 0x4 << 76;
        let variant = version & !(0x3 << 62) | 0x2 << 62;
        Self(variant)
    }

    /// Reads 32 digits in groups of 8, 4, 4, 4 and 12, of either case.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut groups = text.split('-');
        let mut value = 0;
        for length in [8, 4, 4, 4, 12] {
            let group = groups.next().filter(|group| group.len() == length)?;
            for digit in group.chars() {
                value = value << 4 | u128::from(digit.to_digit(16)?);
            }
        }
        groups.next().is_none().then_some(Self(value))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let mut rest = digits.as_str();
        for length in [8, 4, 4, 4] {
            let (group, tail) = rest.split_at(length);
            write!(f, "{group}-")?;
            rest = tail;
        }
        f.write_str(rest)
    }
}

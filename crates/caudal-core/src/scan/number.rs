//! JSON numbers: of any size, never read as a float.

use super::{NotJson, Scanner, SyntaxError};

impl<'a> Scanner<'a> {
    /// Reads a few digits that are followed by a comma or a brace, as most ids are. Reads
    /// nothing in all other cases.
    #[inline(always)]
    pub(crate) fn few_digits(&mut self) -> Option<&'a str> {
        let word = self.text.as_bytes().get(self.pos..)?.first_chunk()?;
        let word = u64::from_le_bytes(*word);
        let count = leading_digits(word);
        let [first, ..] = word.to_le_bytes();
        let [behind, ..] = word.unbounded_shr(count * 8).to_le_bytes();
        let ends = matches!(behind, b',' | b'}');
        if !ends || count == 0 || (first == b'0' && count > 1) {
            return None;
        }
        let start = self.pos;
        self.pos += count as usize;
        Some(self.slice(start, self.pos))
    }

    #[inline(always)]
    pub(super) fn number(&mut self) -> Result<(), NotJson> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Moves past one or more digits.
    #[inline(always)]
    fn digits(&mut self) -> Result<(), NotJson> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.peek() {
            self.pos += 1;
        }
        if self.pos == start {
            return self.unexpected(SyntaxError::BadNumber);
        }
        Ok(())
    }
}

/// Counts the digits at the start of `word`.
#[inline]
const fn leading_digits(word: u64) -> u32 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // Digits become their values, and only bytes above nine get the high bit.
    let values = word ^ (ONES * b'0' as u64);
    let others = (values & !HIGH).wrapping_add(ONES * (0x7f - 9)) | values;
    (others & HIGH).trailing_zeros() / 8
}

#[cfg(test)]
mod tests {
    use super::{Scanner, leading_digits};

    #[test]
    fn every_byte_that_is_no_digit_ends_a_run() {
        for byte in 0..=u8::MAX {
            for at in 0..8_usize {
                let mut word = *b"01928374";
                word[at] = byte;
                let digits = word.iter().take_while(|b| b.is_ascii_digit()).count();
                let found = leading_digits(u64::from_le_bytes(word));
                assert_eq!(found as usize, digits, "{word:?}");
            }
        }
    }

    #[test]
    fn few_digits_are_read_only_where_they_are_a_whole_number() {
        for (text, found) in [
            ("1,\"method\":", Some("1")),
            ("0}      ", Some("0")),
            ("1234567,", Some("1234567")),
            ("1234567}", Some("1234567")),
            ("12345678,", None),
            ("01,     ", None),
            ("00}     ", None),
            ("1.5,    ", None),
            ("1e5,    ", None),
            ("-1,     ", None),
            ("1 ,     ", None),
            ("1],     ", None),
            (",       ", None),
            ("}       ", None),
            ("\"1\",   ", None),
            ("1,", None),
            ("", None),
        ] {
            let mut scan = Scanner::new(text);
            assert_eq!(scan.few_digits(), found, "{text}");
            assert_eq!(scan.pos, found.map_or(0, str::len), "{text}");
        }
    }
}

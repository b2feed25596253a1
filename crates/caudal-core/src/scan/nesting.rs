//! Stack of the open containers of a JSON text, one bit each.

/// Stack of open arrays and objects.
///
/// The innermost 64 are in one word; only deeper texts use the heap, with one bit for
/// each level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nesting {
    word: u64,
    depth: usize,
    spilled: Vec<u64>,
}

impl Nesting {
    /// Returns the number of open containers.
    #[inline]
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// Returns true if the innermost container is an object.
    #[inline]
    pub(crate) const fn in_object(&self) -> bool {
        self.word & 1 == 1
    }

    #[inline]
    pub(crate) fn open(&mut self, object: bool) {
        if self.depth.is_multiple_of(64) && self.depth > 0 {
            self.spilled.push(self.word);
        }
        self.word = self.word << 1 | u64::from(object);
        self.depth += 1;
    }

    /// Closes the innermost container; nothing happens if none is open.
    #[inline]
    pub(crate) fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.word >>= 1;
        if self.depth.is_multiple_of(64) && self.depth > 0 {
            self.word = self.spilled.pop().unwrap_or_default();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.word = 0;
        self.depth = 0;
        self.spilled.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Nesting;

    #[test]
    fn every_level_keeps_its_kind_past_the_word() {
        let mut nesting = Nesting::default();
        let object = |level: usize| level.is_multiple_of(3);
        for level in 0..300 {
            nesting.open(object(level));
            assert_eq!(nesting.in_object(), object(level));
        }
        for level in (0..300).rev() {
            assert_eq!(nesting.depth(), level + 1);
            assert_eq!(nesting.in_object(), object(level), "level {level}");
            nesting.close();
        }
        assert_eq!(nesting.depth(), 0);
        assert!(!nesting.in_object());
    }
}

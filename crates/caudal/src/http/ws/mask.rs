//! Masks of a client's frames.

use std::io;

/// Applies a mask, or removes it.
pub(super) fn apply(mask: [u8; 4], text: &mut [u8]) {
    let [a, b, c, d] = mask;
    let twice = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = text.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ twice).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= mask;
    }
}

/// Masks for a client's frames. Each frame gets new random bytes, which are requested from
/// the system for several frames at a time.
#[derive(Debug, Default)]
pub(super) struct Masks {
    bytes: [u8; 32],
    left: usize,
}

impl Masks {
    pub(super) fn next(&mut self) -> io::Result<[u8; 4]> {
        if self.left == 0 {
            getrandom::fill(&mut self.bytes).map_err(io::Error::other)?;
            self.left = self.bytes.len() / 4;
        }
        self.left -= 1;
        let (masks, _) = self.bytes.as_chunks();
        masks
            .get(self.left)
            .copied()
            .ok_or_else(|| io::ErrorKind::Other.into())
    }
}

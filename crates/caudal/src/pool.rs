//! Buffers that connections share while they have nothing to do with them.
//!
//! A connection needs a large buffer to read many messages at once, and for an
//! instant only: an idle one holds none.

use std::cell::RefCell;

use bytes::{Buf, BytesMut};

/// The size of a buffer: what is read at once.
pub(crate) const SIZE: usize = 64 << 10;
/// What an idle connection may hold, twice.
const SMALL: usize = 512;
/// How many a thread keeps.
const KEPT: usize = 8;

thread_local! {
    static FREE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for [`SIZE`] bytes.
pub(crate) fn take() -> BytesMut {
    let mut buffer = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
    // Allocates for a new one.
    buffer.reserve(SIZE);
    buffer
}

/// Gives an empty buffer back. One that has grown beyond its use is freed, and so is one
/// that has not come from here.
pub(crate) fn give(mut buffer: BytesMut) {
    debug_assert!(buffer.is_empty(), "its bytes would be lost");
    if !buffer.try_reclaim(SIZE) || buffer.capacity() > SIZE * 4 {
        return;
    }
    FREE.with_borrow_mut(|free| {
        if free.len() < KEPT {
            free.push(buffer);
        }
    });
}

/// Gives an empty buffer back, unless it is so small that it may as well stay where it is
/// for the next message.
pub(crate) fn rest(buffer: &mut BytesMut) {
    if buffer.try_reclaim(SMALL + 1) {
        give(std::mem::take(buffer));
    }
}

/// Removes from the front what was sent. If that is all, the buffer begins where it did, and
/// has all its room at once when it is written to again.
#[inline]
pub(crate) fn consume(buffer: &mut BytesMut, bytes: usize) {
    match bytes < buffer.len() {
        true => buffer.advance(bytes),
        false => buffer.clear(),
    }
}

/// How many this thread keeps just now.
#[cfg(test)]
pub(crate) fn free() -> usize {
    FREE.with_borrow(Vec::len)
}

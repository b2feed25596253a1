//! Buffers that connections share while they have nothing to do with them.
//!
//! A connection needs a large buffer to read many messages at once, and for an
//! instant only: an idle one holds none.

use std::cell::RefCell;

use bytes::{Buf, BytesMut};

/// The size of a buffer: what is read at once.
pub(crate) const SIZE: usize = 64 << 10;
/// Maximum bytes of each of the two buffers of an idle connection.
const SMALL: usize = 512;
/// Maximum number of buffers that a thread keeps.
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
    if !buffer.try_reclaim(SIZE) {
        return;
    }
    if buffer.capacity() != SIZE {
        front(&mut buffer);
    }
    if buffer.capacity() > SIZE * 4 {
        return;
    }
    FREE.with_borrow_mut(|free| {
        if free.len() < KEPT {
            free.push(buffer);
        }
    });
}

/// Moves what is in a buffer to its front, if that costs little: then its capacity is all
/// the memory that it has.
pub(crate) fn front(buffer: &mut BytesMut) {
    let _ = buffer.try_reclaim(buffer.capacity() - buffer.len() + 1);
}

/// Moves the beginning of a message out of a buffer that is far too large for it: the rest
/// may take long.
#[cold]
pub(crate) fn fit(buffer: &mut BytesMut) {
    if buffer.len() <= SIZE && buffer.try_reclaim(2 * SIZE) {
        let mut usual = BytesMut::with_capacity(SIZE);
        usual.extend_from_slice(buffer);
        buffer.clear();
        give(std::mem::replace(buffer, usual));
    }
}

/// Makes room for `more` bytes behind others, for twice as much as there is if `most`
/// allows it: then small pieces are not moved often.
#[cfg(feature = "http")]
pub(crate) fn grow(pieces: &mut Vec<u8>, more: usize, most: usize) {
    let needed = pieces.len() + more;
    if needed > pieces.capacity() {
        let room = (pieces.capacity() * 2).min(most).max(needed);
        pieces.reserve_exact(room - pieces.len());
    }
}

/// Gives an empty buffer back, unless it is so small that it may as well stay where it is
/// for the next message.
pub(crate) fn give_unless_small(buffer: &mut BytesMut) {
    if buffer.try_reclaim(SMALL + 1) {
        give(std::mem::take(buffer));
    }
}

/// Moves what could not be sent to where it takes no more room than it needs, if it is little:
/// it may wait for long.
#[cold]
pub(crate) fn shrink(buffer: &mut BytesMut) {
    if buffer.len() <= SIZE / 8 {
        let little = BytesMut::from(&**buffer);
        buffer.clear();
        give(std::mem::replace(buffer, little));
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

/// Number of buffers that this thread keeps at the moment.
#[cfg(test)]
pub(crate) fn free() -> usize {
    FREE.with_borrow(Vec::len)
}

#[cfg(test)]
mod tests {
    use bytes::Buf as _;

    use super::{SIZE, free, shrink, take};

    #[test]
    fn what_waits_to_be_sent_holds_no_buffer_for_it() {
        let mut out = take();
        out.extend_from_slice(b"an event");
        let before = free();
        shrink(&mut out);
        assert_eq!(out, "an event");
        assert!(out.capacity() < 64, "{}", out.capacity());
        assert_eq!(free(), before + 1);
        // However much went out before.
        let mut out = take();
        out.resize(SIZE, b' ');
        out.advance(SIZE - 8);
        shrink(&mut out);
        assert!(out.capacity() < 64, "{}", out.capacity());
        assert_eq!(free(), before + 1);
        // To move much would cost more than it is worth.
        let mut out = take();
        out.resize(SIZE / 4, b' ');
        shrink(&mut out);
        assert!(out.capacity() >= SIZE);
    }
}

//! What is written and not yet taken over to be sent.
//!
//! A call that is given up before that leaves a hole. Holes are closed when so much has
//! gone that to move the rest costs little for each of them, or when the driver takes
//! all over, so that to give up thousands of calls is not to move all bytes thousands
//! of times.
//!
//! An event that is sent to many is not copied here but shared, until something is written
//! behind it.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::buffers;

#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Output {
    /// The last that was written, if it is shared with other connections.
    event: Bytes,
    /// All else, with the holes.
    text: BytesMut,
    /// How many bytes the holes have.
    gone: usize,
    /// How often the driver has taken it over.
    taken: u64,
    /// Whether the text may have room that nobody needs.
    has_buffer: bool,
    holes: Vec<Range<usize>>,
}

impl Output {
    /// How many bytes wait.
    pub(super) fn waits(&self) -> usize {
        self.text.len() + self.event.len() - self.gone
    }

    /// All of it, with the holes, to write behind it.
    pub(super) fn text(&mut self) -> &mut BytesMut {
        if !self.event.is_empty() {
            self.text
                .extend_from_slice(&std::mem::take(&mut self.event));
        }
        &mut self.text
    }

    /// Appends what is shared with other connections.
    pub(super) fn share(&mut self, event: Bytes) {
        self.text();
        self.event = event;
    }

    /// Whether there may be memory to [give back](Self::rest).
    pub(super) const fn has_buffer(&self) -> bool {
        self.has_buffer
    }

    /// Gives back memory that an idle connection does not need.
    pub(super) fn rest(&mut self) {
        if self.text.is_empty() {
            self.has_buffer = false;
            buffers::rest(&mut self.text);
        }
    }

    /// Changes when it is taken over: what was written before that is sent.
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Cuts a piece out.
    pub(super) fn cut(&mut self, piece: Range<usize>) {
        if !piece.is_empty() {
            self.gone += piece.len();
            self.holes.push(piece);
        }
    }

    /// Whether the holes are to be closed, where `pieces` have to be told.
    pub(super) fn is_mostly_gone(&self, pieces: usize) -> bool {
        self.gone > (self.text.len() / 2).max(pieces)
    }

    /// Moves up what is behind the holes.
    pub(super) fn close(&mut self) -> Closed {
        if self.holes.is_empty() {
            return Closed(Vec::new());
        }
        self.gone = 0;
        let mut holes = std::mem::take(&mut self.holes);
        holes.sort_unstable_by_key(|hole| hole.start);
        let mut kept = holes.first().map_or(0, |first| first.start);
        let starts = holes.iter().skip(1).map(|hole| hole.start);
        let starts = starts.chain([self.text.len()]);
        let mut closed = Vec::with_capacity(holes.len());
        for (hole, next) in holes.iter().zip(starts) {
            self.text.copy_within(hole.end..next, kept);
            kept += next - hole.end;
            closed.push((hole.end, next - kept));
        }
        self.text.truncate(kept);
        Closed(closed)
    }

    /// Hands all of it over, behind what is there.
    pub(super) fn hand_over(&mut self, out: &mut BytesMut) {
        // Where something stands in it does not matter any more.
        let _ = self.close();
        if self.text.is_empty() && self.event.is_empty() {
            return;
        }
        self.taken += 1;
        if !self.text.is_empty() {
            // What is left in its place may have no capacity, and memory all the same.
            self.has_buffer = true;
            match out.is_empty() {
                true => std::mem::swap(out, &mut self.text),
                false => {
                    out.extend_from_slice(&self.text);
                    self.text.clear();
                }
            }
        }
        if !self.event.is_empty() {
            if out.capacity() == 0 {
                *out = buffers::take();
            }
            out.extend_from_slice(&std::mem::take(&mut self.event));
        }
    }

    /// Drops all of it.
    pub(super) fn clear(&mut self) {
        *self = Self {
            taken: self.taken,
            ..Self::default()
        };
    }
}

/// Where each hole ended, and how much had gone up to there.
#[must_use]
pub(super) struct Closed(Vec<(usize, usize)>);

impl Closed {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a piece stands now.
    pub(super) fn moved(&self, piece: &Range<usize>) -> Range<usize> {
        let before = self.0.partition_point(|(end, _)| *end <= piece.start);
        let last = before.checked_sub(1).and_then(|last| self.0.get(last));
        let gone = last.map_or(0, |(_, gone)| *gone);
        piece.start - gone..piece.end - gone
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    fn output(text: &str) -> Output {
        Output {
            text: text.into(),
            ..Output::default()
        }
    }

    #[test]
    fn what_was_cut_out_is_gone_and_the_rest_is_found() {
        let pieces = [0..2, 2..5, 5..6, 6..9, 9..9, 9..12];
        // Every choice of pieces, cut out from the last to the first and otherwise.
        for chosen in 0..1_u32 << pieces.len() {
            for backwards in [false, true] {
                let mut out = output("aabbbcdddeee");
                let is_cut = |at: usize| chosen >> at & 1 == 1;
                let mut cut: Vec<_> = (0..pieces.len()).filter(|at| is_cut(*at)).collect();
                if backwards {
                    cut.reverse();
                }
                cut.iter().for_each(|at| out.cut(pieces[*at].clone()));
                let waits = out.waits();
                let before = output("aabbbcdddeee").text;
                let closed = out.close();
                assert_eq!((out.text.len(), out.waits()), (waits, waits));
                for (at, piece) in pieces.iter().enumerate().filter(|(at, _)| !is_cut(*at)) {
                    let now = closed.moved(piece);
                    assert_eq!(out.text[now], before[piece.clone()], "{chosen:b}, {at}");
                }
            }
        }
    }

    #[test]
    fn what_is_handed_over_has_no_holes() {
        let mut out = output("one two three");
        out.cut(4..8);
        let mut taken = "zero ".into();
        out.hand_over(&mut taken);
        assert_eq!(taken, "zero one three");
        assert_eq!((out.waits(), out.taken()), (0, 1));
        // Nothing is no reason to count.
        out.hand_over(&mut taken);
        assert_eq!(out.taken(), 1);
    }

    #[test]
    fn a_buffer_that_was_used_up_is_given_back() {
        use bytes::Buf as _;

        // A transport may take all of it from the front, and then there is no capacity.
        let mut spent = bytes::BytesMut::with_capacity(100_000);
        spent.extend_from_slice(&[b' '; 100_000]);
        spent.advance(100_000);
        assert_eq!(spent.capacity(), 0);
        let mut out = output("two");
        assert!(!out.has_buffer());
        out.hand_over(&mut spent);
        assert_eq!(spent, "two");
        assert!(out.has_buffer());
        out.rest();
        assert!(!out.has_buffer());
        assert!(!out.text().try_reclaim(1));
    }

    #[test]
    fn an_event_stays_shared_until_something_is_behind_it() {
        let event = bytes::Bytes::from(b"event ".to_vec());
        let mut out = output("one ");
        out.share(event.clone());
        assert_eq!(out.waits(), 10);
        assert!(!event.is_unique());
        let mut taken = "zero ".into();
        out.hand_over(&mut taken);
        assert_eq!(taken, "zero one event ");
        assert_eq!((out.waits(), out.taken()), (0, 1));
        assert!(event.is_unique());

        let mut out = output("one ");
        out.share(event.clone());
        out.share(event.clone());
        out.text().extend_from_slice(b"two");
        assert!(event.is_unique());
        out.cut(0..4);
        assert_eq!(out.waits(), 15);
        let mut taken = bytes::BytesMut::new();
        out.hand_over(&mut taken);
        assert_eq!(taken, "event event two");
    }

    #[test]
    fn holes_wait_until_it_is_worth_to_close_them() {
        let mut out = output("0123456789");
        out.cut(0..5);
        assert!(!out.is_mostly_gone(0));
        out.cut(5..6);
        assert!(out.is_mostly_gone(5));
        assert!(!out.is_mostly_gone(6));
    }
}

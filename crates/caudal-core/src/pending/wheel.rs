//! Deadlines in a hierarchical timer wheel: set, moved and dropped in constant
//! time, and sorted in constant time each over its life, however many there are.
//!
//! Six levels of 64 buckets; a bucket of the lowest level holds one
//! millisecond, one of each higher level 64 times as much. A deadline lies in
//! the level of the highest digit (base 64) in which it differs from the
//! present, and moves down as the present comes near, five times at most.

use std::time::{Duration, Instant};

const BITS: u32 = 6;
const BUCKETS: u32 = 1 << BITS;
const LEVELS: u32 = 6;
/// Deadlines farther away wait in the last bucket ahead, and are sorted in
/// again. It is one bucket short of a turn: the present one is never ahead.
const HORIZON: u64 = (1 << (BITS * LEVELS)) - (1 << (BITS * (LEVELS - 1)));
/// The bucket of what is due and has not been asked for.
const DUE: u32 = BUCKETS * LEVELS;
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Wheel {
    origin: Instant,
    /// The present, in milliseconds since `origin`.
    now: u64,
    /// The buckets of each level that hold something, a bit each.
    occupied: [u64; LEVELS as usize],
    /// The first node of each bucket, then of `DUE`; empty until one is needed.
    heads: Vec<u32>,
    /// A node for each index, linked to its neighbours in the bucket.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    deadline: Instant,
    /// `NONE` if no deadline is set.
    bucket: u32,
    before: u32,
    after: u32,
}

impl Wheel {
    pub(super) const fn new(origin: Instant) -> Self {
        Self {
            origin,
            now: 0,
            occupied: [0; LEVELS as usize],
            heads: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// Sets the deadline of `index`, which must have none.
    pub(super) fn insert(&mut self, index: u32, deadline: Instant) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; DUE as usize + 1];
        }
        let unset = Node {
            deadline,
            bucket: NONE,
            before: NONE,
            after: NONE,
        };
        if self.nodes.len() <= index as usize {
            self.nodes.resize(index as usize + 1, unset.clone());
        }
        if let Some(node) = self.nodes.get_mut(index as usize) {
            *node = unset;
        }
        let bucket = self.bucket(deadline);
        self.link(index, bucket);
    }

    /// Drops the deadline of `index`, if it has one.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(node) = self.nodes.get_mut(index as usize) else {
            return;
        };
        let Node {
            bucket,
            before,
            after,
            ..
        } = *node;
        if bucket == NONE {
            return;
        }
        node.bucket = NONE;
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.set_head(bucket, after),
        }
        if let Some(node) = self.nodes.get_mut(after as usize) {
            node.before = before;
        }
    }

    /// Drops every deadline.
    pub(super) fn clear(&mut self) {
        self.occupied = [0; LEVELS as usize];
        self.heads.clear();
        self.nodes.clear();
    }

    /// Moves the present to `now` and what is due by then to the due ones.
    pub(super) fn advance(&mut self, now: Instant) {
        let target = self.tick(now).max(self.now);
        while let Some((level, bucket, start)) = self.earliest() {
            if start > target {
                break;
            }
            self.now = self.now.max(start);
            // Only in the present millisecond can something not be due yet.
            let partly = level == 0 && start == target;
            let mut index = self.head(bucket);
            while let Some(node) = self.nodes.get(index as usize) {
                let Node {
                    deadline, after, ..
                } = *node;
                if !partly || deadline <= now {
                    self.remove(index);
                    let bucket = if deadline <= now {
                        DUE
                    } else {
                        self.bucket(deadline)
                    };
                    self.link(index, bucket);
                }
                index = after;
            }
            if partly {
                break;
            }
        }
        self.now = target;
    }

    /// Takes the next of those that are due.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        let index = self.head(DUE);
        if index == NONE {
            return None;
        }
        self.remove(index);
        Some(index)
    }

    /// When to advance next: at the end of the earliest millisecond that has a
    /// deadline, or when a higher bucket must be sorted down.
    pub(super) fn next_wakeup(&self) -> Option<Instant> {
        let millis = if self.head(DUE) != NONE {
            self.now
        } else {
            let (level, _, start) = self.earliest()?;
            if level == 0 { start + 1 } else { start }
        };
        self.origin.checked_add(Duration::from_millis(millis))
    }

    /// The occupied bucket that begins first: its level, number and beginning.
    fn earliest(&self) -> Option<(u32, u32, u64)> {
        let (level, occupied) = (0..).zip(self.occupied).find(|(_, bits)| *bits != 0)?;
        let shift = level * BITS;
        // Whatever lies in a level lies ahead within the present turn of it;
        // the last level alone may have come round.
        let place = self.now >> shift & u64::from(BUCKETS - 1);
        #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
        let distance = occupied.rotate_right(place as u32).trailing_zeros();
        let start = ((self.now >> shift) + u64::from(distance)) << shift;
        #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
        let slot = (place as u32 + distance) % BUCKETS;
        Some((level, level * BUCKETS + slot, start))
    }

    /// The bucket for a deadline, seen from the present.
    fn bucket(&self, deadline: Instant) -> u32 {
        let tick = self
            .tick(deadline)
            .clamp(self.now, self.now.saturating_add(HORIZON));
        let differing = (self.now ^ tick) | u64::from(BUCKETS - 1);
        let level = (differing.ilog2() / BITS).min(LEVELS - 1);
        #[expect(clippy::cast_possible_truncation, reason = "less than 64")]
        let slot = (tick >> (level * BITS) & u64::from(BUCKETS - 1)) as u32;
        level * BUCKETS + slot
    }

    fn tick(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.origin).as_millis();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    fn head(&self, bucket: u32) -> u32 {
        self.heads.get(bucket as usize).copied().unwrap_or(NONE)
    }

    fn set_head(&mut self, bucket: u32, index: u32) {
        if let Some(head) = self.heads.get_mut(bucket as usize) {
            *head = index;
        }
        if let Some(bits) = self.occupied.get_mut((bucket / BUCKETS) as usize) {
            let bit = 1 << (bucket % BUCKETS);
            if index == NONE {
                *bits &= !bit;
            } else {
                *bits |= bit;
            }
        }
    }

    fn link(&mut self, index: u32, bucket: u32) {
        let after = self.head(bucket);
        if let Some(node) = self.nodes.get_mut(index as usize) {
            node.bucket = bucket;
            node.before = NONE;
            node.after = after;
        }
        if let Some(node) = self.nodes.get_mut(after as usize) {
            node.before = index;
        }
        self.set_head(bucket, index);
    }
}

#[cfg(test)]
mod tests {
    use super::{DUE, Duration, Instant, LEVELS, NONE, Wheel};

    /// How many nodes `advance` puts into another bucket.
    fn moved(wheel: &mut Wheel, now: Instant) -> usize {
        let before = wheel.nodes.clone();
        wheel.advance(now);
        let pairs = before.iter().zip(&wheel.nodes);
        pairs.filter(|(old, new)| old.bucket != new.bucket).count()
    }

    #[test]
    fn one_that_is_due_is_found_among_many_that_wait() {
        let start = Instant::now();
        for waiting in [0, 10_000] {
            let mut wheel = Wheel::new(start);
            wheel.insert(0, start + Duration::from_secs(1));
            for index in 1..=waiting {
                wheel.insert(index, start + Duration::from_secs(30));
            }
            assert_eq!(moved(&mut wheel, start + Duration::from_secs(1)), 1);
            assert_eq!((wheel.next_due(), wheel.next_due()), (Some(0), None));
        }
    }

    #[test]
    fn a_deadline_is_sorted_at_most_once_a_level() {
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        let count = 2_000;
        for index in 0..count {
            let after = Duration::from_millis(u64::from(index).pow(3));
            wheel.insert(index, start + after);
        }
        let mut total = 0;
        while let Some(wakeup) = wheel.next_wakeup() {
            total += moved(&mut wheel, wakeup);
            while wheel.next_due().is_some() {}
        }
        assert!(wheel.nodes.iter().all(|node| node.bucket == NONE));
        assert!(
            total <= (count * LEVELS) as usize,
            "{total} moves for {count}"
        );
        assert_eq!(wheel.head(DUE), NONE);
    }
}

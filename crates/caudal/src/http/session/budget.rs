//! What the boxes of all sessions hold together, and those of each who opens them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use slab::Slab;

use super::outbox::Bounds;
use super::table::Opener;

/// Counts the bytes of all sessions, and lets their drivers wait for room.
#[derive(Debug, Default)]
pub(crate) struct Budget(Mutex<Count>);

#[derive(Debug, Default)]
struct Count {
    all: Tally,
    /// Of each who is known,
    parts: Slab<Part>,
    /// by its name. It is kept while anything of it is counted, also if all its
    /// sessions have ended: else a new one would begin from nothing.
    names: HashMap<Opener, usize>,
    accounts: u64,
}

#[derive(Debug)]
struct Part {
    tally: Tally,
    name: Opener,
    accounts: usize,
}

#[derive(Debug, Default)]
struct Tally {
    held: Held,
    /// Who waits for room, by the number of its account,
    waiting: HashMap<u64, Waker>,
    /// and who waits to begin what may need some.
    idle: HashMap<u64, Waker>,
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Of messages that the client has still to get.
    pub(super) owed: usize,
    /// Of those that are only kept for it to come back; of an inbox, of POSTs that wait
    /// to be put in.
    pub(super) kept: usize,
    /// Of those that a driver has, and for which there is no room yet. They are none of
    /// what is owed: else each would wait for the others.
    pub(super) unsent: usize,
    /// Of what is owed, those that HTTP was given for `GET`s.
    pub(super) given: usize,
}

impl Tally {
    /// One message may pass the limit, so that none is too large.
    fn is_full(&self, limit: usize) -> bool {
        self.held.owed > 0 && self.held.owed >= limit
    }

    /// Whether nothing may begin that will have an answer. Nobody knows how large that
    /// will be; so this is where it ends, even for what would fit into a share.
    fn is_overfull(&self, limit: usize) -> bool {
        let held = self.held.owed + self.held.unsent;
        held > 0 && held >= limit.saturating_mul(2)
    }

    fn change(&mut self, before: Held, now: Held, limit: usize, woken: &mut Vec<Waker>) {
        self.held.owed = self.held.owed + now.owed - before.owed;
        self.held.kept = self.held.kept + now.kept - before.kept;
        self.held.unsent = self.held.unsent + now.unsent - before.unsent;
        self.held.given = self.held.given + now.given - before.given;
        if !self.is_full(limit) {
            woken.extend(self.waiting.drain().map(|(_, waker)| waker));
        }
        if !self.is_overfull(limit) {
            woken.extend(self.idle.drain().map(|(_, waker)| waker));
        }
    }

    /// What there is left to keep for one who keeps `own` of it.
    fn room_to_keep(&self, own: usize, limit: usize) -> usize {
        limit.saturating_sub(self.held.kept.saturating_sub(own))
    }
}

/// One that holds bytes of a budget.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    number: u64,
    part: Option<usize>,
    all: usize,
    each: usize,
}

impl Account {
    /// One of a session that was opened by `opener`; if that is not known, only what
    /// all hold is bounded.
    pub(super) fn open(budget: &Arc<Budget>, opener: Option<&Opener>, bounds: Bounds) -> Self {
        let mut count = budget.lock();
        count.accounts += 1;
        let number = count.accounts;
        let part = opener.map(|opener| count.part(opener));
        Self {
            budget: Arc::clone(budget),
            number,
            part,
            all: bounds.all,
            each: bounds.each,
        }
    }

    /// Takes up `bytes`, or wakes `waker` when it is worth trying again. What `fits`
    /// into the share of its own session may pass the limit, so that clients that do
    /// not read stop nobody else.
    pub(super) fn admit(&self, (bytes, fits): (usize, bool), waker: &Waker) -> bool {
        let mut count = self.budget.lock();
        let tallies = self.tallies(&mut count);
        for (tally, limit) in tallies.into_iter().flatten() {
            if !fits && tally.is_full(limit) {
                tally.waiting.insert(self.number, waker.clone());
                return false;
            }
        }
        for (tally, _) in self.tallies(&mut count).into_iter().flatten() {
            tally.held.owed += bytes;
        }
        true
    }

    /// Whether what will have an answer may begin; else `waker` is woken when it may.
    pub(super) fn may_begin(&self, waker: &Waker) -> bool {
        let mut count = self.budget.lock();
        for (tally, limit) in self.tallies(&mut count).into_iter().flatten() {
            if tally.is_overfull(limit) {
                tally.idle.insert(self.number, waker.clone());
                return false;
            }
        }
        true
    }

    /// Whether as much is held as may be, of its opener's or of all.
    pub(super) fn is_full(&self) -> bool {
        let mut count = self.budget.lock();
        let mut tallies = self.tallies(&mut count).into_iter().flatten();
        tallies.any(|(tally, limit)| tally.is_full(limit))
    }

    /// Whether HTTP was given as much for `GET`s as may be held, of its opener's or of
    /// all. Messages that wait do not count: somebody has to come for them.
    pub(super) fn has_given_much(&self) -> bool {
        let mut count = self.budget.lock();
        let mut tallies = self.tallies(&mut count).into_iter().flatten();
        tallies.any(|(tally, limit)| tally.held.given > 0 && tally.held.given >= limit)
    }

    /// How much may be kept here, where `own` bytes are.
    pub(super) fn room_to_keep(&self, own: usize) -> usize {
        let mut count = self.budget.lock();
        let tallies = self.tallies(&mut count).into_iter().flatten();
        let rooms = tallies.map(|(tally, limit)| tally.room_to_keep(own, limit));
        rooms.min().unwrap_or_default()
    }

    /// Takes up `bytes` among what is kept, if there is room for it.
    pub(super) fn keep(&self, bytes: usize) -> bool {
        let mut count = self.budget.lock();
        for (tally, limit) in self.tallies(&mut count).into_iter().flatten() {
            let kept = tally.held.kept;
            if kept > 0 && kept.saturating_add(bytes) > limit {
                return false;
            }
        }
        for (tally, _) in self.tallies(&mut count).into_iter().flatten() {
            tally.held.kept += bytes;
        }
        true
    }

    /// Notes what is held now instead of `before`; who waited is to be woken.
    pub(super) fn change(&self, before: Held, now: Held) -> Vec<Waker> {
        let mut woken = Vec::new();
        if before != now {
            let mut count = self.budget.lock();
            for (tally, limit) in self.tallies(&mut count).into_iter().flatten() {
                tally.change(before, now, limit, &mut woken);
            }
        }
        woken
    }

    /// Where it counts, and what is the limit there.
    fn tallies<'c>(&self, count: &'c mut Count) -> [Option<(&'c mut Tally, usize)>; 2] {
        let part = self.part.and_then(|part| count.parts.get_mut(part));
        [
            part.map(|part| (&mut part.tally, self.each)),
            Some((&mut count.all, self.all)),
        ]
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut count = self.budget.lock();
        for (tally, _) in self.tallies(&mut count).into_iter().flatten() {
            tally.waiting.remove(&self.number);
            tally.idle.remove(&self.number);
        }
        if let Some(part) = self.part {
            count.leave(part);
        }
    }
}

impl Count {
    /// The part of one who has an account more now.
    fn part(&mut self, opener: &Opener) -> usize {
        let known = self.names.get(opener).copied();
        let key = known.unwrap_or_else(|| {
            let key = self.parts.insert(Part {
                tally: Tally::default(),
                name: opener.clone(),
                accounts: 0,
            });
            self.names.insert(opener.clone(), key);
            key
        });
        if let Some(part) = self.parts.get_mut(key) {
            part.accounts += 1;
        }
        key
    }

    fn leave(&mut self, key: usize) {
        let Some(part) = self.parts.get_mut(key) else {
            return;
        };
        part.accounts -= 1;
        if part.accounts == 0 {
            let part = self.parts.remove(key);
            self.names.remove(&part.name);
        }
    }
}

impl Budget {
    #[cfg(test)]
    pub(super) fn held(&self) -> Held {
        self.lock().all.held
    }

    /// How many of those who open sessions it knows.
    #[cfg(test)]
    pub(super) fn parts(&self) -> (usize, usize) {
        let count = self.lock();
        (count.parts.len(), count.names.len())
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

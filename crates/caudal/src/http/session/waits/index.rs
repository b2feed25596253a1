//! Which POST a message belongs to, found by what the message says.
//!
//! The other side chooses ids and tokens, and how many of them wait. So nothing here
//! looks at all that waits: finding a POST takes as many look-ups as the message has ids.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use caudal_core::{InvalidKind, Message};

use crate::connection::IdKey;

/// What an id takes to be found again, besides its text.
pub(super) const EACH: usize = 256;
/// A map that had no more than so many names keeps its room for the next.
const FEW: usize = 64;

const NULL: &str = "null";

/// POSTs by their numbers: the first is the one that came first.
type Keys = BTreeSet<u64>;

/// What a POST has asked, as far as the answers tell.
#[derive(Debug)]
pub(in crate::http::session) struct Asked {
    is_batch: bool,
    /// The ids of its requests, as they are written.
    ids: Vec<Arc<str>>,
    /// The ids of those that are not given up,
    open: Vec<Arc<IdKey>>,
    /// and whether these are all null.
    is_nameless: bool,
    /// Under which progress of them is reported.
    tokens: Vec<Arc<IdKey>>,
}

impl Asked {
    /// What a message asks, if it asks anything.
    pub(in crate::http::session) fn of(message: &Message<'_>) -> Option<Self> {
        let id = |message: &Message<'_>| match message {
            Message::Request(request) => Some(request.id.as_str().into()),
            Message::Invalid(invalid) if invalid.kind == InvalidKind::Request => {
                Some(invalid.id.as_str().into())
            }
            _ => None,
        };
        let (is_batch, ids): (_, Vec<Arc<str>>) = match message {
            Message::Batch(entries) => (true, entries.iter().filter_map(id).collect()),
            single => (false, id(single).into_iter().collect()),
        };
        let same = |id: &Arc<str>| Arc::new(IdKey::of_json(id));
        (!ids.is_empty()).then(|| Self {
            is_batch,
            open: ids.iter().map(same).collect(),
            is_nameless: ids.iter().all(|id| &**id == NULL),
            ids,
            tokens: Vec::new(),
        })
    }

    /// The same with tokens, which are JSON texts.
    pub(in crate::http::session) fn with_tokens(mut self, tokens: &[String]) -> Self {
        self.tokens = tokens
            .iter()
            .map(|token| Arc::new(IdKey::of_json(token)))
            .collect();
        self
    }

    /// Bytes that it takes while it waits.
    pub(super) fn size(&self) -> usize {
        let ids = self.ids.iter().map(|id| id.len());
        let tokens = self.tokens.iter().map(|token| token.size());
        ids.chain(tokens).map(|size| size + EACH).sum()
    }

    /// Whether it waits for nothing any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.open.is_empty()
    }

    /// Under which an answer finds it. Null says little, so it counts only where there
    /// is nothing else.
    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let take = if self.is_nameless { 1 } else { usize::MAX };
        let named = self.ids.iter();
        let named = named.filter(|id| self.is_nameless == (&***id == NULL));
        named.take(take)
    }
}

/// What a message of ours is to a POST that waits.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::http::session) enum Subject<'a> {
    /// The answer to requests with these ids, in a batch or alone.
    Answer(bool, Vec<&'a str>),
    /// A report of progress under this token, a JSON text.
    Report(String),
}

impl<'a> Subject<'a> {
    /// What a message answers, if it is an answer.
    pub(in crate::http::session) fn answer(message: &Message<'a>) -> Option<Self> {
        let id = |message: &Message<'a>| match message {
            Message::Response(response) => Some(response.id.as_str()),
            _ => None,
        };
        let (is_batch, ids): (_, Vec<_>) = match message {
            Message::Batch(entries) => (true, entries.iter().filter_map(id).collect()),
            single => (false, id(single).into_iter().collect()),
        };
        (!ids.is_empty()).then_some(Self::Answer(is_batch, ids))
    }
}

/// All that wait for answers.
#[derive(Debug, Default)]
pub(super) struct Index {
    alone: HashMap<Arc<str>, Keys>,
    batches: HashMap<Arc<str>, Keys>,
    /// By the ids that are not given up.
    open: HashMap<Arc<IdKey>, Keys>,
    tokens: HashMap<Arc<IdKey>, Keys>,
    /// Look-ups so far.
    #[cfg(test)]
    pub(super) looks: std::cell::Cell<usize>,
}

impl Index {
    pub(super) fn insert(&mut self, key: u64, asked: &Asked) {
        let by_id = self.by_id(asked.is_batch);
        insert(by_id, asked.names(), key);
        insert(&mut self.open, asked.open.iter(), key);
        insert(&mut self.tokens, asked.tokens.iter(), key);
    }

    pub(super) fn remove(&mut self, key: u64, asked: &Asked) {
        let by_id = self.by_id(asked.is_batch);
        remove(by_id, asked.names(), key);
        remove(&mut self.open, asked.open.iter(), key);
        remove(&mut self.tokens, asked.tokens.iter(), key);
    }

    /// The first that a message is for. Of an answer's ids, those count that are not
    /// null, if there are any.
    pub(super) fn find(&self, subject: &Subject<'_>) -> Option<u64> {
        match subject {
            Subject::Answer(is_batch, ids) => {
                let by_id = match is_batch {
                    true => &self.batches,
                    false => &self.alone,
                };
                let named = ids.iter().copied().filter(|id| *id != NULL);
                let has_null_only = named.clone().next().is_none();
                let null = has_null_only.then_some(NULL);
                let names = named.chain(null);
                names.filter_map(|id| self.first(by_id, id)).min()
            }
            Subject::Report(token) => self.first(&self.tokens, &IdKey::of_json(token)),
        }
    }

    /// All that wait for the answer to a request with this id.
    pub(super) fn find_open(&self, id: &IdKey) -> Vec<u64> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.open.get(id).into_iter().flatten().copied().collect()
    }

    /// Lets one wait no longer for the answer to requests with this id.
    pub(super) fn give_up(&mut self, key: u64, asked: &mut Asked, id: &Arc<IdKey>) {
        asked.open.retain(|own| own != id);
        remove(&mut self.open, std::iter::once(id), key);
        let null = IdKey::of_json(NULL);
        let has_null_only = asked.open.iter().all(|own| **own == null);
        if has_null_only && !asked.is_nameless && !asked.is_given_up() {
            // What is still to come has no other name.
            let by_id = self.by_id(asked.is_batch);
            remove(by_id, asked.names(), key);
            asked.is_nameless = true;
            insert(by_id, asked.names(), key);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let by_id = self.alone.is_empty() && self.batches.is_empty();
        by_id && self.open.is_empty() && self.tokens.is_empty()
    }

    fn by_id(&mut self, is_batch: bool) -> &mut HashMap<Arc<str>, Keys> {
        match is_batch {
            true => &mut self.batches,
            false => &mut self.alone,
        }
    }

    fn first<N: Hash + Eq + ?Sized>(&self, map: &HashMap<Arc<N>, Keys>, name: &N) -> Option<u64> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        map.get(name)?.first().copied()
    }
}

fn insert<'a, N: Hash + Eq + ?Sized + 'a>(
    map: &mut HashMap<Arc<N>, Keys>,
    names: impl Iterator<Item = &'a Arc<N>>,
    key: u64,
) {
    for name in names {
        map.entry(Arc::clone(name)).or_default().insert(key);
    }
}

fn remove<'a, N: Hash + Eq + ?Sized + 'a>(
    map: &mut HashMap<Arc<N>, Keys>,
    names: impl Iterator<Item = &'a Arc<N>>,
    key: u64,
) {
    for name in names {
        let Some(keys) = map.get_mut(name) else {
            continue;
        };
        keys.remove(&key);
        if keys.is_empty() {
            map.remove(name);
        }
    }
    if map.is_empty() && map.capacity() > FEW {
        *map = HashMap::new();
    }
}

//! Ids as they are compared: one id may be spelled in several ways.

use std::collections::BTreeSet;

use caudal_core::{Id, RequestId};

/// An id or a progress token in a form that is compared by value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IdKey {
    Number(i64),
    /// A string without its escapes.
    Text(Box<str>),
    /// JSON text of a number that does not fit an `i64`, or of a value that is no id.
    Other(Box<str>),
}

impl IdKey {
    pub(crate) fn of(id: Id<'_>) -> Self {
        match (id.as_i64(), id.as_string()) {
            (Some(number), _) => Self::Number(number),
            (None, Some(text)) => Self::Text(text.into()),
            (None, None) => Self::Other(id.as_str().into()),
        }
    }

    pub(crate) fn of_owned(id: &RequestId) -> Self {
        match id {
            RequestId::Number(number) => Self::Number(*number),
            RequestId::String(text) => Self::Text(text.as_str().into()),
        }
    }

    /// The key of any JSON text.
    #[cfg(feature = "session")]
    pub(crate) fn of_json(json: &str) -> Self {
        Self::parse(json).unwrap_or_else(|| Self::Other(json.into()))
    }

    /// Bytes on the heap.
    #[cfg(feature = "session")]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Text(text) | Self::Other(text) => text.len(),
        }
    }

    /// The key of an id's JSON text; `None` if it is no id.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        Id::parse(json).ok().map(Self::of)
    }
}

/// Finds the entries of a table by id. Several may have the same one: the other side may
/// use an id twice.
#[derive(Debug, Default)]
pub(super) struct IdIndex(BTreeSet<(IdKey, usize)>);

impl IdIndex {
    pub(super) fn insert(&mut self, id: IdKey, key: usize) {
        self.0.insert((id, key));
    }

    pub(super) fn remove(&mut self, id: IdKey, key: usize) {
        self.0.remove(&(id, key));
    }

    pub(super) fn find(&self, id: &IdKey) -> impl Iterator<Item = usize> {
        let same = (id.clone(), 0)..=(id.clone(), usize::MAX);
        self.0.range(same).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::{IdIndex, IdKey};

    #[test]
    fn an_id_that_is_used_twice_has_both_its_keys() {
        let mut keys = IdIndex::default();
        let id = |text| IdKey::parse(text).unwrap();
        for (text, key) in [("7", 3), ("\"7\"", 4), ("7.0", 1), ("8", 2)] {
            keys.insert(id(text), key);
        }
        assert_eq!(keys.find(&id("7")).collect::<Vec<_>>(), [1, 3]);
        keys.remove(id("7"), 1);
        assert_eq!(keys.find(&id("7")).collect::<Vec<_>>(), [3]);
        assert_eq!(keys.find(&id("9")).count(), 0);
    }

    fn same(one: &str, other: &str) -> bool {
        IdKey::parse(one).unwrap() == IdKey::parse(other).unwrap()
    }

    #[test]
    fn spelling_makes_no_difference_and_kind_does() {
        for (one, other) in [("7", "7.0"), (r#""a""#, r#""\u0061""#), ("1e400", "1e400")] {
            assert!(same(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("7", "8"),
            ("7", r#""7""#),
            ("1e2", r#""1e2""#),
            ("null", r#""null""#),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
        assert_eq!(IdKey::parse("{}"), None);
        #[cfg(feature = "session")]
        assert_ne!(IdKey::of_json("{}"), IdKey::of_json("\"{}\""));
        assert_eq!(IdKey::parse("seven"), None);
    }
}

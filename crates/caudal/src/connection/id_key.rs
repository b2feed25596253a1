//! Ids as they are compared: spelled otherwise, an id is still the same.

use std::collections::BTreeSet;

use caudal_core::{Id, RequestId};

/// An id, or the token of a progress report, to be compared with many others: read once,
/// however many those are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SameId {
    Number(i64),
    /// With its escapes undone.
    Text(Box<str>),
    /// A number that does not fit, or what is no id, as it is spelled.
    Odd(Box<str>),
}

impl SameId {
    pub(crate) fn of(id: Id<'_>) -> Self {
        match (id.as_i64(), id.as_string()) {
            (Some(number), _) => Self::Number(number),
            (None, Some(text)) => Self::Text(text.into()),
            (None, None) => Self::Odd(id.as_str().into()),
        }
    }

    pub(crate) fn of_owned(id: &RequestId) -> Self {
        match id {
            RequestId::Number(number) => Self::Number(*number),
            RequestId::String(text) => Self::Text(text.as_str().into()),
        }
    }

    /// The same of any JSON text.
    #[cfg(feature = "session")]
    pub(crate) fn read(json: &str) -> Self {
        Self::parse(json).unwrap_or_else(|| Self::Odd(json.into()))
    }

    /// Bytes that it takes besides itself.
    #[cfg(feature = "session")]
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Number(_) => 0,
            Self::Text(text) | Self::Odd(text) => text.len(),
        }
    }

    /// `None` if that is the JSON text of no id.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        Id::parse(json).ok().map(Self::of)
    }
}

/// Which entries of a table go by an id. There may be several: nobody keeps whoever
/// chooses the ids from using one twice.
#[derive(Debug, Default)]
pub(super) struct Keys(BTreeSet<(SameId, usize)>);

impl Keys {
    pub(super) fn insert(&mut self, id: SameId, key: usize) {
        self.0.insert((id, key));
    }

    pub(super) fn remove(&mut self, id: SameId, key: usize) {
        self.0.remove(&(id, key));
    }

    pub(super) fn of(&self, id: &SameId) -> impl Iterator<Item = usize> {
        let same = (id.clone(), 0)..=(id.clone(), usize::MAX);
        self.0.range(same).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, SameId};

    #[test]
    fn an_id_that_is_used_twice_has_both_its_keys() {
        let mut keys = Keys::default();
        let id = |text| SameId::parse(text).unwrap();
        for (text, key) in [("7", 3), ("\"7\"", 4), ("7.0", 1), ("8", 2)] {
            keys.insert(id(text), key);
        }
        assert_eq!(keys.of(&id("7")).collect::<Vec<_>>(), [1, 3]);
        keys.remove(id("7"), 1);
        assert_eq!(keys.of(&id("7")).collect::<Vec<_>>(), [3]);
        assert_eq!(keys.of(&id("9")).count(), 0);
    }

    fn same(one: &str, other: &str) -> bool {
        SameId::parse(one).unwrap() == SameId::parse(other).unwrap()
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
        assert_eq!(SameId::parse("{}"), None);
        #[cfg(feature = "session")]
        assert_ne!(SameId::read("{}"), SameId::read("\"{}\""));
        assert_eq!(SameId::parse("seven"), None);
    }
}

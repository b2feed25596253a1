//! The params of a method that takes none.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Nothing, written in any way: absent, `null`, `[]` or `{}`.
#[derive(Debug)]
pub(crate) struct NoParams;

impl<'de> Deserialize<'de> for NoParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Nothing;
        impl<'de> Visitor<'de> for Nothing {
            type Value = NoParams;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("no params")
            }

            fn visit_unit<E: Error>(self) -> Result<NoParams, E> {
                Ok(NoParams)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NoParams, A::Error> {
                match seq.next_element::<serde::de::IgnoredAny>()? {
                    None => Ok(NoParams),
                    Some(_) => Err(A::Error::custom("this method takes no params")),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NoParams, A::Error> {
                match map.next_key::<serde::de::IgnoredAny>()? {
                    None => Ok(NoParams),
                    Some(_) => Err(A::Error::custom("this method takes no params")),
                }
            }
        }
        deserializer.deserialize_any(Nothing)
    }
}

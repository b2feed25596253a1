//! Decoder: raw spans through a serde visitor, with the rules of an envelope.
//!
//! What caudal could have been built on: presence, version, duplicates and
//! kinds are checked; depth, surrogates and the size of ids are not.

use std::fmt;
use std::hint::black_box;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Contestant;

pub(super) struct Decoder;

impl Contestant for Decoder {
    fn take(&mut self, bytes: &[u8], _: &mut Vec<u8>) {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let envelope: Envelope<'_> = serde_json::from_str(text).expect("a request");
        black_box(&envelope);
    }
}

#[allow(dead_code, reason = "only decoded, never read")]
struct Envelope<'a> {
    id: Option<&'a str>,
    method: &'a str,
    params: Option<&'a str>,
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut version, mut id, mut method, mut params) = (None, None, None, None);
        while let Some(name) = map.next_key::<&str>()? {
            match name {
                "jsonrpc" => once(&mut version, map.next_value::<&str>()?, "jsonrpc")?,
                "id" => once(&mut id, map.next_value::<&RawValue>()?.get(), "id")?,
                "method" => once(&mut method, map.next_value::<&str>()?, "method")?,
                "params" => once(&mut params, map.next_value::<&RawValue>()?.get(), "params")?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if version != Some("2.0") {
            return Err(A::Error::custom("not JSON-RPC 2.0"));
        }
        let method = method.ok_or_else(|| A::Error::missing_field("method"))?;
        if method.trim().is_empty() {
            return Err(A::Error::custom("a blank method"));
        }
        if id.is_some_and(|id: &str| id.starts_with(['{', '[', 't', 'f'])) {
            return Err(A::Error::custom("an id of the wrong kind"));
        }
        let params = params.filter(|params| *params != "null");
        if params.is_some_and(|params: &str| !params.starts_with(['{', '['])) {
            return Err(A::Error::custom("params of the wrong kind"));
        }
        Ok(Envelope { id, method, params })
    }
}

fn once<T, E: Error>(slot: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

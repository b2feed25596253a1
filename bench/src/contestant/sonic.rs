//! Decoder: sonic-rs, raw spans through a derived envelope, with the rules of
//! one.
//!
//! Presence, version, duplicates and kinds are checked; depth and the size of
//! ids are not.

use std::hint::black_box;

use serde::Deserialize;
use sonic_rs::{JsonValueTrait, LazyValue};

use super::Contestant;

pub(super) struct Decoder;

impl Contestant for Decoder {
    fn take(&mut self, bytes: &[u8], _: &mut Vec<u8>) {
        let envelope: Envelope<'_> = sonic_rs::from_slice(bytes).expect("a request");
        assert!(envelope.is_valid());
        black_box(&envelope);
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: Option<LazyValue<'a>>,
    method: &'a str,
    #[serde(borrow)]
    params: Option<LazyValue<'a>>,
}

impl Envelope<'_> {
    fn is_valid(&self) -> bool {
        let id = self.id.as_ref();
        let params = self.params.as_ref();
        self.jsonrpc == "2.0"
            && !self.method.trim().is_empty()
            && id.is_none_or(|id| id.is_str() || id.is_number())
            && params.is_none_or(|params| params.is_array() || params.is_object())
    }
}

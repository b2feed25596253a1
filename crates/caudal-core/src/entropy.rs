//! Random numbers without a dependency.
//!
//! The SipHash of a counter under a random key of the process, which `RandomState` gets
//! from the operating system. Good enough for ids that must not collide; not for keys or
//! tokens. On `wasm32-unknown-unknown` there is no operating system: the key depends on
//! addresses alone, and the counter keeps the ids of one instance apart.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static KEY: OnceLock<RandomState> = OnceLock::new();
static COUNTER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn random_u64() -> u64 {
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    KEY.get_or_init(RandomState::new).hash_one(count)
}

pub(crate) fn random_u128() -> u128 {
    u128::from(random_u64()) << 64 | u128::from(random_u64())
}

//! Whatever is answered, every call of ours settles once.
#![no_main]

#[path = "../../crates/caudal-core/tests/it/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::checks::answers(bytes));

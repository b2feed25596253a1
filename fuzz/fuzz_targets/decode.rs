//! The decoder says what the oracle says, for any bytes.
#![no_main]

#[path = "../../crates/caudal-core/tests/it/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::checks::decoding(bytes));

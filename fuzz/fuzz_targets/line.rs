//! Lines are the same frames however the stream is cut.
#![no_main]

#[path = "../../crates/caudal-core/tests/it/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::checks::framing(
    caudal_core::Framing::Line,
    bytes
));

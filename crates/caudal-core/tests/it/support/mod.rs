//! Shared by the tests and the fuzz targets.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "each user takes a part of it, and a test may"
)]

pub mod checks;
pub mod oracle;

use caudal_core::{Invalid, Message, Policy, Request, decode};

/// Decodes `text` with the default policy.
pub fn read(text: &str) -> Message<'_> {
    decode(text.as_bytes(), &Policy::default())
}

/// Returns the fault of `text`, which must be invalid.
pub fn invalid(text: &str) -> Invalid<'_> {
    match read(text) {
        Message::Invalid(invalid) => invalid,
        other => panic!("{text} is read as {other:?}"),
    }
}

/// The request that `text` must be.
pub fn request(text: &str) -> Request<'_> {
    match read(text) {
        Message::Request(request) => request,
        other => panic!("{text} is read as {other:?}"),
    }
}

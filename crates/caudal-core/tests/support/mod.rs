//! Shared by the tests and the fuzz targets.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each user takes a part of it"
)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]
#![allow(clippy::cast_possible_truncation, reason = "a test may")]

pub mod checks;
pub mod oracle;

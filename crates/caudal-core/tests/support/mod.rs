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

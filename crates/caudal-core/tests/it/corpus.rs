//! The fuzz targets' seeds, replayed: what a fuzzer checks at random, checked
//! on what is known to be interesting.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::fs;
use std::path::Path;

use crate::support::checks;
use caudal_core::Framing;

/// Runs `check` on every seed of a target, whole and cut at every byte.
fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let seed = fs::read(entry.unwrap().path()).unwrap();
        for end in (0..=seed.len()).rev().step_by(1 + seed.len() / 200) {
            check(&seed[..end]);
        }
        count += 1;
    }
    assert!(count >= 4, "{} seeds in {}", count, folder.display());
}

#[test]
fn the_seeds_of_the_decoder() {
    replay("decode", checks::decoding);
}

#[test]
fn the_seeds_of_the_framings() {
    replay("line", |bytes| checks::framing(Framing::Line, bytes));
    replay("header", |bytes| checks::framing(Framing::Header, bytes));
    replay("concatenated", |bytes| {
        checks::framing(Framing::Concatenated, bytes)
    });
}

#[test]
fn the_seeds_of_the_answers() {
    replay("response", checks::answers);
}

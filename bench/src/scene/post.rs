//! Calls by POST, beside hyper with a fixed answer, and other libraries.

use super::Bench;
use crate::process::Placement::{self, CoreEach, OneCore};
use crate::race::{Contestant, Key, Race};
use crate::table::{Bound, Section};

const JSONRPSEE: Contestant = Contestant::peer("jsonrpsee http", "post", "plain");
const CAUDAL: Contestant = Contestant::ours("caudal http", "post");
const AXUM: Contestant = Contestant::peer("axum http", "post", "plain");

const SERVERS: &[Contestant] = &[
    Contestant::ours("hyper http", "post"),
    CAUDAL,
    AXUM,
    JSONRPSEE,
    Contestant::peer("karyon http", "post", "dotted"),
];

/// A fixed answer is none to a batch, and karyon knows no batches.
const BATCHES: &[Contestant] = &[JSONRPSEE, CAUDAL, AXUM];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("HTTP");
    let core = race(OneCore).run(bench)?;
    let each = race(CoreEach).run(bench)?;
    section.titled("POST, 64 connections", &core.table_with(&each));
    for (subject, raced) in [
        ("POST, 64 connections, one core", &core),
        ("POST, 64 connections, a core each", &each),
    ] {
        for (other, must) in [("hyper", 0.9), ("jsonrpsee", 1.25)] {
            let ratio = raced.ratio("caudal", other);
            let what = format!("calls/s, × {other}");
            section.timed(subject, what, Bound::AtLeast(must), ratio);
        }
    }
    let batches = Race {
        key: Key::Rate("batches/s"),
        placement: CoreEach,
        load: &["--connections", "16", "--call", "batch"],
        servers: BATCHES,
        seconds: 0.4,
    };
    let batches = batches.run(bench)?;
    let title = "A batch of 100 by POST, 16 connections, a core each";
    section.titled(title, &batches.table());
    section.timed(
        "batch of 100 by POST",
        "batches/s, × jsonrpsee",
        Bound::AtLeast(3.5),
        batches.ratio("caudal", "jsonrpsee"),
    );
    section.note(NOTES);
    Ok(section)
}

const fn race(placement: Placement) -> Race {
    Race {
        key: Key::Rate("calls/s"),
        placement,
        load: &["--connections", "64"],
        servers: SERVERS,
        seconds: 0.4,
    }
}

const NOTES: &str = "
Connections are kept, with one call in flight on each. `hyper` reads the body and answers
every POST with the same bytes. `axum` is a handler that reads and writes its own structs
with serde. jsonrpsee has its defaults, but may have more than 100 connections.
";

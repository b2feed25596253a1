//! Calls over WebSocket, beside a blocking loop around tungstenite, and other libraries.

use super::Bench;
use crate::process::Placement::{self, CoreEach, OneCore};
use crate::race::{Contestant, Key, Race};
use crate::table::{Bound, Section};

const SERVERS: &[Contestant] = &[
    Contestant::ours("bare ws", "ws"),
    Contestant::ours("caudal ws", "ws"),
    Contestant::peer("jsonrpsee ws", "ws", "plain"),
    Contestant::peer("karyon ws", "ws", "dotted"),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("WebSocket");
    let one = race(Key::Median, OneCore, &["--window", "1"]).run(bench)?;
    section.titled("WebSocket, 1 in flight, one core", &one.table());
    section.timed(
        "WebSocket, 1 in flight, one core",
        "p50, × bare",
        Bound::AtMost(1.25),
        one.ratio("caudal", "bare"),
    );
    let rate = Key::Rate("calls/s");
    let core = race(rate, OneCore, &["--window", "64"]).run(bench)?;
    let each = race(rate, CoreEach, &["--window", "64"]).run(bench)?;
    section.titled("WebSocket, 64 in flight", &core.table_with(&each));
    let many = &["--connections", "16", "--window", "16"];
    let many = race(rate, CoreEach, many).run(bench)?;
    let title = "WebSocket, 16 connections, 16 in flight on each, a core each";
    section.titled(title, &many.table());
    for (subject, raced, jsonrpsee) in [
        ("WebSocket, 64 in flight, one core", &core, 4.0),
        ("WebSocket, 64 in flight, a core each", &each, 4.0),
        ("WebSocket, 16 × 16 in flight", &many, 5.0),
    ] {
        for (other, must) in [("bare", 0.7), ("jsonrpsee", jsonrpsee)] {
            let ratio = raced.ratio("caudal", other);
            let what = format!("calls/s, × {other}");
            section.timed(subject, what, Bound::AtLeast(must), ratio);
        }
    }
    section.note(NOTES);
    Ok(section)
}

const fn race(key: Key, placement: Placement, load: &'static [&'static str]) -> Race {
    Race {
        key,
        placement,
        load,
        servers: SERVERS,
        seconds: 0.4,
    }
}

const NOTES: &str = "
`bare` is tungstenite and serde, one write for all that one read brought, and a thread for
each connection.
";

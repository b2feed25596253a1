//! Calls of `add` over TCP: servers as processes, beside a blocking loop with a thread for
//! each connection.

use super::Bench;
use crate::process::Placement::{self, CoreEach, Free, OneCore};
use crate::race::{Contestant, Key, Race};
use crate::table::{Bound, Section};

const SERVERS: &[Contestant] = &[
    Contestant::ours("bare tcp line", "line"),
    Contestant::ours("caudal tcp line", "line"),
    Contestant::peer("karyon tcp", "json", "dotted"),
    Contestant::ours("bare tcp header", "header"),
    Contestant::ours("caudal tcp header", "header"),
    Contestant::peer("async-lsp tcp header", "header", "lsp"),
    Contestant::peer("tower-lsp-server tcp header", "header", "lsp"),
    Contestant::peer("lsp-server tcp header", "header", "lsp"),
];

const OPEN: &[Contestant] = &[
    Contestant::ours("bare tcp line", "line"),
    Contestant::ours("caudal tcp line", "line"),
];

/// Minimum ratio of calls a second to those of each library.
const LIBRARIES: [(&str, f64); 3] = [
    ("async-lsp", 1.3),
    ("tower-lsp-server", 3.0),
    ("lsp-server", 14.0),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("TCP");
    let load = &["--tcp", "--window", "64"];
    let rate = Key::Rate("calls/s");
    let core = race(rate, OneCore, load).run(bench)?;
    let each = race(rate, CoreEach, load).run(bench)?;
    section.titled("TCP, 64 in flight", &core.table_with(&each));
    for (subject, raced) in [
        ("TCP, 64 in flight, one core", &core),
        ("TCP, 64 in flight, a core each", &each),
    ] {
        let bare = raced.ratio("caudal", "bare");
        section.timed(subject, "calls/s, × bare", Bound::AtLeast(0.6), bare);
    }
    // With a core each, slower servers hide their work behind the wait for the other.
    for (library, must) in LIBRARIES {
        let what = format!("calls/s, × {library}");
        let ratio = core.ratio("caudal", library);
        section.timed(
            "TCP, 64 in flight, one core",
            what,
            Bound::AtLeast(must),
            ratio,
        );
    }

    let open = Race {
        seconds: 1.5,
        servers: OPEN,
        ..race(Key::Tail, Free, &["--rate", "10000", "--connections", "16"])
    };
    let open = open.run(bench)?;
    section.titled(
        "TCP, open loop: 10,000 calls a second over 16 connections",
        &open.table(),
    );
    let p99 = open.median("caudal", |figures| figures.p99_ns as f64 / 1000.0);
    section.timed("open loop, TCP", "p99, µs", Bound::AtMost(1000.0), p99);
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
lsp-server takes no socket: its socket threads are written again in the bench, line for line,
with TCP_NODELAY. In the open loop, half of the calls are an `echo` of 1 KB; they are due at
fixed times, whatever comes back, and latency counts from the time at which a call was due.
";

//! Calls of `add` over a pipe: servers as child processes, beside a blocking loop with serde.

use super::Bench;
use crate::process::Placement::{self, CoreEach, OneCore};
use crate::race::{Contestant, Key, Race};
use crate::table::{Bound, Section};

const SERVERS: &[Contestant] = &[
    Contestant::ours("bare stdio line", "line"),
    Contestant::ours("caudal stdio line", "line"),
    Contestant::ours("caudal-async stdio line", "line"),
    Contestant::peer("rmcp stdio line", "line", "mcp"),
    Contestant::peer("rmcp-pipes stdio line", "line", "mcp"),
    Contestant::ours("bare stdio header", "header"),
    Contestant::ours("caudal stdio header", "header"),
    Contestant::peer("async-lsp stdio header", "header", "lsp"),
    Contestant::peer("tower-lsp-server stdio header", "header", "lsp"),
    Contestant::peer("lsp-server stdio header", "header", "lsp"),
];

/// Minimum ratio of calls a second to those of each library.
const LIBRARIES: [(&str, f64); 4] = [
    ("async-lsp", 1.3),
    ("tower-lsp-server", 3.0),
    ("lsp-server", 14.0),
    ("rmcp", 25.0),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("Pipe");
    let one = race(Key::Median, OneCore, &["--window", "1"]).run(bench)?;
    section.titled("Pipe, 1 in flight, one core", &one.table());
    let subject = "pipe, 1 in flight, one core";
    let bare = one.ratio("caudal", "bare");
    section.timed(subject, "p50, × bare", Bound::AtMost(1.5), bare);
    let load = &["--window", "64"];
    let rate = Key::Rate("calls/s");
    let core = race(rate, OneCore, load).run(bench)?;
    let each = race(rate, CoreEach, load).run(bench)?;
    section.titled("Pipe, 64 in flight", &core.table_with(&each));
    for (subject, raced) in [
        ("pipe, 64 in flight, one core", &core),
        ("pipe, 64 in flight, a core each", &each),
    ] {
        let bare = raced.ratio("caudal", "bare");
        section.timed(subject, "calls/s, × bare", Bound::AtLeast(0.6), bare);
    }
    // With a core each, slower servers hide their work behind the wait for the other.
    for (library, must) in LIBRARIES {
        let what = format!("calls/s, × {library}");
        let ratio = core.ratio("caudal", library);
        section.timed(
            "pipe, 64 in flight, one core",
            what,
            Bound::AtLeast(must),
            ratio,
        );
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
`bare` blocks: read, serde, add, one write per read. Each server is compared with `bare` in
its own framing. The LSP libraries get a custom request `add` after `initialize`; rmcp gets
`tools/call`, whose messages are longer, on `stdio`, which its documentation names, and on
`stdio_pipes`, which must be asked for. With a core each, a processor that waits for the
other halts, and to wake it may cost more than 64 calls.
";

//! `cargo run --release [-- --quick] [--peer] [--wire] [--http] [--out FILE]`: runs
//! everything, or only the peer, the races over pipes and sockets, or HTTP and
//! WebSocket, and prints Markdown.

use std::process::ExitCode;
use std::time::Duration;

use caudal_bench::{callgrind, process, report};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("caudal-bench: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut quick = false;
    let mut parts = report::Parts::default();
    let mut out = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--peer" => parts.peer = true,
            "--wire" => parts.wire = true,
            "--http" => parts.web = true,
            "--out" => out = Some(arguments.next().ok_or("--out needs a file")?),
            // What runs under callgrind; not meant to be typed.
            callgrind::CHILD => return callgrind::child(arguments),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    process::guard(Duration::from_secs(1800));
    let (markdown, missed) = match parts.any() {
        true => report::processes(quick, parts)?,
        false => report::whole(quick)?,
    };
    print!("{markdown}");
    if let Some(file) = out {
        std::fs::write(&file, markdown).map_err(|e| format!("{file}: {e}"))?;
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("missed: {}", missed.join(", "))),
    }
}

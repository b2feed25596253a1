//! `cargo run --release [-- --quick] [--wire] [--out FILE]`: runs everything, or
//! only what goes over pipes and sockets, and prints Markdown.

use std::process::ExitCode;

use caudal_bench::{callgrind, report, wire};

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
    let mut wire_only = false;
    let mut out = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--wire" => wire_only = true,
            "--out" => out = Some(arguments.next().ok_or("--out needs a file")?),
            // What runs under callgrind; not meant to be typed.
            callgrind::CHILD => return callgrind::child(arguments),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    let (markdown, missed) = match wire_only {
        true => (wire::write(&wire::run(quick)?), Vec::new()),
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

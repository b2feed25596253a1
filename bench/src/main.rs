//! Measures everything, prints tables, and writes Markdown, JSON and SVG; [`HELP`] says
//! what it can be told.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use caudal_bench::{awake, callgrind, guard, process, report};

const HELP: &str = "\
cargo run --release [-- OPTIONS]: measures caudal beside its peers, prints tables, and
writes Markdown, JSON and SVG.

--quick           one short turn each, for a look: two minutes instead of thirty
--alone           over pipes and sockets caudal and the bare loops only
--memory, --peer, --wire, --http, --flood, --growth
                  only these parts
--out DIR         where PERFORMANCE.md and performance/ go (results)
--guard           no times: instructions and allocations beside bench/baseline.json
--guard --write   accepts what they are now";

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
    let mut alone = false;
    let mut guarded = false;
    let mut write = false;
    let mut parts = report::Parts::default();
    let mut out = PathBuf::from("results");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--alone" => alone = true,
            "--memory" => parts.memory = true,
            "--peer" => parts.peer = true,
            "--wire" => parts.wire = true,
            "--http" => parts.web = true,
            "--flood" => parts.flood = true,
            "--growth" => parts.growth = true,
            "--out" => out = arguments.next().ok_or("--out needs a folder")?.into(),
            "--guard" => guarded = true,
            "--write" => write = true,
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            // What this program starts itself; not meant to be typed.
            callgrind::CHILD => return callgrind::child(arguments),
            awake::CHILD => return awake::child(arguments.next()),
            other => return Err(format!("unknown argument `{other}`\n\n{HELP}")),
        }
    }
    process::guard(Duration::from_secs(2400));
    if guarded {
        print!("{}", guard::run(write)?);
        return Ok(());
    }
    let results = report::run(quick, alone, parts.or_all())?;
    results.write(&out)?;
    print!("{}", results.to_markdown());
    eprintln!("written to {}", out.display());
    let missed = results.missed();
    if missed.is_empty() {
        return Ok(());
    }
    let missed = format!("missed: {}", missed.join(", "));
    // How many calls a server finds at once depends on who else is busy; a few of them
    // prove nothing.
    if quick {
        eprintln!("{missed}");
        return Ok(());
    }
    Err(missed)
}

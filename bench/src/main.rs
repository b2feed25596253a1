//! Measures the scenes and prints their tables; [`HELP`] says what it can be told.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use caudal_bench::process::{self, Programs};
use caudal_bench::scene::{self, Bench};
use caudal_bench::{callgrind, guard, record};

const HELP: &str = "\
cargo run --release [-- OPTIONS]: measures caudal beside other libraries, prints tables

--quick          one short turn each, for a look
--SCENE          only this scene, or these: small, codec, cost, pipe, tcp, cores, post,
                 websocket, events, clients, idle, flood, growth
--record FILE    writes them into FILE, too: from `## Targets` to `## Lessons`
--guard          no times: instructions and allocations beside bench/baseline.json
--guard --write  accepts what they are now";

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
    let (mut quick, mut guarded, mut write) = (false, false, false);
    let mut file = None;
    let mut scenes = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--record" => file = Some(PathBuf::from(arguments.next().ok_or("--record FILE")?)),
            "--guard" => guarded = true,
            "--write" => write = true,
            "--help" | "-h" => {
                println!("{HELP}");
                return Ok(());
            }
            // What this program starts itself; not meant to be typed.
            callgrind::CHILD => return callgrind::child(arguments),
            other => {
                let name = other.strip_prefix("--");
                let scene = scene::ALL.iter().find(|(known, _)| Some(*known) == name);
                scenes.push(scene.ok_or_else(|| format!("unknown argument `{other}`\n\n{HELP}"))?);
            }
        }
    }
    process::end_after(Duration::from_secs(3600));
    if guarded {
        print!("{}", guard::run(write)?);
        return Ok(());
    }
    if scenes.is_empty() {
        scenes.extend(&scene::ALL);
    }
    let programs = Programs::build()?;
    measure(&Bench { programs, quick }, &scenes, file)
}

fn measure(
    bench: &Bench,
    scenes: &[&(&str, scene::Scene)],
    file: Option<PathBuf>,
) -> Result<(), String> {
    let mut sections = Vec::new();
    for (name, scene) in scenes {
        eprintln!("{name}");
        sections.push(scene(bench)?);
    }
    let markdown = record::to_markdown(&sections, bench.rounds());
    print!("{markdown}");
    if let Some(file) = file {
        record::write(&file, &markdown)?;
    }
    // A time may be missed because the machine was busy; a count may not.
    let targets = sections.iter().flat_map(|section| &section.targets);
    let missed = targets.filter(|target| target.exact && !target.holds());
    let missed: Vec<_> = missed.map(|target| target.row().join(" ")).collect();
    match missed.is_empty() || bench.quick {
        true => Ok(()),
        false => Err(format!("missed: {}", missed.join("; "))),
    }
}

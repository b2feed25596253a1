//! Cost per message: instructions, allocations and system calls of one end.
//!
//! `load` goes in lockstep: the next window when the last is answered, so that every run
//! sees the same reads. Start-up is in both of two runs, whose difference is shown.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Bench;
use crate::callgrind::Callgrind;
use crate::process::Server;
use crate::race::{Contestant, Program};
use crate::table::{Bound, Section, Table, number_or_na};

/// Calls that are sent to the servers.
const PIPE: (&str, &[&str]) = ("pipe, 64 in flight", &["--window", "64"]);
const POST: (&str, &[&str]) = ("POST, 64 connections", &["--connections", "64"]);
const WEBSOCKET: (&str, &[&str]) = ("WebSocket, 64 in flight", &["--window", "64"]);

type Served = ((&'static str, &'static [&'static str]), Contestant);

/// Servers, over sockets with a runtime of one thread: what threads say to each other is
/// different on every run.
const SERVED: [Served; 13] = [
    (PIPE, Contestant::ours("bare stdio line", "line")),
    (PIPE, Contestant::ours("caudal stdio line", "line")),
    (PIPE, Contestant::ours("caudal-async stdio line", "line")),
    (
        PIPE,
        Contestant::peer("rmcp-pipes stdio line", "line", "mcp"),
    ),
    (
        PIPE,
        Contestant::peer("async-lsp stdio header", "header", "lsp"),
    ),
    (
        PIPE,
        Contestant::peer("tower-lsp-server stdio header", "header", "lsp"),
    ),
    (
        PIPE,
        Contestant::peer("lsp-server stdio header", "header", "lsp"),
    ),
    (POST, Contestant::ours("hyper http one", "post")),
    (POST, Contestant::ours("caudal http one", "post")),
    (POST, Contestant::peer("axum http one", "post", "plain")),
    (
        POST,
        Contestant::peer("jsonrpsee http one", "post", "plain"),
    ),
    (WEBSOCKET, Contestant::ours("caudal ws one", "ws")),
    (
        WEBSOCKET,
        Contestant::peer("jsonrpsee ws one", "ws", "plain"),
    ),
];

/// Clients with 64 calls in flight: over what, name, program, its argument.
const CALLERS: [(&str, &str, Program, &str); 7] = [
    ("tcp", "bare", Program::Serve, "bare"),
    ("tcp", "caudal", Program::Serve, "caudal"),
    ("ws", "caudal", Program::Serve, "caudal-ws"),
    ("ws", "jsonrpsee", Program::Peers, "jsonrpsee-ws"),
    ("http", "hyper", Program::Serve, "hyper"),
    ("http", "caudal", Program::Serve, "caudal-http"),
    ("http", "jsonrpsee", Program::Peers, "jsonrpsee-http"),
];

/// The most that caudal may take: table, row, instructions.
const TARGETS: [(&str, &str, f64); 7] = [
    (PIPE.0, "caudal", 3_500.0),
    (PIPE.0, "caudal-async", 4_500.0),
    (POST.0, "caudal", 15_500.0),
    (WEBSOCKET.0, "caudal", 6_000.0),
    ("tcp", "caudal", 6_500.0),
    ("ws", "caudal", 7_000.0),
    ("http", "caudal", 30_000.0),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut section = Section::new("Cost per message");
    let mut table = Table::new(&[
        "server",
        "over",
        "instructions",
        "allocations",
        "system calls",
    ]);
    for ((over, load), server) in SERVED {
        let count =
            |wrapped| difference(bench, |calls| served(bench, &server, load, calls, wrapped));
        let instructions = count(Wrapped::Callgrind)?;
        // A server over sockets ends before it could say.
        let says = over == PIPE.0 && server.program == Program::Serve;
        let allocations = says.then(|| count(Wrapped::Allocator)).transpose()?;
        let system_calls = match Strace::is_installed() {
            true => Some(count(Wrapped::Strace)?),
            false => None,
        };
        table.row(vec![
            server.name().to_owned(),
            over.to_owned(),
            number_or_na(Some(instructions.round())),
            number_or_na(allocations),
            system_calls.map_or_else(|| "n/a".to_owned(), |calls| format!("{calls:.3}")),
        ]);
        target(&mut section, over, server.name(), instructions);
        if (over, server.name()) == (PIPE.0, "caudal") {
            // What is allocated once in thousands of requests is no request's own.
            let each = allocations.map(|count| (count * 100.0).round() / 100.0);
            section.counted(
                "request over a pipe",
                "allocations",
                Bound::AtMost(0.0),
                each,
            );
        }
    }
    section.titled("A request served", &table);

    let mut table = Table::new(&["client", "over", "instructions"]);
    for (over, name, program, argument) in CALLERS {
        let instructions =
            difference(bench, |calls| called(bench, over, program, argument, calls))?;
        table.row(vec![
            name.to_owned(),
            over.to_owned(),
            number_or_na(Some(instructions.round())),
        ]);
        target(&mut section, over, name, instructions);
    }
    section.titled("A call made, 64 in flight", &table);
    section.note(NOTES);
    Ok(section)
}

fn target(section: &mut Section, over: &str, name: &str, instructions: f64) {
    let mut targets = TARGETS.iter();
    if let Some((over, _, most)) = targets.find(|row| (row.0, row.1) == (over, name)) {
        let what = format!("{over}, instructions of {name}");
        section.counted(
            "cost per message",
            &what,
            Bound::AtMost(*most),
            Some(instructions),
        );
    }
}

/// Returns the cost of a call: two runs of so many calls differ in the calls alone.
fn difference(
    bench: &Bench,
    mut total: impl FnMut(u64) -> Result<f64, String>,
) -> Result<f64, String> {
    let (few, many) = if bench.quick {
        (256, 768)
    } else {
        (1_280, 3_840)
    };
    let less = total(few)?;
    Ok((total(many)? - less) / (many - few) as f64)
}

/// Counter that runs beside the server.
#[derive(Clone, Copy)]
enum Wrapped {
    Callgrind,
    Allocator,
    Strace,
}

/// Returns the count of a server that has answered so many calls.
fn served(
    bench: &Bench,
    server: &Contestant,
    options: &[&str],
    calls: u64,
    wrapped: Wrapped,
) -> Result<f64, String> {
    let mut load = Command::new(&bench.programs.load);
    load.args(["--framing", server.framing, "--dialect", server.dialect])
        .args(options)
        .args(["--lockstep", "--seconds", "60"])
        .args(["--requests", &calls.to_string(), "--"]);
    let callgrind = Callgrind::find()?;
    let strace = Strace::new();
    match wrapped {
        Wrapped::Callgrind => {
            callgrind.append_to(&mut load);
            server.append_to(&mut load, &bench.programs);
        }
        Wrapped::Allocator => {
            load.arg(&bench.programs.serve_counted)
                .args(server.arguments.split(' '));
        }
        Wrapped::Strace => {
            load.args(["strace", "-f", "-c", "-o"]).arg(&strace.file);
            server.append_to(&mut load, &bench.programs);
        }
    }
    let output = load.output().map_err(|e| format!("load: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {said}", server.name()));
    }
    match wrapped {
        Wrapped::Callgrind => callgrind.instructions(),
        // What `serve-counted` said last.
        Wrapped::Allocator => {
            let count = said.lines().last().and_then(|line| line.parse().ok());
            count.ok_or_else(|| format!("serve-counted said `{said}`"))
        }
        Wrapped::Strace => strace.calls(),
    }
}

/// Returns the instructions of a client that has made so many calls; its server is `bare`.
fn called(
    bench: &Bench,
    over: &str,
    program: Program,
    argument: &str,
    calls: u64,
) -> Result<f64, String> {
    let mut serve = Command::new(&bench.programs.serve);
    let (_server, port) = Server::listen(serve.args(["bare", over]))?;
    let callgrind = Callgrind::find()?;
    let mut client = Command::new("env");
    callgrind.append_to(&mut client);
    let program = match program {
        Program::Serve => &bench.programs.client,
        Program::Peers => &bench.programs.peers,
    };
    client
        .arg(program)
        .args([argument, &calls.to_string(), &port.to_string()]);
    let status = client.stdout(Stdio::null()).status();
    match status.map_err(|e| e.to_string())?.success() {
        true => callgrind.instructions(),
        false => Err(format!("{client:?} failed")),
    }
}

/// The file that strace writes; removed in the end.
struct Strace {
    file: PathBuf,
}

impl Strace {
    fn is_installed() -> bool {
        let mut strace = Command::new("strace");
        let quiet = strace
            .args(["-o", "/dev/null", "true"])
            .stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    }

    fn new() -> Self {
        let name = format!("caudal-bench-{}.strace", std::process::id());
        Self {
            file: std::env::temp_dir().join(name),
        }
    }

    /// Returns how many calls are in the table that `-c` writes: the fourth column of each
    /// row but the last.
    fn calls(&self) -> Result<f64, String> {
        let text = std::fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
        let rows = text.lines().filter(|line| !line.ends_with(" total"));
        let counts = rows.filter_map(|row| row.split_whitespace().nth(3)?.parse::<f64>().ok());
        Ok(counts.sum())
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // A left-over file in the temporary folder harms nobody.
        drop(std::fs::remove_file(&self.file));
    }
}

const NOTES: &str = "
Instructions are callgrind's, of that one process. `bare` blocks; `hyper` answers every POST
with the same bytes, and as a client it has 64 connections of its own. System calls are all
that strace sees. Over sockets the runtimes have one thread.
";

//! The servers take turns under the same load.

use std::path::Path;
use std::process::Command;

use super::Figures;
use crate::neighbour;
use crate::quiet;
use crate::time::Spread;

/// A server, and how it wants to be spoken to.
#[derive(Clone, Copy, Debug)]
struct Server {
    name: &'static str,
    framing: &'static str,
    dialect: &'static str,
}

const fn server(name: &'static str, framing: &'static str, dialect: &'static str) -> Server {
    Server {
        name,
        framing,
        dialect,
    }
}

/// Each is compared with `bare` in its own framing.
const PIPED: &[Server] = &[
    server("bare", "line", "plain"),
    server("caudal", "line", "plain"),
    server("caudal-async", "line", "plain"),
    server("rmcp", "line", "mcp"),
    server("bare", "header", "plain"),
    server("caudal", "header", "plain"),
    server("async-lsp", "header", "lsp"),
    server("tower-lsp-server", "header", "lsp"),
    server("lsp-server", "header", "lsp"),
];

const CONNECTED: &[Server] = &[
    server("bare", "line", "plain"),
    server("caudal", "line", "plain"),
    server("caudal-async", "line", "plain"),
];

/// What the servers are put through.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub title: &'static str,
    pub key: Key,
    transport: &'static str,
    load: &'static [&'static str],
    servers: &'static [Server],
    /// Some need longer turns than others.
    turns: f64,
}

/// By what the servers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The median latency: less is better.
    Median,
    /// Calls per second: more is better.
    Rate,
    /// The latency that one call in a hundred exceeds: less is better.
    Tail,
}

const SCENES: [Scene; 6] = [
    Scene {
        name: "pipe-1",
        title: "Pipe, 1 in flight, generator and server on the same core",
        key: Key::Median,
        transport: "stdio",
        load: &["--window", "1", "--same-core"],
        servers: PIPED,
        turns: 1.0,
    },
    Scene {
        name: "pipe-64",
        title: "Pipe, 64 in flight",
        key: Key::Rate,
        transport: "stdio",
        load: &["--window", "64"],
        servers: PIPED,
        turns: 1.0,
    },
    // Nobody waits for the other core to wake up: this compares the work alone.
    Scene {
        name: "pipe-64-core",
        title: "Pipe, 64 in flight, generator and server on the same core",
        key: Key::Rate,
        transport: "stdio",
        load: &["--window", "64", "--same-core"],
        servers: PIPED,
        turns: 1.0,
    },
    Scene {
        name: "pipe-10000",
        title: "Pipe, 10,000 in flight",
        key: Key::Rate,
        transport: "stdio",
        load: &["--window", "10000"],
        servers: PIPED,
        turns: 1.0,
    },
    Scene {
        name: "tcp-64",
        title: "TCP, 64 in flight on one connection",
        key: Key::Rate,
        transport: "tcp",
        load: &["--window", "64", "--tcp"],
        servers: CONNECTED,
        turns: 1.0,
    },
    Scene {
        name: "open",
        title: "TCP, open loop: 16 connections, 10,000 calls a second in all",
        key: Key::Tail,
        transport: "tcp",
        load: &["--rate", "10000", "--connections", "16"],
        servers: CONNECTED,
        turns: 4.0,
    },
];

/// What came out of one scene.
#[derive(Clone, Debug)]
pub struct Race {
    pub scene: Scene,
    pub outcomes: Vec<Outcome>,
}

/// How one server did, over all rounds.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub framing: &'static str,
    pub rounds: Vec<Figures>,
    /// To `bare` in the same framing and the same round.
    pub ratio: Spread,
}

impl Outcome {
    /// The median over the rounds of something in the figures.
    pub fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        Spread::of(self.rounds.iter().map(of).collect()).median
    }

    /// Calls of `write` per reply; none of those to a socket.
    #[must_use]
    pub fn writes(&self) -> f64 {
        self.median(|figures| {
            let writes = figures.server_writes.unwrap_or(0) as f64;
            writes / figures.requests as f64
        })
    }
}

/// Runs every scene in rounds.
///
/// # Errors
/// The binaries could not be built, or a server answered wrongly or not at all.
pub fn run(quick: bool) -> Result<Vec<Race>, String> {
    let [load, serve] = neighbour::build("caudal-bench", ["load", "serve"])?;
    let [peers] = neighbour::build("caudal-bench-peers", ["peers"])?;
    let (rounds, seconds) = if quick { (3, 0.1) } else { (7, 0.7) };
    let mut all: Vec<Vec<Vec<Figures>>> = SCENES
        .iter()
        .map(|scene| vec![Vec::new(); scene.servers.len()])
        .collect();
    for _ in 0..rounds {
        for (scene, results) in SCENES.iter().zip(&mut all) {
            for (server, figures) in scene.servers.iter().zip(results) {
                let program = match server.dialect {
                    "plain" => &serve,
                    _ => &peers,
                };
                let seconds = seconds * scene.turns;
                let turn = || turn(&load, program, scene, server, seconds);
                figures.push(quiet::turn(turn)?);
            }
        }
    }
    let races = SCENES.iter().zip(all);
    Ok(races.map(|(scene, results)| race(scene, results)).collect())
}

fn turn(
    load: &Path,
    program: &Path,
    scene: &Scene,
    server: &Server,
    seconds: f64,
) -> Result<Figures, String> {
    let output = Command::new(load)
        .args(scene.load)
        .args(["--framing", server.framing, "--dialect", server.dialect])
        .args(["--seconds", &seconds.to_string(), "--"])
        .arg(program)
        .args([server.name, scene.transport, server.framing])
        .output()
        .map_err(|e| format!("load: {e}"))?;
    let problem = |what: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}, {}: {what} {said}", server.name, scene.title)
    };
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| problem(&e.to_string())),
        false => Err(problem("load failed:")),
    }
}

fn race(scene: &Scene, results: Vec<Vec<Figures>>) -> Race {
    let value = |figures: &Figures| match scene.key {
        Key::Median => figures.p50_ns as f64,
        Key::Rate => figures.per_second,
        Key::Tail => figures.p99_ns as f64,
    };
    let outcome = |(server, rounds): (&Server, &Vec<Figures>)| {
        let base = scene
            .servers
            .iter()
            .position(|other| other.name == "bare" && other.framing == server.framing);
        let base = &results[base.expect("`bare` runs in every framing")];
        let ratios = rounds.iter().zip(base).map(|(a, b)| value(a) / value(b));
        Outcome {
            name: server.name,
            framing: server.framing,
            ratio: Spread::of(ratios.collect()),
            rounds: rounds.clone(),
        }
    };
    Race {
        scene: *scene,
        outcomes: scene.servers.iter().zip(&results).map(outcome).collect(),
    }
}

//! Outgoing calls, 64 in flight: caudal's client beside a bare one.

use std::path::Path;
use std::process::Command;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Called, Tools, difference, twice};
use crate::quiet;
use crate::time::Spread;

/// How the clients did; the server over TCP is `bare`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Calls {
    pub(super) clients: Vec<Client>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) per_second: f64,
    pub(super) cpu: f64,
    /// Calls per second over those of the bare client in the same round.
    pub(super) ratio: Spread,
    /// In this process: for `memory`, those of both ends.
    pub(super) instructions: Option<f64>,
}

const CLIENTS: [&str; 3] = ["bare", "caudal", "memory"];

impl Calls {
    pub(super) fn client(&self, name: &str) -> Option<&Client> {
        self.clients.iter().find(|client| client.name == name)
    }
}

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Calls, String> {
    let (rounds, time) = if quick { (2, "0.1s") } else { (7, "0.7s") };
    let mut all = CLIENTS.map(|_| Vec::<Called>::new());
    for _ in 0..rounds {
        for (name, turns) in CLIENTS.iter().zip(&mut all) {
            let arguments = arguments(tools, name, time)?;
            turns.push(quiet::turn(|| client(&tools.client, &arguments))?);
        }
    }
    let base = all[0].clone();
    let mut clients = Vec::new();
    for (name, turns) in CLIENTS.into_iter().zip(all) {
        let median = |of: fn(&Called) -> f64| Spread::of(turns.iter().map(of).collect()).median;
        let ratios = turns.iter().zip(&base);
        clients.push(Client {
            name,
            per_second: median(|turn| turn.per_second),
            cpu: median(|turn| turn.cpu),
            ratio: Spread::of(ratios.map(|(a, b)| a.per_second / b.per_second).collect()),
            instructions: instructions(tools, name, quick)?,
        });
    }
    Ok(Calls { clients })
}

/// The client alone is under callgrind; the server it starts is not.
fn instructions(tools: &Tools, name: &str, quick: bool) -> Result<Option<f64>, String> {
    let Some(callgrind) = &tools.callgrind else {
        return Ok(None);
    };
    let total = |count: u64| {
        let arguments = arguments(tools, name, &count.to_string())?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        callgrind.total(&tools.client, &arguments, |command| {
            let output = command.output().map_err(|e| e.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        })
    };
    difference(twice(quick), total).map(Some)
}

fn arguments(tools: &Tools, name: &str, amount: &str) -> Result<Vec<String>, String> {
    let serve = tools.serve.to_str().ok_or("a path that is not Unicode")?;
    let mut arguments = vec![name.to_owned(), amount.to_owned()];
    if name != "memory" {
        arguments.extend([serve, "bare", "tcp"].map(str::to_owned));
    }
    Ok(arguments)
}

/// Runs a client and reads what it prints.
pub(crate) fn client<T: DeserializeOwned>(
    program: &Path,
    arguments: &[String],
) -> Result<T, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|e| format!("client: {e}"))?;
    let problem = |what: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("client {}: {what} {said}", arguments.join(" "))
    };
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| problem(&e.to_string())),
        false => Err(problem("failed:")),
    }
}

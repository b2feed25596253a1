//! The servers take turns under the same load.

use super::Tools;
use super::contestant::{Contestant, SCENES, Scene};
use crate::quiet;
use crate::time::Spread;
use crate::wire::Figures;
use std::process::Command;

/// What came out of one scene: the rounds of each of its servers.
#[derive(Clone, Debug)]
pub(super) struct Race {
    pub(super) scene: Scene,
    pub(super) rounds: Vec<Vec<Figures>>,
}

impl Race {
    pub(super) fn rounds(&self, name: &str) -> Option<&[Figures]> {
        let mut servers = self.scene.servers.iter();
        let place = servers.position(|server| server.name == name)?;
        Some(&self.rounds[place])
    }

    /// What one did over what the other did in the same round.
    pub(super) fn ratio(&self, name: &str, base: &str) -> Option<Spread> {
        let value = |figures: &Figures| match self.scene.latency {
            true => figures.p50_ns as f64,
            false => figures.per_second,
        };
        let both = self.rounds(name)?.iter().zip(self.rounds(base)?);
        Some(Spread::of(both.map(|(a, b)| value(a) / value(b)).collect()))
    }
}

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Vec<Race>, String> {
    let (rounds, seconds) = if quick { (3, "0.1") } else { (7, "0.7") };
    let mut races: Vec<Race> = SCENES
        .iter()
        .map(|scene| Race {
            scene: *scene,
            rounds: vec![Vec::new(); scene.servers.len()],
        })
        .collect();
    for _ in 0..rounds {
        for race in &mut races {
            for (server, figures) in race.scene.servers.iter().zip(&mut race.rounds) {
                let turn = || turn(tools, &race.scene, server, seconds);
                figures.push(quiet::turn(turn)?);
            }
        }
    }
    Ok(races)
}

fn turn(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    seconds: &str,
) -> Result<Figures, String> {
    let mut load = Command::new(&tools.load);
    load.args(scene.load)
        .args(["--seconds", seconds, "--"])
        .arg(tools.path(server.program))
        .args(server.arguments);
    figures(&mut load).map_err(|e| format!("{}, {}: {e}", server.name, scene.title))
}

/// Runs `load` and reads what it prints.
pub(super) fn figures(load: &mut Command) -> Result<Figures, String> {
    let output = load.output().map_err(|e| format!("load: {e}"))?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| e.to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

//! The servers take turns under the same load.

use std::process::Command;

use serde::Serialize;

use super::Figures;
use super::contestant::Contestant;
use super::cost::{self, Cost};
use super::scene::{Key, Scene};
use crate::awake::{self, Awake};
use crate::quiet;
use crate::time::Spread;
use crate::tools::Tools;

/// What came out of one scene.
#[derive(Clone, Debug, Serialize)]
pub struct Race {
    #[serde(flatten)]
    pub scene: Scene,
    pub outcomes: Vec<Outcome>,
}

/// How one server did, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub name: &'static str,
    pub framing: &'static str,
    /// To the first server of the scene in the same framing and the same round.
    pub ratio: Spread,
    pub rounds: Vec<Figures>,
    pub cost: Option<Cost>,
}

impl Race {
    /// How one server did; in its first framing, if it took part in several.
    #[must_use]
    pub fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.name == name)
    }

    /// How two did, in the first framing that both speak.
    pub(super) fn pair(&self, name: &str, base: &str) -> Option<(&Outcome, &Outcome)> {
        let named = |wanted| move |outcome: &&Outcome| outcome.name == wanted;
        let mut pairs = self.outcomes.iter().filter(named(name)).flat_map(|one| {
            let others = self.outcomes.iter().filter(named(base));
            let same = others.filter(|other| other.framing == one.framing);
            same.map(move |other| (one, other))
        });
        pairs.next()
    }

    /// What the best of those did who show how much is possible, over what another did.
    pub(crate) fn bound(&self, base: &str) -> Option<f64> {
        let bounds = self.scene.bounds.iter();
        let ratios = bounds.filter_map(|bound| Some(self.ratio(bound.name, base)?.median));
        ratios.max_by(f64::total_cmp)
    }

    /// What one did over what another did, in the first framing that both speak.
    #[must_use]
    pub fn ratio(&self, name: &str, base: &str) -> Option<Spread> {
        let (one, other) = self.pair(name, base)?;
        Some(self.scene.key.ratio(&one.rounds, &other.rounds))
    }
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

impl Key {
    fn value(self, figures: &Figures) -> f64 {
        match self {
            Self::Median => figures.p50_ns as f64,
            Self::Rate(_) => figures.per_second,
            Self::Tail => figures.p99_ns as f64,
        }
    }

    /// Of the same rounds.
    fn ratio(self, of: &[Figures], base: &[Figures]) -> Spread {
        let both = of.iter().zip(base);
        Spread::of(both.map(|(a, b)| self.value(a) / self.value(b)).collect())
    }
}

/// Runs the scenes in rounds. Who is not there does not take part.
///
/// # Errors
/// A server answered wrongly or not at all.
pub fn run(tools: &Tools, scenes: &[Scene], quick: bool) -> Result<Vec<Race>, String> {
    let (rounds, seconds) = if quick { (1, 0.05) } else { (7, 0.35) };
    let there = |server: &&Contestant| tools.command(server.program).is_some();
    let mut all: Vec<Vec<(&Contestant, Vec<Figures>)>> = scenes
        .iter()
        .map(|scene| {
            let possible = !scene.awake || awake::is_possible();
            let servers = scene.servers.iter().chain(scene.bounds);
            let servers = servers.filter(there).filter(|_| possible);
            servers.map(|server| (server, Vec::new())).collect()
        })
        .collect();
    for round in 1..=rounds {
        eprintln!("races, round {round} of {rounds}");
        let all = scenes.iter().zip(&mut all);
        for (scene, results) in all.filter(|(scene, _)| round <= scene.rounds) {
            let _awake = scene.awake.then(Awake::keep);
            for _ in 0..scene.repeats {
                for (server, figures) in &mut *results {
                    let turn = || turn(tools, scene, server, scene.seconds(seconds));
                    figures.push(quiet::turn(turn)?);
                }
            }
        }
    }
    let mut races = Vec::new();
    for (scene, results) in scenes.iter().zip(all) {
        let costs = results.iter();
        let costs = costs.map(|(server, _)| cost::count(tools, scene, server, quick));
        let costs = costs.collect::<Result<_, _>>()?;
        races.push(race(scene, results, costs));
    }
    Ok(races)
}

fn turn(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    seconds: f64,
) -> Result<Figures, String> {
    let program = tools.command(server.program).ok_or("it is not there")?;
    let mut load = load(tools, scene, server);
    load.args(["--seconds", &seconds.to_string(), "--"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(server.arguments(scene.transport));
    figures(&mut load).map_err(|e| format!("{}, {}: {e}", server.name, scene.title))
}

/// `load` as a server of a scene wants it.
pub(super) fn load(tools: &Tools, scene: &Scene, server: &Contestant) -> Command {
    let mut load = Command::new(&tools.load);
    load.args(["--framing", server.framing, "--dialect", server.dialect])
        .args(scene.load);
    load
}

/// Runs `load` and reads what it prints.
///
/// # Errors
/// It failed; this is what it said.
pub(super) fn figures(load: &mut Command) -> Result<Figures, String> {
    let output = load.output().map_err(|e| format!("load: {e}"))?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| e.to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn race(
    scene: &Scene,
    results: Vec<(&Contestant, Vec<Figures>)>,
    costs: Vec<Option<Cost>>,
) -> Race {
    let base = |family| results.iter().find(|(other, _)| other.family() == family);
    let outcomes = results.iter().zip(costs);
    let outcomes = outcomes.map(|((server, rounds), cost)| Outcome {
        name: server.name,
        framing: server.framing,
        ratio: base(server.family())
            .map_or(Spread::NONE, |(_, base)| scene.key.ratio(rounds, base)),
        rounds: rounds.clone(),
        cost,
    });
    Race {
        outcomes: outcomes.collect(),
        scene: *scene,
    }
}

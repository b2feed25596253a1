//! The servers take turns under the same load.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Figures;
use super::contestant::Contestant;
use super::cost::{self, Cost};
use super::scene::{Key, Scene};
use crate::awake::{self, Awake};
use crate::quiet;
use crate::time::{Spread, is_undecided};
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
    /// To the first server of the scene in the same framing and the same round, of those in
    /// which everybody took part.
    pub ratio: Spread,
    pub rounds: Vec<Figures>,
    /// In so many of them, the first, everybody took part.
    pub shared: usize,
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
        let both = |outcome: &Outcome| (outcome.name, outcome.framing);
        let (one, other) = pair(self.outcomes.iter().map(both), name, base)?;
        Some((self.outcomes.get(one)?, self.outcomes.get(other)?))
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
    /// The median of something in the figures, over the rounds in which everybody took part:
    /// in others the machine may have had another day.
    pub fn median(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        let rounds = self.rounds.iter().take(self.shared);
        Spread::of(rounds.map(of).collect()).median
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

/// Where two stand among servers with their framings: in the first that both speak.
fn pair<'a>(
    servers: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    name: &str,
    base: &str,
) -> Option<(usize, usize)> {
    let named = |wanted| {
        let servers = servers.clone().enumerate();
        servers.filter(move |(_, (name, _))| *name == wanted)
    };
    let mut pairs = named(name).flat_map(|(one, (_, framing))| {
        let same = named(base).filter(move |(_, (_, other))| *other == framing);
        same.map(move |(other, _)| (one, other))
    });
    pairs.next()
}

impl Key {
    pub(super) fn value(self, figures: &Figures) -> f64 {
        match self {
            Self::Median => figures.p50_ns as f64,
            Self::Rate(_) => figures.per_second,
            Self::Tail => figures.p99_ns as f64,
        }
    }

    /// Of the same rounds.
    fn ratio(self, of: &[Figures], base: &[Figures]) -> Spread {
        Spread::of(self.ratios(of, base))
    }

    /// The same of each. Who has taken part in fewer rounds was in the first of them.
    fn ratios(self, of: &[Figures], base: &[Figures]) -> Vec<f64> {
        let both = of.iter().zip(base);
        both.map(|(a, b)| self.value(a) / self.value(b)).collect()
    }
}

/// A server, and how it did in each round.
type Turns = (&'static Contestant, Vec<Figures>);

/// In so many rounds everybody takes part.
const ROUNDS: usize = 5;
/// Those of whom they leave open whether caudal reaches what it must go on so many at a
/// time, in turns as long as before: in shorter ones, servers are not yet warm, and another
/// may be ahead.
const BLOCK: usize = 5;
/// That often at most,
const BLOCKS: usize = 24;
/// and for so long in all.
const MORE: Duration = Duration::from_secs(120);

/// What is done where rounds leave something open, as a Markdown list item.
#[must_use]
pub fn describe() -> String {
    format!(
        "- {ROUNDS} rounds for everybody. Where they leave open on which side of a target their
  median lies (the target is within its 95 % confidence interval), caudal and whom it is
  compared with go on in turns as long: {BLOCK} rounds at a time, {} at most, and for {} s
  of all scenes. Tables have the rounds in which everybody took part, targets all of them.\n",
        BLOCK * BLOCKS,
        MORE.as_secs(),
    )
}

/// Runs the scenes in rounds. Who is not there does not take part.
///
/// # Errors
/// A server answered wrongly or not at all.
pub fn run(tools: &Tools, scenes: &[Scene], quick: bool) -> Result<Vec<Race>, String> {
    let (rounds, seconds) = if quick { (1, 0.05) } else { (ROUNDS, 0.35) };
    let there = |server: &&Contestant| tools.command(server.program).is_some();
    let mut all: Vec<Vec<Turns>> = scenes
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
            for result in results {
                take(tools, scene, result, seconds)?;
            }
        }
    }
    if !quick {
        decide(tools, scenes, &mut all, seconds)?;
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

/// Goes on where something was left open, with those whom it concerns.
fn decide(
    tools: &Tools,
    scenes: &[Scene],
    all: &mut [Vec<Turns>],
    seconds: f64,
) -> Result<(), String> {
    let start = Instant::now();
    for block in 0..BLOCKS {
        for (scene, results) in scenes.iter().zip(&mut *all) {
            let concerned = undecided(scene, results);
            if concerned.is_empty() || start.elapsed() > MORE {
                continue;
            }
            let taken = ROUNDS + block * BLOCK;
            eprintln!("{}: undecided after {taken} rounds", scene.title);
            let _awake = scene.awake.then(Awake::keep);
            for _ in 0..BLOCK {
                for (at, result) in results.iter_mut().enumerate() {
                    if concerned.contains(&at) {
                        take(tools, scene, result, seconds)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Those of whom the rounds leave open whether caudal reaches what it must beside them,
/// and caudal. Who is not among them once never is again.
fn undecided(scene: &Scene, results: &[Turns]) -> BTreeSet<usize> {
    let servers = results
        .iter()
        .map(|(server, _)| (server.name, server.framing));
    let mut concerned = BTreeSet::new();
    for goal in scene.goals {
        let Some((ours, theirs)) = pair(servers.clone(), "caudal", goal.beside) else {
            continue;
        };
        let ratios = scene.key.ratios(&results[ours].1, &results[theirs].1);
        if is_undecided(ratios, goal.must) {
            concerned.extend([ours, theirs]);
        }
    }
    concerned
}

/// Lets one server take its turn.
fn take(
    tools: &Tools,
    scene: &Scene,
    (server, figures): &mut Turns,
    seconds: f64,
) -> Result<(), String> {
    let turn = || turn(tools, scene, server, scene.seconds(seconds));
    figures.push(match scene.patient {
        true => quiet::tail(turn)?,
        false => quiet::turn(turn)?,
    });
    Ok(())
}

fn turn(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    seconds: f64,
) -> Result<Figures, String> {
    let program = tools.command(server.program).ok_or("it is not there")?;
    let arguments = match scene.one_thread {
        true => server.arguments_counted(scene.transport),
        false => Some(server.arguments(scene.transport)),
    };
    let mut load = load(tools, scene, server);
    load.args(["--seconds", &seconds.to_string(), "--"])
        .arg(program.get_program())
        .args(program.get_args())
        .args(arguments.ok_or("it has more threads than one")?);
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

fn race(scene: &Scene, results: Vec<Turns>, costs: Vec<Option<Cost>>) -> Race {
    let shared = results.iter().map(|(_, rounds)| rounds.len()).min();
    let shared = shared.unwrap_or(0);
    let base = |family| results.iter().find(|(other, _)| other.family() == family);
    let outcomes = results.iter().zip(costs);
    let outcomes = outcomes.map(|((server, rounds), cost)| Outcome {
        name: server.name,
        framing: server.framing,
        ratio: base(server.family()).map_or(Spread::NONE, |(_, base)| {
            scene.key.ratio(&rounds[..shared], &base[..shared])
        }),
        shared,
        rounds: rounds.clone(),
        cost,
    });
    Race {
        outcomes: outcomes.collect(),
        scene: *scene,
    }
}

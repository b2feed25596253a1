//! Two connections on two cores: what the second is worth.
//!
//! The order of 1 KB costs a server far more than `load`, so that the server is
//! what everybody waits for. One `load` per connection, both at once. A single
//! connection lets processors halt, since each end waits for the other: what the second
//! is worth by itself shows only where they are kept awake.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;

use super::Tools;
use crate::awake::{self, Awake};
use crate::child::Server;
use crate::process::{self, threads};
use crate::quiet;
use crate::time::{Spread, is_undecided};
use crate::wire::Figures;

const SERVERS: [&str; 2] = ["bare", "caudal"];

/// What the second connection must be worth, in calls of the first.
pub(super) const WORTH: f64 = 1.7;

/// In so many rounds both take part, and in so many at most caudal, while they leave open
/// whether that is reached.
const ROUNDS: usize = 7;
const MOST: usize = 4 * ROUNDS;

/// What one server did with one connection, and with two.
type Turns = [Vec<Turn>; 2];

/// How one server did with one connection or two.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Turn {
    /// Over all connections.
    pub(super) per_second: f64,
    /// In cores.
    pub(super) server_cpu: f64,
    pub(super) load_cpu: f64,
    /// The part of the server's time that its second busiest thread had.
    pub(super) second: f64,
    /// Cores that had nothing to do.
    pub(super) idle: f64,
}

impl Turn {
    /// The server's time for one call, in seconds.
    pub(super) fn cost(&self) -> f64 {
        self.server_cpu / self.per_second
    }
}

/// The same server with one connection and with two.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scaling {
    pub(super) name: &'static str,
    /// Whether processors are kept from halting.
    pub(super) awake: bool,
    pub(super) one: Turn,
    pub(super) two: Turn,
    /// Of the calls per second, within a round.
    pub(super) ratio: Spread,
    /// Of the server's time for one call, within a round.
    pub(super) cost: Spread,
}

/// Both with one connection and with two, in turn; then again with processors that
/// are kept awake.
pub(super) fn run(tools: &Tools, quick: bool) -> Result<Vec<Scaling>, String> {
    let (rounds, seconds) = if quick { (2, "0.3") } else { (ROUNDS, "0.6") };
    let take = |name, turns: &mut Turns| {
        for (connections, turns) in (1..).zip(turns) {
            turns.push(quiet::turn(|| turn(tools, name, connections, seconds))?);
        }
        Ok::<_, String>(())
    };
    let mut all = Vec::new();
    let possible = |awake: &bool| !awake || awake::is_possible();
    for awake in [false, true].into_iter().filter(possible) {
        let _awake = awake.then(Awake::keep);
        let mut turns = SERVERS.map(|_| Turns::default());
        for _ in 0..rounds {
            for (name, turns) in SERVERS.iter().zip(&mut turns) {
                take(name, turns)?;
            }
        }
        let [_, caudal] = &mut turns;
        while !quick && caudal[0].len() < MOST && is_undecided(worth(caudal), WORTH) {
            for _ in 0..ROUNDS {
                take("caudal", caudal)?;
            }
        }
        let scaled = SERVERS.into_iter().zip(turns);
        all.extend(scaled.map(|(name, turns)| Scaling::new(name, awake, &turns)));
    }
    Ok(all)
}

impl Scaling {
    fn new(name: &'static str, awake: bool, turns: &Turns) -> Self {
        let [one, two] = turns;
        let costs = one.iter().zip(two).map(|(a, b)| b.cost() / a.cost());
        Self {
            name,
            awake,
            ratio: Spread::of(worth(turns)),
            cost: Spread::of(costs.collect()),
            one: median(one),
            two: median(two),
        }
    }
}

/// The calls per second with two connections, over those with one in the same round.
fn worth([one, two]: &Turns) -> Vec<f64> {
    let both = one.iter().zip(two);
    both.map(|(a, b)| b.per_second / a.per_second).collect()
}

fn median(turns: &[Turn]) -> Turn {
    let of = |of: fn(&Turn) -> f64| Spread::of(turns.iter().map(of).collect()).median;
    Turn {
        per_second: of(|turn| turn.per_second),
        server_cpu: of(|turn| turn.server_cpu),
        load_cpu: of(|turn| turn.load_cpu),
        second: of(|turn| turn.second),
        idle: of(|turn| turn.idle),
    }
}

fn turn(tools: &Tools, name: &str, connections: usize, seconds: &str) -> Result<Turn, String> {
    let (server, port) = Server::listen(Command::new(&tools.serve).args([name, "tcp"]))?;
    let look = || threads(server.pid()).map_err(|e| e.to_string());
    let ticks = || process::ticks().map_err(|e| e.to_string());
    let before = look()?;
    let ticks_before = ticks()?;
    let loads: Vec<Child> = (0..connections)
        .map(|_| {
            Command::new(&tools.load)
                .args(["--call", "place", "--window", "256", "--seconds", seconds])
                .args(["--connect", &format!("127.0.0.1:{port}")])
                .args(["--pid", &server.pid().to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|e| format!("load: {e}"))
        })
        .collect::<Result<_, _>>()?;
    let mut figures: Vec<Figures> = Vec::new();
    for load in loads {
        let output = load.wait_with_output().map_err(|e| e.to_string())?;
        figures.push(serde_json::from_slice(&output.stdout).map_err(|e| format!("load: {e}"))?);
    }
    let ticks_after = ticks()?;
    let all = (ticks_after.all - ticks_before.all).max(1);
    let idle = (ticks_after.idle - ticks_before.idle) as f64 / all as f64;
    let mut used: Vec<Duration> = look()?
        .into_iter()
        .map(|(name, cpu)| {
            let then = before.iter().find(|(other, _)| *other == name);
            cpu.saturating_sub(then.map_or(Duration::ZERO, |(_, cpu)| *cpu))
        })
        .collect();
    used.sort();
    used.reverse();
    let all: Duration = used.iter().sum();
    let sum = |of: fn(&Figures) -> f64| figures.iter().map(of).sum::<f64>();
    let server_cpu = figures.iter().filter_map(|figures| figures.server_cpu);
    Ok(Turn {
        per_second: sum(|figures| figures.per_second),
        // Each `load` looked at the whole server; the one that ended last may
        // have missed a thread that had ended.
        server_cpu: server_cpu.fold(0.0, f64::max),
        load_cpu: sum(|figures| figures.load_cpu),
        idle: idle * process::cores() as f64,
        second: used.get(1).map_or(0.0, |cpu| cpu.div_duration_f64(all)),
    })
}

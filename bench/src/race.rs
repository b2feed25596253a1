//! A race: servers take turns under the same load, which the program `load` makes.

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::process::{self, Placement, Programs};
use crate::scene::Bench;
use crate::table::{Table, micros, number, percent};
use crate::turns::{self, Spread};

/// Figures of one turn, which `load` prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub requests: u64,
    pub per_second: f64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    /// Processor time of the load generator and of the server, in processors.
    pub load_cpu: f64,
    pub server_cpu: f64,
    /// Replies a second to the connections that flood; with `--flood` only.
    pub flood_per_second: Option<f64>,
}

/// A server, and how `load` speaks to it.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    pub program: Program,
    /// The arguments of its program; the first is its name.
    pub arguments: &'static str,
    pub framing: &'static str,
    pub dialect: &'static str,
}

/// The program that a contestant is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// caudal, and what it is compared with that is no JSON-RPC library.
    Serve,
    /// Other libraries.
    Peers,
}

impl Contestant {
    /// A server of `serve`.
    #[must_use]
    pub const fn ours(arguments: &'static str, framing: &'static str) -> Self {
        Self {
            program: Program::Serve,
            arguments,
            framing,
            dialect: "plain",
        }
    }

    /// A server of `peers`.
    #[must_use]
    pub const fn peer(
        arguments: &'static str,
        framing: &'static str,
        dialect: &'static str,
    ) -> Self {
        Self {
            program: Program::Peers,
            arguments,
            framing,
            dialect,
        }
    }

    #[must_use]
    pub fn name(&self) -> &'static str {
        self.arguments.split(' ').next().unwrap_or_default()
    }

    /// Adds the words that start the server to a command.
    pub fn append_to(&self, command: &mut Command, programs: &Programs) {
        let program = match self.program {
            Program::Serve => &programs.serve,
            Program::Peers => &programs.peers,
        };
        command.arg(program).args(self.arguments.split(' '));
    }
}

/// The figure by which servers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Something per second: more is better.
    Rate(&'static str),
    /// Median latency: less is better.
    Median,
    /// Latency that one call in a hundred exceeds: less is better.
    Tail,
}

/// A load, and the servers that take it.
#[derive(Clone, Copy, Debug)]
pub struct Race {
    pub key: Key,
    pub placement: Placement,
    /// Options of `load`.
    pub load: &'static [&'static str],
    /// Each is compared with the base of its framing: the last one before it that is
    /// named as the first one.
    pub servers: &'static [Contestant],
    /// Seconds of a turn.
    pub seconds: f64,
}

/// Turns of every server.
#[derive(Debug)]
pub struct Raced {
    race: Race,
    turns: Vec<Vec<Figures>>,
}

impl Race {
    /// Lets the servers take their turns.
    ///
    /// # Errors
    /// A server failed, or answered wrongly.
    pub fn run(self, bench: &Bench) -> Result<Raced, String> {
        let seconds = if bench.quick { 0.05 } else { self.seconds };
        let mut servers = self.servers.to_vec();
        let turns = turns::take(bench.rounds(), &mut servers, |server| {
            self.turn(&bench.programs, server, seconds)
        })?;
        Ok(Raced { race: self, turns })
    }

    fn turn(
        &self,
        programs: &Programs,
        server: &Contestant,
        seconds: f64,
    ) -> Result<Figures, String> {
        let mut load = self.placement.load(&programs.load);
        load.args(["--framing", server.framing, "--dialect", server.dialect])
            .args(self.load)
            .args(["--seconds", &seconds.to_string(), "--"])
            .args(self.placement.of_server());
        server.append_to(&mut load, programs);
        process::run(&mut load)
    }
}

impl Raced {
    /// Returns the rows of all servers.
    #[must_use]
    pub fn table(&self) -> Table {
        let base = self.race.servers[0].name();
        let against = match self.race.key {
            Key::Rate(_) => format!("× {base} (quartiles)"),
            Key::Median => format!("p50 × {base} (quartiles)"),
            Key::Tail => format!("p99 × {base} (quartiles)"),
        };
        let mut heads = vec!["server", "framing"];
        match self.race.key {
            Key::Rate(unit) => heads.push(unit),
            Key::Median => heads.extend(["p50, µs", "p99, µs"]),
            Key::Tail => heads.extend(["p50, µs", "p99, µs", "p99.9, µs"]),
        }
        heads.extend([against.as_str(), "server CPU", "load CPU"]);
        let mut table = Table::new(&heads);
        for (place, server) in self.race.servers.iter().enumerate() {
            let median = |figure: fn(&Figures) -> f64| turns::median(&self.turns[place], figure);
            let mut row = vec![server.name().to_owned(), server.framing.to_owned()];
            let (p50, p99) = (median(|f| f.p50_ns as f64), median(|f| f.p99_ns as f64));
            match self.race.key {
                Key::Rate(_) => row.push(number(median(|f| f.per_second).round())),
                Key::Median => row.extend([micros(p50), micros(p99)]),
                Key::Tail => {
                    let p999 = median(|f| f.p999_ns as f64);
                    row.extend([micros(p50), micros(p99), micros(p999)]);
                }
            }
            row.push(self.spread(place, self.base(place)).to_string());
            row.push(percent(median(|f| f.server_cpu)));
            row.push(percent(median(|f| f.load_cpu)));
            table.row(row);
        }
        table
    }

    /// Returns the rows of a race on one core, and beside them of the same with a core each.
    #[must_use]
    pub fn table_with(&self, each: &Self) -> Table {
        let against = format!("× {}", self.race.servers[0].name());
        let mut table = Table::new(&[
            "server",
            "framing",
            "one core: calls/s",
            &against,
            "a core each: calls/s",
            &against,
            "server CPU",
            "load CPU",
        ]);
        for (place, server) in self.race.servers.iter().enumerate() {
            let mut row = vec![server.name().to_owned(), server.framing.to_owned()];
            for raced in [self, each] {
                let rate = turns::median(&raced.turns[place], |turn| turn.per_second);
                row.push(number(rate.round()));
                row.push(raced.spread(place, raced.base(place)).to_string());
            }
            let turns = &each.turns[place];
            row.push(percent(turns::median(turns, |turn| turn.server_cpu)));
            row.push(percent(turns::median(turns, |turn| turn.load_cpu)));
            table.row(row);
        }
        table
    }

    /// Returns the median ratio of one server to another, in the first framing that both
    /// speak.
    ///
    /// # Panics
    /// They take no part.
    #[must_use]
    pub fn ratio(&self, name: &str, base: &str) -> f64 {
        let servers = self.race.servers;
        let places = (0..servers.len()).filter(|place| servers[*place].name() == name);
        let pairs = places.filter_map(|place| {
            let same = |other: &Contestant| {
                other.name() == base && other.framing == servers[place].framing
            };
            Some((place, servers.iter().position(same)?))
        });
        let (place, base) = pairs.min().expect("both take part");
        self.spread(place, base).median
    }

    /// Returns the median of a figure of one server.
    ///
    /// # Panics
    /// It takes no part.
    #[must_use]
    pub fn median(&self, name: &str, figure: impl Fn(&Figures) -> f64) -> f64 {
        let place = self.race.servers.iter().position(|it| it.name() == name);
        turns::median(&self.turns[place.expect("it takes part")], figure)
    }

    fn base(&self, place: usize) -> usize {
        let servers = self.race.servers;
        let is_base = |it: &Contestant| it.name() == servers[0].name();
        servers[..=place].iter().rposition(is_base).unwrap_or(0)
    }

    fn spread(&self, place: usize, base: usize) -> Spread {
        let key = self.race.key;
        turns::ratio(&self.turns[place], &self.turns[base], |turn| match key {
            Key::Rate(_) => turn.per_second,
            Key::Median => turn.p50_ns as f64,
            Key::Tail => turn.p99_ns as f64,
        })
    }
}

//! The clock: contestants take turns, so that a noisy moment hits them all.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::contestant::{self, Contestant};
use crate::message::Message;

/// How long one contestant took for one message.
#[derive(Clone, Debug, Serialize)]
pub struct Time {
    pub contestant: &'static str,
    /// The median of the rounds, in nanoseconds per message.
    pub ns: f64,
    /// This contestant's time over the base's of the same round.
    pub ratio: Spread,
}

/// A median, and the quartiles around it: the extremes would only tell how
/// busy the machine was.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

/// How many rounds, and how long each contestant's turn is.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub rounds: usize,
    pub turn: Duration,
}

struct Runner {
    name: &'static str,
    contestant: Box<dyn Contestant>,
    /// How many messages fill one turn.
    messages: u32,
    rounds: Vec<f64>,
}

/// Lets `names` race over `message`; ratios are to the contestant `base`.
///
/// # Panics
/// A name is nobody's, or `base` is not among them.
#[must_use]
pub fn race(names: &[&'static str], base: &str, message: &Message, plan: Plan) -> Vec<Time> {
    let mut out = Vec::new();
    let mut runners: Vec<Runner> = names
        .iter()
        .filter(|name| contestant::takes(name, message))
        .map(|name| warm_up(name, message, plan, &mut out))
        .collect();
    for _ in 0..plan.rounds {
        for runner in &mut runners {
            let start = Instant::now();
            run(&mut *runner.contestant, message, runner.messages, &mut out);
            let taken = start.elapsed().as_nanos() as f64;
            runner.rounds.push(taken / f64::from(runner.messages));
        }
    }
    let base = runners.iter().find(|runner| runner.name == base);
    let base = base.expect("the base races too").rounds.clone();
    runners
        .into_iter()
        .map(|runner| Time {
            contestant: runner.name,
            ns: Spread::of(runner.rounds.clone()).median,
            ratio: Spread::of(
                runner
                    .rounds
                    .iter()
                    .zip(&base)
                    .map(|(a, b)| a / b)
                    .collect(),
            ),
        })
        .collect()
}

/// Takes `message` as often as told.
pub fn run(contestant: &mut dyn Contestant, message: &Message, times: u32, out: &mut Vec<u8>) {
    for _ in 0..times {
        out.clear();
        contestant.take(std::hint::black_box(&message.bytes), out);
        std::hint::black_box(&*out);
    }
}

fn warm_up(name: &'static str, message: &Message, plan: Plan, out: &mut Vec<u8>) -> Runner {
    let mut contestant = contestant::named(name).expect("a contestant");
    let start = Instant::now();
    let mut taken = 0;
    while start.elapsed() < plan.turn {
        run(&mut *contestant, message, 4, out);
        taken += 4;
    }
    Runner {
        name,
        contestant,
        messages: taken,
        rounds: Vec::new(),
    }
}

impl Spread {
    /// Of nothing.
    pub(crate) const NONE: Self = Self {
        lower: f64::NAN,
        median: f64::NAN,
        upper: f64::NAN,
    };

    pub(crate) fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self {
            lower: samples[samples.len() / 4],
            median: samples[samples.len() / 2],
            upper: samples[samples.len() * 3 / 4],
        }
    }
}

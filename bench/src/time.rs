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

/// Whether so few rounds leave open on which side of `must` their median lies: nineteen
/// times in twenty, that of ever more rounds is between two of these.
pub(crate) fn is_undecided(mut rounds: Vec<f64>, must: f64) -> bool {
    rounds.sort_by(f64::total_cmp);
    let half = rounds.len() as f64 / 2.0;
    // Of as many coins, so many more than half show the same side once in forty times.
    let outer = (half - 1.96 * (half / 2.0).sqrt()).max(0.0) as usize;
    match (rounds.get(outer), rounds.iter().nth_back(outer)) {
        (Some(lower), Some(upper)) => (*lower..=*upper).contains(&must),
        _ => false,
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
        let count = samples.len();
        Self {
            lower: samples[count / 4],
            // Of an even number there are two in the middle.
            median: f64::midpoint(samples[(count - 1) / 2], samples[count / 2]),
            upper: samples[count * 3 / 4],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, is_undecided};

    #[test]
    fn a_median_has_as_many_below_as_above() {
        for (samples, median) in [
            (vec![2.0], 2.0),
            (vec![4.0, 1.0], 2.5),
            (vec![9.0, 1.0, 2.0], 2.0),
            (vec![9.0, 1.0, 2.0, 4.0], 3.0),
        ] {
            assert_eq!(Spread::of(samples).median, median);
        }
    }

    #[test]
    fn rounds_decide_when_few_of_them_are_on_the_other_side() {
        let rounds = |below: usize, above: usize| {
            let below = (0..below).map(|round| 0.8 - round as f64 / 1000.0);
            below.chain((0..above).map(|round| 1.0 + round as f64 / 1000.0))
        };
        for (below, above, undecided) in [
            (0, 7, false),
            (1, 6, true),
            (3, 4, true),
            (7, 0, false),
            (14, 28, false),
            (15, 27, true),
            (27, 15, true),
            (28, 14, false),
            (0, 0, false),
        ] {
            let rounds = rounds(below, above).collect();
            assert_eq!(is_undecided(rounds, 0.9), undecided, "{below} and {above}");
        }
    }
}

//! What is counted in memory: which contestants, of which sizes.

use super::{Curve, Law, Point, Series};
use crate::callgrind::Case;
use crate::count::Count;

/// A curve that has not been measured yet.
pub(super) struct Plan {
    curve: Curve,
    sizes: Vec<u32>,
    contestants: Vec<Contestant>,
}

/// Who takes what.
#[derive(Clone, Copy)]
struct Contestant {
    name: &'static str,
    case: fn(u32) -> Case,
    /// The largest it takes by default.
    most: u32,
}

impl Contestant {
    const fn new(name: &'static str, case: fn(u32) -> Case) -> Self {
        Self {
            name,
            case,
            most: u32::MAX,
        }
    }
}

impl Plan {
    /// Each contestant and size that takes part, in the order of the series.
    fn pairs(&self) -> impl Iterator<Item = (&Contestant, u32)> {
        let sizes = |contestant| self.sizes.iter().map(move |size| (contestant, *size));
        let pairs = self.contestants.iter().flat_map(sizes);
        pairs.filter(|(who, size)| *size <= who.most)
    }

    pub(super) fn cases(&self) -> Vec<Case> {
        let pairs = self.pairs();
        pairs.map(|(who, size)| (who.case)(size)).collect()
    }

    /// Takes what was measured for its cases.
    pub(super) fn curve(&self, measured: &mut impl Iterator<Item = (f64, Count)>) -> Curve {
        let mut curve = self.curve.clone();
        for contestant in &self.contestants {
            let sizes = self.pairs().filter(|(who, _)| who.name == contestant.name);
            let points = sizes.zip(&mut *measured);
            let points = points.map(|((_, size), (instructions, count))| Point {
                x: f64::from(size),
                cost: instructions,
                allocations: Some(count.allocations),
            });
            let series = Series::new(contestant.name, points.collect(), curve.law);
            curve.series.push(series);
        }
        curve
    }
}

pub(super) fn all(quick: bool) -> Vec<Plan> {
    let mut plans = vec![size(quick), batch(quick), waiting(quick), methods(quick)];
    if quick {
        for plan in &mut plans {
            let own = |contestant: &Contestant| contestant.name.starts_with("caudal");
            plan.contestants.retain(own);
        }
    }
    plans
}

fn sizes(quick: bool, few: &[u32], all: &[u32]) -> Vec<u32> {
    if quick { few } else { all }.to_vec()
}

/// `message` by `contestant`; `bytes` is about how much there is to follow.
fn case(contestant: &str, message: &str, size: u32, bytes: u32) -> Case {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Case::new(contestant, format!("{message}-{size}"), bytes)
}

fn size(quick: bool) -> Plan {
    let echo = |name, case| Contestant::new(name, case);
    Plan {
        curve: Curve {
            name: "growth-size",
            title: "Size of a message",
            x: "bytes of params, echoed",
            y: "instructions per message",
            each: "instructions per byte",
            law: Law::Linear,
            series: Vec::new(),
        },
        sizes: sizes(
            quick,
            &[1_000, 10_000, 100_000],
            &[100, 1_000, 10_000, 100_000, 1_000_000],
        ),
        contestants: vec![
            echo("caudal", |n| case("caudal", "echo", n, n)),
            echo("caudal-core", |n| case("caudal-core", "echo", n, n)),
            echo("value", |n| case("value", "echo", n, n)),
            echo("jsonrpsee", |n| case("jsonrpsee-server", "echo", n, n)),
            echo("jsonrpc-core", |n| case("jsonrpc-core", "echo", n, n)),
        ],
    }
}

fn batch(quick: bool) -> Plan {
    let entries = |name, case| Contestant::new(name, case);
    Plan {
        curve: Curve {
            name: "growth-batch",
            title: "Length of a batch",
            x: "calls of `add` in one batch",
            y: "instructions per batch",
            each: "instructions per call in the batch",
            law: Law::Linear,
            series: Vec::new(),
        },
        sizes: sizes(quick, &[10, 100, 1_000], &[1, 10, 100, 1_000, 10_000]),
        contestants: vec![
            Contestant {
                most: 1_000,
                ..entries("caudal", |n| case("caudal", "batch", n, n * 55))
            },
            entries("caudal-core", |n| {
                case("caudal-core-wide", "batch", n, n * 55)
            }),
            entries("value", |n| case("value", "batch", n, n * 55)),
            entries("jsonrpsee", |n| {
                case("jsonrpsee-server", "batch", n, n * 55)
            }),
            entries("jsonrpc-core", |n| case("jsonrpc-core", "batch", n, n * 55)),
        ],
    }
}

fn waiting(quick: bool) -> Plan {
    Plan {
        curve: Curve {
            name: "growth-pending",
            title: "Calls that wait",
            x: "outgoing calls that wait at once",
            y: "instructions per call",
            each: "instructions per call",
            law: Law::Constant,
            series: Vec::new(),
        },
        sizes: sizes(quick, &[10, 10_000], &[1, 10, 100, 1_000, 10_000]),
        contestants: vec![Contestant::new("caudal, both ends", |n| {
            Case::new(format!("paired-{n}"), "nothing", 0)
        })],
    }
}

fn methods(quick: bool) -> Plan {
    Plan {
        curve: Curve {
            name: "growth-methods",
            title: "Methods registered",
            x: "methods registered",
            y: "instructions per call of `add`",
            each: "instructions per call",
            law: Law::Constant,
            series: Vec::new(),
        },
        sizes: sizes(quick, &[1, 10_000], &[1, 10, 100, 1_000, 10_000]),
        contestants: vec![
            Contestant::new("caudal", |n| {
                Case::new(format!("methods-caudal-{n}"), "nothing", 0)
            }),
            Contestant::new("jsonrpsee", |n| {
                Case::new(format!("methods-jsonrpsee-{n}"), "nothing", 0)
            }),
            Contestant::new("jsonrpc-core", |n| {
                Case::new(format!("methods-jsonrpc-core-{n}"), "nothing", 0)
            }),
        ],
    }
}

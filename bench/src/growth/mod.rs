//! How cost grows: with the size of a message, the length of a batch, the calls that
//! wait, the methods registered and the connections held.
//!
//! ```text
//! cases ──→ callgrind, count ──┐
//! connections ─→ load, client ─┴→ law → tables, charts, targets
//! ```
//!
//! Instructions and allocations repeat. Instructions do not show what a cache that
//! has become too small costs.

mod cases;
mod connections;
mod law;
mod show;

use serde::Serialize;

use crate::target::Target;
use crate::{callgrind, count};

pub use law::Law;
pub use show::{charts, write};

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    pub quick: bool,
    pub curves: Vec<Curve>,
}

/// How one cost grows with one number.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: &'static str,
    pub title: &'static str,
    /// What grows.
    pub x: &'static str,
    /// What it costs.
    pub y: &'static str,
    /// What the tables show of it.
    pub each: &'static str,
    /// What the design says it must be.
    pub law: Law,
    pub series: Vec<Series>,
}

/// One contestant's points, in the order of what grows.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: &'static str,
    pub points: Vec<Point>,
    /// What the law compares; at most the law's bound if it holds.
    pub growth: Option<f64>,
}

/// What something of one size costs as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub x: f64,
    pub cost: f64,
    pub allocations: Option<f64>,
}

impl Series {
    fn new(name: &'static str, points: Vec<Point>, law: Law) -> Self {
        Self {
            name,
            growth: law.growth(&points),
            points,
        }
    }
}

/// Measures every curve; if `quick`, caudal's alone, with fewer points.
///
/// # Errors
/// A program could not be built, failed, or answered wrongly; or valgrind is not
/// installed.
pub fn run(quick: bool) -> Result<Growth, String> {
    let plan = cases::all(quick);
    let cases: Vec<_> = plan.iter().flat_map(cases::Plan::cases).collect();
    let counts = count::of_cases(&cases)?;
    let instructions = callgrind::of_cases(&cases)?;
    let mut measured = instructions.into_iter().zip(counts);
    let curves = plan.iter().map(|plan| plan.curve(measured.by_ref()));
    let mut curves: Vec<Curve> = curves.collect();
    curves.extend(connections::run(quick)?);
    Ok(Growth { quick, curves })
}

/// caudal must keep every law; the others are shown.
#[must_use]
pub fn targets(growth: &Growth) -> Vec<Target> {
    let mut targets = Vec::new();
    for curve in &growth.curves {
        let own = curve
            .series
            .iter()
            .filter(|series| series.name.starts_with("caudal"));
        for series in own {
            let what = format!("{}: {}", series.name, curve.law.compares());
            let bound = curve.law.bound();
            targets.push(Target::at_most(curve.title, what, bound, series.growth));
        }
    }
    targets
}

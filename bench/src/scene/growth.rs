//! Growth of cost: instructions for one byte, or one call, of few and of many.
//!
//! Cost is linear if one of many costs no more than one of few, but for a quarter. Calls that
//! wait are in an ordered set, whose cost grows with the logarithm: four times from 10 to 10,000.
//! The router's batches take no part: they pause by the clock, which runs on under callgrind.

use super::Bench;
use crate::callgrind::{self, Case};
use crate::table::{Bound, Section, Table, number};

/// Subject, unit, few, many, the bound, and the case of that size.
type Growth = (
    &'static str,
    &'static str,
    usize,
    usize,
    f64,
    fn(usize) -> Case,
);

const BYTES: &str = "bytes of params, echoed";
const CALLS: &str = "calls of `add` in a batch";
const WAITING: &str = "outgoing calls that wait";

const ALL: [Growth; 4] = [
    (BYTES, "Router::handle", 10_000, 1_000_000, 1.25, |n| {
        Case::new("caudal", format!("echo-{n}"), n)
    }),
    (BYTES, "caudal-core", 10_000, 1_000_000, 1.25, |n| {
        Case::new("caudal-core", format!("echo-{n}"), n)
    }),
    (CALLS, "caudal-core", 10, 1_000, 1.25, |n| {
        Case::new("caudal-core", format!("batch-{n}"), n * 55)
    }),
    (WAITING, "caudal-core", 10, 10_000, 4.0, |n| {
        Case::new(format!("waiting-{n}"), "nothing", 0)
    }),
];

pub(super) fn run(_: &Bench) -> Result<Section, String> {
    let mut section = Section::new("How cost grows");
    let mut table = Table::new(&[
        "what grows",
        "of",
        "few",
        "instructions for one of few",
        "many",
        "instructions for one of many",
        "× few",
    ]);
    let cases = ALL.iter();
    let cases = cases.flat_map(|(_, _, few, many, _, case)| [case(*few), case(*many)]);
    let costs = callgrind::of_cases(&cases.collect::<Vec<_>>())?;
    for ((what, of, few, many, most, _), costs) in ALL.iter().zip(costs.chunks_exact(2)) {
        // A case of calls that wait makes one call; the others take all at once.
        let each = |cost: f64, count: usize| match *what {
            WAITING => cost,
            _ => cost / count as f64,
        };
        let [of_few, of_many] = [each(costs[0], *few), each(costs[1], *many)];
        table.row(vec![
            (*what).to_owned(),
            (*of).to_owned(),
            number(*few as f64),
            number(of_few),
            number(*many as f64),
            number(of_many),
            number(of_many / of_few),
        ]);
        let grown = Some(of_many / of_few);
        section.counted(of, &format!("{what}, × few"), Bound::AtMost(*most), grown);
    }
    section.table(&table);
    Ok(section)
}

//! One suite over every transport: what holds on one holds on all, and what a
//! medium cannot do is in a table.
//!
//! The table is docs/TRANSPORTS.md. `CAUDAL_WRITE=1 cargo test --test process
//! semantics` writes it; otherwise the run must agree with it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may"
)]

mod cases;
mod methods;
mod raw;
mod table;
mod worlds;

use std::time::Duration;

use cases::Case;
use worlds::{Kind, World};

use crate::panics::silence_panics_on_purpose;

/// Longest that a case may take.
const LIMIT: Duration = Duration::from_secs(60);

type Outcome = Result<(), String>;

/// One case: what came of it on each transport.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) outcomes: Vec<Outcome>,
}

#[test]
fn every_transport_does_what_its_table_says() {
    silence_panics_on_purpose();
    let cases = cases::all();
    // The transports run side by side, each in a thread of its own.
    let columns = std::thread::scope(|scope| {
        let cases = &cases;
        let threads = worlds::KINDS.map(|kind| scope.spawn(move || column(kind, cases)));
        threads.map(|thread| thread.join().unwrap())
    });
    let mut columns = columns.map(Vec::into_iter);
    let rows: Vec<Row> = cases
        .iter()
        .map(|case| Row {
            what: case.what,
            outcomes: columns.iter_mut().flat_map(Iterator::next).collect(),
        })
        .collect();
    assert!(table::agrees(&rows), "docs/TRANSPORTS.md says otherwise");
}

/// Outcomes of all cases on one transport.
fn column(kind: Kind, cases: &[Case]) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut outcomes = Vec::new();
    for case in cases {
        let outcome = runtime.block_on(outcome(kind, case));
        if let Err(why) = &outcome {
            eprintln!("{} over {}: {why}", case.what, kind.name());
        }
        outcomes.push(outcome);
    }
    outcomes
}

async fn outcome(kind: Kind, case: &Case) -> Outcome {
    if case.except == Some(kind) {
        return Err("not tried".to_owned());
    }
    let world = World::start(kind, (case.config)()).await;
    let outcome = tokio::time::timeout(LIMIT, (case.run)(world)).await;
    outcome.unwrap_or_else(|_| Err(format!("no end after {LIMIT:?}")))
}

/// The server of the transport stdio, in the process that [`worlds`] starts for it.
#[test]
#[ignore = "it serves until its input ends"]
fn a_child_serves_on_stdio() {
    silence_panics_on_purpose();
    worlds::serve_stdio();
}

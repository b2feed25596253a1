//! One suite over every transport: what holds on one holds on all, and what a
//! medium cannot do is in a table.
//!
//! The table is docs/TRANSPORTS.md. `CAUDAL_WRITE=1 cargo test --test semantics`
//! writes it; otherwise the run must agree with it.
#![expect(clippy::print_stdout, reason = "it is a test harness of its own")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may"
)]

mod cases;
mod methods;
mod raw;
#[path = "../support/raw_http.rs"]
mod raw_http;
mod table;
mod worlds;

use std::process::ExitCode;

use worlds::World;

/// All of it, for whoever lists tests.
const NAME: &str = "semantics";

fn main() -> ExitCode {
    methods::panic_quietly();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if arguments
        .first()
        .is_some_and(|first| first == worlds::CHILD)
    {
        runtime.block_on(worlds::serve_stdio());
        return ExitCode::SUCCESS;
    }
    // What `cargo test` and nextest may add: there is one test, and none is ignored.
    if arguments.iter().any(|one| one == "--list") {
        if !arguments.iter().any(|one| one == "--ignored") {
            println!("{NAME}: test");
        }
        return ExitCode::SUCCESS;
    }
    let mut names = arguments.iter().filter(|one| !one.starts_with('-'));
    let only = names.find(|one| *one != NAME);
    let rows = runtime.block_on(run(only.map(String::as_str)));
    match only.is_some() || table::agrees(&rows) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// One case: what came of it on each transport.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) outcomes: Vec<Result<(), String>>,
}

async fn run(only: Option<&str>) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases::all() {
        if only.is_some_and(|only| !case.what.contains(only)) {
            continue;
        }
        let mut outcomes = Vec::new();
        for kind in worlds::KINDS {
            if case.except == Some(kind) {
                outcomes.push(Err("not tried".to_owned()));
                continue;
            }
            let world = World::start(kind, (case.config)()).await;
            let limit = std::time::Duration::from_secs(60);
            let outcome = tokio::time::timeout(limit, (case.run)(world)).await;
            let outcome = outcome.unwrap_or_else(|_| Err("no end after 60 s".to_owned()));
            let word = outcome
                .as_ref()
                .map_or_else(|e| format!("NO: {e}"), |()| "ok".to_owned());
            println!("{} over {}: {word}", case.what, kind.name());
            outcomes.push(outcome);
        }
        rows.push(Row {
            what: case.what,
            outcomes,
        });
    }
    rows
}

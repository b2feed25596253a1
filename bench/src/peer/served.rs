//! What one request costs a server, with 64 in flight over a pipe.

use std::process::{Command, Stdio};

use serde::Serialize;

use super::drive::Driver;
use super::{Tools, difference, twice};

/// What one contestant takes for one request.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) instructions: Option<f64>,
    pub(super) allocations: f64,
}

const WINDOW: u64 = 64;

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Vec<Served>, String> {
    let measure = |name| {
        Ok(Served {
            name,
            instructions: instructions(tools, name, quick)?,
            allocations: difference(twice(quick), |count| allocations(tools, name, count))?,
        })
    };
    ["bare", "caudal", "caudal-async"]
        .map(measure)
        .into_iter()
        .collect()
}

fn instructions(tools: &Tools, name: &str, quick: bool) -> Result<Option<f64>, String> {
    let Some(callgrind) = &tools.callgrind else {
        return Ok(None);
    };
    let total = |count| {
        callgrind.total(&tools.serve, &[name, "stdio"], |command| {
            drive(command, count).map(drop)
        })
    };
    difference(twice(quick), total).map(Some)
}

fn allocations(tools: &Tools, name: &str, count: u64) -> Result<f64, String> {
    let mut command = Command::new(&tools.serve_counted);
    command.args([name, "stdio"]).stderr(Stdio::piped());
    let said = drive(&mut command, count)?;
    let number = said.trim().parse();
    number.map_err(|_| format!("serve-counted said `{said}`"))
}

fn drive(command: &mut Command, count: u64) -> Result<String, String> {
    let mut driver = Driver::start(command, WINDOW)?;
    driver.send(count)?;
    driver.finish()
}

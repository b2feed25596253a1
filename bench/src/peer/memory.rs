//! Memory: calls that wait, connections that are idle, and a peer that lives
//! long.
//!
//! Resident bytes are those of the process itself: what the kernel keeps for a
//! socket is not among them.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::drive::Driver;
use super::idle::{self, Idle};
use super::{Held, Tools, calls};
use crate::process::resident;
use crate::wire::PIPES;

/// How many calls wait, and how many connections are idle.
pub(super) const WAITING: usize = 10_000;
pub(super) const IDLE: usize = 2_000;

/// How many calls of a long life are in flight.
const WINDOW: u64 = 256;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    /// Resident bytes are those of the plain programs, allocated ones those of
    /// the counted.
    pub(super) waiting: Held,
    /// Over TCP.
    pub(super) idle: Vec<Idle>,
    /// Messages so far, and resident bytes of the server then.
    pub(super) life: [(u64, u64); 3],
}

impl Memory {
    /// Resident bytes of caudal for each idle connection.
    pub(super) fn idle(&self) -> Option<f64> {
        let caudal = self.idle.iter().find(|idle| idle.name == "caudal");
        caudal.map(|idle| idle.bytes)
    }

    /// What the long life added, from its first look to its last.
    pub(super) fn grown(&self) -> f64 {
        self.life[2].1 as f64 - self.life[0].1 as f64
    }
}

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Memory, String> {
    let waiting = |client: &Path, serve: &Path| {
        let serve = serve.to_str().ok_or("a path that is not Unicode")?;
        let count = WAITING.to_string();
        let arguments = ["waiting", &count, serve, "caudal-waiting", "tcp"];
        calls::client::<Held>(client, &arguments.map(str::to_owned))
    };
    let plain = waiting(&tools.client, &tools.serve)?;
    let counted = waiting(&tools.client_counted, &tools.serve_counted)?;
    let scene = PIPES.iter().find(|scene| scene.name == "tcp-64");
    Ok(Memory {
        waiting: Held {
            heap_here: counted.heap_here,
            heap_there: counted.heap_there,
            ..plain
        },
        idle: idle::run(tools, scene.ok_or("no TCP")?, IDLE, quick)?,
        life: life(tools, if quick { 30_000 } else { 1_000_000 })?,
    })
}

/// Looks at a server on a pipe after one, five and ten times `unit` messages.
fn life(tools: &Tools, unit: u64) -> Result<[(u64, u64); 3], String> {
    let mut command = Command::new(&tools.serve);
    let mut driver = Driver::start(command.args(["caudal", "stdio"]), WINDOW)?;
    let mut looks = [(unit, 0), (5 * unit, 0), (10 * unit, 0)];
    let mut sent = 0;
    for (messages, bytes) in &mut looks {
        driver.send(*messages - sent)?;
        sent = *messages;
        *bytes = resident(driver.pid()).map_err(|e| e.to_string())?;
    }
    driver.finish()?;
    Ok(looks)
}

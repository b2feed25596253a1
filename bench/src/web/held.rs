//! What an idle connection over HTTP or WebSocket holds in a server's memory.

use crate::peer::idle::{self, Idle};
use crate::tools::Tools;
use crate::wire::WEB;

/// How many are idle: fewer than caudal lets one address have.
pub(super) const IDLE: usize = 1_000;

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Vec<Idle>, String> {
    let mut all = Vec::new();
    for name in ["post", "ws-64"] {
        let scene = WEB.iter().find(|scene| scene.name == name);
        let scene = scene.ok_or("no such scene")?;
        all.extend(idle::run(tools, scene, IDLE, quick)?);
    }
    Ok(all)
}

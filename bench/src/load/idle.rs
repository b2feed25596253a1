//! Connections that are idle after one call: the bytes that the server holds for each.

use std::time::Duration;

use caudal_bench::process;

use crate::call::Call;
use crate::frames::Frames;
use crate::link::{self, Link};
use crate::{Plan, Problem};

/// A little of everything is allocated for the first connections.
const FIRST: usize = 10;

/// Returns resident bytes for each connection: user space only.
pub(crate) fn run(plan: &Plan, connections: usize) -> Result<f64, Problem> {
    process::many_files();
    let (server, address) = link::listen(plan)?;
    let mut links = Vec::new();
    let mut connect = |count| -> Result<u64, Problem> {
        for link in link::connect(address, count)? {
            call(plan, &link)?;
            links.push(link);
        }
        std::thread::sleep(Duration::from_millis(100));
        process::resident(server.pid())
    };
    let before = connect(FIRST)?;
    let after = connect(connections)?;
    Ok((after as f64 - before as f64) / connections as f64)
}

fn call(plan: &Plan, link: &Link) -> Result<(), Problem> {
    link.greet(plan.task.dialect, plan.framing)?;
    let mut call = Vec::new();
    Call::of(plan.task, plan.framing).append(0, &mut call);
    link.write_all(&call)?;
    let mut frames = Frames::new(plan.framing);
    while frames.count(None)? == 0 {
        frames.read(&link.from)?;
    }
    Ok(())
}

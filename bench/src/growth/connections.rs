//! Connections over TCP: what a call costs with many of them, and what they hold
//! while they are idle.

use std::path::Path;
use std::process::Command;

use super::{Curve, Law, Point, Series};
use crate::callgrind::Callgrind;
use crate::child::Server;
use crate::peer::{Held, client, difference};
use crate::{neighbour, process};

pub(super) fn run(quick: bool) -> Result<Vec<Curve>, String> {
    process::many_files();
    let names = ["serve", "load", "client"];
    let [serve, load, client] = neighbour::build("caudal-bench", names)?;
    let (calls, idle): (&[u32], &[u32]) = match quick {
        true => (&[16, 100], &[100, 1_000, 2_000]),
        false => (&[1, 16, 100, 1_000], &[100, 1_000, 2_000, 5_000]),
    };
    Ok(vec![
        Curve {
            name: "growth-connections",
            title: "Connections that call",
            x: "TCP connections, one call in flight on each",
            y: "instructions of the server per call",
            each: "instructions of the server per call",
            law: Law::Constant,
            series: vec![of(calls, Law::Constant, |count| {
                cost(&serve, &load, count)
            })?],
        },
        Curve {
            name: "growth-idle",
            title: "Connections that are idle",
            x: "idle TCP connections",
            y: "resident bytes of the server for all of them",
            each: "resident bytes of the server per connection",
            law: Law::Pages,
            series: vec![of(idle, Law::Pages, |count| held(&serve, &client, count))?],
        },
    ])
}

fn of(
    counts: &[u32],
    law: Law,
    measure: impl Fn(u32) -> Result<f64, String>,
) -> Result<Series, String> {
    let point = |count: &u32| {
        Ok::<_, String>(Point {
            x: f64::from(*count),
            cost: measure(*count)?,
            allocations: None,
        })
    };
    let points = counts.iter().map(point).collect::<Result<_, _>>()?;
    Ok(Series::new("caudal", points, law))
}

/// The next round begins when every connection has its answer.
fn cost(serve: &Path, load: &Path, connections: u32) -> Result<f64, String> {
    let callgrind = Callgrind::find().ok_or("valgrind is not installed")?;
    let drive = |command: &mut Command, requests: u64| {
        let (server, port) = Server::listen(command)?;
        let status = Command::new(load)
            .args(["--lockstep", "--seconds", "60"])
            .args(["--connections", &connections.to_string()])
            .args(["--requests", &requests.to_string()])
            .args(["--connect", &format!("127.0.0.1:{port}")])
            .stdout(std::process::Stdio::null())
            .status();
        match status.map_err(|e| format!("load: {e}"))?.success() {
            true => server.finish().map(drop),
            false => Err(format!("load failed with {connections} connections")),
        }
    };
    let total = |requests| {
        callgrind.total(serve, &["caudal", "tcp", "line", "one"], |command| {
            drive(command, requests)
        })
    };
    // Whole rounds.
    let round = u64::from(connections);
    let rounds = 3_000_u64.div_ceil(round).max(3);
    difference((round * 2, round * (2 + rounds)), total)
}

fn held(serve: &Path, program: &Path, connections: u32) -> Result<f64, String> {
    let serve = serve.to_str().ok_or("a path that is not Unicode")?;
    let count = connections.to_string();
    let arguments = ["idle-line-plain", &count, serve, "caudal", "tcp"].map(str::to_owned);
    let held: Held = client(program, &arguments)?;
    Ok(held.there * f64::from(connections))
}

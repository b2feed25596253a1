//! What HTTP and WebSocket must reach, and whether they do.

use super::Measures;
use super::calls::Calls;
use crate::process;
use crate::table::number;
use crate::target::Target;
use crate::wire::{Race, Traffic, percent, rows, rows_single, why};

const KIB: f64 = 1024.0;

/// Every target, with what was measured.
#[must_use]
pub fn all(measures: &Measures) -> Vec<Target> {
    [served(measures), called(measures), held(measures)].concat()
}

fn served(measures: &Measures) -> Vec<Target> {
    let race = |name| measures.races.iter().find(|race| race.scene.name == name);
    let ratio = |name, base| race(name).and_then(|race: &Race| race.ratio("caudal", base));
    let cost = |name| race(name)?.outcome("caudal")?.cost;
    let instructions = |name| cost(name)?.instructions;
    // What happens once in hundreds of calls is no call's own.
    let traffic = |name, of: fn(&Traffic) -> f64| {
        let traffic = cost(name)?.traffic.as_ref().map(of)?;
        Some((traffic * 100.0).round() / 100.0)
    };
    // Of a POST whatever the figures are, of others what would reach the target.
    let known = |name: &'static str, base, must| {
        // It is looked into in one scene, for all of them.
        let counted = match name.split_once('-') {
            Some((all @ ("post" | "batch"), _)) => race(all)?,
            _ => race(name)?,
        };
        let race = race(name)?;
        let idle = || {
            let caudal = race.outcome("caudal")?;
            let used = caudal.median(|f| f.load_cpu + f.server_cpu.unwrap_or(f64::NAN));
            let idle = percent(process::cores() as f64 - used);
            Some(format!(
                "the scheduler may put generator and server on one processor while the other \
                 has nothing to do: {idle} of one was idle"
            ))
        };
        let (post, batch) = (name == "post", name == "batch");
        let reaching = if name.starts_with("post") { 0.0 } else { must };
        let floor = race
            .ratio("hyper", base)
            .filter(|_| post && base != "hyper");
        let floor = floor.map(|floor| {
            let floor = number(floor.median);
            format!("hyper alone, which answers with a fixed body, is at {floor}")
        });
        let elsewhere = |is_here: bool, name, how| {
            let ratio = ratio(name, base).filter(|_| is_here)?;
            Some(format!("{how} it is {}", number(ratio.median)))
        };
        why::all([
            floor,
            elsewhere(post, "post-core", "on one core"),
            elsewhere(post, "post-own", "on a core each"),
            elsewhere(post, "post-awake", "with processors that are kept awake"),
            elsewhere(post, "post-one", "with runtimes of one thread"),
            elsewhere(batch, "batch-own", "on a core each"),
            (post || batch).then(idle).flatten(),
            race.placed("caudal", base),
            counted.instructed("caudal", base, reaching),
            race.worked("caudal", base, reaching),
        ])
    };
    let rates = |subject, name| {
        let rows = rows(&measures.races, name, subject).into_iter();
        let rows = rows.map(|(goal, row)| row.why(known(name, goal.beside, goal.must)));
        rows.collect::<Vec<Target>>()
    };
    let count =
        |subject, name, must| Target::at_most(subject, "instructions", must, instructions(name));
    let core = "POST, 64 connections, one core";
    let own = "POST, 64 connections, a core each";
    let awake = "POST, 64 connections, awake";
    let one = "POST, 64 connections, one thread";
    let post = "POST, 64 connections";
    let batch = "batch of 100 by POST, 16 connections";
    let batch_own = "batch of 100 by POST, a core each";
    let socket = "WebSocket, 64 in flight";
    let sockets = "WebSocket, 16 × 16 in flight";
    let single = "WebSocket, 1 in flight, one core";
    let fan = "event to 1,000 WebSockets";
    let ahead = "events to 1,000 WebSockets, two at a time";
    [
        rates(core, "post-core"),
        rates(own, "post-own"),
        rates(awake, "post-awake"),
        rates(one, "post-one"),
        rates(post, "post"),
        vec![
            count(post, "post", 15_500.0).aim(14_500.0),
            Target::at_most(
                post,
                "receives per call",
                1.0,
                traffic("post", |t| t.receives),
            ),
            Target::at_most(post, "sends per call", 1.0, traffic("post", |t| t.sends)),
        ],
        rates(batch_own, "batch-own"),
        rates(batch, "batch"),
        vec![count(batch, "batch", 320_000.0).aim(190_000.0)],
        rates(socket, "ws-64"),
        vec![
            count(socket, "ws-64", 6_000.0).aim(3_200.0),
            Target::at_most(
                socket,
                "sends per call",
                0.05,
                traffic("ws-64", |t| t.sends),
            ),
        ],
        rates(sockets, "ws-16"),
        rows_single(&measures.races, "ws-1", single),
        rates(fan, "fan"),
        rates(ahead, "fan-ahead"),
    ]
    .concat()
}

fn called(measures: &Measures) -> Vec<Target> {
    let calls = |transport, awake| {
        let of = move |calls: &&Calls| {
            (calls.clients.transport, calls.clients.awake) == (transport, awake)
        };
        measures.calls.iter().find(of)
    };
    let instructions = |transport| calls(transport, false)?.instructions("caudal");
    let waits = |awake| {
        let busy = calls("ws", awake)?.median("caudal", |called| called.cpu)?;
        let waits = percent(1.0 - busy);
        Some(format!(
            "it waits {waits} of the time for a server on another processor"
        ))
    };
    let faster = |subject, awake| {
        let ratio = calls("ws", awake).and_then(|calls| calls.ratio("caudal", "jsonrpsee"));
        let median = ratio.map(|ratio| ratio.median);
        Target::at_least(subject, "calls/s, × jsonrpsee", 4.0, median)
            .of(ratio)
            .why(waits(awake))
    };
    let socket = "WebSocket client, 64 in flight";
    let awake = "WebSocket client, 64 in flight, awake";
    let what = "instructions, calling side";
    vec![
        faster(awake, true),
        faster(socket, false),
        Target::at_most(socket, what, 7_000.0, instructions("ws")).aim(5_000.0),
        Target::at_most(
            "HTTP client, 64 in flight",
            what,
            30_000.0,
            instructions("http"),
        )
        .aim(23_000.0),
    ]
}

fn held(measures: &Measures) -> Vec<Target> {
    let mut idle = measures.idle.iter();
    let idle = idle.find(|idle| (idle.name, idle.framing) == ("caudal", "ws"));
    let [small, hyper, jsonrpsee] = ["caudal", "hyper", "jsonrpsee"]
        .map(|name| measures.small.iter().find(|small| small.name == name));
    let plain = [small, hyper, jsonrpsee].map(|small| small.map(|small| small.release as f64));
    let server = "server with HTTP and WebSocket";
    vec![
        Target::at_most(
            "idle WebSocket, of 1,000",
            "bytes resident, user space",
            12.0 * KIB,
            idle.map(|idle| idle.bytes.round()),
        )
        .aim(8.0 * KIB),
        Target::at_most(
            server,
            "packages",
            60.0,
            small.map(|small| small.packages as f64),
        )
        .aim(35.0),
        Target::at_most(
            server,
            "bytes, stripped, built for size",
            2_000_000.0,
            small.and_then(|small| Some(small.smallest? as f64)),
        )
        .aim(1_200_000.0)
        .note(match plain {
            [Some(ours), Some(hyper), Some(jsonrpsee)] => Some(format!(
                "as a plain `cargo build --release` makes it, it has {}; hyper alone, with a \
                 fixed answer, has {}, and jsonrpsee's server, which has HTTP/2 too, {}",
                number(ours),
                number(hyper),
                number(jsonrpsee),
            )),
            _ => None,
        }),
    ]
}

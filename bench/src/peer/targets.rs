//! What the peer must reach, and whether it does.

use super::Measures;
use crate::target::Target;
use crate::wire::{Outcome, Race};

const MIB: f64 = 1024.0 * 1024.0;

/// Every target of the peer, with what was measured, here and in the races.
#[must_use]
pub fn all(measures: Option<&Measures>, races: Option<&[Race]>) -> Vec<Target> {
    let of_peer = |of: fn(&Measures) -> Vec<Target>| measures.map(of).unwrap_or_default();
    [
        of_peer(served),
        of_peer(called),
        of_peer(held),
        of_peer(scaled),
        races.map(raced).unwrap_or_default(),
    ]
    .concat()
}

fn served(measures: &Measures) -> Vec<Target> {
    let served = |name| measures.served.iter().find(|served| served.name == name);
    let instructions = |name| served(name).and_then(|served| served.instructions);
    // Whatever is allocated once in thousands of requests is no request's own.
    let allocations =
        |name| served(name).map(|served| (served.allocations * 100.0).round() / 100.0);
    let (sync, ready) = ("request, sync", "request, async and ready");
    let what = "instructions, pipe, 64 in flight";
    vec![
        Target::at_most(sync, what, 3_500.0, instructions("caudal")).aim(2_300.0),
        Target::at_most(ready, what, 4_500.0, instructions("caudal-async")).aim(3_000.0),
        Target::at_most(sync, "allocations", 0.0, allocations("caudal")),
        Target::at_most(ready, "allocations", 2.0, allocations("caudal-async")).aim(1.0),
    ]
}

fn called(measures: &Measures) -> Vec<Target> {
    let client = measures.calls.client("caudal");
    let ratio = client.map(|client| client.ratio.median);
    let instructions = client.and_then(|client| client.instructions);
    let subject = "call, 64 in flight, TCP";
    vec![
        Target::at_least(subject, "calls/s, × bare client", 0.5, ratio).timed(),
        Target::at_most(subject, "instructions, calling side", 6_500.0, instructions).aim(5_000.0),
    ]
}

fn held(measures: &Measures) -> Vec<Target> {
    let memory = &measures.memory;
    let waiting = |what, bytes| {
        Target::at_most("call that waits, of 10,000", what, 1024.0, Some(bytes)).aim(512.0)
    };
    let life = match measures.quick {
        true => "30,000 to 300,000 messages",
        false => "1 M to 10 M messages",
    };
    let idle = "idle TCP connection, of 2,000";
    vec![
        waiting("bytes resident, caller", memory.waiting.here),
        waiting("bytes resident, server", memory.waiting.there),
        waiting("bytes allocated, caller", memory.waiting.heap_here),
        waiting("bytes allocated, server", memory.waiting.heap_there),
        Target::at_most(
            idle,
            "bytes resident, user space",
            8192.0,
            Some(memory.idle),
        )
        .aim(4096.0),
        Target::at_most(life, "bytes grown", MIB, Some(memory.grown())),
    ]
}

fn scaled(measures: &Measures) -> Vec<Target> {
    let caudal = measures
        .cores
        .iter()
        .find(|scaling| scaling.name == "caudal");
    let ratio = caudal.map(|scaling| scaling.ratio.median);
    let cost = caudal.map(|scaling| scaling.cost.median);
    let subject = "two connections, two cores";
    vec![
        Target::at_least(subject, "calls/s, × one connection", 1.7, ratio).timed(),
        Target::at_most(
            subject,
            "server's CPU per call, × one connection",
            1.1,
            cost,
        )
        .timed(),
    ]
}

fn raced(races: &[Race]) -> Vec<Target> {
    let race = |name: &str| races.iter().find(|race| race.scene.name == name);
    let caudal = |name| race(name)?.outcome("caudal");
    let bare = |name| caudal(name).map(|outcome| outcome.ratio.median);
    // In the framing that both speak, within a round.
    let over = |race_name, one, other| Some(race(race_name)?.ratio(one, other)?.median);
    let writes = caudal("pipe-64").map(Outcome::writes);
    let tail = |of: fn(&crate::wire::Figures) -> u64| {
        caudal("open").map(|outcome| outcome.median(|figures| of(figures) as f64) / 1000.0)
    };
    let pipe = "pipe, 64 in flight, two cores";
    let awake = "pipe, 64 in flight, two cores, awake";
    let same = "pipe, 64 in flight, one core";
    let many = "pipe, 10,000 in flight";
    let open = "open loop, TCP";
    let rate = |subject, name, must| {
        let what = "calls/s, × bare";
        Target::at_least(subject, what, must, bare(name)).timed()
    };
    let beats = |subject, race, name, must| {
        let what = format!("calls/s, × {name}");
        Target::at_least(subject, what, must, over(race, "caudal", name))
            .timed()
            .bare(over(race, "bare", name))
    };
    let beats_all = |subject, race| {
        [
            beats(subject, race, "async-lsp", 1.3),
            beats(subject, race, "tower-lsp-server", 3.0),
            beats(subject, race, "lsp-server", 14.0),
            beats(subject, race, "rmcp", 25.0),
        ]
    };
    let mut targets = vec![
        Target::at_most(
            "pipe, 1 in flight, one core",
            "p50, × bare",
            1.5,
            bare("pipe-1"),
        )
        .aim(1.3)
        .timed(),
        rate(same, "pipe-64-core", 0.6).aim(0.8),
        rate(awake, "pipe-64-awake", 0.6).aim(0.8),
        rate(pipe, "pipe-64", 0.6).aim(0.8),
        Target::at_most(pipe, "writes per reply", 0.05, writes).timed(),
        rate(many, "pipe-10000", 0.5).aim(0.7),
        rate("TCP, 64 in flight", "tcp-64", 0.6),
        Target::at_most(open, "p99, µs", 1_000.0, tail(|figures| figures.p99_ns)).timed(),
        Target::at_most(open, "p99.9, µs", 1_000.0, tail(|figures| figures.p999_ns))
            .only_aim()
            .timed(),
    ];
    targets.extend(beats_all(same, "pipe-64-core"));
    targets.extend(beats_all(many, "pipe-10000"));
    targets.extend(beats_all(awake, "pipe-64-awake"));
    targets.extend(beats_all(pipe, "pipe-64"));
    targets
}

//! What the peer must reach, and whether it does.

use super::cores::{Scaling, WORTH};
use super::{Measures, raced};
use crate::table::number;
use crate::target::Target;
use crate::time::Spread;
use crate::wire::{Race, percent};

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
        races.map(raced::targets).unwrap_or_default(),
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
    let ratio = client.map(|client| client.ratio);
    let median = ratio.map(|ratio| ratio.median);
    let why = client.map(|client| {
        let waits = percent(1.0 - client.cpu);
        format!("it waits {waits} of the time for a server on another processor")
    });
    let instructions = client.and_then(|client| client.instructions);
    let subject = "call, 64 in flight, TCP";
    vec![
        Target::at_least(subject, "calls/s, × bare client", 0.5, median)
            .of(ratio)
            .why(why),
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
        Target::at_most(idle, "bytes resident, user space", 8192.0, memory.idle()).aim(4096.0),
        Target::at_most(life, "bytes grown", MIB, Some(memory.grown())),
    ]
}

fn scaled(measures: &Measures) -> Vec<Target> {
    let halting = scaled_by(measures, "two connections, two cores", false);
    let awake = scaled_by(measures, "two connections, two cores, awake", true);
    [halting, awake].concat()
}

/// Less than so much of a processor is nobody's.
const IDLE: f64 = 0.1;

type Bound = fn(&'static str, &'static str, f64, Option<f64>) -> Target;

fn scaled_by(measures: &Measures, subject: &'static str, awake: bool) -> Vec<Target> {
    let named = |name| {
        let mut all = measures.cores.iter();
        all.find(|scaling| (scaling.name, scaling.awake) == (name, awake))
    };
    let (caudal, bare) = (named("caudal"), named("bare"));
    let row = |bound: Bound, what, must, of: fn(&Scaling) -> Spread| {
        // Where a processor was idle, nobody but the server is to blame.
        let room = caudal
            .zip(bare)
            .filter(|(caudal, _)| caudal.two.idle < IDLE);
        let room = room.map(|(caudal, bare)| {
            format!(
                "with two connections the server had {} of a processor, the generators {}, \
                 nobody {}, and other programs the rest; the bare loop is at {}",
                percent(caudal.two.server_cpu),
                percent(caudal.two.load_cpu),
                percent(caudal.two.idle),
                number(of(bare).median),
            )
        });
        let measured = caudal.map(of);
        let median = measured.map(|measured| measured.median);
        bound(subject, what, must, median).of(measured).why(room)
    };
    let halts = caudal.filter(|caudal| {
        let slept = !awake && caudal.one.idle > IDLE;
        slept && caudal.ratio.median > 2.0
    });
    let halts = halts.map(|caudal| {
        format!(
            "more than twice as much, because with one connection each end waits until the \
             other's processor wakes: the server had {} of one and {} of one was idle; two keep \
             both awake",
            percent(caudal.one.server_cpu),
            percent(caudal.one.idle),
        )
    });
    let rate = "calls/s, × one connection";
    let cost = "server's CPU per call, × one connection";
    vec![
        row(Target::at_least, rate, WORTH, |scaling| scaling.ratio).note(halts),
        row(Target::at_most, cost, 1.1, |scaling| scaling.cost),
    ]
}

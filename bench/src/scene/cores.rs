//! Gain of a second connection on two processors: orders of 1 KB over TCP.
//!
//! An order costs a server far more than it costs `load`, so the server is what everybody
//! waits for.

use super::Bench;
use crate::process;
use crate::process::Placement::Free;
use crate::race::{Contestant, Figures};
use crate::table::{Bound, Section, Table, number, percent};
use crate::turns::{self, median, ratio};

const SERVERS: [Contestant; 2] = [
    Contestant::ours("bare tcp", "line"),
    Contestant::ours("caudal tcp", "line"),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let mut contestants = Vec::new();
    for server in SERVERS {
        contestants.extend(["1", "2"].map(|connections| (server, connections)));
    }
    let all = turns::take(bench.rounds(), &mut contestants, |(server, connections)| {
        turn(bench, server, connections)
    })?;
    let mut section = Section::new("A second connection, 256 orders of 1 KB in flight on each");
    let mut table = Table::new(&[
        "server",
        "connections",
        "calls/s",
        "× one (quartiles)",
        "server CPU",
        "µs CPU per call",
        "× one (quartiles)",
        "load CPU",
    ]);
    // In seconds of a processor.
    let cost = |turn: &Figures| turn.server_cpu / turn.per_second;
    let rate = |turn: &Figures| turn.per_second;
    for (place, ((server, connections), turns)) in contestants.iter().zip(&all).enumerate() {
        let one = &all[place / 2 * 2];
        table.row(vec![
            server.name().to_owned(),
            (*connections).to_owned(),
            number(median(turns, rate).round()),
            ratio(turns, one, rate).to_string(),
            percent(median(turns, |turn| turn.server_cpu)),
            number(median(turns, cost) * 1e6),
            ratio(turns, one, cost).to_string(),
            percent(median(turns, |turn| turn.load_cpu)),
        ]);
    }
    section.table(&table);
    let subject = "two connections, two cores";
    let [_, _, one, two] = &all[..] else {
        return Err("four contestants".to_owned());
    };
    section.timed(
        subject,
        "calls/s, × one connection",
        Bound::AtLeast(1.7),
        ratio(two, one, rate).median,
    );
    section.timed(
        subject,
        "server's CPU per call, × one connection",
        Bound::AtMost(1.1),
        ratio(two, one, cost).median,
    );
    section.note(NOTES);
    Ok(section)
}

fn turn(bench: &Bench, server: &Contestant, connections: &str) -> Result<Figures, String> {
    let mut load = Free.load(&bench.programs.load);
    load.args(["--tcp", "--call", "place", "--window", "256"])
        .args(["--connections", connections])
        .args(["--seconds", if bench.quick { "0.1" } else { "0.6" }, "--"]);
    server.append_to(&mut load, &bench.programs);
    process::run(&mut load)
}

const NOTES: &str = "
CPU is in shares of one processor; nothing is pinned. With one connection each end waits
until the other's processor wakes, so two may be worth more than twice as much. It scales if
the CPU for a call stays.
";

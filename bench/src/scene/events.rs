//! One event of 200 bytes to 1,000 WebSockets; the next when everybody has got the last.

use super::Bench;
use crate::process::Placement::CoreEach;
use crate::race::{Contestant, Key, Race};
use crate::table::{Bound, Section};

const SERVERS: &[Contestant] = &[
    Contestant::ours("bare-fan ws", "ws"),
    Contestant::ours("caudal ws", "ws"),
    Contestant::peer("jsonrpsee ws", "ws", "plain"),
];

pub(super) fn run(bench: &Bench) -> Result<Section, String> {
    let race = Race {
        key: Key::Rate("events/s"),
        placement: CoreEach,
        load: &["--subscribers", "1000"],
        servers: SERVERS,
        // The bare loop takes a third of a second to reach its speed.
        seconds: 1.0,
    };
    let raced = race.run(bench)?;
    let mut section = Section::new("Events to 1,000 WebSockets");
    section.table(&raced.table());
    for (other, must) in [("bare-fan", 0.7), ("jsonrpsee", 1.0)] {
        section.timed(
            "event to 1,000 WebSockets",
            format!("events/s, × {other}"),
            Bound::AtLeast(must),
            raced.ratio("caudal", other),
        );
    }
    section.note(
        "`bare-fan` writes the same prebuilt bytes to one socket after the other. jsonrpsee's event \
         is a little longer, because it names the subscription.",
    );
    Ok(section)
}

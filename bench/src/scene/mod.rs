//! The scenes, one file each: what is measured, its contestants, its rows, its targets.

mod clients;
mod codec;
mod cores;
mod cost;
mod events;
mod flood;
mod growth;
mod idle;
mod pipe;
mod post;
mod small;
mod tcp;
mod websocket;

use crate::process::Programs;
use crate::table::Section;

/// Tools of every scene.
#[derive(Debug)]
pub struct Bench {
    pub programs: Programs,
    /// One short turn each, for a look.
    pub quick: bool,
}

impl Bench {
    /// Returns how many turns each contestant takes.
    #[must_use]
    pub const fn rounds(&self) -> usize {
        if self.quick { 1 } else { 7 }
    }
}

/// Measures one scene.
pub type Scene = fn(&Bench) -> Result<Section, String>;

/// The scenes by name, in the order of the tables.
pub const ALL: [(&str, Scene); 13] = [
    // First, because it builds: nothing else should run meanwhile.
    ("small", small::run),
    ("codec", codec::run),
    ("cost", cost::run),
    ("pipe", pipe::run),
    ("tcp", tcp::run),
    ("cores", cores::run),
    ("post", post::run),
    ("websocket", websocket::run),
    ("events", events::run),
    ("clients", clients::run),
    ("idle", idle::run),
    ("flood", flood::run),
    ("growth", growth::run),
];

//! The whole run: every part, then everything as Markdown, JSON and charts.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::chart::{BarChart, Scale};
use crate::flood::{self, Flood};
use crate::growth::{self, Growth};
use crate::machine::Machine;
use crate::target::{self, Target};
use crate::tools::Tools;
use crate::wire::{self, Race};
use crate::{awake, memory, peer, quiet, web};

/// What is to be measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub memory: bool,
    pub peer: bool,
    /// The races over pipes and sockets.
    pub wire: bool,
    /// HTTP and WebSocket.
    pub web: bool,
    /// An honest caller beside connections that flood.
    pub flood: bool,
    pub growth: bool,
}

impl Parts {
    /// Everything, if nothing was chosen.
    #[must_use]
    pub const fn or_all(self) -> Self {
        if self.memory || self.peer || self.wire || self.web || self.flood || self.growth {
            return self;
        }
        Self {
            memory: true,
            peer: true,
            wire: true,
            web: true,
            flood: true,
            growth: true,
        }
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Results {
    machine: Machine,
    /// Programs in other languages, and which of them are missing.
    foreign: Vec<String>,
    /// Fewer and shorter turns, for a look.
    quick: bool,
    /// Whether instructions were counted.
    valgrind: bool,
    targets: Vec<(&'static str, Vec<Target>)>,
    memory: Option<memory::Measures>,
    peer: Option<peer::Measures>,
    wire: Option<Vec<Race>>,
    web: Option<web::Measures>,
    flood: Option<Vec<Flood>>,
    growth: Option<Growth>,
    /// How turns were disturbed.
    quiet: String,
}

/// Measures; `alone`, over pipes and sockets caudal and the bare loops only.
///
/// # Errors
/// A contestant answers wrongly, or a program could not be built or run.
pub fn run(quick: bool, alone: bool, parts: Parts) -> Result<Results, String> {
    let tools = Tools::find(alone)?;
    if quick {
        quiet::hurry();
    }
    let memory = part(parts.memory, "in memory", || memory::run(quick))?;
    let peer = part(parts.peer, "the peer", || peer::run(&tools, quick))?;
    let wire = part(parts.wire, "pipes and sockets", || {
        wire::run(&tools, wire::PIPES, quick)
    })?;
    let web = part(parts.web, "HTTP", || web::run(&tools, quick))?;
    let flood = part(parts.flood, "the flood", || flood::run(&tools, quick))?;
    let growth = part(parts.growth, "how cost grows", || growth::run(quick))?;
    let targets = [
        ("In memory", memory.as_ref().map(target::of_memory)),
        (
            "The peer",
            Some(peer::targets(peer.as_ref(), wire.as_deref())),
        ),
        ("HTTP and WebSocket", web.as_ref().map(web::targets)),
        ("How cost grows", growth.as_ref().map(growth::targets)),
    ];
    let targets = targets.into_iter();
    let targets = targets.map(|(title, targets)| (title, targets.unwrap_or_default()));
    Ok(Results {
        machine: Machine::look(),
        foreign: tools.foreign.describe(),
        quick,
        valgrind: tools.callgrind.is_some(),
        targets: targets.filter(|(_, targets)| !targets.is_empty()).collect(),
        memory,
        peer,
        wire,
        web,
        flood,
        growth,
        quiet: quiet::describe(),
    })
}

/// A part, if it is asked for; says how long it took.
fn part<T>(
    wanted: bool,
    title: &str,
    run: impl FnOnce() -> Result<T, String>,
) -> Result<Option<T>, String> {
    if !wanted {
        return Ok(None);
    }
    let start = Instant::now();
    eprintln!("{title} …");
    let measured = run()?;
    eprintln!("{title}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(Some(measured))
}

impl Results {
    /// The targets that were missed, of those that repeat.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let targets = self.targets.iter();
        targets
            .flat_map(|(_, targets)| target::missed(targets))
            .collect()
    }

    /// Writes PERFORMANCE.md into a folder, and beside it, in `performance`, the raw
    /// figures and the charts.
    ///
    /// # Errors
    /// The folder is not to be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let charts = folder.join("performance");
        let problem = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(&charts).map_err(problem)?;
        let json = serde_json::to_string(self).map_err(|e| e.to_string())?;
        std::fs::write(charts.join("results.json"), json).map_err(problem)?;
        for (name, svg) in self.charts() {
            std::fs::write(charts.join(format!("{name}.svg")), svg).map_err(problem)?;
        }
        std::fs::write(folder.join("PERFORMANCE.md"), self.to_markdown()).map_err(problem)
    }

    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::from(TITLE);
        text.push_str(&self.machine.to_markdown());
        for program in &self.foreign {
            let _ = writeln!(text, "- {program}");
        }
        if !self.valgrind {
            text.push_str("- **valgrind is not installed: no instructions were counted**\n");
        }
        if self.quick {
            text.push_str("- **`--quick`: a few short turns, for a look; not to be quoted**\n");
        }
        text.push_str(awake::describe());
        text.push_str(&self.quiet);
        if !self.quick {
            text.push_str(&wire::describe());
        }
        text.push_str("\n## Targets\n");
        text.push_str(DECIDES);
        for (title, targets) in &self.targets {
            let _ = write!(text, "\n### {title}\n\n");
            text.push_str(&target::write(targets));
        }
        text.push_str("\n## Charts\n\n");
        for (name, _) in self.charts() {
            let _ = writeln!(text, "![{name}](performance/{name}.svg)\n");
        }
        text.extend(self.memory.as_ref().map(memory::write));
        text.extend(self.peer.as_ref().map(peer::write));
        if let Some(races) = &self.wire {
            text.push_str("\n## Over pipes and sockets\n");
            text.push_str(&wire::write(races));
            text.push_str(wire::WIRE_NOTES);
        }
        text.extend(self.web.as_ref().map(web::write));
        text.extend(self.flood.as_deref().map(flood::write));
        text.extend(self.growth.as_ref().map(growth::write));
        text
    }

    fn charts(&self) -> Vec<(&'static str, String)> {
        let mut charts = Vec::new();
        charts.extend(self.wire.as_deref().and_then(pipes));
        charts.extend(self.web.as_ref().and_then(web::chart));
        charts.extend(self.growth.iter().flat_map(growth::charts));
        charts
    }
}

/// Servers over a pipe, where the work alone is compared.
fn pipes(races: &[Race]) -> Option<(&'static str, String)> {
    let mut races = races.iter();
    let race = races.find(|race| race.scene.name == "pipe-64-core")?;
    let framed = |framing: &str| {
        let outcomes = race.outcomes.iter();
        let outcomes = outcomes.filter(|outcome| outcome.framing == framing);
        let bars = outcomes.map(|outcome| {
            let rate = outcome.median(|figures| figures.per_second);
            (outcome.name.to_owned(), rate)
        });
        (format!("framing: {framing}"), bars.collect())
    };
    let chart = BarChart {
        title: "Calls per second over a pipe, 64 in flight, server and client on one core".into(),
        unit: "calls/s".into(),
        groups: vec![framed("line"), framed("header")],
        highlight: "caudal".into(),
        scale: Scale::Linear,
    };
    Some(("pipe", chart.to_svg()))
}

/// Which scene decides, where the same work is done in several.
const DECIDES: &str = "
Where the same work was measured in several scenes, the one decides in which nobody waits
for a processor to wake up: generator and server on one core, for POST also on a core each.
The others stand beside it and say what the machine adds, with their own verdict. Of events
to many the scene decides in which the next is asked for when all have arrived; of two at a
time a server may send both to a subscriber at once.
";

const TITLE: &str = "# Performance

caudal beside its peers: in memory, as a peer, over pipes and sockets, over HTTP and
WebSocket, and how cost grows. Written by `cargo run --release -- --out ../docs` in
`bench/`; the raw figures are in [performance/results.json](performance/results.json).
Instructions, allocations and memory repeat; times are for ratios within one run, and
are medians over rounds in which the contestants take turns, with their quartiles. A ratio
is the median of the rounds' own ratios, and not the quotient of two medians.

";

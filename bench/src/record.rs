//! The record of a run: the machine, all targets, all tables; between two headings of a
//! Markdown file.

use std::path::Path;
use std::process::Command;

use crate::table::{Section, Table};

/// The heading of the record in a file, and the heading behind it.
const BEGIN: &str = "## Targets\n";
const END: &str = "## Lessons\n";

/// Crates whose versions are named: those that are compared.
const SHOWN: [&str; 13] = [
    "async-lsp",
    "axum",
    "caudal",
    "hyper",
    "jsonrpsee",
    "karyon_jsonrpc",
    "lsp-server",
    "rmcp",
    "serde_json",
    "sonic-rs",
    "tokio",
    "tower-lsp-server",
    "tungstenite",
];

/// Returns a run as Markdown.
#[must_use]
pub fn to_markdown(sections: &[Section], rounds: usize) -> String {
    let mut targets = Table::new(&["subject", "what", "must", "caudal", "holds"]);
    for target in sections.iter().flat_map(|section| &section.targets) {
        targets.row(target.row());
    }
    let tables = sections.iter().map(Section::to_markdown);
    format!(
        "{BEGIN}\n{}\n## Tables\n\n{}- Rounds: {rounds}, in which the contestants take turns. \
         Times are medians; a ratio is\n  the median of the ratios within each round, with \
         its quartiles.\n{}",
        targets.to_markdown(),
        machine(),
        tables.collect::<String>(),
    )
}

/// Replaces the record in a file.
///
/// # Errors
/// The file could not be read or written, or has no such headings.
pub fn write(file: &Path, markdown: &str) -> Result<(), String> {
    let problem = |e| format!("{}: {e}", file.display());
    let text = std::fs::read_to_string(file).map_err(problem)?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let Some((before, after)) = parts else {
        let [begin, end] = [BEGIN, END].map(str::trim);
        return Err(format!("{}: no `{begin}` and `{end}`", file.display()));
    };
    let text = format!("{before}{markdown}\n{END}{after}");
    std::fs::write(file, text).map_err(problem)
}

/// Returns processor, kernel, compiler and the versions of the crates, as a list.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // The rest is somebody's own.
    let kernel: Vec<_> = kernel.trim().split('.').take(2).collect();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map_or_else(
        |e| e.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    format!(
        "- {}, {} processors, Linux {}\n- {rustc}, release profile, no LTO, default target CPU\n- {}\n",
        model.unwrap_or("unknown processor"),
        std::thread::available_parallelism().map_or(1, usize::from),
        kernel.join("."),
        versions().join(", "),
    )
}

fn versions() -> Vec<String> {
    const LOCK: &str = include_str!("../Cargo.lock");
    let version = |name: &&str| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let (_, rest) = LOCK.split_once(&entry)?;
        Some(format!("{name} {}", rest.split('"').next()?))
    };
    SHOWN.iter().filter_map(version).collect()
}

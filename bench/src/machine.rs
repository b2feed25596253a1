//! Where the numbers come from: processor, compiler, versions of the crates.

use std::process::Command;

/// The machine and the compiler, as Markdown lines.
#[must_use]
pub fn describe() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1))
        .unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map_or_else(
        |e| e.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    format!("- {model}, {cores} cores\n- {rustc}, release profile, no LTO, default target CPU\n")
}

/// The contestants' versions, from the lock file they were built with.
#[must_use]
pub fn versions() -> String {
    const LOCK: &str = include_str!("../Cargo.lock");
    const SHOWN: [&str; 14] = [
        "async-lsp",
        "caudal-core",
        "hyper",
        "jsonrpc-core",
        "jsonrpsee",
        "lsp-server",
        "memchr",
        "rmcp",
        "serde",
        "serde_json",
        "sonic-rs",
        "tokio",
        "tower-lsp-server",
        "tungstenite",
    ];
    let versions = SHOWN.map(|name| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let version = LOCK
            .split_once(&entry)
            .and_then(|(_, rest)| rest.split('"').next());
        format!("{name} {}", version.unwrap_or("?"))
    });
    format!("- {}\n", versions.join(", "))
}

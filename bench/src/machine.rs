//! Where the numbers come from: processor, compiler, versions of the crates.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Serialize;

use crate::process;

/// What a run depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    rustc: String,
    /// Of the contestants, from the lock file they were built with.
    versions: BTreeMap<&'static str, String>,
}

const SHOWN: [&str; 16] = [
    "async-lsp",
    "axum",
    "caudal",
    "hyper",
    "jsonrpc-core",
    "jsonrpsee",
    "karyon_jsonrpc",
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

impl Machine {
    #[must_use]
    pub fn look() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.unwrap_or("unknown processor").to_owned(),
            cores: process::cores(),
            kernel: format!("Linux {}", release(&kernel)),
            rustc: rustc(),
            versions: versions(),
        }
    }

    /// As a list.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let versions = self.versions.iter();
        let versions: Vec<_> = versions.map(|(name, it)| format!("{name} {it}")).collect();
        format!(
            "- {}, {} cores, {}\n- {}, release profile, no LTO, default target CPU\n- {}\n",
            self.processor,
            self.cores,
            self.kernel,
            self.rustc,
            versions.join(", ")
        )
    }
}

/// The first two numbers; the rest is somebody's own.
fn release(kernel: &str) -> String {
    let numbers: Vec<_> = kernel.trim().split('.').take(2).collect();
    numbers.join(".")
}

/// The compiler, as it calls itself.
#[must_use]
pub fn rustc() -> String {
    let rustc = Command::new("rustc").arg("--version").output();
    rustc.map_or_else(
        |e| e.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn versions() -> BTreeMap<&'static str, String> {
    const LOCK: &str = include_str!("../Cargo.lock");
    let version = |name: &&'static str| {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let (_, rest) = LOCK.split_once(&entry)?;
        Some((*name, rest.split('"').next()?.to_owned()))
    };
    SHOWN.iter().filter_map(version).collect()
}

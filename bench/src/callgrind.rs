//! Instructions per message, counted by callgrind: the same on every run.
//!
//! The program runs itself twice with different numbers of messages; start-up
//! and warm-up are in both, so the difference is the messages alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::message::{self, Message};
use crate::{contestant, time};

/// The hidden argument that runs one contestant for callgrind.
pub const CHILD: &str = "--under-callgrind";

/// Each has a folder of its own.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Callgrind, and a folder for what it writes; removed in the end.
#[derive(Debug)]
pub struct Callgrind {
    folder: PathBuf,
}

impl Callgrind {
    /// `None` if valgrind is not installed.
    #[must_use]
    pub fn find() -> Option<Self> {
        let found = Command::new("valgrind")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        let folder = std::env::temp_dir().join(format!(
            "caudal-bench-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        match found {
            Ok(status) if status.success() => std::fs::create_dir_all(&folder).ok(),
            _ => None,
        }?;
        Some(Self { folder })
    }

    /// The instructions that `name` takes for one `message`.
    ///
    /// # Errors
    /// Callgrind failed, or its file was not understood.
    pub fn per_message(&self, name: &str, message: &Message) -> Result<f64, String> {
        let (few, many) = match message.bytes.len() {
            0..100 => (200, 1200),
            100..4_000 => (100, 400),
            4_000..10_000 => (10, 40),
            _ => (3, 9),
        };
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let total = |times: u32| {
            let arguments = [CHILD, name, message.name, &times.to_string()];
            self.total(&program, &arguments, |command| {
                let status = command.status().map_err(|e| format!("valgrind: {e}"))?;
                match status.success() {
                    true => Ok(()),
                    false => Err(format!("callgrind failed on {name} {}", message.name)),
                }
            })
        };
        let less = total(few)?;
        let more = total(many)?;
        Ok((more - less) / f64::from(many - few))
    }

    /// All instructions of a program, which `run` starts and sees to its end.
    /// What the program itself starts is not counted.
    ///
    /// # Errors
    /// `run` failed, or callgrind's file was not understood.
    pub fn total(
        &self,
        program: &Path,
        arguments: &[&str],
        run: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<f64, String> {
        let file = self.folder.join("callgrind.out");
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(program)
            .args(arguments);
        run(&mut command)?;
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let total = text.lines().find_map(|line| line.strip_prefix("summary: "));
        let total = total.and_then(|total| total.trim().parse().ok());
        total.ok_or_else(|| "callgrind wrote no summary".to_owned())
    }
}

impl Drop for Callgrind {
    fn drop(&mut self) {
        // Left-over files in the temporary folder harm nobody.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// What runs under callgrind: contestant, message, number of messages.
///
/// # Errors
/// The arguments are not those.
pub fn child(arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let arguments: Vec<String> = arguments.collect();
    let [name, message, times] = &arguments[..] else {
        return Err(format!("{CHILD} CONTESTANT MESSAGE TIMES"));
    };
    let mut contestant = contestant::named(name).ok_or("no such contestant")?;
    let message = message::named(message).ok_or("no such message")?;
    let times = times.parse().map_err(|_| "not a number of messages")?;
    let mut out = Vec::new();
    time::run(&mut *contestant, &message, 10, &mut out);
    time::run(&mut *contestant, &message, times, &mut out);
    Ok(())
}

//! Instructions per message, counted by callgrind: the same on every run.
//!
//! The program runs itself twice with different numbers of messages; start-up
//! and warm-up are in both, so the difference is the messages alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::contestant::{self, Contestant};
use crate::message::{self, Message};
use crate::time;

/// The hidden argument that runs one contestant for callgrind.
pub const CHILD: &str = "--under-callgrind";

/// A contestant, a message, and how often it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub contestant: String,
    pub message: String,
    pub times: u32,
}

impl Case {
    /// The longer the message is said to be, the fewer times.
    #[must_use]
    pub fn new(contestant: impl Into<String>, message: impl Into<String>, bytes: usize) -> Self {
        Self {
            contestant: contestant.into(),
            message: message.into(),
            // All the names of `contestant::methods` come equally often.
            times: match bytes {
                0..200 => 640,
                200..4_000 => 128,
                4_000..20_000 => 32,
                20_000..200_000 => 6,
                200_000..500_000 => 2,
                _ => 1,
            },
        }
    }
}

/// glibc copies what is long with one instruction, which callgrind counts once for
/// each byte, and only on some processors; let it use the loop it has for the others.
const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=1073741824:\
                        glibc.cpu.x86_rep_stosb_threshold=1073741824";

/// What a program executed, and the lines it had to fetch for that.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    pub instructions: f64,
    pub code: f64,
    pub data: f64,
}

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

    /// The same in one run: only what happens within [`measured`] is counted, so
    /// that whatever set the contestant up, and however long, is not.
    ///
    /// # Errors
    /// As [`per_message`](Self::per_message).
    pub fn of_case(&self, case: &Case) -> Result<f64, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let Case {
            contestant,
            message,
            times,
        } = case;
        let arguments = [CHILD, contestant, message, &times.to_string()];
        let within = ["--toggle-collect=caudal_bench::callgrind::measured*"];
        let [total] = self.count(&within, &program, &arguments, |command| {
            let status = command.status().map_err(|e| format!("valgrind: {e}"))?;
            match status.success() {
                true => Ok(()),
                false => Err(format!("callgrind failed on {contestant} {message}")),
            }
        })?;
        match total > 0.0 {
            true => Ok(total / f64::from(*times)),
            false => Err(format!("callgrind counted nothing of {contestant}")),
        }
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
        let [total] = self.count(&[], program, arguments, run)?;
        Ok(total)
    }

    /// The same, and how often it had to fetch something: a line of 64 bytes that a cache
    /// of 32 KiB no longer had, as callgrind models it.
    ///
    /// # Errors
    /// As [`total`](Self::total).
    pub fn total_fetched(
        &self,
        program: &Path,
        arguments: &[&str],
        run: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<Fetched, String> {
        // Said too, lest callgrind warns that it takes the machine's.
        const LAST: &str = "--LL=33554432,16,64";
        let cache = [
            "--cache-sim=yes",
            "--I1=32768,8,64",
            "--D1=32768,8,64",
            LAST,
        ];
        // Instructions, reads, writes, and what of them was not in the first cache.
        let [instructions, _, _, code, read, written] =
            self.count(&cache, program, arguments, run)?;
        Ok(Fetched {
            instructions,
            code,
            data: read + written,
        })
    }

    /// The first of callgrind's counts.
    fn count<const N: usize>(
        &self,
        options: &[&str],
        program: &Path,
        arguments: &[&str],
        run: impl FnOnce(&mut Command) -> Result<(), String>,
    ) -> Result<[f64; N], String> {
        let file = self.folder.join("callgrind.out");
        let mut command = Command::new("valgrind");
        command
            .args(["--quiet", "--tool=callgrind"])
            .args(options)
            .env("GLIBC_TUNABLES", TUNABLES)
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(program)
            .args(arguments);
        run(&mut command)?;
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
        let counts = summary.unwrap_or_default().split_whitespace().take(N);
        let counts: Vec<f64> = counts.filter_map(|count| count.parse().ok()).collect();
        <[f64; N]>::try_from(counts).map_err(|_| "callgrind wrote no summary".to_owned())
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
    // A megabyte takes callgrind seconds, and is warm at once.
    let warm = if message.bytes.len() < 500_000 { 10 } else { 2 };
    time::run(&mut *contestant, &message, warm, &mut out);
    measured(&mut *contestant, &message, times, &mut out);
    Ok(())
}

/// What callgrind counts, which knows it by its name.
#[inline(never)]
fn measured(contestant: &mut dyn Contestant, message: &Message, times: u32, out: &mut Vec<u8>) {
    time::run(contestant, message, times, out);
}

/// The instructions of many cases, as many at once as there are processors: a
/// count is not a timing.
///
/// # Errors
/// As [`Callgrind::per_message`], or valgrind is not installed.
pub fn of_cases(cases: &[Case]) -> Result<Vec<f64>, String> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let callgrind = Callgrind::find().ok_or("valgrind is not installed")?;
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else {
                return Ok::<_, String>(done);
            };
            done.push((index, callgrind.of_case(case)?));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| "a worker panicked")??);
        }
        Ok::<_, String>(all)
    })?;
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().map(|(_, counted)| counted).collect())
}

//! Instructions, counted by callgrind: the same on every run.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contestant::{self, Contestant};
use crate::message::{self, Message};

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
    /// Takes a message fewer times the longer it is said to be.
    #[must_use]
    pub fn new(contestant: impl Into<String>, message: impl Into<String>, bytes: usize) -> Self {
        Self {
            contestant: contestant.into(),
            message: message.into(),
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

/// The file that callgrind writes; removed in the end.
#[derive(Debug)]
pub struct Callgrind {
    file: PathBuf,
}

impl Callgrind {
    /// Each has a file of its own.
    ///
    /// # Errors
    /// Valgrind is not installed.
    pub fn find() -> Result<Self, String> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut valgrind = Command::new("valgrind");
        let found = valgrind.arg("--version").stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err("valgrind is not installed".to_owned());
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("caudal-bench-{}-{number}.callgrind", std::process::id());
        Ok(Self {
            file: std::env::temp_dir().join(name),
        })
    }

    /// Makes `command`, to which a program is added later, run that under callgrind.
    pub fn append_to(&self, command: &mut Command) {
        command
            .env("GLIBC_TUNABLES", TUNABLES)
            .args(["valgrind", "--quiet", "--tool=callgrind"])
            .arg(format!("--callgrind-out-file={}", self.file.display()));
    }

    /// Returns the instructions of the program that has ended.
    ///
    /// # Errors
    /// Callgrind's file was not understood.
    pub fn instructions(&self) -> Result<f64, String> {
        let text = std::fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
        let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
        let total = summary.and_then(|summary| summary.split(' ').next()?.parse().ok());
        total.ok_or_else(|| "callgrind wrote no summary".to_owned())
    }

    /// Returns the instructions of one case, for each message. Only what happens within
    /// [`measured`] counts, and not what sets the contestant up.
    fn of_case(&self, case: &Case) -> Result<f64, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new("env");
        self.append_to(&mut command);
        let status = command
            .arg("--toggle-collect=caudal_bench::callgrind::measured*")
            .arg(program)
            .args([CHILD, &case.contestant, &case.message])
            .arg(case.times.to_string())
            .status();
        let ended = status.is_ok_and(|status| status.success());
        match self.instructions() {
            Ok(total) if ended && total > 0.0 => Ok(total / f64::from(case.times)),
            _ => Err(format!("callgrind failed on {case:?}")),
        }
    }
}

impl Drop for Callgrind {
    fn drop(&mut self) {
        // A left-over file in the temporary folder harms nobody.
        drop(std::fs::remove_file(&self.file));
    }
}

/// Runs under callgrind: contestant, message, number of messages.
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
    contestant::run(&mut *contestant, &message, warm, &mut out);
    measured(&mut *contestant, &message, times, &mut out);
    Ok(())
}

/// Callgrind knows this function by its name.
#[inline(never)]
fn measured(contestant: &mut dyn Contestant, message: &Message, times: u32, out: &mut Vec<u8>) {
    contestant::run(contestant, message, times, out);
}

/// Returns the instructions of many cases for each message, counting as many at once as
/// there are processors: a count is not a timing.
///
/// # Errors
/// Valgrind is not installed, or failed.
pub fn of_cases(cases: &[Case]) -> Result<Vec<f64>, String> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let callgrind = Callgrind::find()?;
        let mut done = Vec::new();
        while let Some((index, case)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            cases.get(index).map(|case| (index, case))
        } {
            done.push((index, callgrind.of_case(case)?));
        }
        Ok::<_, String>(done)
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

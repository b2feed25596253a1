//! The programs that take part: built, started, placed on processors, and looked at.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::de::DeserializeOwned;

/// Folder of the programs.
#[derive(Debug)]
pub struct Programs {
    pub load: PathBuf,
    pub serve: PathBuf,
    /// The same, with an allocator that counts.
    pub serve_counted: PathBuf,
    pub client: PathBuf,
    /// Servers and clients of other libraries.
    pub peers: PathBuf,
}

impl Programs {
    /// Builds all of them; the peers take minutes the first time.
    ///
    /// # Errors
    /// They could not be built.
    pub fn build() -> Result<Self, String> {
        let names = ["load", "serve", "serve-counted", "client"];
        let [load, serve, serve_counted, client] = build("caudal-bench", names)?;
        let [peers] = build("caudal-bench-peers", ["peers"])?;
        Ok(Self {
            load,
            serve,
            serve_counted,
            client,
            peers,
        })
    }
}

/// Builds binaries of one package beside this one, and returns where they are.
///
/// One package at a time: the features that one asks of its dependencies must not change
/// how those of another are built.
///
/// # Errors
/// They could not be built.
pub fn build<const N: usize>(package: &str, names: [&str; N]) -> Result<[PathBuf; N], String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = here.parent().ok_or("the binary has no folder")?;
    let target = folder.parent().ok_or("the binary has no target folder")?;
    let built = cargo()
        .args(["build", "--release", "--quiet"])
        .args(["--package", package, "--target-dir"])
        .arg(target)
        .args(names.iter().flat_map(|name| ["--bin", name]))
        .status();
    match built.map_err(|e| e.to_string())?.success() {
        true => Ok(names.map(|name| folder.join(name))),
        false => Err(format!("`cargo build` of {} failed", names.join(", "))),
    }
}

/// Returns cargo, in the folder of this workspace.
#[must_use]
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    command
}

/// Processors that a server, and the program that loads it, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Both on one processor: nobody waits for another one to wake up, so this compares
    /// the work alone.
    OneCore,
    /// A processor for each of the two.
    CoreEach,
    /// Wherever the kernel places them.
    Free,
}

impl Placement {
    /// Returns the words in front of a server's command.
    #[must_use]
    pub const fn of_server(self) -> &'static [&'static str] {
        match self {
            Self::OneCore | Self::CoreEach => &["taskset", "-c", "0"],
            Self::Free => &[],
        }
    }

    /// Returns the program that loads a server, as a command.
    #[must_use]
    pub fn load(self, program: &Path) -> Command {
        let core = match self {
            Self::OneCore => "0",
            Self::CoreEach => "1",
            Self::Free => return Command::new(program),
        };
        let mut command = Command::new("taskset");
        command.args(["-c", core]).arg(program);
        command
    }
}

/// Runs a program to its end and reads the JSON that it prints.
///
/// # Errors
/// It failed; this is what it said.
pub fn run<T: DeserializeOwned>(command: &mut Command) -> Result<T, String> {
    let output = command.output().map_err(|e| problem(command, &e))?;
    match output.status.success() {
        true => serde_json::from_slice(&output.stdout).map_err(|e| problem(command, &e)),
        false => Err(problem(command, &String::from_utf8_lossy(&output.stderr))),
    }
}

fn problem(command: &Command, what: &dyn std::fmt::Display) -> String {
    format!("{command:?}: {what}")
}

/// A server that runs as a child; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts a server whose input and output are pipes.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = piped.spawn().map_err(|e| problem(command, &e))?;
        Ok(Self { child })
    }

    /// Starts a server that listens, and reads the port that it prints. It ends with its
    /// input, which this keeps.
    ///
    /// # Errors
    /// There is no such program, or it printed no port.
    pub fn listen(command: &mut Command) -> Result<(Self, u16), String> {
        let mut server = Self::start(command)?;
        let stdout = server.child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        read.map_err(|e| problem(command, &e))?;
        let port = line.trim().parse();
        Ok((
            server,
            port.map_err(|_| problem(command, &"printed no port"))?,
        ))
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes the pipes to it and from it, once.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Closes its input and waits until it ends by itself.
    pub fn finish(mut self) {
        // Some fail when their input ends.
        drop(self.child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have gone already; nothing that it could still say is needed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the processor time of a process so far.
///
/// # Errors
/// It has gone.
pub fn cpu(pid: u32) -> std::io::Result<Duration> {
    let mut all = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // In nanoseconds, where /proc/PID/stat counts in hundredths of a second.
        // A thread may end while we look.
        let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let cpu = times.split(' ').next().unwrap_or("0").parse().unwrap_or(0);
        all += Duration::from_nanos(cpu);
    }
    Ok(all)
}

/// Returns the bytes of a process that are in memory: its own, not the kernel's buffers
/// for it.
///
/// # Errors
/// It has gone.
pub fn resident(pid: u32) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = size.and_then(|size| size.trim().strip_suffix(" kB"));
    Ok(kib.ok_or("no VmRSS in /proc")?.parse::<u64>()? * 1024)
}

/// Time for which a thread has waited for a processor, although it could have run.
#[derive(Debug)]
pub struct Waits(fs::File);

impl Waits {
    /// Follows the calling thread.
    ///
    /// # Errors
    /// The kernel does not count it.
    pub fn of_this_thread() -> std::io::Result<Self> {
        fs::File::open("/proc/thread-self/schedstat").map(Self)
    }

    /// Returns the sum since the thread began.
    ///
    /// # Errors
    /// /proc was not understood.
    pub fn so_far(&self) -> Result<Duration, Box<dyn Error>> {
        let mut times = [0; 128];
        let length = self.0.read_at(&mut times, 0)?;
        let mut times = std::str::from_utf8(&times[..length])?.split(' ');
        let waited = times.nth(1).ok_or("three times expected in schedstat")?;
        Ok(Duration::from_nanos(waited.parse()?))
    }
}

/// Returns the processor time of this process so far.
#[must_use]
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Asks for as many open files as the system lets this process and its children have.
pub fn many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there may still be enough.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Ends this process after `limit`; its servers then see the end of their input.
pub fn end_after(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("no end after {limit:?}");
        std::process::exit(1);
    });
}

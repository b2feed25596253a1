//! What the kernel knows about this process and others.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Time on a processor, and calls of `write`.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu: Duration,
    pub writes: u64,
}

/// What a process has used so far.
///
/// # Errors
/// It is not ours to look into, or has gone.
pub fn usage(pid: u32) -> Result<Usage, Box<dyn Error>> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let writes = io.lines().find_map(|line| line.strip_prefix("syscw: "));
    Ok(Usage {
        cpu: threads(pid)?.into_iter().map(|(_, cpu)| cpu).sum(),
        writes: writes.ok_or("no syscw in /proc")?.parse()?,
    })
}

/// The threads of a process, and the time each of them has used so far.
///
/// # Errors
/// It has gone.
pub fn threads(pid: u32) -> std::io::Result<Vec<(String, Duration)>> {
    let mut threads = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        // In nanoseconds, where /proc/PID/stat counts in hundredths of a second.
        // A thread may end while we look.
        let times = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        let cpu = times.split(' ').next().unwrap_or("0").parse().unwrap_or(0);
        let name = task.file_name().to_string_lossy().into_owned();
        threads.push((name, Duration::from_nanos(cpu)));
    }
    Ok(threads)
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

/// The threads of a process, and the processor on which each of them is or was last.
///
/// # Errors
/// It has gone.
pub fn places(pid: u32) -> std::io::Result<HashMap<String, u32>> {
    let place = |task: fs::DirEntry| {
        // A thread may end while we look.
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        // Its name may be anything, with spaces and brackets, and is the second field of
        // which this is the 39th.
        let (_, fields) = stat.rsplit_once(") ")?;
        let place = fields.split(' ').nth(36)?.parse().ok()?;
        Some((task.file_name().to_string_lossy().into_owned(), place))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(tasks.flatten().filter_map(place).collect())
}

/// The bytes of a process that are in memory: its own, not the kernel's buffers
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

/// What all processors have done so far, in ticks of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    pub all: u64,
    pub idle: u64,
    /// Other guests of the machine had them.
    pub stolen: u64,
}

/// What all processors have done so far.
///
/// # Errors
/// /proc/stat was not understood.
pub fn ticks() -> Result<Ticks, Box<dyn Error>> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().ok_or("nothing in /proc/stat")?;
    let times = line.split_ascii_whitespace().skip(1);
    // The last two are part of the first two.
    let times: Vec<u64> = times.take(8).map(str::parse).collect::<Result<_, _>>()?;
    match times[..] {
        [_, nice, _, idle, waiting, _, _, stolen] => Ok(Ticks {
            all: times.iter().sum(),
            // Nobody is nice here but those who keep processors awake.
            idle: nice + idle + waiting,
            stolen,
        }),
        _ => Err("eight times expected in /proc/stat".into()),
    }
}

/// What this process has used so far, user and system.
#[must_use]
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How many processors there are.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// This thread, and whatever it starts later, on these processors.
///
/// # Errors
/// There are no such processors for it.
pub fn pin_to(cores: std::ops::Range<usize>) -> std::io::Result<()> {
    let mut only = CpuSet::new();
    cores.for_each(|core| only.set(core));
    Ok(sched_setaffinity(None, &only)?)
}

/// As many open files as the system lets us have, also for what this process
/// starts.
pub fn many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there may still be enough.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Ends this process after `limit`; servers then see the end of their input.
/// Sleeps all the time, so it takes nothing from a measurement.
pub fn guard(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!("no end after {limit:?}");
        std::process::exit(1);
    });
}

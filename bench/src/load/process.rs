//! What the kernel knows about this process and the server.

use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::Problem;

/// Time on a processor, and calls of `write`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) writes: u64,
}

/// What the server has used so far; `None` if it is not ours to look into.
pub(crate) fn usage(pid: Option<u32>) -> Result<Option<Usage>, Problem> {
    let Some(pid) = pid else {
        return Ok(None);
    };
    // In nanoseconds, where /proc/PID/stat counts in hundredths of a second.
    let mut cpu = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end while we look.
        let times = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        cpu += times.split(' ').next().unwrap_or("0").parse().unwrap_or(0);
    }
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let writes = io.lines().find_map(|line| line.strip_prefix("syscw: "));
    Ok(Some(Usage {
        cpu: Duration::from_nanos(cpu),
        writes: writes.ok_or("no syscw in /proc")?.parse()?,
    }))
}

/// What this process has used so far, user and system.
pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// This process, and the server it starts later, on CPU 0.
pub(crate) fn pin_to_first_core() -> Result<(), Problem> {
    let mut first = CpuSet::new();
    first.set(0);
    Ok(sched_setaffinity(None, &first)?)
}

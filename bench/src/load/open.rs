//! The open loop: calls are due at fixed times, whatever comes back.
//!
//! The calls take turns: an `add`, then an `echo` of 1 KB; so do the connections. This
//! process never waits for a reply before it sends, and latency counts from the time at
//! which a call was due: what a slow server delays is counted in full.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use caudal_bench::race::Figures;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::call::{self, Call, Dialect, Task, Work};
use crate::frames::Frames;
use crate::link::{self, Link, Outbox};
use crate::meter::Meter;
use crate::{Plan, Problem};

/// Maximum time for the last replies.
const GRACE: Duration = Duration::from_secs(5);

/// One in eight calls comes before the measurement.
const WARM_UP: u64 = 8;

struct Lane {
    link: Link,
    frames: Frames,
    outbox: Outbox,
}

/// The times at which calls are due.
#[derive(Clone, Copy)]
struct Schedule {
    start: Instant,
    rate: f64,
    total: u64,
}

impl Schedule {
    fn due(self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

struct Loop {
    lanes: Vec<Lane>,
    tasks: [Task; 2],
    calls: [Call; 2],
    answered: u64,
    latencies: Histogram<u64>,
}

pub(crate) fn run(plan: &Plan, rate: f64) -> Result<Figures, Problem> {
    let total = (plan.time.as_secs_f64() * rate) as u64;
    // Ids must not come round, and the times must fit.
    if plan.task.dialect == Dialect::Mcp || !(1..call::IDS).contains(&total) {
        return Err("the open loop speaks no MCP, and has 900,000 calls at most".into());
    }
    // The kernel may otherwise be 50 µs late: half of the time between calls.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let (server, links) = link::start(plan, plan.connections)?;
    let mut lanes = Vec::new();
    for link in links {
        link.greet(plan.task.dialect, plan.framing)?;
        link.never_block()?;
        lanes.push(Lane {
            link,
            frames: Frames::new(plan.framing),
            outbox: Outbox::default(),
        });
    }
    let tasks = [Work::Add, Work::Echo].map(|work| Task { work, ..plan.task });
    let mut all = Loop {
        lanes,
        tasks,
        calls: tasks.map(|task| Call::of(task, plan.framing)),
        answered: 0,
        latencies: Histogram::new(3)?,
    };
    let meter = Meter::start(&server)?;
    let start = Instant::now();
    all.run(Schedule { start, rate, total })?;
    meter.stop(all.answered, &all.latencies)
}

impl Loop {
    fn run(&mut self, schedule: Schedule) -> Result<(), Problem> {
        let total = schedule.total;
        let give_up = schedule.due(total) + GRACE;
        let mut sent = 0;
        while self.answered < total {
            let mut now = Instant::now();
            if now > give_up {
                return Err(format!("{} replies never came", total - self.answered).into());
            }
            while sent < total && schedule.due(sent) <= now {
                self.send(sent)?;
                sent += 1;
                now = Instant::now();
            }
            let until = if sent < total {
                schedule.due(sent)
            } else {
                give_up
            };
            for lane in self.wait(until.saturating_duration_since(now))? {
                self.receive(lane, schedule)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, number: u64) -> Result<(), Problem> {
        let which = which(number, self.lanes.len());
        let turn = number as usize % self.lanes.len();
        let Lane { link, outbox, .. } = &mut self.lanes[turn];
        self.calls[which].append(number, &mut outbox.bytes);
        Ok(outbox.send(link)?)
    }

    /// Waits for so long, and returns the connections that have something.
    fn wait(&self, time: Duration) -> Result<Vec<usize>, Problem> {
        let end = |lane: &'_ Lane| match lane.outbox.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        let lanes = self.lanes.iter();
        let mut ends: Vec<_> = lanes
            .map(|lane| PollFd::new(&lane.link.from, end(lane)))
            .collect();
        poll(&mut ends, Some(&Timespec::try_from(time)?))?;
        let ready = ends.iter().enumerate();
        let ready = ready.filter(|(_, end)| !end.revents().is_empty());
        Ok(ready.map(|(lane, _)| lane).collect())
    }

    fn receive(&mut self, lane: usize, schedule: Schedule) -> Result<(), Problem> {
        let (count, tasks) = (self.lanes.len(), self.tasks);
        let Lane {
            link,
            frames,
            outbox,
        } = &mut self.lanes[lane];
        outbox.send(link)?;
        match frames.read(&link.from) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(problem) => return Err(problem.into()),
        }
        let now = Instant::now();
        let (answered, latencies) = (&mut self.answered, &mut self.latencies);
        frames.each(|reply| {
            let number = call::number_of(reply).ok_or("a reply without its id")?;
            if number % link::CHECK_EVERY == 0 {
                tasks[which(number, count)].check(reply)?;
            }
            *answered += 1;
            if number >= schedule.total / WARM_UP {
                latencies.record((now - schedule.due(number)).as_nanos() as u64)?;
            }
            Ok(())
        })
    }
}

/// Returns which of the two calls has this number: the turns of calls and of connections
/// must not coincide.
fn which(number: u64, connections: usize) -> usize {
    let number = number as usize;
    (number / connections + number) % 2
}

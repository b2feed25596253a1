//! The closed loop: a fixed number of calls in flight.
//!
//! ```text
//! ┌→ one write of as many calls as were answered
//! └─ one read of whatever replies are there ←┘
//! ```
//!
//! A reply is taken for that of the oldest call: exact with one in flight; with
//! more, exact on average even if a server answers out of order.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::wire::Figures;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::call::{Call, Task};
use crate::frames::Frames;
use crate::link::{self, Link, Outbox};
use crate::{Plan, Problem};

/// If this much is in flight, a pipe of 64 KiB can fill up in both directions:
/// who then blocks in a write waits for ever.
const SAFE_TO_BLOCK: u64 = 16 * 1024;

struct Loop<'a> {
    link: &'a Link,
    task: Task,
    call: Call,
    window: u64,
    lockstep: bool,
    frames: Frames,
    outbox: Outbox,
    sent: u64,
    answered: u64,
    /// When calls were sent, and how many at once.
    bursts: VecDeque<(Instant, u64)>,
    latencies: Histogram<u64>,
    /// Reads since a reply was checked.
    reads: u64,
}

pub(crate) fn run(plan: &Plan) -> Result<Figures, Problem> {
    let (server, links) = link::start(plan, 1)?;
    let link = &links[0];
    link.greet(plan.task.dialect, plan.framing)?;
    let call = Call::of(plan.task, plan.framing);
    // A reply may be twice as long as its call.
    if plan.window * 2 * call.len() as u64 > SAFE_TO_BLOCK {
        link.never_block()?;
    }
    let mut all = Loop {
        link,
        task: plan.task,
        call,
        window: plan.window,
        lockstep: plan.lockstep,
        frames: Frames::of(plan.framing, plan.task),
        outbox: Outbox::default(),
        sent: 0,
        answered: 0,
        bursts: VecDeque::new(),
        latencies: Histogram::new(3)?,
        reads: link::CHECK_EVERY,
    };
    if !plan.lockstep {
        all.run(plan.time / 8, plan.requests)?;
        all.latencies.clear();
    }
    let warm = all.answered;

    let before = server.usage()?;
    let own = process::own_cpu();
    let start = Instant::now();
    all.run(plan.time, plan.requests)?;
    let taken = start.elapsed().as_secs_f64();
    let own = process::own_cpu().saturating_sub(own);
    let after = server.usage()?;

    let used = before.zip(after);
    let requests = all.answered - warm;
    let figures = Figures {
        requests,
        seconds: taken,
        per_second: requests as f64 / taken,
        p50_ns: all.latencies.value_at_quantile(0.5),
        p99_ns: all.latencies.value_at_quantile(0.99),
        p999_ns: all.latencies.value_at_quantile(0.999),
        load_cpu: own.as_secs_f64() / taken,
        server_cpu: used.map(|(a, b)| b.cpu.saturating_sub(a.cpu).as_secs_f64() / taken),
        server_writes: used.map(|(a, b)| b.writes - a.writes),
        due: None,
        together: None,
    };
    if plan.lockstep {
        drop(links);
        server.finish();
    }
    Ok(figures)
}

impl Loop<'_> {
    /// Sends for `time`, or `most` calls, and waits for every reply.
    fn run(&mut self, time: Duration, most: u64) -> Result<(), Problem> {
        let mut now = Instant::now();
        let end = now + time;
        let most = self.sent.saturating_add(most);
        loop {
            let in_flight = self.sent - self.answered;
            let room = match self.lockstep && in_flight > 0 {
                true => 0,
                false => self.window - in_flight,
            };
            let more = if now < end {
                room.min(most - self.sent)
            } else {
                0
            };
            for number in self.sent..self.sent + more {
                self.call.append(number, &mut self.outbox.bytes);
            }
            if more > 0 {
                self.bursts.push_back((now, more));
                self.sent += more;
            }
            if self.sent == self.answered {
                return Ok(());
            }
            self.outbox.send(self.link)?;
            match self.frames.read(&self.link.from) {
                Ok(()) => {}
                Err(Errno::AGAIN) => self.wait()?,
                Err(problem) => return Err(problem.into()),
            }
            now = self.take(now)?;
        }
    }

    /// Counts what came in; returns the time at which it did.
    fn take(&mut self, before: Instant) -> Result<Instant, Problem> {
        self.reads += 1;
        let check = self.reads > link::CHECK_EVERY;
        let mut count = self.frames.count(check.then_some(self.task))?;
        if count == 0 {
            return Ok(before);
        }
        if check {
            self.reads = 0;
        }
        let now = Instant::now();
        self.answered += count;
        while count > 0 {
            let (sent, burst) = self.bursts.front_mut().ok_or("more replies than calls")?;
            let part = count.min(*burst);
            let latency = now.duration_since(*sent).as_nanos() as u64;
            self.latencies.record_n(latency, part)?;
            count -= part;
            *burst -= part;
            if *burst == 0 {
                self.bursts.pop_front();
            }
        }
        Ok(now)
    }

    /// Until there is something to read, or room for what is to be written.
    fn wait(&self) -> Result<(), Errno> {
        let mut ends = [
            PollFd::new(&self.link.from, PollFlags::IN),
            PollFd::new(&self.link.to, PollFlags::OUT),
        ];
        let ends = match self.outbox.is_empty() {
            true => &mut ends[..1],
            false => &mut ends[..],
        };
        poll(ends, None).map(drop)
    }
}

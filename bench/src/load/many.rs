//! The closed loop over many connections: a fixed number of calls in flight on
//! each of them.
//!
//! ```text
//! ┌→ one write of as many calls as were answered ─┐ for each connection
//! └─ one read of whatever replies are there ←─────┘ that has something
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::wire::Figures;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::call::{Call, Task};
use crate::frames::Frames;
use crate::link::{self, Link, Outbox};
use crate::placed::Watch;
use crate::{Plan, Problem};

/// One connection, and what is under way on it.
struct Lane {
    link: Link,
    frames: Frames,
    outbox: Outbox,
    /// Wants to be told when there is room for more.
    full: bool,
    /// When calls were sent, and how many at once.
    bursts: VecDeque<(Instant, u64)>,
}

struct Loop {
    ready: OwnedFd,
    lanes: Vec<Lane>,
    call: Call,
    task: Task,
    window: u64,
    lockstep: bool,
    sent: u64,
    answered: u64,
    latencies: Histogram<u64>,
    /// Reads since a reply was checked.
    reads: u64,
}

pub(crate) fn run(plan: &Plan, connections: usize) -> Result<Figures, Problem> {
    let (server, links) = link::start(plan, connections)?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut lanes = Vec::new();
    for (number, link) in (0..).zip(links) {
        link.greet(plan.task.dialect, plan.framing)?;
        link.never_block()?;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&ready, &link.from, data, epoll::EventFlags::IN)?;
        lanes.push(Lane {
            link,
            frames: Frames::of(plan.framing, plan.task),
            outbox: Outbox::default(),
            full: false,
            bursts: VecDeque::new(),
        });
    }
    let mut all = Loop {
        ready,
        lanes,
        call: Call::of(plan.task, plan.framing),
        task: plan.task,
        window: plan.window,
        lockstep: plan.lockstep,
        sent: 0,
        answered: 0,
        latencies: Histogram::new(3)?,
        reads: link::CHECK_EVERY,
    };
    if !plan.lockstep {
        all.run(plan.time / 8, plan.requests)?;
        all.latencies.clear();
    }
    let warm = all.answered;

    let watch = plan.placed.then(|| server.watch()).flatten();
    let before = server.usage()?;
    let own = process::own_cpu();
    let start = Instant::now();
    all.run(plan.time, plan.requests)?;
    let taken = start.elapsed().as_secs_f64();
    let own = process::own_cpu().saturating_sub(own);
    let used = before.zip(server.usage()?);
    let together = watch.and_then(Watch::together);
    let requests = all.answered - warm;
    Ok(Figures {
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
        together,
    })
}

impl Loop {
    /// Sends for `time`, or `most` calls, and waits for every reply.
    fn run(&mut self, time: Duration, most: u64) -> Result<(), Problem> {
        let mut now = Instant::now();
        let end = now + time;
        let most = self.sent.saturating_add(most);
        let mut events = Vec::with_capacity(self.lanes.len());
        self.fill(now, most)?;
        while self.answered < self.sent {
            events.clear();
            epoll::wait(&self.ready, spare_capacity(&mut events), None)?;
            for event in &events {
                let lane = event.data.u64() as usize;
                if self.lanes[lane].full {
                    self.flush(lane)?;
                }
                let count = self.receive(lane)?;
                if count == 0 {
                    continue;
                }
                now = Instant::now();
                self.note(lane, now, count)?;
                if now < end && !self.lockstep {
                    self.send(lane, now, count.min(most - self.sent))?;
                }
            }
            if self.lockstep && self.answered == self.sent && now < end {
                self.fill(now, most)?;
            }
        }
        Ok(())
    }

    /// A whole window on each connection.
    fn fill(&mut self, now: Instant, most: u64) -> Result<(), Problem> {
        for lane in 0..self.lanes.len() {
            self.send(lane, now, self.window.min(most - self.sent))?;
        }
        Ok(())
    }

    fn send(&mut self, lane: usize, now: Instant, count: u64) -> Result<(), Problem> {
        if count == 0 {
            return Ok(());
        }
        let under_way = &mut self.lanes[lane];
        for number in self.sent..self.sent + count {
            self.call.append(number, &mut under_way.outbox.bytes);
        }
        under_way.bursts.push_back((now, count));
        self.sent += count;
        self.flush(lane)
    }

    /// Writes what the socket takes, and the rest when it takes more.
    fn flush(&mut self, number: usize) -> Result<(), Problem> {
        let lane = &mut self.lanes[number];
        lane.outbox.send(&lane.link)?;
        let full = !lane.outbox.is_empty();
        if full != lane.full {
            lane.full = full;
            let flags = match full {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            let data = epoll::EventData::new_u64(number as u64);
            epoll::modify(&self.ready, &lane.link.from, data, flags)?;
        }
        Ok(())
    }

    /// How many replies came in.
    fn receive(&mut self, lane: usize) -> Result<u64, Problem> {
        let lane = &mut self.lanes[lane];
        match lane.frames.read(&lane.link.from) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(problem) => return Err(problem.into()),
        }
        self.reads += 1;
        let check = self.reads > link::CHECK_EVERY;
        let count = lane.frames.count(check.then_some(self.task))?;
        if check && count > 0 {
            self.reads = 0;
        }
        Ok(count)
    }

    /// A reply is taken for that of the oldest call of its connection.
    fn note(&mut self, lane: usize, now: Instant, mut count: u64) -> Result<(), Problem> {
        self.answered += count;
        let bursts = &mut self.lanes[lane].bursts;
        while count > 0 {
            let (sent, burst) = bursts.front_mut().ok_or("more replies than calls")?;
            let part = count.min(*burst);
            let latency = now.duration_since(*sent).as_nanos() as u64;
            self.latencies.record_n(latency, part)?;
            count -= part;
            *burst -= part;
            if *burst == 0 {
                bursts.pop_front();
            }
        }
        Ok(())
    }
}

//! The closed loop: a fixed number of calls in flight on each connection.
//!
//! ```text
//! ┌→ one write of as many calls as were answered ─┐ for each connection
//! └─ one read of whatever replies are there ←─────┘ that has something
//! ```
//!
//! A reply is taken for that of the oldest call of its connection: exact with one in flight;
//! with more, exact on average even if a server answers out of order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use caudal_bench::race::Figures;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::call::{Call, Task};
use crate::frames::Frames;
use crate::link::{self, Link, Outbox};
use crate::meter::Meter;
use crate::{Plan, Problem};

/// If this much is in flight, a pipe of 64 KiB can fill up in both directions:
/// who then blocks in a write waits for ever.
const SAFE_TO_BLOCK: u64 = 16 * 1024;

/// One connection, and what is under way on it.
struct Lane {
    link: Link,
    frames: Frames,
    outbox: Outbox,
    /// When calls were sent, and how many at once.
    bursts: VecDeque<(Instant, u64)>,
}

pub(crate) struct Loop {
    /// `None` for a lone connection on which reads and writes may block.
    ready: Option<OwnedFd>,
    lanes: Vec<Lane>,
    call: Call,
    task: Task,
    window: u64,
    lockstep: bool,
    sent: u64,
    answered: u64,
    /// The same as `answered`, for another thread.
    pub(crate) replies: Arc<AtomicU64>,
    latencies: Histogram<u64>,
    /// Reads since a reply was checked.
    reads: u64,
}

pub(crate) fn run(plan: &Plan) -> Result<Figures, Problem> {
    let (server, links) = link::start(plan, plan.connections)?;
    let mut all = Loop::new(plan, links)?;
    if !plan.lockstep {
        all.run(plan.time / 8, plan.requests)?;
        all.latencies.clear();
    }
    let warm = all.answered;
    let meter = Meter::start(&server)?;
    all.run(plan.time, plan.requests)?;
    let figures = meter.stop(all.answered - warm, &all.latencies)?;
    if plan.lockstep {
        drop(all);
        server.finish();
    }
    Ok(figures)
}

impl Loop {
    pub(crate) fn new(plan: &Plan, links: Vec<Link>) -> Result<Self, Problem> {
        let call = Call::of(plan.task, plan.framing);
        // A reply may be twice as long as its call.
        let blocks = links.len() == 1 && plan.window * 2 * call.len() as u64 <= SAFE_TO_BLOCK;
        let ready = match blocks {
            true => None,
            false => Some(epoll::create(epoll::CreateFlags::CLOEXEC)?),
        };
        let mut lanes = Vec::new();
        for (number, link) in (0..).zip(links) {
            link.greet(plan.task.dialect, plan.framing)?;
            if let Some(ready) = &ready {
                link.never_block()?;
                let data = EventData::new_u64(number);
                epoll::add(ready, &link.from, data, EventFlags::IN)?;
                // Says once that there is room again.
                epoll::add(ready, &link.to, data, EventFlags::OUT | EventFlags::ET)?;
            }
            lanes.push(Lane {
                link,
                frames: Frames::new(plan.framing),
                outbox: Outbox::default(),
                bursts: VecDeque::new(),
            });
        }
        Ok(Self {
            ready,
            lanes,
            call,
            task: plan.task,
            window: plan.window,
            lockstep: plan.lockstep,
            sent: 0,
            answered: 0,
            replies: Arc::default(),
            latencies: Histogram::new(3)?,
            reads: link::CHECK_EVERY,
        })
    }

    /// Sends for `time`, or `most` calls, and waits for every reply.
    pub(crate) fn run(&mut self, time: Duration, most: u64) -> Result<(), Problem> {
        let mut now = Instant::now();
        let end = now + time;
        let most = self.sent.saturating_add(most);
        let mut events = Vec::with_capacity(self.lanes.len());
        self.fill(now, most)?;
        while self.answered < self.sent {
            events.clear();
            match &self.ready {
                None => events.push(epoll::Event {
                    flags: EventFlags::IN,
                    data: EventData::new_u64(0),
                }),
                Some(ready) => {
                    epoll::wait(ready, spare_capacity(&mut events), None)?;
                }
            }
            for event in &events {
                let lane = event.data.u64() as usize;
                let count = self.receive(lane)?;
                if count > 0 {
                    now = Instant::now();
                    self.note(lane, now, count)?;
                    if now < end && !self.lockstep {
                        self.append(lane, now, count.min(most - self.sent));
                    }
                }
                let Lane { link, outbox, .. } = &mut self.lanes[lane];
                outbox.send(link)?;
            }
            if self.lockstep && self.answered == self.sent && now < end {
                self.fill(now, most)?;
            }
        }
        Ok(())
    }

    /// Sends a whole window on each connection.
    fn fill(&mut self, now: Instant, most: u64) -> Result<(), Problem> {
        for lane in 0..self.lanes.len() {
            self.append(lane, now, self.window.min(most - self.sent));
            let Lane { link, outbox, .. } = &mut self.lanes[lane];
            outbox.send(link)?;
        }
        Ok(())
    }

    fn append(&mut self, lane: usize, now: Instant, count: u64) {
        let lane = &mut self.lanes[lane];
        for number in self.sent..self.sent + count {
            self.call.append(number, &mut lane.outbox.bytes);
        }
        if count > 0 {
            lane.bursts.push_back((now, count));
            self.sent += count;
        }
    }

    /// Returns how many replies came in.
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

    fn note(&mut self, lane: usize, now: Instant, mut count: u64) -> Result<(), Problem> {
        self.answered += count;
        self.replies.fetch_add(count, Relaxed);
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

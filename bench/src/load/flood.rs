//! Connections that pipeline calls as fast as they are answered, and beside them an honest
//! caller, which makes one call of `add` after the other.
//!
//! ```text
//! thread 1   honest caller:   write → read the reply → write …, each call timed
//! thread 2   all the others:  read replies → write as many calls
//! ```
//!
//! The calls of the second thread are made once and written from a ring, and of its replies
//! only the ends are looked for: it must take little of the processors that the server needs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use caudal_bench::flood::Flooded;
use caudal_bench::process::{self, Waits};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, write};

use crate::call::{Call, Task, Work};
use crate::frames::Frames;
use crate::link::{self, Link};
use crate::{Plan, Problem};

/// Time after which the flooding thread checks whether it must end, when no reply comes.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// Floods over `connections`, and calls over one more. The first eighth of the time is not
/// counted.
pub(crate) fn run(plan: &Plan, connections: usize) -> Result<Flooded, Problem> {
    let (server, mut links) = link::start(plan, connections + 1)?;
    for link in &links {
        link.greet(plan.task.dialect, plan.framing)?;
    }
    let honest = links.pop().ok_or("no connection")?;
    let mut flood = Flood::new(plan, links)?;
    let replies = AtomicU64::new(0);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let flooding = scope.spawn(|| flood.run(&replies, &ended).map_err(|e| e.to_string()));
        let measured = measure(plan, &server, &honest, &replies);
        ended.store(true, Relaxed);
        flooding
            .join()
            .map_err(|_| "the flooding thread panicked")??;
        match replies.load(Relaxed) {
            0 => Err("no reply to the calls that flood".into()),
            _ => measured,
        }
    })
}

fn measure(
    plan: &Plan,
    server: &link::Server,
    honest: &Link,
    replies: &AtomicU64,
) -> Result<Flooded, Problem> {
    thread::sleep(plan.time / 8);
    let before = server.usage()?;
    let own = process::own_cpu();
    let answered = replies.load(Relaxed);
    let start = Instant::now();
    let (times, waited) = call(plan, honest)?;
    let seconds = start.elapsed().as_secs_f64();
    let answered = replies.load(Relaxed) - answered;
    let own = process::own_cpu().saturating_sub(own);
    let used = before.zip(server.usage()?);
    Ok(Flooded {
        calls: times.len(),
        seconds,
        p50_ns: times.value_at_quantile(0.5),
        p99_ns: times.value_at_quantile(0.99),
        max_ns: times.max(),
        flood_per_second: answered as f64 / seconds,
        waited_ns: waited.as_nanos() as f64 / times.len().max(1) as f64,
        load_cpu: own.as_secs_f64() / seconds,
        server_cpu: used.map(|(a, b)| b.cpu.saturating_sub(a.cpu).as_secs_f64() / seconds),
    })
}

/// Makes the honest caller's calls; returns how long they took, and for how long in all this
/// thread waited for a processor meanwhile. That is not part of the former: a caller on
/// another machine does not wait for processors that the server keeps busy.
fn call(plan: &Plan, link: &Link) -> Result<(Histogram<u64>, Duration), Problem> {
    let task = Task {
        work: Work::Add,
        ..plan.task
    };
    let mut add = Call::of(task, plan.framing);
    let mut frames = Frames::of(plan.framing, task);
    let mut bytes = Vec::new();
    let mut times = Histogram::new(3)?;
    let waits = Waits::of_this_thread()?;
    let first = waits.so_far()?;
    let mut before = first;
    let end = Instant::now() + plan.time;
    for number in 0..plan.requests {
        bytes.clear();
        add.append(number, &mut bytes);
        let sent = Instant::now();
        if sent >= end {
            break;
        }
        link.write_all(&bytes)?;
        let answered = loop {
            frames.read(&link.from)?;
            let now = Instant::now();
            if frames.count(Some(task))? > 0 {
                break now;
            }
        };
        let after = waits.so_far()?;
        let taken = answered.duration_since(sent);
        times.record(taken.saturating_sub(after - before).as_nanos() as u64)?;
        before = after;
    }
    Ok((times, before - first))
}

/// The flooding connections.
struct Flood {
    ready: OwnedFd,
    lanes: Vec<Lane>,
    /// A window of calls, each with an id of its own.
    ring: Vec<u8>,
    /// The bytes of one of them.
    length: usize,
    task: Task,
}

/// A connection, and what may be written to it.
struct Lane {
    link: Link,
    frames: Frames,
    /// Place in the ring from which it goes on.
    at: usize,
    /// Bytes that may be written: the window at first, then as much as was answered.
    room: usize,
}

impl Flood {
    fn new(plan: &Plan, links: Vec<Link>) -> Result<Self, Problem> {
        let mut call = Call::of(plan.task, plan.framing);
        let mut ring = Vec::new();
        for number in 0..plan.window {
            call.append(number, &mut ring);
        }
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut lanes = Vec::new();
        for (number, link) in (0..).zip(links) {
            link.never_block()?;
            let data = epoll::EventData::new_u64(number);
            epoll::add(&ready, &link.from, data, epoll::EventFlags::IN)?;
            lanes.push(Lane {
                frames: Frames::of(plan.framing, plan.task),
                link,
                at: 0,
                room: ring.len(),
            });
        }
        Ok(Self {
            ready,
            lanes,
            length: call.len(),
            ring,
            task: plan.task,
        })
    }

    /// Floods until it is told to end; the calls under way are then given up.
    fn run(&mut self, replies: &AtomicU64, ended: &AtomicBool) -> Result<(), Problem> {
        for lane in &mut self.lanes {
            lane.send(&self.ring)?;
        }
        let mut events = Vec::with_capacity(self.lanes.len());
        let mut reads = 0;
        while !ended.load(Relaxed) {
            events.clear();
            epoll::wait(&self.ready, spare_capacity(&mut events), Some(&LOOK))?;
            for event in &events {
                let lane = &mut self.lanes[event.data.u64() as usize];
                match lane.frames.read(&lane.link.from) {
                    Ok(()) => {}
                    Err(Errno::AGAIN) => continue,
                    Err(problem) => return Err(problem.into()),
                }
                let check = reads % link::CHECK_EVERY == 0;
                let count = lane.frames.count(check.then_some(self.task))?;
                reads += 1;
                replies.fetch_add(count, Relaxed);
                lane.room += count as usize * self.length;
                lane.send(&self.ring)?;
            }
        }
        Ok(())
    }
}

impl Lane {
    /// Writes what the socket takes. A socket that takes nothing more has calls under way:
    /// their replies lead here again.
    fn send(&mut self, ring: &[u8]) -> Result<(), Errno> {
        while self.room > 0 {
            let end = ring.len().min(self.at + self.room);
            match write(&self.link.to, &ring[self.at..end]) {
                Ok(written) => {
                    self.at = (self.at + written) % ring.len();
                    self.room -= written;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }
}

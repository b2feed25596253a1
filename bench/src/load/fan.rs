//! One event to many: the next when everybody has got the last.
//!
//! The first subscriber asks for it with `fan`, whose parameter is the event's
//! text, and gets an answer besides.

use std::time::{Duration, Instant};

use caudal_bench::race::Figures;
use caudal_bench::{EVENT, process};
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::frames::{Frames, Framing};
use crate::link::{self, Link};
use crate::meter::Meter;
use crate::{Plan, Problem};

struct Audience {
    ready: OwnedFd,
    subscribers: Vec<(Link, Frames)>,
    ask: Vec<u8>,
    /// From the question until everybody has the event.
    latencies: Histogram<u64>,
}

/// Requests are events that arrived.
pub(crate) fn run(plan: &Plan, subscribers: usize) -> Result<Figures, Problem> {
    let framing = Framing::WebSocket;
    process::many_files();
    let (server, links) = link::start(plan, subscribers)?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut subscribed = Vec::new();
    for (number, link) in (0..).zip(links) {
        link.greet(plan.task.dialect, framing)?;
        link.write_all(&framing.frame(r#"{"jsonrpc":"2.0","id":0,"method":"subscribe"}"#))?;
        let mut frames = Frames::new(framing);
        while frames.count(None)? == 0 {
            frames.read(&link.from)?;
        }
        link.never_block()?;
        let data = epoll::EventData::new_u64(number);
        epoll::add(&ready, &link.from, data, epoll::EventFlags::IN)?;
        subscribed.push((link, frames));
    }
    let ask = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"fan","params":["{EVENT}"]}}"#);
    let mut audience = Audience {
        ready,
        subscribers: subscribed,
        ask: framing.frame(&ask),
        latencies: Histogram::new(3)?,
    };
    audience.hear(plan.time / 8)?;
    audience.latencies.clear();
    let meter = Meter::start(&server)?;
    let events = audience.hear(plan.time)?;
    meter.stop(events * subscribers as u64, &audience.latencies)
}

impl Audience {
    /// Asks for events until the time is up; returns how many came.
    fn hear(&mut self, time: Duration) -> Result<u64, Problem> {
        let end = Instant::now() + time;
        let mut events = 0;
        let mut ready = Vec::with_capacity(self.subscribers.len());
        while Instant::now() < end {
            self.subscribers[0].0.write_all(&self.ask)?;
            let asked = Instant::now();
            // One for each, and the answer.
            let mut missing = self.subscribers.len() as u64 + 1;
            while missing > 0 {
                ready.clear();
                epoll::wait(&self.ready, spare_capacity(&mut ready), None)?;
                for event in &ready {
                    let (link, frames) = &mut self.subscribers[event.data.u64() as usize];
                    match frames.read(&link.from) {
                        Ok(()) => {}
                        Err(Errno::AGAIN) => continue,
                        Err(problem) => return Err(problem.into()),
                    }
                    let came = frames.count(None)?;
                    missing = missing.checked_sub(came).ok_or("more than was asked for")?;
                }
            }
            self.latencies.record(asked.elapsed().as_nanos() as u64)?;
            events += 1;
        }
        Ok(events)
    }
}

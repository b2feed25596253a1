//! One event to many: the next when everybody has got the last.
//!
//! The first subscriber asks for it with `fan`, whose parameter is the event's
//! text, and gets an answer besides.

use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::web::EVENT;
use caudal_bench::wire::Figures;
use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::frames::{Frames, Framing};
use crate::link::{self, Link};
use crate::{Plan, Problem};

struct Audience {
    ready: OwnedFd,
    seats: Vec<(Link, Frames)>,
    ask: Vec<u8>,
}

/// Requests are events that arrived; latencies are from the question to the last
/// of them.
pub(crate) fn run(plan: &Plan, subscribers: usize) -> Result<Figures, Problem> {
    let framing = Framing::WebSocket;
    process::many_files();
    let (server, links) = link::start(plan, subscribers)?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut seats = Vec::new();
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
        seats.push((link, frames));
    }
    let text = EVENT;
    let ask = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"fan","params":["{text}"]}}"#);
    let mut audience = Audience {
        ready,
        seats,
        ask: framing.frame(&ask),
    };
    let mut latencies = Histogram::<u64>::new(3)?;
    audience.hear(plan.time / 8, &mut latencies)?;
    latencies.clear();

    let before = server.usage()?;
    let own = process::own_cpu();
    let start = Instant::now();
    let events = audience.hear(plan.time, &mut latencies)?;
    let taken = start.elapsed().as_secs_f64();
    let own = process::own_cpu().saturating_sub(own);
    let used = before.zip(server.usage()?);
    let requests = events * subscribers as u64;
    Ok(Figures {
        requests,
        seconds: taken,
        per_second: requests as f64 / taken,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        p999_ns: latencies.value_at_quantile(0.999),
        load_cpu: own.as_secs_f64() / taken,
        server_cpu: used.map(|(a, b)| b.cpu.saturating_sub(a.cpu).as_secs_f64() / taken),
        server_writes: used.map(|(a, b)| b.writes - a.writes),
        due: None,
        together: None,
    })
}

impl Audience {
    /// Asks for events one after the other; returns how many came.
    fn hear(&mut self, time: Duration, latencies: &mut Histogram<u64>) -> Result<u64, Problem> {
        let end = Instant::now() + time;
        let mut rounds = 0;
        let mut ready = Vec::with_capacity(self.seats.len());
        loop {
            let asked = Instant::now();
            if asked >= end {
                return Ok(rounds);
            }
            self.seats[0].0.write_all(&self.ask)?;
            // The answer is one more.
            let mut missing = self.seats.len() as u64 + 1;
            while missing > 0 {
                ready.clear();
                epoll::wait(&self.ready, spare_capacity(&mut ready), None)?;
                for event in &ready {
                    let (link, frames) = &mut self.seats[event.data.u64() as usize];
                    match frames.read(&link.from) {
                        Ok(()) => {}
                        Err(Errno::AGAIN) => continue,
                        Err(problem) => return Err(problem.into()),
                    }
                    let count = frames.count(None)?;
                    missing = missing
                        .checked_sub(count)
                        .ok_or("more than was asked for")?;
                }
            }
            latencies.record(asked.elapsed().as_nanos() as u64)?;
            rounds += 1;
        }
    }
}

//! One event to many: the next when everybody has got the last, or the last but one.
//!
//! The first subscriber asks for it with `fan`, whose parameter is the event's
//! text, and gets an answer besides.

use std::collections::VecDeque;
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
    seats: Vec<Seat>,
    ask: Vec<u8>,
    /// So many events are asked for at a time.
    ahead: u64,
}

/// A subscriber.
struct Seat {
    link: Link,
    frames: Frames,
    /// How many frames have come for each event: the first gets an answer, too.
    each: u64,
    got: u64,
}

/// An event that was asked for.
struct Asked {
    at: Instant,
    /// Who has not got it.
    missing: usize,
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
        seats.push(Seat {
            link,
            frames,
            each: if number == 0 { 2 } else { 1 },
            got: 0,
        });
    }
    let text = EVENT;
    let ask = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"fan","params":["{text}"]}}"#);
    let mut audience = Audience {
        ready,
        seats,
        ask: framing.frame(&ask),
        ahead: plan.window,
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
    /// Asks for events until the time is up; returns how many came, which is all of them.
    fn hear(&mut self, time: Duration, latencies: &mut Histogram<u64>) -> Result<u64, Problem> {
        let end = Instant::now() + time;
        self.seats.iter_mut().for_each(|seat| seat.got = 0);
        let mut asked = VecDeque::new();
        let mut done = 0;
        let mut ready = Vec::with_capacity(self.seats.len());
        loop {
            while asked.len() < self.ahead as usize && Instant::now() < end {
                self.seats[0].link.write_all(&self.ask)?;
                asked.push_back(Asked {
                    at: Instant::now(),
                    missing: self.seats.len(),
                });
            }
            if asked.is_empty() {
                return Ok(done);
            }
            ready.clear();
            epoll::wait(&self.ready, spare_capacity(&mut ready), None)?;
            for event in &ready {
                let seat = &mut self.seats[event.data.u64() as usize];
                match seat.frames.read(&seat.link.from) {
                    Ok(()) => {}
                    Err(Errno::AGAIN) => continue,
                    Err(problem) => return Err(problem.into()),
                }
                let before = seat.got / seat.each;
                seat.got += seat.frames.count(None)?;
                for number in before..seat.got / seat.each {
                    let place = (number - done) as usize;
                    let asked = asked.get_mut(place).ok_or("more than was asked for")?;
                    asked.missing -= 1;
                }
            }
            while asked.front().is_some_and(|asked| asked.missing == 0) {
                let asked = asked.pop_front().ok_or("it was there")?;
                latencies.record(asked.at.elapsed().as_nanos() as u64)?;
                done += 1;
            }
        }
    }
}

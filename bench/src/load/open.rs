//! The open loop: calls are due at fixed times, whatever comes back.
//!
//! A latency counts from the time at which the call was sent. This process never
//! waits for a reply before it sends, so what a slow server delays is counted in
//! full; how late it is itself is shown beside it. The calls take turns: an `add`,
//! then an `echo` of about 1 KB, each on the next connection.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::wire::Figures;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::call::{self, Call, Dialect};
use crate::frames::Frames;
use crate::link::{self, Outbox};
use crate::{Plan, Problem};

/// How long the last replies may take.
const GRACE: Duration = Duration::from_secs(2);

/// One in eight calls comes before the measurement.
const WARM_UP: u64 = 8;

pub(crate) fn run(plan: &Plan, rate: f64) -> Result<Figures, Problem> {
    let total = (plan.time.as_secs_f64() * rate) as u64;
    let total = total.min(plan.requests);
    // Ids must not come round, and the times must fit.
    if plan.dialect != Dialect::Plain || !(1..call::IDS).contains(&total) {
        return Err("the open loop speaks plain, and 900,000 calls at most".into());
    }
    // The kernel may otherwise be 50 µs late: half of the time between calls.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let (server, links) = link::start(plan, plan.connections.unwrap_or(16))?;
    for link in &links {
        link.never_block()?;
    }
    let mut calls = [
        Call::add(plan.dialect, plan.framing),
        Call::echo(plan.framing),
    ];
    let mut frames: Vec<_> = links.iter().map(|_| Frames::new(plan.framing)).collect();
    let mut outboxes: Vec<_> = links.iter().map(|_| Outbox::default()).collect();
    let mut latencies = Histogram::<u64>::new(3)?;
    let mut lateness = Histogram::<u64>::new(3)?;

    let before = server.usage()?;
    let own = process::own_cpu();
    let start = Instant::now();
    let due = |number: u64| start + Duration::from_secs_f64(number as f64 / rate);
    let give_up = due(total) + GRACE;
    let (mut sent, mut answered) = (0, 0);
    let mut sent_at = vec![start; total as usize];
    while answered < total {
        let mut now = Instant::now();
        if now > give_up {
            return Err(format!("{} replies never came", total - answered).into());
        }
        while sent < total && due(sent) <= now {
            let turn = sent as usize % links.len();
            // The turns of calls and connections must not coincide.
            let which = (sent as usize / links.len() + turn) % calls.len();
            calls[which].append(sent, &mut outboxes[turn].bytes);
            sent_at[sent as usize] = Instant::now();
            outboxes[turn].send(&links[turn])?;
            now = Instant::now();
            lateness.record((now - due(sent)).as_nanos() as u64)?;
            sent += 1;
        }
        let until = if sent < total { due(sent) } else { give_up };
        let mut ends: Vec<_> = links
            .iter()
            .zip(&outboxes)
            .map(|(link, outbox)| match outbox.is_empty() {
                true => PollFd::new(&link.from, PollFlags::IN),
                false => PollFd::new(&link.from, PollFlags::IN | PollFlags::OUT),
            })
            .collect();
        let wait = Timespec::try_from(until.saturating_duration_since(now))?;
        poll(&mut ends, Some(&wait))?;
        let ready: Vec<_> = ends.iter().map(PollFd::revents).collect();
        for (turn, _) in ready
            .iter()
            .enumerate()
            .filter(|(_, what)| !what.is_empty())
        {
            outboxes[turn].send(&links[turn])?;
            match frames[turn].read(&links[turn].from) {
                Ok(()) => {}
                Err(Errno::AGAIN) => continue,
                Err(problem) => return Err(problem.into()),
            }
            let now = Instant::now();
            frames[turn].each(|reply| {
                let number = call::number_of(reply).ok_or("a reply without its id")?;
                if number % 256 == 0 {
                    plan.dialect.check(reply)?;
                }
                answered += 1;
                let begun = sent_at.get(number as usize).ok_or("a reply to no call")?;
                let latency = now.duration_since(*begun).as_nanos() as u64;
                match number >= total / WARM_UP {
                    true => Ok(latencies.record(latency)?),
                    false => Ok(()),
                }
            })?;
        }
    }
    let taken = start.elapsed().as_secs_f64();
    let own = process::own_cpu().saturating_sub(own);
    let used = before.zip(server.usage()?);
    Ok(Figures {
        requests: answered,
        seconds: taken,
        per_second: answered as f64 / taken,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        p999_ns: latencies.value_at_quantile(0.999),
        load_cpu: own.as_secs_f64() / taken,
        server_cpu: used.map(|(a, b)| b.cpu.saturating_sub(a.cpu).as_secs_f64() / taken),
        server_writes: used.map(|(a, b)| b.writes - a.writes),
        late_p99_ns: Some(lateness.value_at_quantile(0.99)),
    })
}

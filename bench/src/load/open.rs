//! The open loop: calls are due at fixed times, whatever comes back.
//!
//! ```text
//! due ── late ──→ sent ─→ a connection, in turn ─→ reply
//!                   └──→ POST: the connection that waited longest, or the queue
//! ```
//!
//! This process never waits for a reply before it sends, so what a slow server
//! delays is counted in full. The calls take turns: an `add`, then an `echo` of about
//! 1 KB.
//!
//! Every latency is taken twice: from when a call was due, and from when it was sent.
//! Between them lies what this process itself is late, which shares the processors
//! with the server.
//!
//! A connection by POST carries one call at a time, as every client there is does
//! it. When all are busy, a call has to wait, and it does so here: a server that is
//! slow to answer makes the next call late, not fewer. So it counts as sent when this
//! process turned to it, and the wait for a connection is the server's.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::wire::{Due, Figures};
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::call::{self, Call, Dialect, Task, Work};
use crate::frames::{Frames, Framing};
use crate::link::{self, Outbox};
use crate::{Plan, Problem};

/// How long the last replies may take.
const GRACE: Duration = Duration::from_secs(5);

/// One in eight calls comes before the measurement.
const WARM_UP: u64 = 8;

pub(crate) fn run(plan: &Plan, rate: f64) -> Result<Figures, Problem> {
    let total = (plan.time.as_secs_f64() * rate) as u64;
    let total = total.min(plan.requests);
    // Ids must not come round, and the times must fit.
    if plan.task.dialect == Dialect::Mcp || !(1..call::IDS).contains(&total) {
        return Err("the open loop speaks no MCP, and has 900,000 calls at most".into());
    }
    // The kernel may otherwise be 50 µs late: half of the time between calls.
    set_current_timer_slack(NonZeroU64::new(1))?;
    let (server, links) = link::start(plan, plan.connections.unwrap_or(16))?;
    for link in &links {
        link.greet(plan.task.dialect, plan.framing)?;
        link.never_block()?;
    }
    let echo: Work = "echo".parse()?;
    let tasks = [Work::Add, echo].map(|work| Task { work, ..plan.task });
    let mut calls = tasks.map(|task| Call::of(task, plan.framing));
    // The turns of calls and connections must not coincide.
    let which = |number: u64| (number as usize / links.len() + number as usize) % tasks.len();
    let mut crossing = Crossing {
        one_at_a_time: matches!(plan.framing, Framing::Post),
        free: (0..links.len()).collect(),
        waiting: VecDeque::new(),
    };
    let mut frames: Vec<_> = links.iter().map(|_| Frames::new(plan.framing)).collect();
    let mut outboxes: Vec<_> = links.iter().map(|_| Outbox::default()).collect();
    let mut latencies = Histogram::<u64>::new(3)?;
    let mut from_due = Histogram::<u64>::new(3)?;
    let mut lateness = Histogram::<u64>::new(3)?;

    let before = server.usage()?;
    let own = process::own_cpu();
    let start = Instant::now();
    let due = |number: u64| start + Duration::from_secs_f64(number as f64 / rate);
    let give_up = due(total) + GRACE;
    let (mut sent, mut answered) = (0, 0);
    let mut begun = vec![start; total as usize];
    while answered < total {
        let mut now = Instant::now();
        if now > give_up {
            return Err(format!("{} replies never came", total - answered).into());
        }
        while sent < total && due(sent) <= now {
            crossing.waiting.push_back(sent);
            begun[sent as usize] = now;
            if let Some((number, turn)) = crossing.next() {
                calls[which(number)].append(number, &mut outboxes[turn].bytes);
                outboxes[turn].send(&links[turn])?;
            }
            sent += 1;
            now = Instant::now();
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
                    tasks[which(number)].check(reply)?;
                }
                answered += 1;
                crossing.free(turn);
                let begun = *begun.get(number as usize).ok_or("a reply to no call")?;
                let due = due(number);
                if number >= total / WARM_UP {
                    latencies.record((now - begun).as_nanos() as u64)?;
                    from_due.record((now - due).as_nanos() as u64)?;
                    lateness.record((begun - due).as_nanos() as u64)?;
                }
                Ok(())
            })?;
            // Those that were due while all connections were busy.
            while let Some((number, turn)) = crossing.next() {
                calls[which(number)].append(number, &mut outboxes[turn].bytes);
                outboxes[turn].send(&links[turn])?;
            }
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
        due: Some(Due {
            p50_ns: from_due.value_at_quantile(0.5),
            p99_ns: from_due.value_at_quantile(0.99),
            p999_ns: from_due.value_at_quantile(0.999),
            late_p99_ns: lateness.value_at_quantile(0.99),
        }),
        together: None,
    })
}

/// Which call goes next, and over which connection.
#[derive(Debug)]
struct Crossing {
    one_at_a_time: bool,
    /// Those without a call under way, or all of them; who waited longest is first.
    free: VecDeque<usize>,
    /// Calls that are due, the oldest first.
    waiting: VecDeque<u64>,
}

impl Crossing {
    /// The next call and its connection, if both are there.
    fn next(&mut self) -> Option<(u64, usize)> {
        let connection = *self.free.front()?;
        let number = self.waiting.pop_front()?;
        match self.one_at_a_time {
            true => drop(self.free.pop_front()),
            false => self.free.rotate_left(1),
        }
        Some((number, connection))
    }

    /// A reply came over this connection.
    fn free(&mut self, connection: usize) {
        if self.one_at_a_time {
            self.free.push_back(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Crossing;

    fn crossing(one_at_a_time: bool) -> Crossing {
        Crossing {
            one_at_a_time,
            free: [0, 1].into(),
            waiting: [7, 8, 9].into(),
        }
    }

    #[test]
    fn connections_take_turns() {
        let mut all = crossing(false);
        assert_eq!(all.next(), Some((7, 0)));
        assert_eq!(all.next(), Some((8, 1)));
        assert_eq!(all.next(), Some((9, 0)));
        assert_eq!(all.next(), None);
    }

    #[test]
    fn a_call_by_post_waits_for_a_connection() {
        let mut all = crossing(true);
        assert_eq!(all.next(), Some((7, 0)));
        assert_eq!(all.next(), Some((8, 1)));
        assert_eq!(all.next(), None);
        all.free(1);
        assert_eq!(all.next(), Some((9, 1)));
        assert_eq!(all.next(), None);
    }
}

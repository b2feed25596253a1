//! Connections that pipeline calls as fast as they are answered, and beside them an honest
//! caller, which makes one call of `add` after the other.
//!
//! ```text
//! thread 1   honest caller:   write → read the reply → write …, each call timed
//! thread 2   all the others:  the closed loop
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use caudal_bench::process::Waits;
use caudal_bench::race::Figures;
use hdrhistogram::Histogram;

use crate::call::{Call, Task, Work};
use crate::closed::Loop;
use crate::frames::Frames;
use crate::link::{self, Link};
use crate::meter::Meter;
use crate::{Plan, Problem};

/// Longer than any measurement: the flood ends with this process.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Floods over `connections`, and calls over one more. The first eighth of the time is not
/// counted.
pub(crate) fn run(plan: &Plan, connections: usize) -> Result<Figures, Problem> {
    let (server, mut links) = link::start(plan, connections + 1)?;
    let honest = links.pop().ok_or("no connection")?;
    honest.greet(plan.task.dialect, plan.framing)?;
    let mut flood = Loop::new(plan, links)?;
    let replies = Arc::clone(&flood.replies);
    let flooding = thread::spawn(move || {
        let ended = flood.run(FOR_EVER, u64::MAX);
        ended.map_err(|problem| problem.to_string())
    });
    thread::sleep(plan.time / 8);
    let meter = Meter::start(&server)?;
    let (start, before) = (Instant::now(), replies.load(Relaxed));
    let times = call(plan, &honest)?;
    let answered = replies.load(Relaxed) - before;
    if flooding.is_finished() {
        flooding.join().map_err(|_| "the flood panicked")??;
    }
    Ok(Figures {
        flood_per_second: Some(answered as f64 / start.elapsed().as_secs_f64()),
        ..meter.stop(times.len(), &times)?
    })
}

/// Makes the honest caller's calls; returns how long they took, without the time for which
/// this thread waited for a processor: a caller on another machine does not wait for
/// processors that the server keeps busy.
fn call(plan: &Plan, link: &Link) -> Result<Histogram<u64>, Problem> {
    let task = Task {
        work: Work::Add,
        ..plan.task
    };
    let mut add = Call::of(task, plan.framing);
    let mut frames = Frames::new(plan.framing);
    let mut bytes = Vec::new();
    let mut times = Histogram::new(3)?;
    let waits = Waits::of_this_thread()?;
    let mut before = waits.so_far()?;
    let end = Instant::now() + plan.time;
    for number in 0.. {
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
    Ok(times)
}

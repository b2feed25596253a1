//! Starting: from just before the server is, to the first right reply.
//!
//! ```text
//! spawn → [port → connection →] [greeting →] one call → its reply, checked → end
//! ```
//!
//! One server after the other; how one ends is not part of its time.

use std::time::{Duration, Instant};

use caudal_bench::process;
use caudal_bench::wire::Figures;
use hdrhistogram::Histogram;

use crate::call::Call;
use crate::frames::Frames;
use crate::{Plan, Problem, link};

/// Requests are starts; latencies are how long one took.
pub(crate) fn run(plan: &Plan, starts: u64) -> Result<Figures, Problem> {
    let mut call = Vec::new();
    Call::of(plan.task, plan.framing).append(0, &mut call);
    let mut latencies = Histogram::<u64>::new(3)?;
    let (mut taken, mut used, mut writes) = (Duration::ZERO, Duration::ZERO, 0);
    let own = process::own_cpu();
    for _ in 0..starts {
        let start = Instant::now();
        let (server, links) = link::start(plan, 1)?;
        let link = &links[0];
        link.greet(plan.task.dialect, plan.framing)?;
        link.write_all(&call)?;
        let mut frames = Frames::of(plan.framing, plan.task);
        while frames.count(Some(plan.task))? == 0 {
            frames.read(&link.from)?;
        }
        let time = start.elapsed();
        latencies.record(time.as_nanos() as u64)?;
        taken += time;
        let usage = server.usage()?.ok_or("not a server of ours")?;
        used += usage.cpu;
        writes += usage.writes;
    }
    let own = process::own_cpu().saturating_sub(own);
    let seconds = taken.as_secs_f64();
    Ok(Figures {
        requests: starts,
        seconds,
        per_second: starts as f64 / seconds,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        p999_ns: latencies.value_at_quantile(0.999),
        load_cpu: own.as_secs_f64() / seconds,
        server_cpu: Some(used.as_secs_f64() / seconds),
        server_writes: Some(writes),
        due: None,
        together: None,
    })
}

//! The meter of a turn: time, and the processor time of both ends.

use std::time::{Duration, Instant};

use caudal_bench::process::own_cpu;
use caudal_bench::race::Figures;
use hdrhistogram::Histogram;

use crate::Problem;
use crate::link::Server;

pub(crate) struct Meter<'a> {
    server: &'a Server,
    server_cpu: Duration,
    own_cpu: Duration,
    start: Instant,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(server: &'a Server) -> Result<Self, Problem> {
        Ok(Self {
            server,
            server_cpu: server.cpu()?,
            own_cpu: own_cpu(),
            start: Instant::now(),
        })
    }

    pub(crate) fn stop(
        &self,
        requests: u64,
        latencies: &Histogram<u64>,
    ) -> Result<Figures, Problem> {
        let taken = self.start.elapsed();
        let share = |after: Duration, before| after.saturating_sub(before).div_duration_f64(taken);
        Ok(Figures {
            requests,
            per_second: requests as f64 / taken.as_secs_f64(),
            p50_ns: latencies.value_at_quantile(0.5),
            p99_ns: latencies.value_at_quantile(0.99),
            p999_ns: latencies.value_at_quantile(0.999),
            load_cpu: share(own_cpu(), self.own_cpu),
            server_cpu: share(self.server.cpu()?, self.server_cpu),
            flood_per_second: None,
        })
    }
}

//! `client WHAT AMOUNT PORT`: calls a server on this machine, and prints one line of JSON.
//!
//! ```text
//! caudal        one peer, 64 tasks that call `add`, over TCP
//! caudal-ws     the same over WebSocket
//! caudal-http   the same over HTTP
//! hyper         64 connections of hyper's own, each with one call in flight
//! bare          a blocking loop with 64 in flight: what sockets and serde cost
//! memory        both ends in this process, `Peer::pair`; no server
//! ```
//!
//! The amount is a number of calls, or a time: `0.7s`.

mod bare;
mod hyper;
mod tasks;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use caudal_bench::process;
use serde::Serialize;

/// Number of calls in flight.
const WINDOW: u64 = 64;

/// Duration or amount of the load.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Calls(u64),
    Time(Duration),
}

/// Figures that are printed.
#[derive(Debug, Serialize)]
struct Called {
    per_second: f64,
    /// Processor time of this process, in processors.
    cpu: f64,
}

type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("client: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<String, Problem> {
    let [what, amount, port] = arguments else {
        return Err("client WHAT AMOUNT PORT".into());
    };
    process::end_after(Duration::from_secs(120));
    let (amount, port) = (parse(amount)?, port.parse()?);
    let called = match what.as_str() {
        "caudal" => tasks::over("tcp", port, amount),
        "caudal-ws" => tasks::over("ws", port, amount),
        "caudal-http" => tasks::over("http", port, amount),
        "hyper" => hyper::run(port, amount),
        "bare" => bare::run(port, amount),
        "memory" => tasks::in_memory(amount),
        other => return Err(format!("no client `{other}`").into()),
    };
    Ok(serde_json::to_string(&called?)?)
}

fn parse(amount: &str) -> Result<Amount, Problem> {
    match amount.strip_suffix('s') {
        Some(seconds) => {
            let time = Duration::try_from_secs_f64(seconds.parse()?)?;
            Ok(Amount::Time(time.min(Duration::from_secs(30))))
        }
        None => Ok(Amount::Calls(amount.parse()?)),
    }
}

/// The clock of a measurement.
#[derive(Debug)]
struct Clock {
    start: Instant,
    /// Not under callgrind, where rustix does not find this clock.
    cpu: Option<Duration>,
}

impl Clock {
    fn start(amount: Amount) -> Self {
        Self {
            start: Instant::now(),
            cpu: match amount {
                Amount::Calls(_) => None,
                Amount::Time(_) => Some(process::own_cpu()),
            },
        }
    }

    fn stop(&self, calls: u64) -> Called {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu = self.cpu.map(|cpu| process::own_cpu().saturating_sub(cpu));
        Called {
            per_second: calls as f64 / seconds,
            cpu: cpu.unwrap_or_default().as_secs_f64() / seconds,
        }
    }
}

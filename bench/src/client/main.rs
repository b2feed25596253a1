//! `client WHAT AMOUNT [SERVER ARGUMENTS…]`: calls a server that it starts on a
//! socket of this machine, and prints one line of JSON.
//!
//! ```text
//! caudal AMOUNT     one peer, 64 tasks that call `add`
//! caudal-ws AMOUNT  the same over WebSocket
//! caudal-http AMOUNT  the same over HTTP
//! hyper AMOUNT      64 connections of hyper's own, each with one call in flight
//! bare AMOUNT       a blocking loop with 64 in flight: what sockets and serde cost
//! memory AMOUNT     both ends in this process, `Peer::pair`; no server
//! waiting COUNT     so many calls that wait at once, of `serve caudal-waiting`
//! idle-FRAMING-DIALECT COUNT   so many connections, idle after one call each; framing
//!                   and dialect are those of `load`
//! ```
//!
//! The amount is a number of calls, or a time: `0.7s`.

mod bare;
mod hyper;
mod idle;
mod memory;
mod tasks;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use caudal_bench::child::Server;
use caudal_bench::peer::Called;
use caudal_bench::process;

/// How many calls are in flight.
const WINDOW: u64 = 64;

/// How long, or how much.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Calls(u64),
    Time(Duration),
}

type Problem = Box<dyn std::error::Error>;

pub(crate) fn main() -> ExitCode {
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
    let [what, amount, server @ ..] = arguments else {
        return Err("client WHAT AMOUNT [SERVER ARGUMENTS…]".into());
    };
    process::guard(Duration::from_secs(120));
    let listen = || {
        let (program, arguments) = server.split_first().ok_or("no server")?;
        Server::listen(Command::new(program).args(arguments))
    };
    let text = match what.as_str() {
        "caudal" => {
            let (_server, port) = listen()?;
            serde_json::to_string(&tasks::over("tcp", port, parse(amount)?)?)
        }
        "caudal-ws" => {
            let (_server, port) = listen()?;
            serde_json::to_string(&tasks::over("ws", port, parse(amount)?)?)
        }
        "caudal-http" => {
            let (_server, port) = listen()?;
            serde_json::to_string(&tasks::over("http", port, parse(amount)?)?)
        }
        "hyper" => {
            let (_server, port) = listen()?;
            serde_json::to_string(&hyper::run(port, parse(amount)?)?)
        }
        "bare" => {
            let (_server, port) = listen()?;
            serde_json::to_string(&bare::run(port, parse(amount)?)?)
        }
        "memory" => serde_json::to_string(&tasks::in_memory(parse(amount)?)?),
        "waiting" => {
            let (server, port) = listen()?;
            serde_json::to_string(&memory::waiting(&server, port, amount.parse()?)?)
        }
        idle if idle.starts_with("idle-") => {
            let way = idle["idle-".len()..].parse()?;
            // The server inherits this.
            process::many_files();
            let (server, port) = listen()?;
            serde_json::to_string(&idle::run(&server, port, amount.parse()?, way)?)
        }
        other => return Err(format!("no client `{other}`").into()),
    };
    Ok(text?)
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
            calls,
            per_second: calls as f64 / seconds,
            cpu: cpu.unwrap_or_default().as_secs_f64() / seconds,
        }
    }
}

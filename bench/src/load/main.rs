//! Loads a server with calls and prints one line of JSON.
//!
//! ```text
//! load [OPTIONS] -- SERVER ARGUMENTS…
//! load [OPTIONS] --connect 127.0.0.1:PORT
//!
//! --framing line|header|json|post|ws   where a message ends (line)
//! --dialect plain|dotted|lsp|mcp   handshake and shape of a call (plain)
//! --call WHAT               what to call for                (add)
//!   add                     two integers
//!   nap                     the same, after 10 ms
//!   spin                    the same, after 100 µs of processor time
//!   place                   an order of 1 KB
//!   batch                   100 `add` in one message
//!   echo                    a text that comes back
//! --size N                  bytes in a message of `echo`    (1024)
//! --window N                so many calls in flight, on each connection (1)
//! --seconds S               how long to send                (1)
//! --requests N              or how many to send at most
//! --lockstep                the next window when the last is answered; no warm-up
//! --tcp                     the server prints a port; use it; so do post and ws
//! --pid P                   the server's, if it is connected to
//! --same-core               this process and the server on CPU 0
//! --own-core                this process on the last CPU, the server on the others
//! --rate R                  open loop: R calls a second, whatever comes back
//! --connections C           over so many, implies --tcp (1; open loop 16)
//! --placed                  look where the server's threads are, with many connections
//! --flood N                 over N connections, each with a window; how long the calls of
//!                           `add` take meanwhile that one more connection makes
//! --startup N               start the server N times; one call each
//! --subscribers N           no calls: one event to N WebSockets, again and again; the
//!                           next when all but the last `--window` have arrived
//! ```
//!
//! One thread (with `--flood` two), no runtime: it must take less of the machine than what it
//! measures, and says how much it took.

mod call;
mod closed;
mod fan;
mod flood;
mod frames;
mod link;
mod many;
mod open;
mod placed;
mod startup;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use call::{Dialect, Task, Work};
use caudal_bench::process;
use frames::Framing;

/// What was asked for.
#[derive(Debug)]
struct Plan {
    framing: Framing,
    task: Task,
    window: u64,
    time: Duration,
    requests: u64,
    lockstep: bool,
    tcp: bool,
    same_core: bool,
    own_core: bool,
    placed: bool,
    rate: Option<f64>,
    connections: Option<usize>,
    flood: Option<usize>,
    startup: Option<u64>,
    subscribers: Option<usize>,
    connect: Option<SocketAddr>,
    pid: Option<u32>,
    server: Vec<String>,
}

/// The longest message that is sent.
const LONGEST: usize = 16 << 20;

type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("load: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Problem> {
    let plan = parse(std::env::args().skip(1))?;
    let starts = plan.startup.map_or(Duration::ZERO, Duration::from_secs);
    process::guard(plan.time * 3 + starts + Duration::from_secs(20));
    if plan.same_core {
        process::pin_to(0..1)?;
    }
    if let Some(count) = plan.flood {
        return Ok(serde_json::to_string(&flood::run(&plan, count)?)?);
    }
    let figures = match &plan {
        Plan {
            subscribers: Some(count),
            ..
        } => fan::run(&plan, *count)?,
        Plan {
            startup: Some(count),
            ..
        } => startup::run(&plan, *count)?,
        Plan {
            rate: Some(rate), ..
        } => open::run(&plan, *rate)?,
        Plan {
            connections: None | Some(1),
            ..
        } => closed::run(&plan)?,
        Plan {
            connections: Some(count),
            ..
        } => many::run(&plan, *count)?,
    };
    Ok(serde_json::to_string(&figures)?)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Plan, Problem> {
    let mut plan = Plan {
        framing: Framing::Line,
        task: Task {
            work: Work::Add,
            dialect: Dialect::Plain,
        },
        window: 1,
        time: Duration::from_secs(1),
        requests: u64::MAX,
        lockstep: false,
        tcp: false,
        same_core: false,
        own_core: false,
        placed: false,
        rate: None,
        connections: None,
        flood: None,
        startup: None,
        subscribers: None,
        connect: None,
        pid: None,
        server: Vec::new(),
    };
    let mut size = None;
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next();
            value.ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--framing" => plan.framing = value()?.parse()?,
            "--dialect" => plan.task.dialect = value()?.parse()?,
            "--call" => plan.task.work = value()?.parse()?,
            "--size" => size = Some(value()?.parse()?),
            "--window" => plan.window = value()?.parse()?,
            "--seconds" => plan.time = Duration::try_from_secs_f64(value()?.parse()?)?,
            "--requests" => plan.requests = value()?.parse()?,
            "--lockstep" => plan.lockstep = true,
            "--tcp" => plan.tcp = true,
            "--same-core" => plan.same_core = true,
            "--own-core" => plan.own_core = true,
            "--placed" => plan.placed = true,
            "--rate" => plan.rate = Some(value()?.parse()?),
            "--connections" => plan.connections = Some(value()?.parse()?),
            "--flood" => plan.flood = Some(value()?.parse()?),
            "--startup" => plan.startup = Some(value()?.parse()?),
            "--subscribers" => plan.subscribers = Some(value()?.parse()?),
            "--connect" => plan.connect = Some(value()?.parse()?),
            "--pid" => plan.pid = Some(value()?.parse()?),
            "--" => plan.server = arguments.by_ref().collect(),
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    plan.task.work = match (plan.task.work, size) {
        (work, None) => work,
        (Work::Echo(_), Some(size @ 1..=LONGEST)) => Work::Echo(size),
        (Work::Echo(_), Some(_)) => return Err("1 byte to 16 MiB".into()),
        _ => return Err("only `echo` has a size".into()),
    };
    plan.tcp |= plan.framing.is_web() || plan.connections.is_some() || plan.flood.is_some();
    let fits = |count: u64| (1..=call::MOST_IN_FLIGHT).contains(&count);
    match &plan {
        Plan { connect, .. } if connect.is_some_and(|address| !address.ip().is_loopback()) => {
            Err("only this machine is ever loaded".into())
        }
        Plan { window, .. } if !fits(*window) => Err("no such number in flight".into()),
        Plan { startup, .. } if startup.is_some_and(|count| !(1..=1000).contains(&count)) => {
            Err("1 to 1000 starts".into())
        }
        Plan {
            startup, connect, ..
        } if startup.is_some() && connect.is_some() => {
            Err("who is connected to has started already".into())
        }
        Plan { task, .. } if task.dialect == Dialect::Mcp && !task.is_tool() => {
            Err("over MCP there are `add` and `nap` only".into())
        }
        Plan {
            framing: Framing::Post,
            flood: Some(_),
            ..
        } => Err("a POST is one call at a time".into()),
        Plan { time, .. } if time.as_secs() > 600 => Err("at most 600 seconds".into()),
        Plan {
            connections: Some(count),
            ..
        }
        | Plan {
            subscribers: Some(count),
            ..
        }
        | Plan {
            flood: Some(count), ..
        } if !(1..=1000).contains(count) => Err("1 to 1000 connections".into()),
        Plan {
            connect, server, ..
        } if connect.is_some() != server.is_empty() => {
            Err("either --connect or -- and a server".into())
        }
        _ => Ok(plan),
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Problem, Work, parse};

    fn parsed(line: &str) -> Result<Plan, Problem> {
        parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn an_echo_has_a_size_and_nothing_else_has() {
        let plan = parsed("--call echo --size 5000 -- serve").expect("a plan");
        assert_eq!(plan.task.work, Work::Echo(5000));
        let plan = parsed("--size 70 --call echo -- serve").expect("a plan");
        assert_eq!(plan.task.work, Work::Echo(70));
        assert!(parsed("--call add --size 70 -- serve").is_err());
        assert!(parsed("--call echo --size 0 -- serve").is_err());
    }

    #[test]
    fn only_who_was_not_there_can_start() {
        assert!(parsed("--startup 10 -- serve").is_ok());
        assert!(parsed("--startup 0 -- serve").is_err());
        assert!(parsed("--startup 10 --connect 127.0.0.1:80").is_err());
    }

    #[test]
    fn a_flood_needs_connections_that_pipeline() {
        let plan = parsed("--flood 2 -- serve").expect("a plan");
        assert!(plan.tcp);
        assert!(parsed("--flood 2 --framing post -- serve").is_err());
        assert!(parsed("--flood 0 -- serve").is_err());
    }

    #[test]
    fn a_tool_is_not_sent_what_it_does_not_know() {
        assert!(parsed("--dialect mcp --call nap -- rmcp").is_ok());
        assert!(parsed("--dialect mcp --call echo -- rmcp").is_err());
    }
}

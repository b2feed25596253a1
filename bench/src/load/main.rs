//! Loads a server with calls and prints one line of JSON.
//!
//! ```text
//! load [OPTIONS] -- SERVER ARGUMENTS…
//!
//! --framing line|header|json|post|ws   where a message ends (line)
//! --dialect plain|dotted|lsp|mcp       handshake and shape of a call (plain)
//! --call add|spin|place|batch          what to call for (add): two integers, the same after
//!                                      100 µs of processor time, an order of 1 KB, 100
//!                                      `add` in one message
//! --window N        so many calls in flight, on each connection (1)
//! --seconds S       how long to send                            (1)
//! --requests N      or how many to send at most
//! --lockstep        the next window when the last is answered; no warm-up
//! --tcp             the server prints a port; so it does with post, ws and connections
//! --connections C   over so many connections                    (1)
//! --rate R          open loop: R calls a second, whatever comes back
//! --flood N         over N connections, each with a window; how long the calls of `add`
//!                   take meanwhile that one more connection makes
//! --subscribers N   no calls: one event to N WebSockets, the next when all have got it
//! --idle N          no load: prints the bytes that the server holds for each of N sockets
//! ```
//!
//! One thread (with `--flood` two), no runtime: it must take less of the machine than what it
//! measures, and says how much it took.

mod call;
mod closed;
mod fan;
mod flood;
mod frames;
mod idle;
mod link;
mod meter;
mod open;

use std::process::ExitCode;
use std::time::Duration;

use call::{Dialect, Task, Work};
use caudal_bench::process;
use frames::Framing;

/// The options.
#[derive(Debug)]
struct Plan {
    framing: Framing,
    task: Task,
    window: u64,
    time: Duration,
    requests: u64,
    lockstep: bool,
    tcp: bool,
    connections: usize,
    rate: Option<f64>,
    flood: Option<usize>,
    subscribers: Option<usize>,
    idle: Option<usize>,
    server: Vec<String>,
}

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
    process::end_after(plan.time * 3 + Duration::from_secs(20));
    let figures = match plan {
        Plan {
            idle: Some(count), ..
        } => return Ok(idle::run(&plan, count)?.to_string()),
        Plan {
            flood: Some(count), ..
        } => flood::run(&plan, count),
        Plan {
            subscribers: Some(count),
            ..
        } => fan::run(&plan, count),
        Plan {
            rate: Some(rate), ..
        } => open::run(&plan, rate),
        _ => closed::run(&plan),
    };
    Ok(serde_json::to_string(&figures?)?)
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
        connections: 1,
        rate: None,
        flood: None,
        subscribers: None,
        idle: None,
        server: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next();
            value.ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--framing" => plan.framing = value()?.parse()?,
            "--dialect" => plan.task.dialect = value()?.parse()?,
            "--call" => plan.task.work = value()?.parse()?,
            "--window" => plan.window = value()?.parse()?,
            "--seconds" => plan.time = Duration::try_from_secs_f64(value()?.parse()?)?,
            "--requests" => plan.requests = value()?.parse()?,
            "--lockstep" => plan.lockstep = true,
            "--tcp" => plan.tcp = true,
            "--connections" => plan.connections = value()?.parse()?,
            "--rate" => plan.rate = Some(value()?.parse()?),
            "--flood" => plan.flood = Some(value()?.parse()?),
            "--subscribers" => plan.subscribers = Some(value()?.parse()?),
            "--idle" => plan.idle = Some(value()?.parse()?),
            "--" => plan.server = arguments.by_ref().collect(),
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    plan.tcp |= plan.connections > 1 || plan.flood.is_some();
    plan.tcp |= matches!(plan.framing, Framing::Post | Framing::WebSocket);
    check(&plan)?;
    Ok(plan)
}

/// Refuses what this machine, or the server, is not to be asked.
fn check(plan: &Plan) -> Result<(), Problem> {
    let counts = [
        Some(plan.connections),
        plan.flood,
        plan.subscribers,
        plan.idle,
    ];
    let most = counts
        .into_iter()
        .flatten()
        .all(|it| (1..=2000).contains(&it));
    if !most {
        return Err("1 to 2000 connections".into());
    }
    if !(1..=call::MOST_IN_FLIGHT).contains(&plan.window) {
        return Err("no such number in flight".into());
    }
    if plan.time.as_secs() > 600 {
        return Err("at most 600 seconds".into());
    }
    if plan.task.dialect == Dialect::Mcp && plan.task.work != Work::Add {
        return Err("over MCP there is `add` only".into());
    }
    if matches!(plan.framing, Framing::Post) && (plan.flood.is_some() || plan.rate.is_some()) {
        return Err("a POST is one call at a time".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Plan, Problem, parse};

    fn parsed(line: &str) -> Result<Plan, Problem> {
        parse(line.split(' ').map(str::to_owned))
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
        assert!(parsed("--dialect mcp --call add -- rmcp").is_ok());
        assert!(parsed("--dialect mcp --call place -- rmcp").is_err());
    }
}

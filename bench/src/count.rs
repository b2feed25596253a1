//! Allocations: counted by a child of its own, `count`, and read from its lines.
//!
//! The reply buffer is the caller's and is reused, so a contestant that only
//! writes into it allocates nothing.

use std::alloc::System;
use std::process::Command;

use caudal_core::{Message as Decoded, Policy, decode, encode};
use serde::Serialize;
use serde_json::{Value, json};
use stats_alloc::{Region, StatsAlloc};

use crate::callgrind::Case;
use crate::contestant::{self, DECODED, DECODERS, SERVERS};
use crate::message::{self, Message};
use crate::{neighbour, time};

/// What one contestant allocates for one message.
#[derive(Clone, Debug, Serialize)]
pub struct Count {
    pub contestant: String,
    pub message: String,
    pub allocations: f64,
    pub bytes: f64,
}

/// The size of the one large message, and the label of its lines.
pub const LARGE: usize = 4 * 1024 * 1024;
pub const LARGE_NAME: &str = "large";

/// Builds and runs the counting binary.
///
/// # Errors
/// It could not be built or run, or printed something else.
pub fn run() -> Result<Vec<Count>, String> {
    counted(&[])
}

/// The allocations of some cases, in their order.
///
/// # Errors
/// As [`run`].
pub fn of_cases(cases: &[Case]) -> Result<Vec<Count>, String> {
    let words = cases
        .iter()
        .flat_map(|case| [&*case.contestant, &*case.message]);
    let counts = counted(&words.collect::<Vec<_>>())?;
    match counts.len() == cases.len() {
        true => Ok(counts),
        false => Err("count did not count everything".to_owned()),
    }
}

fn counted(arguments: &[&str]) -> Result<Vec<Count>, String> {
    let [program] = neighbour::build("caudal-bench", ["count"])?;
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|e| format!("count: {e}"))?.stdout;
    let lines = String::from_utf8(output).map_err(|e| e.to_string())?;
    lines.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<Count, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [contestant, message, allocations, bytes] = words[..] else {
        return Err(format!("count printed `{line}`"));
    };
    let number = |word: &str| word.parse().map_err(|_| format!("count printed `{line}`"));
    Ok(Count {
        contestant: contestant.to_owned(),
        message: message.to_owned(),
        allocations: number(allocations)?,
        bytes: number(bytes)?,
    })
}

/// The counting binary: one line for each contestant and message, or only for
/// those it is told.
///
/// # Panics
/// There is no such contestant or message.
pub fn child(allocator: &StatsAlloc<System>) {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if !asked.is_empty() {
        for pair in asked.chunks(2) {
            let [name, message] = pair else {
                panic!("count [CONTESTANT MESSAGE]…");
            };
            let message = message::named(message).expect("a message");
            count(allocator, name, &message);
        }
        return;
    }
    for message in message::all() {
        for name in SERVERS
            .into_iter()
            .filter(|name| contestant::takes(name, &message))
        {
            count(allocator, name, &message);
        }
        for name in DECODERS
            .into_iter()
            .filter(|_| DECODED.contains(&message.name))
        {
            count(allocator, name, &message);
        }
    }
    large(allocator);
}

fn count(allocator: &StatsAlloc<System>, name: &str, message: &Message) {
    const MESSAGES: u32 = 40;
    let mut contestant = contestant::named(name).expect("a contestant");
    let mut out = Vec::new();
    time::run(&mut *contestant, message, 10, &mut out);
    let region = Region::new(allocator);
    time::run(&mut *contestant, message, MESSAGES, &mut out);
    let change = region.change();
    let allocations = (change.allocations + change.reallocations) as f64 / f64::from(MESSAGES);
    let bytes = change.bytes_allocated as f64 / f64::from(MESSAGES);
    println!("{name} {} {allocations} {bytes}", message.name);
}

/// One message of 4 MiB, reply buffer included. For caudal-core this prints all
/// it ever allocated, which no peak can exceed; for `Value` what it still holds
/// at the end, which no peak can be below.
fn large(allocator: &StatsAlloc<System>) {
    let bytes = message::zeros(LARGE);
    let mut policy = Policy::default();
    policy.max_message = bytes.len();

    let region = Region::new(allocator);
    let mut out = Vec::new();
    let Decoded::Request(request) = decode(&bytes, &policy) else {
        panic!("a request");
    };
    encode::reply_raw(&mut out, request.id, request.params.expect("params"));
    let change = region.change();
    let allocations = change.allocations + change.reallocations;
    println!(
        "caudal-core {LARGE_NAME} {allocations} {}",
        change.bytes_allocated
    );
    drop(out);

    let region = Region::new(allocator);
    let mut out = Vec::new();
    let mut request: Value = serde_json::from_slice(&bytes).expect("JSON");
    let result = request["params"].take();
    let reply = json!({ "jsonrpc": "2.0", "id": request["id"].take(), "result": result });
    serde_json::to_writer(&mut out, &reply).expect("a Value serialises");
    let change = region.change();
    let held = change.bytes_allocated - change.bytes_deallocated;
    let allocations = change.allocations + change.reallocations;
    println!("value {LARGE_NAME} {allocations} {held}");
}

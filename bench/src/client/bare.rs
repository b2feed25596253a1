//! The bare client: what a socket and serde cost, and nothing else.
//!
//! ```text
//! ┌→ one write of as many calls as were answered
//! └─ one read → lines → serde ←┘
//! ```
//!
//! It blocks, trusts its input, and waits for the replies in no table.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use memchr::memchr;
use serde::Deserialize;

use super::{Amount, Called, Clock, Problem, WINDOW};

const CHUNK: usize = 64 * 1024;

#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: u64,
}

pub(super) fn run(port: u16, amount: Amount) -> Result<Called, Problem> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut input = vec![0; CHUNK];
    if let Amount::Time(time) = amount {
        call(&stream, &mut input, u64::MAX, time / 8)?;
    }
    let clock = Clock::start(amount);
    let calls = match amount {
        Amount::Calls(calls) => call(&stream, &mut input, calls, Duration::from_secs(60))?,
        Amount::Time(time) => call(&stream, &mut input, u64::MAX, time)?,
    };
    Ok(clock.stop(calls))
}

/// Calls for `time`, or `most` times; returns how many were answered.
fn call(
    mut stream: &TcpStream,
    input: &mut [u8],
    most: u64,
    time: Duration,
) -> Result<u64, Problem> {
    let until = Instant::now() + time;
    let mut output = Vec::new();
    let (mut sent, mut answered, mut end) = (0, 0, 0);
    loop {
        let room = (WINDOW - (sent - answered)).min(most - sent);
        if Instant::now() < until {
            for id in sent..sent + room {
                write(id, &mut output);
            }
            sent += room;
        }
        if sent == answered {
            return Ok(answered);
        }
        if !output.is_empty() {
            stream.write_all(&output)?;
            output.clear();
        }
        match stream.read(&mut input[end..])? {
            0 => return Err("the server has gone".into()),
            read => end += read,
        }
        let mut taken = 0;
        while let Some(length) = memchr(b'\n', &input[taken..end]) {
            let text = std::str::from_utf8(&input[taken..taken + length])?;
            let reply: Reply = serde_json::from_str(text)?;
            if reply.result != reply.id + 7 {
                return Err(format!("wrong reply: {text}").into());
            }
            answered += 1;
            taken += length + 1;
        }
        input.copy_within(taken..end, 0);
        end -= taken;
    }
}

#[inline]
fn write(id: u64, output: &mut Vec<u8>) {
    let number =
        |output: &mut Vec<u8>| serde_json::to_writer(output, &id).expect("a Vec takes everything");
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    number(output);
    output.extend_from_slice(br#","method":"add","params":["#);
    number(output);
    output.extend_from_slice(b",7]}\n");
}

//! The bare loop: what a pipe and serde cost, and nothing else.
//!
//! ```text
//! read ≤ 64 KiB → frames → serde → add → one buffer → one write
//! ```
//!
//! It blocks, trusts its input, and knows no rule of JSON-RPC beyond its shape.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd as _;

use caudal_bench::order;
use memchr::{memchr, memmem};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Framing, Outcome, Transport, accept, listen};

const CHUNK: usize = 64 * 1024;

#[derive(Deserialize)]
struct Request<'a, P> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    params: P,
}

pub(super) fn serve(transport: Transport, framing: Framing) -> Outcome {
    match transport {
        Transport::Stdio => {
            // Without the buffers of `std::io`: this loop has its own.
            let stdin = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
            let stdout = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
            Ok(answer_all(stdin, stdout, framing)?)
        }
        Transport::Tcp => {
            let listener = listen()?;
            loop {
                let stream = accept(&listener)?;
                std::thread::spawn(move || answer_all(&stream, &stream, framing));
            }
        }
    }
}

fn answer_all(mut from: impl Read, mut to: impl Write, framing: Framing) -> std::io::Result<()> {
    let mut input = Vec::new();
    let mut end = 0;
    let mut output = Vec::new();
    loop {
        // Only grows when a message is longer than a chunk.
        if input.len() < end + CHUNK {
            input.resize(end + CHUNK, 0);
        }
        let read = from.read(&mut input[end..end + CHUNK])?;
        if read == 0 {
            return Ok(());
        }
        end += read;
        let taken = match framing {
            Framing::Line => lines(&input[..end], &mut output),
            Framing::Header => headed(&input[..end], &mut output),
        };
        if !output.is_empty() {
            to.write_all(&output)?;
            output.clear();
        }
        input.copy_within(taken..end, 0);
        end -= taken;
    }
}

/// Answers the complete lines; returns how many bytes they take.
fn lines(input: &[u8], output: &mut Vec<u8>) -> usize {
    let mut taken = 0;
    while let Some(length) = memchr(b'\n', &input[taken..]) {
        answer(&input[taken..taken + length], output);
        output.push(b'\n');
        taken += length + 1;
    }
    taken
}

/// Answers the complete messages behind headers; returns how many bytes they
/// take.
fn headed(input: &[u8], output: &mut Vec<u8>) -> usize {
    let mut taken = 0;
    let mut reply = Vec::with_capacity(128);
    while let Some(head) = memmem::find(&input[taken..], b"\r\n\r\n") {
        let body = taken + head + 4;
        // The only header its one client sends.
        let length = input[taken..taken + head].trim_ascii();
        let length = length.strip_prefix(b"Content-Length: ").expect("a length");
        let length = length
            .iter()
            .fold(0, |all, digit| all * 10 + usize::from(digit - b'0'));
        if input.len() < body + length {
            break;
        }
        reply.clear();
        answer(&input[body..body + length], &mut reply);
        output.extend_from_slice(b"Content-Length: ");
        serde_json::to_writer(&mut *output, &reply.len()).expect("a Vec takes everything");
        output.extend_from_slice(b"\r\n\r\n");
        output.extend_from_slice(&reply);
        taken = body + length;
    }
    taken
}

#[inline]
pub(super) fn answer(message: &[u8], output: &mut Vec<u8>) {
    // Cheaper than `from_slice`, which checks every string on its own.
    let text = std::str::from_utf8(message).expect("UTF-8");
    let before = output.len();
    output.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    match serde_json::from_str::<Request<'_, (i64, i64)>>(text) {
        Ok(request) if request.method == "add" => {
            output.extend_from_slice(request.id.get().as_bytes());
            output.extend_from_slice(br#","result":"#);
            let (a, b) = request.params;
            serde_json::to_writer(&mut *output, &(a + b)).expect("a Vec takes everything");
        }
        // They pay for the second look, so that `add` pays for nothing.
        _ if text.starts_with('[') => {
            output.truncate(before);
            return answer_batch(text, output);
        }
        _ => {
            let request: Request<'_, &RawValue> = serde_json::from_str(text).expect("a request");
            output.extend_from_slice(request.id.get().as_bytes());
            output.extend_from_slice(br#","result":"#);
            let params = request.params.get();
            match request.method {
                "echo" => output.extend_from_slice(params.as_bytes()),
                "place" => {
                    let order = serde_json::from_str(params).expect("an order");
                    let receipt = order::place(&order);
                    serde_json::to_writer(&mut *output, &receipt).expect("plain data");
                }
                other => panic!("no method {other}"),
            }
        }
    }
    output.push(b'}');
}

#[cold]
fn answer_batch(text: &str, output: &mut Vec<u8>) {
    let requests: Vec<&RawValue> = serde_json::from_str(text).expect("requests");
    for (number, request) in requests.iter().enumerate() {
        output.push(if number == 0 { b'[' } else { b',' });
        answer(request.get().as_bytes(), output);
    }
    output.push(b']');
}

//! A whole server on the ground floor: reads requests on stdin, answers on
//! stdout, with nothing but `std` for the I/O.
//!
//!     cargo run --example calculator                 # a message a line
//!     cargo run --example calculator -- --header     # Content-Length frames
//!
//! Try: {"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}

use std::io::{self, Read, Write};
use std::process::ExitCode;

use caudal_core::{
    FrameError, FrameReader, Framing, Id, Incident, JsonRpcError, Message, Policy, RawJson,
    Request, decode, encode,
};

fn main() -> ExitCode {
    let framing = match std::env::args().nth(1).as_deref() {
        None => Framing::Line,
        Some("--header") => Framing::Header,
        Some(other) => {
            eprintln!("calculator: unknown argument `{other}`; the only one is --header");
            return ExitCode::FAILURE;
        }
    };
    match serve(framing) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calculator: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers what comes in until it ends.
fn serve(framing: Framing) -> io::Result<()> {
    let policy = Policy::default();
    let mut frames = FrameReader::new(framing, policy.max_message);
    let mut chunk = [0; 64 * 1024];
    loop {
        let count = io::stdin().read(&mut chunk)?;
        frames.push(chunk.get(..count).unwrap_or_default());
        // All answers to what one read brought leave in one write.
        let mut out = Vec::new();
        let lost = answer_frames(&mut frames, framing, &policy, count == 0, &mut out);
        io::stdout().write_all(&out)?;
        io::stdout().flush()?;
        match lost {
            Some(error) => return Err(io::Error::other(error)),
            None if count == 0 => return Ok(()),
            None => {}
        }
    }
}

/// Answers every whole frame; returns the fault that ends the stream, if any.
fn answer_frames(
    frames: &mut FrameReader,
    framing: Framing,
    policy: &Policy,
    ended: bool,
    out: &mut Vec<u8>,
) -> Option<FrameError> {
    let mut body = Vec::new();
    loop {
        let next = if ended {
            frames.finish()
        } else {
            frames.next_frame()
        };
        body.clear();
        let lost = match next {
            Ok(Some(frame)) => {
                answer(decode(frame, policy), policy, &mut body);
                None
            }
            Ok(None) => return None,
            Err(error) => {
                encode::error(&mut body, Id::NULL, &error.to_wire(policy.error_detail));
                error.is_fatal().then_some(error)
            }
        };
        if !body.is_empty() {
            let Ok(()) = framing.write(out, |out| {
                out.extend_from_slice(&body);
                Ok::<_, std::convert::Infallible>(())
            });
        }
        if lost.is_some() {
            return lost;
        }
    }
}

/// Appends the answer to a message, if it is owed one.
fn answer(message: Message<'_>, policy: &Policy, out: &mut Vec<u8>) {
    match message {
        Message::Request(request) => {
            if let Err(error) = call(&request, out) {
                encode::error(out, request.id, &error);
            }
        }
        Message::Batch(entries) => {
            encode::batch(out, entries, |out, entry| answer(entry, policy, out));
        }
        Message::Invalid(invalid) if invalid.wants_answer() => {
            encode::error(out, invalid.id, &invalid.to_wire(policy.error_detail));
        }
        _ => {}
    }
}

/// Runs a method and appends its result.
fn call(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), JsonRpcError> {
    let written = match request.method.as_ref() {
        "add" => {
            let (a, b): (i64, i64) = request.read_params()?;
            let sum = a
                .checked_add(b)
                .ok_or(JsonRpcError::new(2, "the sum is too large"))?;
            encode::reply(out, request.id, &sum)
        }
        "divide" => match request.read_params::<(f64, f64)>()? {
            (_, 0.0) => return Err(JsonRpcError::new(1, "division by zero")),
            (a, b) => encode::reply(out, request.id, &(a / b)),
        },
        "echo" => {
            encode::reply_raw(out, request.id, request.params.unwrap_or(RawJson::NULL));
            Ok(())
        }
        unknown => return Err(JsonRpcError::unknown_method(unknown)),
    };
    // The cause is logged here, and only its number is sent.
    written.map_err(|error| {
        let incident = Incident::new(error);
        eprintln!("calculator: {incident:?}");
        incident.to_wire()
    })
}

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
    FrameError, FrameReader, Framing, JsonRpcError, Message, Policy, RawJson, Request, decode,
    encode,
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
    loop {
        let next = if ended {
            frames.finish()
        } else {
            frames.next_frame()
        };
        let (reply, lost) = match next {
            Ok(Some(frame)) => (answer(decode(frame, policy), policy), None),
            Ok(None) => return None,
            Err(error) => {
                let reply = refuse(&error.to_wire(policy.error_detail));
                (Some(reply), error.is_fatal().then_some(error))
            }
        };
        if let Some(reply) = reply {
            let Ok(()) = framing.write(out, |out| {
                out.extend_from_slice(&reply);
                Ok::<_, std::convert::Infallible>(())
            });
        }
        if lost.is_some() {
            return lost;
        }
    }
}

/// The answer to a message, if it is owed one.
fn answer(message: Message<'_>, policy: &Policy) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match message {
        Message::Request(request) => {
            if let Err(error) = call(&request, &mut out) {
                encode::error(&mut out, request.id, &error);
            }
        }
        Message::Batch(entries) => {
            let entries = entries.into_iter();
            let answers: Vec<_> = entries.filter_map(|entry| answer(entry, policy)).collect();
            if answers.is_empty() {
                return None;
            }
            out = [b"[", answers.join(&b","[..]).as_slice(), b"]"].concat();
        }
        Message::Invalid(invalid) if invalid.wants_answer() => {
            encode::error(&mut out, invalid.id, &invalid.to_wire(policy.error_detail));
        }
        _ => return None,
    }
    Some(out)
}

/// Runs a method and writes its result.
fn call(request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), JsonRpcError> {
    let params = request.params.unwrap_or(RawJson::NULL);
    let numbers = || {
        params
            .read::<(f64, f64)>()
            .map_err(|error| JsonRpcError::invalid_params().and_data(error.to_string()))
    };
    let result = match request.method.as_ref() {
        "add" => numbers().map(|(a, b)| a + b)?,
        "divide" => match numbers()? {
            (_, 0.0) => return Err(JsonRpcError::new(1, "division by zero")),
            (a, b) => a / b,
        },
        "echo" => {
            encode::reply_raw(out, request.id, params);
            return Ok(());
        }
        unknown => return Err(JsonRpcError::unknown_method(unknown)),
    };
    encode::reply(out, request.id, &result)
        .map_err(|error| caudal_core::Incident::new(error).to_wire())
}

/// The answer to bytes that are no frame.
fn refuse(error: &JsonRpcError) -> Vec<u8> {
    let mut out = Vec::new();
    encode::error(&mut out, caudal_core::Id::NULL, error);
    out
}

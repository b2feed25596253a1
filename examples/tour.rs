//! A tour of the ground floor: what goes in, what it is read as, what comes
//! out.
//!
//!     cargo run --example tour

use std::error::Error;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use caudal_core::{
    Decoder, FrameReader, Framing, IdFormat, Incident, JsonRpcError, JsonRpcNotification,
    JsonRpcRequest, JsonRpcResponse, Message, Pending, Policy, decode, encode,
};

type Failure = Box<dyn Error>;

/// A part of the tour: a title and what there is to see.
fn part(title: &str, lines: &[String]) -> String {
    format!("{title}\n    {}\n\n", lines.join("\n    "))
}

fn main() -> Result<(), Failure> {
    let tour = [
        owned_messages()?,
        a_stream_of_frames()?,
        params_in_one_pass()?,
        calls_that_wait()?,
        a_failure_inside()?,
    ];
    match std::io::stdout().write_all(tour.concat().as_bytes()) {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

fn owned_messages() -> Result<String, Failure> {
    let params = serde_json::json!([1, 2]);
    Ok(part(
        "Messages, built in one line each",
        &[
            serde_json::to_string(&JsonRpcRequest::new(1, "add", params))?,
            serde_json::to_string(&JsonRpcNotification::new("tick", None))?,
            serde_json::to_string(&JsonRpcResponse::success(1, 3))?,
            serde_json::to_string(&JsonRpcResponse::error(None, JsonRpcError::parse_error()))?,
        ],
    ))
}

fn a_stream_of_frames() -> Result<String, Failure> {
    let policy = Policy::default();
    let mut frames = FrameReader::new(Framing::Line, policy.max_message);
    frames.push(
        br#"{"jsonrpc":"2.0","id":1.0,"method":"add","params":[1,2]}
{"jsonrpc":"2.0","method":"tick"}
[{"jsonrpc":"2.0","id":"a","method":"add","params":[3,4]},7]
{"jsonrpc":"2.0","id":2,"method":5}
{"jsonrpc":"2.0","id":3,"method":"add","params":[1 2]}
{"jsonrpc":"2.0","id":4,"result":"pong"}
"#,
    );
    let mut lines = Vec::new();
    while let Some(frame) = frames.next_frame()? {
        lines.push(format!("--> {}", String::from_utf8_lossy(frame)));
        let mut out = Vec::new();
        match decode(frame, &policy) {
            Message::Batch(entries) => {
                encode::batch(&mut out, entries, |out, entry| answer(&entry, &policy, out));
            }
            single => answer(&single, &policy, &mut out),
        }
        lines.push(match out.is_empty() {
            true => "    (a notification or a response: no answer)".to_owned(),
            false => format!("<-- {}", String::from_utf8(out)?),
        });
    }
    let title = "A stream, frame by frame; an id is echoed to the letter";
    Ok(part(title, &lines))
}

fn answer(message: &Message<'_>, policy: &Policy, out: &mut Vec<u8>) {
    match message {
        Message::Request(request) => match request.read_params::<(i64, i64)>() {
            Ok((a, b)) => encode::reply(out, request.id, &(a + b)).expect("integers serialise"),
            Err(error) => encode::error(out, request.id, &error),
        },
        Message::Invalid(invalid) if invalid.wants_answer() => {
            encode::error(out, invalid.id, &invalid.to_wire(policy.error_detail));
        }
        _ => {}
    }
}

fn params_in_one_pass() -> Result<String, Failure> {
    let policy = Policy::default();
    let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"greet","params":{"name":"Ada"}}"#;
    #[derive(serde::Deserialize)]
    struct Greet<'a> {
        name: &'a str,
    }
    let mut decoder = Decoder::new(bytes, &policy);
    let method = decoder
        .method_before_params()
        .ok_or("a method before params")?;
    let greet: Greet<'_> = decoder.read_params().ok_or("params")??;
    let Message::Request(request) = decoder.finish() else {
        return Err("a request".into());
    };
    let read = format!(
        "{method}({}) for id {}, without a copy",
        greet.name, request.id
    );
    Ok(part("Typed params, read in the same pass", &[read]))
}

fn calls_that_wait() -> Result<String, Failure> {
    let now = Instant::now();
    let mut pending = Pending::new(1024, IdFormat::Integer);
    let first = pending.insert("first", Some(now + Duration::from_secs(30)))?;
    pending.insert("second", Some(now + Duration::from_secs(5)))?;
    let mut out = Vec::new();
    encode::call(&mut out, first, "ping", &())?;
    let mut lines = vec![format!("--> {}", String::from_utf8(out)?)];

    let reply = format!(r#"{{"jsonrpc":"2.0","id":{first},"result":"pong"}}"#);
    let policy = Policy::default();
    let Message::Response(response) = decode(reply.as_bytes(), &policy) else {
        return Err("a response".into());
    };
    lines.push(format!("<-- {reply}"));
    lines.push(format!("answered: {:?}", pending.take(response.id)));
    lines.push(format!("once more: {:?}", pending.take(response.id)));
    for (id, waiter) in pending.expire(now + Duration::from_secs(5)) {
        lines.push(format!("timed out: {waiter:?}, id {id}"));
    }
    Ok(part("Calls of our own, and who waits for them", &lines))
}

fn a_failure_inside() -> Result<String, Failure> {
    let incident = Incident::new(std::io::Error::other("disk 7 is gone"));
    let cause = incident.source().ok_or("a cause")?;
    Ok(part(
        "A failure inside: the cause stays here, its number travels",
        &[
            format!("log:  {incident}: {cause}"),
            format!("sent: {}", serde_json::to_string(&incident.to_wire())?),
        ],
    ))
}

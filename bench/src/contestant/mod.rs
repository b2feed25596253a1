//! Contestants: bytes in, reply appended to a buffer that is reused.

mod codec;
mod encode;
mod floor;
mod frames;
mod jsonrpsee;
mod pending;
mod router;
mod sonic;

use caudal_core::Framing;
use serde_json::Value;

use self::frames::Frames;
use crate::message::Message;

/// A server in memory, or a decoder alone.
pub trait Contestant {
    /// Takes one message; a server appends its reply to `out`.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>);
}

/// The servers, in the order of the tables.
pub const SERVERS: [&str; 4] = ["caudal", "caudal-core", "floor", "jsonrpsee"];

/// The decoders, and the messages they decode.
pub const DECODERS: [&str; 2] = ["sonic-rs", "caudal-scan"];
pub const DECODED: [&str; 3] = ["add", "pass-1k", "pass-100k"];

/// The contestant called `name`.
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Contestant>> {
    Some(match name {
        // The guard calls it by what it is.
        "caudal" | "router" => Box::new(router::Server::default()),
        "caudal-core" => Box::new(codec::Server::default()),
        "floor" => Box::new(floor::Server),
        "jsonrpsee" => Box::new(jsonrpsee::Server::new()),
        "caudal-scan" => Box::new(codec::Decoder::default()),
        "sonic-rs" => Box::new(sonic::Decoder),
        "encode-reply" => Box::new(encode::Reply),
        "encode-raw-1k" => Box::new(encode::Raw::default()),
        "encode-error" => Box::new(encode::Error::default()),
        "encode-call" => Box::new(encode::Call),
        "encode-notification" => Box::new(encode::Notification),
        "frames-line" => Box::new(Frames::new(Framing::Line)),
        "frames-header" => Box::new(Frames::new(Framing::Header)),
        "frames-concatenated" => Box::new(Frames::new(Framing::Concatenated)),
        _ => return counted(name),
    })
}

/// Messages with a number in their name: `KIND-NUMBER`.
fn counted(name: &str) -> Option<Box<dyn Contestant>> {
    let (kind, count) = name.rsplit_once('-')?;
    let count = count.parse().ok()?;
    Some(match kind {
        "pending" => Box::new(pending::Calls { waiting: count }),
        "waiting" => Box::new(pending::Steady::new(count)),
        _ => return None,
    })
}

/// Lets a contestant take `message` so many times.
pub fn run(contestant: &mut dyn Contestant, message: &Message, times: u32, out: &mut Vec<u8>) {
    for _ in 0..times {
        out.clear();
        contestant.take(std::hint::black_box(&message.bytes), out);
        std::hint::black_box(&*out);
    }
}

/// Fails unless every contestant answers every message rightly.
///
/// # Errors
/// Says who answered what.
pub fn check(messages: &[Message]) -> Result<(), String> {
    for message in messages {
        for name in SERVERS {
            let mut out = Vec::new();
            let mut server = named(name).ok_or("a server without a name")?;
            server.take(&message.bytes, &mut out);
            let reply: Value = serde_json::from_slice(&out).unwrap_or_default();
            if reply != message.reply {
                let wrong: String = String::from_utf8_lossy(&out).chars().take(200).collect();
                return Err(format!("{name} answers {}: {wrong}", message.name));
            }
        }
    }
    Ok(())
}

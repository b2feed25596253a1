//! The client's side of HTTP.
//!
//! ```text
//! exchange   the transport: a POST of each message, many at once
//!   ├→ lane      one connection, and the exchange that is under way on it
//!   ├→ wake      which lanes are worth a look
//!   └→ answer    what a response means for the calls that wait for it
//! error      why a request has no answer
//! status     a response that is no answer
//! origin     the server: dialled, and what every request says
//! events     server-sent events, cut out of bytes
//! pool       connections for sessions
//! ```

pub(crate) mod answer;
pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod events;
mod exchange;
mod lane;
pub(crate) mod origin;
#[cfg(feature = "session")]
pub(crate) mod pool;
pub(crate) mod status;
mod wake;

use std::io;
use std::io::BufRead;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use super::ClientOptions;
use crate::config::Config;
use crate::endpoint::Target;
use crate::transport::Transport;
use exchange::Exchanges;
use origin::Origin;

/// A transport that makes a POST of each message.
///
/// It dials once, so that a server that is not there is found at once.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let origin = Arc::new(Origin::new(target, options)?);
    let sender = Arc::clone(&origin).dial().await?;
    Ok(Box::new(Exchanges::new(origin, sender, config)))
}

/// Cuts the first line off, without its end.
pub(crate) fn cut_line(out: &mut BytesMut) -> Bytes {
    /// What is larger is worth more than a copy.
    const COPIED: usize = 16 << 10;
    let length = (&out[..]).skip_until(b'\n').unwrap_or(out.len());
    let end = match out.get(length.wrapping_sub(1)) {
        Some(b'\n') => length - 1,
        _ => length,
    };
    if length > COPIED {
        let mut line = out.split_to(length);
        line.truncate(end);
        return line.freeze();
    }
    let line = Bytes::copy_from_slice(out.get(..end).unwrap_or_default());
    out.advance(length);
    line
}

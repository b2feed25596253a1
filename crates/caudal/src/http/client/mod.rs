//! The client's side of HTTP.
//!
//! ```text
//! post       the transport of single requests: a POST of each message, many at once
//!   ├→ woken     wakers of its requests
//!   ├→ pool      connections to the server, also for sessions
//!   │    └→ origin   the server: dialled, and the headers of every request
//!   └→ read      a response, whole or as events
//!        └→ response the calls of a message, and the messages in its response
//! error      failures of requests
//! status     responses that are no answer
//! events     server-sent events, cut out of bytes
//! ```

pub(crate) mod dial;
pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod origin;
pub(crate) mod pool;
mod post;
pub(crate) mod read;
pub(crate) mod response;
pub(crate) mod status;
mod woken;

use std::io;
use std::io::BufRead;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use super::ClientOptions;
use crate::config::Config;
use crate::endpoint::Target;
use crate::transport::Transport;
use origin::Origin;
use pool::Pool;
use post::PostTransport;

/// A transport that makes a POST of each message.
///
/// It dials once, so that a server that is not there is found at once.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let origin = Arc::new(Origin::new(target, options)?);
    let pool = Pool::new(Arc::clone(&origin));
    pool.dial().await?;
    Ok(Box::new(PostTransport::new(origin, pool, config)))
}

/// Cuts the first line off, without its end.
pub(crate) fn cut_line(out: &mut BytesMut) -> Bytes {
    /// Lines up to this size are copied, so that the buffer can be used again.
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

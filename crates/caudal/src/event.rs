//! A notification that is serialised once and sent to many.

use std::convert::Infallible;

use bytes::BytesMut;
use caudal_core::{EncodeError, Framing, encode};
use serde::Serialize;

/// A notification that is serialised once and sent to many with
/// [`Peer::publish`](crate::Peer::publish).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::{Event, Peer, Router};
///
/// # let (one, _a) = Peer::pair(Router::new(), Router::new());
/// # let (two, _b) = Peer::pair(Router::new(), Router::new());
/// let event = Event::new("tick", [1])?;
/// for subscriber in [&one, &two] {
///     subscriber.publish(&event).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Event {
    /// As it is sent where messages are lines, which is nearly everywhere.
    line: bytes::Bytes,
}

impl Event {
    /// Serialises a notification.
    ///
    /// # Errors
    /// The method is blank, or the params do not serialise or are neither array
    /// nor object.
    pub fn new(method: &str, params: impl Serialize) -> Result<Self, EncodeError> {
        let mut line = Vec::new();
        Framing::Line.write(&mut line, |out| encode::notification(out, method, &params))?;
        Ok(Self { line: line.into() })
    }

    pub(crate) fn write(&self, out: &mut BytesMut, framing: Framing) {
        if framing == Framing::Line {
            return out.extend_from_slice(&self.line);
        }
        // With what delimits it.
        out.reserve(self.line.len() + 32);
        let written: Result<(), Infallible> = framing.write(out, |out| {
            out.extend_from_slice(self.line.trim_ascii_end());
            Ok(())
        });
        let Ok(()) = written;
    }
}

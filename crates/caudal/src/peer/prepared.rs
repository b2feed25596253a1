//! A notification that is serialised once and sent to many.

use std::convert::Infallible;

use bytes::Bytes;
use caudal_core::{EncodeError, Framing, encode};
use serde::Serialize;

/// A notification that is serialised once and sent to many with
/// [`Peer::publish`](crate::Peer::publish) or
/// [`Peer::try_publish`](crate::Peer::try_publish), which never waits.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::{PreparedNotification, Peer, Router};
///
/// # let (one, _a) = Peer::pair(Router::new(), Router::new());
/// # let (two, _b) = Peer::pair(Router::new(), Router::new());
/// let event = PreparedNotification::new("tick", [1])?;
/// for subscriber in [&one, &two] {
///     subscriber.publish(&event).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct PreparedNotification {
    /// `Content-Length: N`, a blank line, the message, and a line break.
    text: Bytes,
    /// Offset in `text` at which the message begins.
    start: usize,
}

impl PreparedNotification {
    /// Serialises a notification.
    ///
    /// # Errors
    /// The method is blank, or the params do not serialise or are neither array
    /// nor object.
    pub fn new(method: &str, params: impl Serialize) -> Result<Self, EncodeError> {
        let mut line = Vec::new();
        Framing::Line.write(&mut line, |out| encode::notification(out, method, &params))?;
        let mut text = Vec::with_capacity(line.len() + 32);
        let written: Result<(), Infallible> = Framing::Header.write(&mut text, |out| {
            out.extend_from_slice(line.trim_ascii_end());
            Ok(())
        });
        let Ok(()) = written;
        text.push(b'\n');
        Ok(Self {
            start: text.len() - line.len(),
            text: text.into(),
        })
    }

    /// Returns the frame for connections with this framing.
    pub(crate) fn frame(&self, framing: Framing) -> Bytes {
        match framing {
            Framing::Header => self.text.slice(..self.text.len() - 1),
            _ => self.text.slice(self.start..),
        }
    }
}

#[cfg(test)]
mod tests {
    use caudal_core::{Framing, encode};
    use serde_json::value::RawValue;

    use super::PreparedNotification;

    #[test]
    fn an_event_is_framed_as_any_notification_is() {
        let params = RawValue::from_string("[\n1,\r\n2 ]".into()).unwrap();
        let event = PreparedNotification::new("tick", &params).unwrap();
        for framing in [Framing::Line, Framing::Concatenated] {
            assert_eq!(
                event.frame(framing),
                "{\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[ 1,  2 ]}\n"
            );
        }
        let event = PreparedNotification::new("tick", [1]).unwrap();
        for framing in [Framing::Line, Framing::Header, Framing::Concatenated] {
            let mut frame = Vec::new();
            framing
                .write(&mut frame, |out| encode::notification(out, "tick", &[1]))
                .unwrap();
            assert_eq!(event.frame(framing), frame, "{framing:?}");
        }
    }
}

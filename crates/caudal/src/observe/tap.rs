//! A wire tap: every message of a connection, seen by one observer.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use caudal_core::{FrameReader, Framing};
use serde_json::Value;

use crate::call::incident;

/// Which way a message went.
///
/// ```
/// assert_eq!(caudal::Direction::Received.to_string(), "<--");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// From the other side to us.
    Received,
    /// From us to the other side.
    Sent,
}

/// `-->` for what was sent and `<--` for what was received.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Received => "<--",
            Self::Sent => "-->",
        })
    }
}

/// Sees every message of a connection, as it stands on the wire.
///
/// It runs in the connection's own task: be quick, and do not block. Any
/// `Fn(Direction, &[u8])` is one; [`Redacted`] keeps secrets out of it.
///
/// ```
/// use caudal::{Config, Direction, Redacted};
///
/// let config = Config::default().tap(Redacted::new(["password"], |direction, message: &str| {
///     eprintln!("{direction} {message}");
/// }));
/// ```
pub trait Tap: Send + Sync + 'static {
    /// Is called for each message, without its framing. A received one may be
    /// anything, also not JSON.
    fn message(&self, direction: Direction, bytes: &[u8]);
}

impl<F: Fn(Direction, &[u8]) + Send + Sync + 'static> Tap for F {
    fn message(&self, direction: Direction, bytes: &[u8]) {
        self(direction, bytes);
    }
}

/// A tap that shows messages with the values of some members hidden.
///
/// Members are hidden by name at any depth. Of input that is not JSON only the length is
/// shown, because secrets in it cannot be found.
///
/// ```
/// use caudal::{Direction, Redacted, Tap};
/// use std::sync::{Arc, Mutex};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = seen.clone();
/// let tap = Redacted::new(["token"], move |_, message: &str| {
///     log.lock().unwrap().push(message.to_owned());
/// });
/// tap.message(Direction::Sent, br#"{"params":{"token":"secret","n":1}}"#);
/// assert_eq!(seen.lock().unwrap()[0], r#"{"params":{"n":1,"token":"***"}}"#);
/// ```
pub struct Redacted<F> {
    members: Vec<String>,
    show: F,
}

impl<F: Fn(Direction, &str) + Send + Sync + 'static> Redacted<F> {
    /// Hides the values of these members, and hands the rest to `show`.
    ///
    /// ```
    /// let tap = caudal::Redacted::new(["token"], |_, message: &str| eprintln!("{message}"));
    /// # let _ = tap;
    /// ```
    pub fn new(members: impl IntoIterator<Item = impl Into<String>>, show: F) -> Self {
        Self {
            members: members.into_iter().map(Into::into).collect(),
            show,
        }
    }

    /// Depth is bounded: `serde_json` reads 128 levels and no more.
    fn hide(&self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(members) => {
                for (name, value) in members {
                    match self.members.contains(name) {
                        true => *value = Value::from("***"),
                        false => self.hide(value),
                    }
                }
            }
            _ => {}
        }
    }
}

impl<F: Fn(Direction, &str) + Send + Sync + 'static> Tap for Redacted<F> {
    fn message(&self, direction: Direction, bytes: &[u8]) {
        match serde_json::from_slice::<Value>(bytes) {
            Ok(mut value) => {
                self.hide(&mut value);
                (self.show)(direction, &value.to_string());
            }
            Err(_) => (self.show)(direction, &format!("({} bytes, not JSON)", bytes.len())),
        }
    }
}

impl<F> fmt::Debug for Redacted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redacted")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

/// Shows the tap one message. A tap that panics loses that message, and nothing else.
pub(crate) fn show(tap: &Arc<dyn Tap>, direction: Direction, bytes: &[u8]) {
    let shown = catch_unwind(AssertUnwindSafe(|| tap.message(direction, bytes)));
    if let Err(payload) = shown {
        tracing::error!(target: "caudal", "the tap panicked");
        incident::discard(payload);
    }
}

/// Shows the tap each message of these frames, which are sent.
pub(crate) fn show_frames(tap: &Arc<dyn Tap>, framing: Framing, frames: &[u8]) {
    let mut reader = FrameReader::new(framing, usize::MAX);
    reader.push(frames);
    while let Ok(Some(frame)) = reader.next_frame() {
        show(tap, Direction::Sent, frame);
    }
}

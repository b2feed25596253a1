//! What the tap is shown.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::BytesMut;
use caudal_core::FrameReader;

use super::link::Link;
use crate::observe::tap::{Direction, Tap};

impl Link {
    /// Writes one framed message into the driver's output, and shows it to the
    /// tap; what others write is shown when the driver takes it over.
    #[inline]
    pub(crate) fn write_shown<E>(
        &self,
        out: &mut BytesMut,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(tap) = &self.config.tap else {
            return self.framing.write(out, write);
        };
        self.framing.write(out, |out| {
            let start = out.len();
            write(out)?;
            show(tap, Direction::Sent, out.get(start..).unwrap_or_default());
            Ok(())
        })
    }

    /// Shows the tap what came.
    #[inline]
    pub(crate) fn show_received(&self, frame: &[u8]) {
        if let Some(tap) = &self.config.tap {
            show(tap, Direction::Received, frame);
        }
    }

    /// Shows the tap an answer that goes its own way.
    pub(crate) fn show_sent(&self, text: &[u8]) {
        if let Some(tap) = &self.config.tap {
            show(tap, Direction::Sent, text);
        }
    }

    /// Shows the tap what was taken over.
    pub(super) fn show(&self, frames: &[u8]) {
        let Some(tap) = &self.config.tap else { return };
        let mut reader = FrameReader::new(self.framing, usize::MAX);
        reader.push(frames);
        while let Ok(Some(frame)) = reader.next_frame() {
            show(tap, Direction::Sent, frame);
        }
    }
}

/// A tap that panics loses that message, and nothing else.
fn show(tap: &Arc<dyn Tap>, direction: Direction, bytes: &[u8]) {
    let shown = catch_unwind(AssertUnwindSafe(|| tap.message(direction, bytes)));
    if let Err(payload) = shown {
        tracing::error!(target: "caudal", "the tap panicked");
        crate::call::incident::discard(payload);
    }
}

//! The messages that wait, in the order in which they came.

use std::collections::VecDeque;

use caudal_core::{Id, Message};

use crate::peer::link::same_id;

/// Messages that wait their turn, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<Queued>,
    bytes: usize,
}

/// A message that waits its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: Box<[u8]>,
    /// The id of a request, as JSON text.
    pub(super) id: Option<Box<str>>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing more should be taken in.
    pub(super) fn is_full(&self, messages: usize, bytes: usize) -> bool {
        !self.is_empty() && (self.frames.len() >= messages || self.bytes >= bytes)
    }

    pub(super) fn push(&mut self, frame: &[u8], message: &Message<'_>) {
        let id = match message {
            Message::Request(request) => Some(request.id.as_str().into()),
            _ => None,
        };
        self.bytes += frame.len();
        self.frames.push_back(Queued {
            frame: frame.into(),
            id,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.frames.pop_front()?;
        self.bytes -= queued.frame.len();
        Some(queued)
    }

    /// Takes out the first request with this id.
    pub(super) fn take(&mut self, id: Id<'_>) -> Option<Queued> {
        let same = |queued: &Queued| {
            let own = queued.id.as_deref();
            own.is_some_and(|own| same_id(own, id.as_str()))
        };
        let place = self.frames.iter().position(same)?;
        let queued = self.frames.remove(place)?;
        self.bytes -= queued.frame.len();
        Some(queued)
    }
}

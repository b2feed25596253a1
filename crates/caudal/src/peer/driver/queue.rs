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
    asks: Asks,
}

/// What a message that waits asks for; ids are JSON text.
#[derive(Debug)]
enum Asks {
    Nothing,
    One(Box<str>),
    /// A batch, of which some may be cancelled before it starts.
    Many {
        open: Vec<Box<str>>,
        cancelled: Vec<Box<str>>,
    },
}

impl Queued {
    /// Whether it is a request, and counts as one in flight.
    pub(super) fn is_request(&self) -> bool {
        matches!(self.asks, Asks::One(_))
    }

    /// Which requests of a batch are to be cancelled as soon as it has started.
    pub(super) fn cancelled(&self) -> &[Box<str>] {
        match &self.asks {
            Asks::Many { cancelled, .. } => cancelled,
            _ => &[],
        }
    }
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
        let id = |message: &Message<'_>| match message {
            Message::Request(request) => Some(request.id.as_str().into()),
            _ => None,
        };
        let asks = match message {
            Message::Batch(entries) => Asks::Many {
                open: entries.iter().filter_map(id).collect(),
                cancelled: Vec::new(),
            },
            message => id(message).map_or(Asks::Nothing, Asks::One),
        };
        self.bytes += frame.len();
        let frame = frame.into();
        self.frames.push_back(Queued { frame, asks });
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.frames.pop_front()?;
        self.bytes -= queued.frame.len();
        Some(queued)
    }

    /// Takes out the first request with this id; `false` if there is none. One in a
    /// batch stays in it, and is noted.
    pub(super) fn cancel(&mut self, id: Id<'_>) -> bool {
        let same = |own: &str| same_id(own, id.as_str());
        for place in 0..self.frames.len() {
            match self.frames.get_mut(place).map(|queued| &mut queued.asks) {
                Some(Asks::One(own)) if same(own) => {
                    let taken = self.frames.remove(place);
                    self.bytes -= taken.map_or(0, |taken| taken.frame.len());
                    return true;
                }
                Some(Asks::Many { open, cancelled }) => {
                    if let Some(own) = open.iter().position(|own| same(own)) {
                        cancelled.push(open.swap_remove(own));
                        return false;
                    }
                }
                _ => {}
            }
        }
        false
    }
}

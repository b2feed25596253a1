//! The messages that wait, in the order in which they came.

use std::collections::VecDeque;

use caudal_core::Message;

use super::SameId;

/// Messages that wait their turn, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<Queued>,
    /// How many messages these are; a batch is as many as are in it.
    messages: usize,
    bytes: usize,
}

/// A message that waits its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: Box<[u8]>,
    /// Whether it came when nothing new was to be taken in.
    pub(super) is_late: bool,
    /// Whether it came when as many were in flight as may be.
    pub(super) is_excess: bool,
    messages: usize,
    asks: Asks,
}

/// What a message that waits asks for; ids only where they can be cancelled.
#[derive(Debug)]
enum Asks {
    Nothing,
    One(Option<SameId>),
    /// A batch, of which some may be cancelled before it starts.
    Many {
        open: Vec<SameId>,
        cancelled: Vec<SameId>,
    },
}

impl Queued {
    /// Whether it counts as a request in flight.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self.asks, Asks::One(_)) && !self.is_excess
    }

    /// Which requests of a batch are to be cancelled as soon as it has started.
    pub(super) fn cancelled(&self) -> &[SameId] {
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
        !self.is_empty() && (self.messages >= messages || self.bytes >= bytes)
    }

    /// `cancels` says whether a request can be cancelled by its id.
    pub(super) fn push(
        &mut self,
        frame: &[u8],
        message: &Message<'_>,
        is_late: bool,
        is_excess: bool,
        cancels: bool,
    ) {
        let id = |message: &Message<'_>| match message {
            Message::Request(request) if cancels => Some(SameId::of(request.id)),
            _ => None,
        };
        let (messages, asks) = match message {
            Message::Batch(entries) => {
                let open = entries.iter().filter_map(id).collect();
                let cancelled = Vec::new();
                (entries.len().max(1), Asks::Many { open, cancelled })
            }
            Message::Request(_) => (1, Asks::One(id(message))),
            _ => (1, Asks::Nothing),
        };
        self.messages += messages;
        self.bytes += frame.len();
        self.frames.push_back(Queued {
            frame: frame.into(),
            is_late,
            is_excess,
            messages,
            asks,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        self.take(0)
    }

    fn take(&mut self, place: usize) -> Option<Queued> {
        let queued = self.frames.remove(place)?;
        self.messages -= queued.messages;
        self.bytes -= queued.frame.len();
        Some(queued)
    }

    /// Takes out the first request with this id, if it is not in a batch: such a one stays
    /// there, and is noted.
    pub(super) fn cancel(&mut self, id: &SameId) -> Option<Queued> {
        for place in 0..self.frames.len() {
            match self.frames.get_mut(place).map(|queued| &mut queued.asks) {
                Some(Asks::One(Some(own))) if own == id => return self.take(place),
                Some(Asks::Many { open, cancelled }) => {
                    if let Some(own) = open.iter().position(|own| own == id) {
                        cancelled.push(open.swap_remove(own));
                        return None;
                    }
                }
                _ => {}
            }
        }
        None
    }
}

//! Received messages that wait for an earlier one, in the order in which they came.

use std::collections::VecDeque;

use caudal_core::Message;

use super::id_index::IdKey;

/// Received messages that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    frames: VecDeque<Queued>,
    /// Number of messages; each entry of a batch counts.
    messages: usize,
    bytes: usize,
}

/// A received message that waits.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: Box<[u8]>,
    /// True if it came during shutdown.
    pub(super) is_late: bool,
    /// True if it came when the limit of requests in flight was reached.
    pub(super) is_excess: bool,
    messages: usize,
    requests: Requests,
}

/// The requests in a message; ids only where they can be cancelled.
#[derive(Debug)]
enum Requests {
    None,
    One(Option<IdKey>),
    /// A batch. Some of its requests may be cancelled before it starts.
    Many {
        open: Vec<IdKey>,
        cancelled: Vec<IdKey>,
    },
}

impl Queued {
    /// Returns true if it counts as a request in flight.
    pub(super) fn is_counted(&self) -> bool {
        matches!(self.requests, Requests::One(_)) && !self.is_excess
    }

    /// Requests of a batch that are to be cancelled as soon as it has started.
    pub(super) fn cancelled(&self) -> &[IdKey] {
        match &self.requests {
            Requests::Many { cancelled, .. } => cancelled,
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

    /// Returns true if nothing more should be received.
    pub(super) fn is_full(&self, messages: usize, bytes: usize) -> bool {
        !self.is_empty() && (self.messages >= messages || self.bytes >= bytes)
    }

    /// Appends a message. `cancels` is true if requests can be cancelled by their ids.
    pub(super) fn push(
        &mut self,
        frame: &[u8],
        message: &Message<'_>,
        is_late: bool,
        is_excess: bool,
        cancels: bool,
    ) {
        let id = |message: &Message<'_>| match message {
            Message::Request(request) if cancels => Some(IdKey::of(request.id)),
            _ => None,
        };
        let (messages, requests) = match message {
            Message::Batch(entries) => {
                let open = entries.iter().filter_map(id).collect();
                let cancelled = Vec::new();
                (entries.len().max(1), Requests::Many { open, cancelled })
            }
            Message::Request(_) => (1, Requests::One(id(message))),
            _ => (1, Requests::None),
        };
        self.messages += messages;
        self.bytes += frame.len();
        self.frames.push_back(Queued {
            frame: frame.into(),
            is_late,
            is_excess,
            messages,
            requests,
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

    /// Takes out the first request with this id. One in a batch stays there and is noted.
    pub(super) fn cancel(&mut self, id: &IdKey) -> Option<Queued> {
        for place in 0..self.frames.len() {
            match self
                .frames
                .get_mut(place)
                .map(|queued| &mut queued.requests)
            {
                Some(Requests::One(Some(own))) if own == id => return self.take(place),
                Some(Requests::Many { open, cancelled }) => {
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

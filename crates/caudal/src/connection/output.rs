//! Messages that handles have written and that the connection's task has not taken yet.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::BytesMut;

use super::buffers;

/// Messages that wait to be taken by the connection's task, in order.
///
/// Messages are numbered from the first of the connection. A call that is given up while
/// its message waits here is withdrawn and never sent.
#[derive(Debug, Default)]
pub(super) struct OutputQueue {
    /// All messages with their frames, also withdrawn ones.
    text: BytesMut,
    messages: VecDeque<QueuedMessage>,
    /// Number of the first message in `messages`.
    first: u64,
    /// Bytes in `text` of withdrawn messages.
    withdrawn: usize,
    /// True if the task may hold a buffer that came from here.
    has_buffer: bool,
}

#[derive(Debug)]
struct QueuedMessage {
    bytes: usize,
    is_withdrawn: bool,
}

impl OutputQueue {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() - self.withdrawn
    }

    /// Messages that wait.
    pub(super) fn len(&self) -> usize {
        self.messages.iter().filter(|m| !m.is_withdrawn).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends one framed message, and returns its number and its text.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut BytesMut)) -> (u64, &[u8]) {
        let start = self.text.len();
        write(&mut self.text);
        let number = self.first + self.messages.len() as u64;
        self.messages.push_back(QueuedMessage {
            bytes: self.text.len() - start,
            is_withdrawn: false,
        });
        (number, self.text.get(start..).unwrap_or_default())
    }

    /// Returns true if the message with this number has not been taken.
    pub(super) fn has(&self, number: u64) -> bool {
        number >= self.first
    }

    /// Withdraws a message, unless it was taken.
    pub(super) fn withdraw(&mut self, number: u64) {
        let index = number.checked_sub(self.first);
        let message = index.and_then(|index| self.messages.get_mut(usize::try_from(index).ok()?));
        if let Some(message) = message.filter(|message| !message.is_withdrawn) {
            message.is_withdrawn = true;
            self.withdrawn += message.bytes;
        }
        if self.withdrawn == self.text.len() {
            self.clear();
        }
    }

    /// Moves all messages behind what is in `out`.
    pub(super) fn take(&mut self, out: &mut BytesMut) {
        if self.text.is_empty() {
            return;
        }
        self.has_buffer = true;
        if self.withdrawn > 0 {
            if out.capacity() == 0 {
                *out = buffers::take();
            }
            for range in self.ranges().filter_map(|(_, range)| range) {
                out.extend_from_slice(self.text.get(range).unwrap_or_default());
            }
        } else if out.is_empty() {
            std::mem::swap(out, &mut self.text);
        } else {
            out.extend_from_slice(&self.text);
        }
        self.clear();
    }

    /// Number of each message, and its place in the text unless it is withdrawn.
    fn ranges(&self) -> impl Iterator<Item = (u64, Option<Range<usize>>)> {
        let mut start = 0;
        (self.first..)
            .zip(&self.messages)
            .map(move |(number, message)| {
                let range = start..start + message.bytes;
                start = range.end;
                (number, (!message.is_withdrawn).then_some(range))
            })
    }

    /// Takes out all messages, by their numbers.
    pub(super) fn drain(&mut self) -> Vec<(u64, Box<[u8]>)> {
        let messages = self.ranges().filter_map(|(number, range)| {
            let text = self.text.get(range?)?;
            Some((number, text.into()))
        });
        let messages = messages.collect();
        self.clear();
        messages
    }

    /// Removes all messages, as if they were taken.
    pub(super) fn clear(&mut self) {
        self.first += self.messages.len() as u64;
        self.messages.clear();
        self.text.clear();
        self.withdrawn = 0;
    }

    /// Returns true if there may be memory to [free](Self::go_idle).
    pub(super) const fn has_buffer(&self) -> bool {
        self.has_buffer
    }

    /// Frees memory that an idle connection does not need.
    pub(super) fn go_idle(&mut self) {
        if self.text.is_empty() {
            self.has_buffer = false;
            self.messages.shrink_to(4);
            buffers::give_unless_small(&mut self.text);
        }
    }
}

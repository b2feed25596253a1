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
    /// In the order of their numbers.
    messages: VecDeque<QueuedMessage>,
    /// Number of the first message that was not taken.
    first: u64,
    /// Number of the next message.
    next: u64,
    /// Bytes in `text` of withdrawn messages.
    withdrawn: usize,
    /// True if the task may hold a buffer that came from here.
    has_buffer: bool,
}

#[derive(Debug)]
struct QueuedMessage {
    number: u64,
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
        let number = self.next;
        self.next += 1;
        self.messages.push_back(QueuedMessage {
            number,
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
        let find = self
            .messages
            .binary_search_by_key(&number, |message| message.number);
        let message = find.ok().and_then(|index| self.messages.get_mut(index));
        if let Some(message) = message.filter(|message| !message.is_withdrawn) {
            message.is_withdrawn = true;
            self.withdrawn += message.bytes;
        }
        // Not at once: thousands of calls may be given up one after the other.
        if self.withdrawn > self.text.len() / 2 {
            self.remove_withdrawn();
        }
    }

    fn remove_withdrawn(&mut self) {
        let mut kept = BytesMut::with_capacity(self.bytes());
        for (_, range) in self.ranges() {
            kept.extend_from_slice(self.text.get(range).unwrap_or_default());
        }
        self.text = kept;
        self.messages.retain(|message| !message.is_withdrawn);
        self.withdrawn = 0;
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
            for (_, range) in self.ranges() {
                out.extend_from_slice(self.text.get(range).unwrap_or_default());
            }
        } else if out.is_empty() {
            std::mem::swap(out, &mut self.text);
        } else {
            out.extend_from_slice(&self.text);
        }
        self.clear();
    }

    /// Number and place in the text of each message that is not withdrawn.
    fn ranges(&self) -> impl Iterator<Item = (u64, Range<usize>)> {
        let mut start = 0;
        self.messages.iter().filter_map(move |message| {
            let range = start..start + message.bytes;
            start = range.end;
            (!message.is_withdrawn).then_some((message.number, range))
        })
    }

    /// Takes out all messages, by their numbers.
    pub(super) fn drain(&mut self) -> Vec<(u64, Box<[u8]>)> {
        let messages = self
            .ranges()
            .filter_map(|(number, range)| Some((number, self.text.get(range)?.into())));
        let messages = messages.collect();
        self.clear();
        messages
    }

    /// Removes all messages, as if they were taken.
    pub(super) fn clear(&mut self) {
        self.first = self.next;
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

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::OutputQueue;

    fn push(queue: &mut OutputQueue, text: &str) -> u64 {
        queue.push(|out| out.extend_from_slice(text.as_bytes())).0
    }

    #[test]
    fn withdrawn_messages_are_not_taken_and_the_rest_keep_their_order() {
        // Every choice of four messages, withdrawn forwards and backwards.
        for chosen in 0..16_u32 {
            for backwards in [false, true] {
                let mut queue = OutputQueue::default();
                let texts = ["aa", "b", "ccc", "dd"];
                let numbers = texts.map(|text| push(&mut queue, text));
                let is_chosen = |at: &usize| chosen >> at & 1 == 1;
                let mut all: Vec<_> = (0..4).filter(is_chosen).collect();
                if backwards {
                    all.reverse();
                }
                for at in all {
                    queue.withdraw(numbers[at]);
                    queue.withdraw(numbers[at]);
                }
                let left: Vec<_> = (0..4).filter(|at| !is_chosen(at)).collect();
                let expected: String = left.iter().map(|at| texts[*at]).collect();
                assert_eq!(queue.bytes(), expected.len());
                assert_eq!(queue.len(), left.len());
                let mut out = BytesMut::from("0");
                queue.take(&mut out);
                assert_eq!(out, format!("0{expected}").as_str());
                assert!(expected.is_empty() || numbers.iter().all(|n| !queue.has(*n)));
                let next = push(&mut queue, "e");
                assert!(queue.has(next));
            }
        }
    }

    #[test]
    fn messages_that_are_withdrawn_while_one_waits_take_no_memory() {
        let mut queue = OutputQueue::default();
        push(&mut queue, "waits");
        for _ in 0..100_000 {
            let number = push(&mut queue, "is given up");
            queue.withdraw(number);
        }
        assert!(queue.text.len() < 100 && queue.messages.len() < 100);
        assert_eq!((queue.bytes(), queue.len()), (5, 1));
    }
}

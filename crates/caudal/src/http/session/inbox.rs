//! The client's messages of one session, until its connection takes them.

use std::pin::pin;

use bytes::Bytes;
use futures_util::future::poll_immediate;
use tokio::sync::{Mutex, mpsc};

use super::byte_limit::{ByteLimit, Reservation};

/// Minimum that a POST which waits counts as, in bytes.
const MIN_WAITING: usize = 1 << 10;

/// Messages of the client, in the order in which they were accepted.
#[derive(Debug)]
pub(super) struct Inbox {
    queue: mpsc::UnboundedSender<IncomingMessage>,
    requests: Entrance,
    answers: Entrance,
    waiting: ByteLimit,
}

/// Message of the client.
#[derive(Debug)]
pub(super) struct IncomingMessage {
    pub(super) text: Bytes,
    pub(super) reservation: Reservation,
}

/// One place where messages wait for room, one after the other.
#[derive(Debug)]
struct Entrance {
    limit: ByteLimit,
    /// Held by the message that is next.
    turn: Mutex<()>,
}

/// Reason why a message was not accepted.
#[derive(Debug)]
pub(super) enum PushError {
    /// The session has ended.
    Closed,
    /// Too much waits already.
    Full,
}

impl Inbox {
    /// An inbox, and where its messages come out.
    pub(super) fn new(
        requests: ByteLimit,
        answers: ByteLimit,
        waiting: ByteLimit,
    ) -> (Self, mpsc::UnboundedReceiver<IncomingMessage>) {
        let (queue, messages) = mpsc::unbounded_channel();
        let entrance = |limit| Entrance {
            limit,
            turn: Mutex::default(),
        };
        let inbox = Self {
            queue,
            requests: entrance(requests),
            answers: entrance(answers),
            waiting,
        };
        (inbox, messages)
    }

    /// Puts a message in when there is room, after those that came before it. Answers do
    /// not wait for requests, which may wait for just these answers.
    ///
    /// # Cancel safety
    /// If it is dropped, the message was not put in.
    pub(super) async fn push(&self, text: &[u8], is_answer: bool) -> Result<(), PushError> {
        if self.is_closed() {
            return Err(PushError::Closed);
        }
        let entrance = match is_answer {
            true => &self.answers,
            false => &self.requests,
        };
        let mut enter = pin!(async {
            let _turn = entrance.turn.lock().await;
            let reservation = entrance.limit.reserve(text.len()).await;
            self.put(text, reservation)
        });
        if let Some(entered) = poll_immediate(&mut enter).await {
            return entered;
        }
        let waiting = self.waiting.try_reserve(text.len().max(MIN_WAITING));
        let _waiting = waiting.ok_or(PushError::Full)?;
        tokio::select! {
            entered = enter => entered,
            () = self.queue.closed() => Err(PushError::Closed),
        }
    }

    fn put(&self, text: &[u8], reservation: Reservation) -> Result<(), PushError> {
        // A copy, because the body may be a small part of a large buffer.
        let text = Bytes::copy_from_slice(text);
        let message = IncomingMessage { text, reservation };
        self.queue.send(message).map_err(|_| PushError::Closed)
    }

    /// Returns true if nothing is accepted any more.
    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

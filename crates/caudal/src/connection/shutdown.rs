//! Shutdown of a connection: its steps, its reason, and the work done before the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use caudal_core::{CloseReason, Id};
use tokio::time::Instant;

use super::deadline::after;
use super::task::Core;
use super::{Command, count_frames};
use crate::call::replies::Refusal;
use crate::peer::ConnectionState;
use crate::transport::ShuttingDown;

/// Maximum time that a closed connection may take to send what was written.
const FLUSH: Duration = Duration::from_secs(2);

impl Core {
    /// Begins to end, if a handle has ordered that.
    pub(super) fn obey_command(&mut self) {
        match self.input.command {
            Some(Command::Close) if !self.closing => {
                self.closing = true;
                self.ending = Some((CloseReason::local(), Instant::now() + FLUSH));
            }
            Some(Command::Drain(deadline)) => {
                let connection = Arc::clone(&self.connection);
                let refusal = connection.refusal();
                if self.ending.is_none() {
                    self.refusing = true;
                    self.connection.set_state(ConnectionState::Draining);
                    if let Some(error) = refusal {
                        // It tells also a client that has not sent a request yet.
                        self.replies().refuse(Id::NULL, Refusal::NotAccepted(error));
                        self.refuse_queue(Refusal::NotAccepted(error));
                    }
                }
                let reason = || match refusal {
                    Some(_) => (CloseReason::local(), deadline),
                    None => (CloseReason::local_with(ShuttingDown), deadline),
                };
                let end = self.ending.get_or_insert_with(reason);
                end.1 = end.1.min(deadline);
            }
            _ => {}
        }
    }

    pub(super) fn input_is_over(&self) -> bool {
        self.ending.is_some() && (self.closing || !self.refusing)
    }

    #[cold]
    pub(super) fn input_ended(&mut self, reason: CloseReason) {
        if self.connection.sender.reconnects() {
            // What runs was asked for by a session that is over.
            self.closing = true;
            self.ending = Some((reason, Instant::now()));
            return;
        }
        let deadline = after(Instant::now(), self.connection.config.drain_timeout);
        let deadline = match self.ending.take() {
            Some((_, earlier)) => earlier.min(deadline),
            None => deadline,
        };
        self.ending = Some((reason.clone(), deadline));
        self.refusing = false;
        self.connection.set_state(ConnectionState::Draining);
        // No answer can come any more.
        self.connection.sender.fail_calls(&reason);
    }

    /// Stops sending after a write error. The other side may have answered calls before it
    /// closed the connection, so input is still read for a while. Calls that are made
    /// meanwhile are left for the next connection.
    #[cold]
    pub(super) fn block(&mut self, error: io::Error) {
        self.is_blocked = true;
        self.connection.sender.block();
        self.refusing = true;
        let end = Instant::now() + FLUSH;
        self.ending = Some(match self.ending.take() {
            // It was about to end for another reason, and by then.
            Some((reason, limit)) => {
                self.unsendable = Some(error);
                (reason, limit.min(end))
            }
            None => (CloseReason::failed(error), end),
        });
        if !self.connection.sender.reconnects() {
            self.connection.set_state(ConnectionState::Draining);
        }
        self.lose_output();
    }

    pub(super) fn lose_output(&mut self) {
        self.connection
            .stats
            .dropped(count_frames(self.connection.framing, &self.out) as u64);
        self.out.clear();
        self.is_stalled = false;
        self.connection.sender.set_in_task(0);
    }

    /// Returns the close reason if all work before the end is done.
    pub(super) fn is_finished(&self) -> Option<CloseReason> {
        let (reason, _) = self.ending.as_ref()?;
        // Answers to our own calls can still come while there is input.
        let answered = !self.connection.sender.has_pending();
        let begun = self.queue.is_empty() && self.paused.is_none();
        let idle = begun && !self.connection.incoming.is_busy() && answered;
        let is_refused = self.connection.refusal().is_some() && self.queue.is_empty();
        let done = (idle
            || is_refused
            || self.closing
            || self.is_blocked && !self.connection.sender.has_sent_calls())
            && self.out.is_empty()
            && !self.is_stalled
            && !self.connection.signal.is_requested();
        done.then(|| reason.clone())
    }
}

/// Returns true if the other side no longer reads.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected
    )
}

/// Reason of a connection that was closed before the last messages were sent.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed before it took what was sent last")]
pub(super) struct Unsent;

impl Unsent {
    pub(super) fn late() -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, Self)
    }

    pub(super) fn reason() -> CloseReason {
        CloseReason::failed(Self::late())
    }
}

//! How a connection ends: in what order, for which reason, and what is still done before.

use std::io;
use std::time::Duration;

use caudal_core::CloseReason;
use tokio::time::Instant;

use super::deadline::after;
use super::link::Order;
use super::task::Core;
use crate::peer::State;
use crate::transport::ShuttingDown;

/// So long a connection that is closed may take to send what was written.
const FLUSH: Duration = Duration::from_secs(2);

impl Core {
    /// Begins to end, if a handle has ordered that.
    pub(super) fn heed_order(&mut self) {
        match self.collected.order {
            Some(Order::Close) if !self.closing => {
                self.closing = true;
                self.ending = Some((CloseReason::local(), Instant::now() + FLUSH));
            }
            Some(Order::Drain(deadline)) => {
                if self.ending.is_none() {
                    self.refusing = true;
                    self.link.set_state(State::Draining);
                }
                let reason = || (CloseReason::local_with(ShuttingDown), deadline);
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
        if self.link.reconnects() {
            // What runs was asked for by a session that is over.
            self.closing = true;
            self.ending = Some((reason, Instant::now()));
            return;
        }
        let deadline = after(Instant::now(), self.link.config.drain_timeout);
        let deadline = match self.ending.take() {
            Some((_, earlier)) => earlier.min(deadline),
            None => deadline,
        };
        self.ending = Some((reason.clone(), deadline));
        self.refusing = false;
        self.link.set_state(State::Draining);
        // No answer can come any more.
        self.link.fail_calls(&reason);
    }

    /// Nobody reads what is sent. Who has answered our calls and gone has answered them all
    /// the same, so what it has sent before is read, for a while. Calls that are made
    /// meanwhile are left for the next connection.
    #[cold]
    pub(super) fn mute(&mut self, error: io::Error) {
        self.muted = true;
        self.link.mute();
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
        if !self.link.reconnects() {
            self.link.set_state(State::Draining);
        }
        self.lose_output();
    }

    pub(super) fn lose_output(&mut self) {
        self.link.count_lost(&self.out);
        self.out.clear();
        self.stalled = false;
        self.link.set_unsent(0);
    }

    /// Whether all is done that had to be done before the end.
    pub(super) fn is_finished(&self) -> Option<CloseReason> {
        let (reason, _) = self.ending.as_ref()?;
        // Answers to our own calls can still come while there is input.
        let answered = !self.link.has_pending();
        let begun = self.queue.is_empty() && self.paused.is_none();
        let idle = begun && !self.link.is_busy() && answered;
        let done = (idle || self.closing || self.muted && !self.link.has_asked())
            && self.out.is_empty()
            && !self.stalled
            && !self.link.is_called();
        done.then(|| reason.clone())
    }
}

/// Whether nobody reads any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected
    )
}

/// A connection could not be closed in good order.
#[derive(Debug, thiserror::Error)]
#[error("the connection was closed before it took what was sent last")]
pub(in crate::connection) struct Unsent;

impl Unsent {
    pub(in crate::connection) fn late() -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, Self)
    }

    pub(in crate::connection) fn reason() -> CloseReason {
        CloseReason::failed(Self::late())
    }
}

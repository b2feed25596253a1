//! What asks the program to end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Ctrl-C and SIGTERM, from when this is made.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::usage(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Returns when one comes.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Does what may block for ever, so that a signal is seen meanwhile.
pub(crate) async fn aside<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

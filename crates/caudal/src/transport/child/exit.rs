//! The exit of a child as the reason for the end of a connection.

use std::process::ExitStatus;

/// Error of a connection whose child process has ended.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{program}` {}: {status}{}", self.how(), self.shown())]
#[non_exhaustive]
pub struct ExitError {
    /// The program.
    pub program: String,
    /// Exit status.
    pub status: ExitStatus,
    /// True if the child was sent a signal because it did not exit in time after its stdin
    /// was closed, or after it closed its stdout.
    pub stopped: bool,
    /// End of its stderr, if that was captured.
    pub stderr: String,
}

impl ExitError {
    fn how(&self) -> &'static str {
        match self.stopped {
            true => "did not end by itself and was stopped",
            false => "ended",
        }
    }

    fn shown(&self) -> String {
        match self.stderr.trim_end() {
            "" => String::new(),
            stderr => format!("; it said: {stderr}"),
        }
    }
}

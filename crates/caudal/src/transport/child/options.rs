//! Options of a child process.

use std::time::Duration;

use caudal_core::{Framing, setters};

/// Handling of a child's stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stderr {
    /// Inherits the stderr of this process.
    #[default]
    Inherit,
    /// Logs each line with `tracing`. The last lines are part of the reason why the
    /// connection closed.
    Capture,
    /// Discards the output.
    Discard,
}

/// Options of a [`Child`](super::Child).
///
/// ```
/// use caudal::Framing;
/// use caudal::transport::{ChildOptions, Stderr};
///
/// let options = ChildOptions::default()
///     .stderr(Stderr::Capture)
///     .framing(Framing::Header)
///     .end_with_parent(true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChildOptions {
    /// Handling of its stderr: inherited by default.
    pub stderr: Stderr,
    /// Framing of the messages: lines by default.
    pub framing: Framing,
    /// Time that the child has to exit after its stdin is closed, by this side or by the
    /// child: 2 s by default. On Unix it has the same time again after it was sent SIGTERM.
    pub grace: Duration,
    /// Ends the child also when this process is killed or calls
    /// [`exit`](std::process::exit); false by default. On Unix a process of `/bin/sh` waits
    /// beside the child for that; on Windows a job object does.
    pub end_with_parent: bool,
}

impl Default for ChildOptions {
    fn default() -> Self {
        Self {
            stderr: Stderr::Inherit,
            framing: Framing::Line,
            grace: Duration::from_secs(2),
            end_with_parent: false,
        }
    }
}

impl ChildOptions {
    setters! {
        stderr: Stderr,
        framing: Framing,
        grace: Duration,
        end_with_parent: bool,
    }
}

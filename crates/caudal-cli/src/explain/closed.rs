//! Explains the end of a connection, with or without a call on it.

use std::error::Error as StdError;
use std::io;

use caudal::transport::ExitError;
use caudal::{CloseReason, Endpoint, FrameError, StatusError};

use super::remedy::{PATH_HINT, sort};
use super::with_hint;
use crate::endpoint::{is_program, is_url};
use crate::exit::{Exit, Failure, chain};

/// There was no connection to send the call on.
pub(super) fn unreached(endpoint: &Endpoint, reason: &CloseReason) -> Failure {
    let cause = chain(reason);
    let text =
        format!("the connection to `{endpoint}` ended too early, and nothing was sent: {cause}");
    let (exit, hint) = match io_cause(reason) {
        Some(cause) => sort(endpoint, cause),
        None => (Exit::Unreachable, "check that the server is running"),
    };
    Failure::new(exit, with_hint(text, hint))
}

pub(super) fn lost(endpoint: &Endpoint, reason: &CloseReason) -> Failure {
    let cause = chain(reason);
    let text = format!("the connection to `{endpoint}` ended too early: {cause}");
    ended(endpoint, reason, text)
}

/// Adds to `text` what the reason says about what to try.
pub(super) fn ended(endpoint: &Endpoint, reason: &CloseReason, text: String) -> Failure {
    let cause = io_cause(reason);
    if let Some(cause) = cause
        && cause
            .get_ref()
            .is_some_and(|inner| inner.is::<StatusError>())
    {
        let (exit, hint) = sort(endpoint, cause);
        return Failure::new(exit, with_hint(text, hint));
    }
    let sorted = cause.map(|cause| sort(endpoint, cause));
    let exit = match sorted {
        Some((Exit::Protocol, _)) => Exit::Protocol,
        _ if causes(reason).any(|cause| cause.is::<FrameError>()) => Exit::Protocol,
        _ => Exit::Unreachable,
    };
    let hint = match exit {
        Exit::Protocol if is_url(endpoint) => sorted.map_or(PATH_HINT, |(_, hint)| hint),
        Exit::Protocol => "is it JSON-RPC, and the right `--framing`?",
        _ if exit_of(reason).is_some_and(|exit| exit.status.success()) => {
            "does it serve JSON-RPC through its stdin and stdout? the call may have run"
        }
        // Nobody knows here whether it has.
        _ if is_program(endpoint) => "if it has said why, that is on stderr; the call may have run",
        _ => "the server's own log may say why; it may have run",
    };
    Failure::new(exit, with_hint(text, hint))
}

/// Returns true if a program has ended, and not with success.
pub(crate) fn has_failed(reason: &CloseReason) -> bool {
    exit_of(reason).is_some_and(|exit| !exit.status.success())
}

/// Exit of a program, if that is why the connection ended.
pub(super) fn exit_of(reason: &CloseReason) -> Option<&ExitError> {
    causes(reason).find_map(|cause| cause.downcast_ref())
}

type Cause = dyn StdError + 'static;

pub(super) fn causes(reason: &CloseReason) -> impl Iterator<Item = &Cause> {
    std::iter::successors(reason.source(), |cause: &&Cause| (**cause).source())
}

pub(super) fn io_cause(reason: &CloseReason) -> Option<&io::Error> {
    causes(reason).find_map(|cause| cause.downcast_ref())
}

//! Explains a failure: its kind, which has an exit code, its place, and a remedy.

mod closed;
mod remedy;

use std::io;

use caudal::{
    Address, CallError, CloseReason, Endpoint, Error, Framing, JsonRpcError, StatusError,
};

pub(crate) use closed::has_failed;
use closed::{causes, ended, exit_of, io_cause, lost, unreached};
use remedy::{PATH_HINT, refused_by, sort};

use crate::call::Target;
use crate::endpoint::{is_program, is_url};
use crate::exit::{Exit, Failure, chain};
use crate::findings::{Garbage, GarbageKind, is_old_refusal};
use crate::layout::{Style, layout};

pub(crate) fn not_connected(error: &Error) -> Failure {
    match error {
        // The library has hints of its own, for who writes a program.
        Error::Connect { endpoint, cause } => {
            let what = match endpoint.address() {
                Address::Command { program, .. } => format!("start `{program}`"),
                _ => format!("connect to `{endpoint}`"),
            };
            let text = format!("cannot {what}: {}", chain(cause));
            let (exit, hint) = sort(endpoint, cause);
            Failure::new(exit, with_hint(text, hint))
        }
        Error::ConnectTimeout { .. } => {
            let hint = "check the address, or give it longer with `--timeout`";
            Failure::new(Exit::Timeout, with_hint(chain(error), hint))
        }
        _ => Failure::usage(chain(error)),
    }
}

/// Says why there is no answer; `understood` if valid messages came in its place.
pub(crate) fn not_answered(target: &Target, error: &CallError, understood: bool) -> Failure {
    let endpoint = &target.endpoint;
    match error {
        CallError::Remote(error) => rpc_error(error),
        CallError::Refused(response) | CallError::UnexpectedResponse(response) => {
            no_answer(endpoint, response)
        }
        CallError::Timeout => {
            let text = format!(
                "`{endpoint}` did not answer `{}` in {:?}{}; give it longer with `--timeout`",
                target.method,
                target.timeout,
                left_behind(endpoint),
            );
            let failure = Failure::new(Exit::Timeout, text);
            match is_program(endpoint) && could_have_headers(endpoint) && !understood {
                true => failure.and(&format!(
                    "if it waits for `Content-Length` headers, as language servers do, \
                     {HEADERS_HINT}"
                )),
                false => failure,
            }
        }
        CallError::Closed(reason) | CallError::AlreadyClosed(reason) => match exit_of(reason) {
            Some(exit) if !exit.stopped => {
                let (method, status) = (&target.method, exit.status);
                let text = format!("`{endpoint}` ended without an answer to `{method}`: {status}");
                ended(endpoint, reason, text)
            }
            _ if !error.may_have_run() => unreached(endpoint, reason),
            _ => lost(endpoint, reason),
        },
        CallError::TooLarge { .. } | CallError::NoRoom => {
            Failure::new(Exit::Protocol, format!("`{endpoint}`: {error}"))
        }
        CallError::Response(_) | CallError::Result(_) => violation(endpoint, &chain(error)),
        _ => Failure::usage(chain(error)),
    }
}

const HEADERS_HINT: &str =
    "call it with `--framing header`, or with `?framing=header` in the endpoint";

/// Returns whether messages could have `Content-Length` headers, and have none.
fn could_have_headers(endpoint: &Endpoint) -> bool {
    !is_url(endpoint) && endpoint.framing() != Framing::Header
}

/// Fate of a call that nobody waits for any more.
const fn left_behind(endpoint: &Endpoint) -> &'static str {
    match is_program(endpoint) {
        true => ", and was ended",
        false => "; it may still run",
    }
}

/// Explains a message that came in place of the answer. A program may have printed it before: then its end, or
/// that the time was up, says more.
pub(crate) fn instead(
    target: &Target,
    error: &CallError,
    garbage: &Garbage,
    understood: bool,
) -> Failure {
    let explained = match error {
        CallError::Timeout => true,
        CallError::Closed(reason) => has_failed(reason),
        _ => false,
    };
    let print = garbage.kind == GarbageKind::Print && is_program(&target.endpoint);
    match print && explained {
        true => {
            let text = &garbage.text;
            let failure = not_answered(target, error, understood);
            failure.and(&format!("what came instead is not JSON-RPC: {text}"))
        }
        false => garbled(&target.endpoint, garbage),
    }
}

/// Explains input that is no JSON-RPC, and may be another protocol that is known.
pub(crate) fn garbled(endpoint: &Endpoint, garbage: &Garbage) -> Failure {
    let (speaks, hint) = match garbage.kind {
        GarbageKind::Http => ("speaks HTTP", "call it as http:// or ws://"),
        GarbageKind::Tls => ("seems to speak TLS", "call it as https:// or wss://"),
        GarbageKind::Headers if could_have_headers(endpoint) => (
            "sends `Content-Length` headers, as language servers do",
            HEADERS_HINT,
        ),
        _ => return violation(endpoint, &garbage.text),
    };
    let text = format!("`{endpoint}` {speaks}: {}", garbage.text);
    Failure::new(Exit::Protocol, with_hint(text, hint))
}

/// Says that the answer is one that `--lenient` accepts.
pub(crate) fn old(endpoint: &Endpoint, text: &str) -> Failure {
    let text = format!("`{endpoint}` does not answer as JSON-RPC 2.0 has it: {text}");
    Failure::new(Exit::Protocol, with_hint(text, LENIENT_HINT))
}

/// Says it of the body of a response, of which no more than its beginning is known.
fn old_refusal(endpoint: &Endpoint, response: &StatusError) -> Option<Failure> {
    // Who is not let in is not listened to.
    let body = &response.body;
    (!response.is_refusal() && is_old_refusal(body)).then(|| old(endpoint, &format!("`{body}`")))
}

const LENIENT_HINT: &str = "old servers do so, and `--lenient` accepts it";

/// Explains that this many bytes came in time, and no message is whole.
pub(crate) fn not_whole(target: &Target, bytes: u64) -> Failure {
    let hint = match target.endpoint.framing() {
        Framing::Concatenated => "is it the right `--framing`?",
        _ => "`--framing concatenated` needs neither headers nor line breaks",
    };
    let slow = match is_program(&target.endpoint) {
        true => "or it needs",
        false => "or it may still run, and need",
    };
    let text = format!(
        "`{}` did not answer `{}` in {:?}: the {bytes} bytes that came are no whole message; \
         {hint}; {slow} a longer `--timeout`",
        target.endpoint, target.method, target.timeout,
    );
    Failure::new(Exit::Timeout, text)
}

/// A notification that may be on its way still.
pub(crate) fn not_taken(target: &Target) -> Failure {
    let text = format!(
        "`{}` did not take `{}` in time (`--timeout` is {:?}){}",
        target.endpoint,
        target.method,
        target.timeout,
        left_behind(&target.endpoint),
    );
    Failure::new(Exit::Timeout, text)
}

/// A notification that the server did not take, as its transport has heard.
pub(crate) fn not_accepted(target: &Target, reason: &CloseReason) -> Failure {
    let endpoint = &target.endpoint;
    let cause = io_cause(reason);
    if let Some(inner) = cause.and_then(io::Error::get_ref)
        && let Some(error) = inner.downcast_ref()
    {
        return rpc_error(error);
    }
    let inner = cause.and_then(io::Error::get_ref);
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<StatusError>())
        && let Some(failure) = old_refusal(endpoint, error)
    {
        return failure;
    }
    match cause {
        Some(cause) => {
            let late = cause.kind() == io::ErrorKind::TimedOut;
            let cause = chain(cause);
            let text = format!("`{endpoint}` did not accept `{}`: {cause}", target.method);
            match late {
                true => Failure::new(Exit::Timeout, with_hint(text, "it may still run")),
                false => ended(endpoint, reason, text),
            }
        }
        None if has_failed(reason) => {
            let cause = causes(reason).next().map(chain).unwrap_or_default();
            let text = format!(
                "`{endpoint}` may not have taken `{}`: {cause}",
                target.method
            );
            ended(endpoint, reason, text)
        }
        None => lost(endpoint, reason),
    }
}

/// The server's own error.
pub(crate) fn rpc_error(error: &JsonRpcError) -> Failure {
    let json = serde_json::to_string(error).unwrap_or_else(|_| error.to_string());
    Failure::rpc(layout(&json, Style::of(&io::stderr())))
}

/// A response of HTTP that is no answer.
fn no_answer(endpoint: &Endpoint, response: &StatusError) -> Failure {
    if let Some(failure) = old_refusal(endpoint, response) {
        return failure;
    }
    if let StatusError {
        status: status @ 200..=299,
        phrase,
        body,
        reason,
        ..
    } = response
    {
        let reason = reason.as_ref().map(|reason| format!(" ({reason})"));
        let reason = reason.unwrap_or_default();
        return violation(
            endpoint,
            &format!("HTTP {status} {phrase}: `{body}`{reason}"),
        );
    }
    let (exit, hint) = refused_by(response.status, &response.body);
    Failure::new(exit, with_hint(format!("`{endpoint}`: {response}"), hint))
}

pub(crate) fn violation(endpoint: &Endpoint, text: &str) -> Failure {
    let text = format!("`{endpoint}` does not answer with JSON-RPC: {text}");
    let hint = match endpoint.address() {
        _ if is_url(endpoint) => PATH_HINT,
        Address::Command { .. } => "does it serve JSON-RPC, and with this `--framing`?",
        Address::Unix { .. } => "is it the right socket, and the right `--framing`?",
        _ => "is it the right port, and the right `--framing`?",
    };
    Failure::new(Exit::Protocol, with_hint(text, hint))
}

fn with_hint(text: String, hint: &str) -> String {
    match hint {
        "" => text,
        hint => format!("{text}; {hint}"),
    }
}

#[cfg(test)]
mod tests;

//! Explains a failure: its kind, which has an exit code, its place, and a remedy.

use std::error::Error as StdError;
use std::io;

use caudal::tls::TlsError;
use caudal::transport::ExitError;
use caudal::{
    Address, CallError, CloseReason, Endpoint, Error, FrameError, Framing, JsonRpcError,
    StatusError,
};

use crate::call::Target;
use crate::endpoint::{is_program, is_url};
use crate::exit::{Exit, Failure, chain};
use crate::findings::{Garbage, GarbageKind, is_old_refusal};
use crate::layout::{Style, layout};

pub(crate) fn not_connected(error: &Error) -> Failure {
    match error {
        // Hints of the library are for programmers, not for users of the command.
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

/// Returns the kind of a failure, and a remedy.
fn sort(endpoint: &Endpoint, cause: &io::Error) -> (Exit, &'static str) {
    if endpoint.port() == Some(0) {
        return (Exit::Unreachable, "port 0 is for listening; use 1–65535");
    }
    let inner = cause.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref()) {
        return not_secured(error);
    }
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<StatusError>()) {
        return match refused_by(error.status, &error.body) {
            // The server may exist and accept POST only.
            (exit, PATH_HINT) if matches!(endpoint.address(), Address::WebSocket { .. }) => {
                (exit, UPGRADE_HINT)
            }
            refused => refused,
        };
    }
    match cause.kind() {
        io::ErrorKind::InvalidData if cause.to_string().contains("not HTTP") => {
            (Exit::Protocol, HTTP_HINT)
        }
        io::ErrorKind::InvalidData => (Exit::Protocol, PATH_HINT),
        io::ErrorKind::Unsupported => (Exit::Usage, ""),
        io::ErrorKind::InvalidInput if matches!(endpoint.address(), Address::Unix { .. }) => {
            (Exit::Usage, "no socket can have it; use a shorter path")
        }
        _ if is_no_socket(endpoint) => (
            Exit::Unreachable,
            "this file is no socket; is it the right path?",
        ),
        // The file exists, so its interpreter was not found.
        io::ErrorKind::NotFound if is_file(endpoint) => (
            Exit::Unreachable,
            "its first line names a program that is not there",
        ),
        io::ErrorKind::NotFound if is_program(endpoint) => (
            Exit::Unreachable,
            "there is no such program; give its path, or look at PATH",
        ),
        io::ErrorKind::NotFound => (
            Exit::Unreachable,
            "there is no such socket; is the server running?",
        ),
        io::ErrorKind::PermissionDenied if is_directory(endpoint) => {
            (Exit::Unreachable, "it is a directory; name a program in it")
        }
        io::ErrorKind::PermissionDenied => (Exit::Unreachable, "look at the file's permissions"),
        io::ErrorKind::ConnectionRefused => (
            Exit::Unreachable,
            "nobody listens there; is the server running, and is this its address?",
        ),
        _ if is_program(endpoint) => (
            Exit::Unreachable,
            "is it a program for this machine? a script begins with `#!` and what runs it",
        ),
        _ => (
            Exit::Unreachable,
            "check the address, and that the server is running",
        ),
    }
}

/// Returns true if there is a file at the path, and it is no socket.
#[cfg(unix)]
fn is_no_socket(endpoint: &Endpoint) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let Address::Unix { path } = endpoint.address() else {
        return false;
    };
    std::fs::metadata(path).is_ok_and(|file| !file.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_no_socket(_: &Endpoint) -> bool {
    false
}

/// Returns true if the path of a program names a directory.
fn is_directory(endpoint: &Endpoint) -> bool {
    let Address::Command { program, .. } = endpoint.address() else {
        return false;
    };
    std::path::Path::new(program).is_dir()
}

/// Returns true if the path of a program names a file.
fn is_file(endpoint: &Endpoint) -> bool {
    let Address::Command { program, .. } = endpoint.address() else {
        return false;
    };
    program.contains('/') && std::path::Path::new(program).is_file()
}

/// Explains a failed handshake of TLS.
fn not_secured(error: &TlsError) -> (Exit, &'static str) {
    match error {
        TlsError::Handshake { .. } => (
            Exit::Unreachable,
            "does it speak TLS, at this port? http:// and ws:// do without",
        ),
        // `openssl req -x509` makes such a certificate by default.
        TlsError::Refused { cause, .. } if cause.to_string().contains("CaUsedAsEndEntity") => (
            Exit::Unreachable,
            "it is the certificate of an authority, which no server may show for its own; make \
             one with basicConstraints=CA:FALSE",
        ),
        TlsError::Refused { .. } if is_named_in_vain() => (
            Exit::Unreachable,
            "the certificate is not trusted; SSL_CERT_FILE names a file that cannot be read",
        ),
        TlsError::Refused { .. } => (
            Exit::Unreachable,
            "the certificate is not trusted; SSL_CERT_FILE may name a file of those to trust",
        ),
        // The text of this error names the remedy.
        TlsError::NoSystemRoots { .. } => (Exit::Unreachable, ""),
        TlsError::NoNamedRoots { .. } => (
            Exit::Unreachable,
            "name a file of PEM certificates, or unset it to trust what the system does",
        ),
        _ => (Exit::Usage, ""),
    }
}

/// Returns true if the environment names certificates to trust that cannot be read. Those of
/// SSL_CERT_DIR may be trusted nevertheless.
fn is_named_in_vain() -> bool {
    let named = std::env::var_os("SSL_CERT_FILE");
    named.is_some_and(|path| std::fs::File::open(path).is_err())
}

/// Classifies an HTTP response without a JSON-RPC response.
fn refused_by(status: u16, body: &str) -> (Exit, &'static str) {
    match status {
        300..=399 => (
            Exit::Protocol,
            "redirects are not followed; call the address that it leads to",
        ),
        401 => (Exit::Auth, TOKEN_HINT),
        // The server's text names the list that refused the request.
        403 if body.contains("Origin") => (Exit::Auth, ORIGIN_HINT),
        403 if body.contains("Host") => (Exit::Auth, HOST_HINT),
        403 => (Exit::Auth, CALLER_HINT),
        407 => (
            Exit::Auth,
            "a proxy on the way wants to know who calls; `--header` can say it",
        ),
        429 | 502..=504 => (Exit::Unreachable, "try again later"),
        500 => (Exit::Protocol, "the server's own log may say why"),
        _ => (Exit::Protocol, PATH_HINT),
    }
}

const TOKEN_HINT: &str = "give the right token with `--token` or CAUDAL_TOKEN";
const CALLER_HINT: &str = "it does not let this caller in, or not by this address";
const HOST_HINT: &str = "`caudal serve` has `--allow-host` for it";
const ORIGIN_HINT: &str = "leave the Origin header out: only browsers need it, and for these \
                           `caudal serve` has `--allow-origin`";

/// Explains why there is no response. `understood` if other valid messages were received.
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

/// Returns true if the endpoint could use `Content-Length` headers and does not.
fn could_have_headers(endpoint: &Endpoint) -> bool {
    !is_url(endpoint) && endpoint.framing() != Framing::Header
}

/// What is known about a call after its timeout.
const fn left_behind(endpoint: &Endpoint) -> &'static str {
    match is_program(endpoint) {
        true => ", and was ended",
        false => "; it may still run",
    }
}

/// Explains a message that was received in place of the response. If a program has printed
/// it, the exit of the program or the timeout explains more.
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

/// Explains input that is not JSON-RPC, but may be another known protocol.
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

/// Explains that `--lenient` accepts the response.
pub(crate) fn old(endpoint: &Endpoint, text: &str) -> Failure {
    let text = format!("`{endpoint}` does not answer as JSON-RPC 2.0 has it: {text}");
    Failure::new(Exit::Protocol, with_hint(text, LENIENT_HINT))
}

/// The same for the body of an HTTP response, whose first characters are known.
fn old_refusal(endpoint: &Endpoint, response: &StatusError) -> Option<Failure> {
    // After a refusal (401, 403, 407) the body does not count.
    let body = &response.body;
    (!response.is_refusal() && is_old_refusal(body)).then(|| old(endpoint, &format!("`{body}`")))
}

const LENIENT_HINT: &str = "old servers do so, and `--lenient` accepts it";

/// Explains that bytes were received in time, but no complete message.
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

/// Explains that a notification may still be on its way.
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

/// Explains that the server refused a notification, as the transport reports.
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

/// An HTTP response without a JSON-RPC response.
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

const PATH_HINT: &str = "is it a JSON-RPC server, at this path?";
/// The same for the handshake of a WebSocket.
const UPGRADE_HINT: &str = "is it a JSON-RPC server, at this path? without WebSocket it is called \
                            as http:// or https://";
/// The same if the response was not HTTP.
const HTTP_HINT: &str = "is it the right port? JSON-RPC over a bare socket is called as tcp://, \
                         and with TLS as https:// or wss://";

/// There was no connection to send the call on.
fn unreached(endpoint: &Endpoint, reason: &CloseReason) -> Failure {
    let cause = chain(reason);
    let text =
        format!("the connection to `{endpoint}` ended too early, and nothing was sent: {cause}");
    let (exit, hint) = match io_cause(reason) {
        Some(cause) => sort(endpoint, cause),
        None => (Exit::Unreachable, "check that the server is running"),
    };
    Failure::new(exit, with_hint(text, hint))
}

fn lost(endpoint: &Endpoint, reason: &CloseReason) -> Failure {
    let cause = chain(reason);
    let text = format!("the connection to `{endpoint}` ended too early: {cause}");
    ended(endpoint, reason, text)
}

/// Adds to `text` what the reason says about what to try.
fn ended(endpoint: &Endpoint, reason: &CloseReason, text: String) -> Failure {
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
        // It is unknown whether the call has run.
        _ if is_program(endpoint) => "if it has said why, that is on stderr; the call may have run",
        _ => "the server's own log may say why; it may have run",
    };
    Failure::new(exit, with_hint(text, hint))
}

/// Returns true if a program has exited with a failure.
pub(crate) fn has_failed(reason: &CloseReason) -> bool {
    exit_of(reason).is_some_and(|exit| !exit.status.success())
}

/// Exit of the program, if the connection ended because of it.
fn exit_of(reason: &CloseReason) -> Option<&ExitError> {
    causes(reason).find_map(|cause| cause.downcast_ref())
}

type Cause = dyn StdError + 'static;

fn causes(reason: &CloseReason) -> impl Iterator<Item = &Cause> {
    std::iter::successors(reason.source(), |cause: &&Cause| (**cause).source())
}

fn io_cause(reason: &CloseReason) -> Option<&io::Error> {
    causes(reason).find_map(|cause| cause.downcast_ref())
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
mod tests {
    use std::time::Duration;

    use super::*;

    /// Response of a server that does not support the request.
    fn http(status: u16) -> io::Error {
        StatusError::new(status, "", b"no").into()
    }

    fn target() -> Target {
        Target {
            endpoint: "http://127.0.0.1:1/rpc".parse().unwrap(),
            method: "x".to_owned(),
            params: None,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn every_failure_has_its_exit_code_and_says_whether_it_may_have_run() {
        let target = target();
        let fails = |error: CallError| not_answered(&target, &error, false);
        let response = |status, body: &str| Box::new(StatusError::new(status, "", body.as_bytes()));
        for (status, exit) in [(401, Exit::Auth), (403, Exit::Auth), (407, Exit::Auth)] {
            let error = CallError::Refused(response(status, "no"));
            assert_eq!(fails(error).exit, exit, "{status}");
        }
        for (status, body, exit) in [
            (200, "<html>", Exit::Protocol),
            (308, "", Exit::Protocol),
            (404, "", Exit::Protocol),
            (429, "", Exit::Unreachable),
            (500, "", Exit::Protocol),
            (503, "", Exit::Unreachable),
        ] {
            let error = CallError::UnexpectedResponse(response(status, body));
            assert_eq!(fails(error).exit, exit, "{status}");
        }
        let lost = |kind: io::ErrorKind| CloseReason::failed(io::Error::from(kind)).temporary();
        let refused = io::ErrorKind::ConnectionRefused;
        for (error, exit, part) in [
            (CallError::Timeout, Exit::Timeout, "it may still run"),
            (
                CallError::TooLarge { limit: 1 },
                Exit::Protocol,
                "larger than 1 bytes",
            ),
            (
                CallError::AlreadyClosed(lost(refused)),
                Exit::Unreachable,
                "nothing was sent",
            ),
            (
                CallError::Closed(lost(io::ErrorKind::ConnectionReset)),
                Exit::Unreachable,
                "it may have run",
            ),
            (
                CallError::Closed(CloseReason::failed(FrameError::MissingLength)),
                Exit::Protocol,
                "",
            ),
        ] {
            let failure = fails(error);
            assert_eq!(failure.exit, exit, "{failure:?}");
            assert!(format!("{failure:?}").contains(part), "{failure:?}");
        }
        // Every code in a response is the server's own error.
        for code in [-32_010, -32_011, -32_012, -32_013, 1001] {
            let error = JsonRpcError::with_data(code, "x", serde_json::json!({ "status": 401 }));
            assert_eq!(fails(error.into()).exit, Exit::Rpc, "{code}");
        }
    }

    #[test]
    fn a_refusal_of_http_is_told_from_one_of_the_system() {
        let denied = http(401);
        let os = io::Error::from_raw_os_error(13);
        assert_eq!(os.kind(), io::ErrorKind::PermissionDenied);
        let ws: Endpoint = "ws://127.0.0.1:1/rpc".parse().unwrap();
        assert_eq!(sort(&ws, &denied), (Exit::Auth, TOKEN_HINT));
        let forbidden = http(403);
        assert_eq!(sort(&ws, &forbidden), (Exit::Auth, CALLER_HINT));
        assert_eq!(sort(&ws, &http(404)).0, Exit::Protocol);
        for status in [429, 502, 503, 504] {
            let busy = http(status);
            assert_eq!(sort(&ws, &busy).0, Exit::Unreachable, "{status}");
            let reason = CloseReason::failed(busy);
            assert_eq!(lost(&ws, &reason).exit, Exit::Unreachable, "{status}");
        }
        assert_eq!(sort(&ws, &os).0, Exit::Unreachable);
        // The close reason of a session that ended for this cause says so.
        let reason = CloseReason::failed(denied);
        assert_eq!(lost(&ws, &reason).exit, Exit::Auth);
        let reason = CloseReason::failed(FrameError::TwoLengths);
        assert_eq!(lost(&ws, &reason).exit, Exit::Protocol);
        assert_eq!(lost(&ws, &CloseReason::remote()).exit, Exit::Unreachable);
    }

    #[test]
    fn without_tls_the_server_is_not_reached() {
        let https: Endpoint = "https://127.0.0.1:1/rpc".parse().unwrap();
        let host = "a".to_owned();
        let cause = || io::Error::new(io::ErrorKind::InvalidData, "x");
        let cases = [
            (
                TlsError::Handshake {
                    host: host.clone(),
                    cause: cause(),
                },
                "does it speak TLS",
            ),
            (
                TlsError::Refused {
                    host,
                    cause: cause(),
                },
                "SSL_CERT_FILE",
            ),
            (TlsError::NoSystemRoots { cause: None }, ""),
        ];
        for (error, part) in cases {
            let (exit, hint) = sort(&https, &error.into());
            assert_eq!(exit, Exit::Unreachable, "{hint}");
            assert!(hint.contains(part), "{hint}");
        }
        assert_eq!(sort(&https, &cause()).0, Exit::Protocol);
    }

    #[test]
    fn a_notification_that_was_not_accepted_is_sorted_as_a_call() {
        let target = target();
        for (cause, exit) in [
            (http(401), Exit::Auth),
            (http(404), Exit::Protocol),
            (io::ErrorKind::InvalidData.into(), Exit::Protocol),
            (io::ErrorKind::TimedOut.into(), Exit::Timeout),
            (io::ErrorKind::ConnectionReset.into(), Exit::Unreachable),
            (io::ErrorKind::Other.into(), Exit::Unreachable),
        ] {
            let text = cause.to_string();
            let reason = CloseReason::failed(cause);
            assert_eq!(not_accepted(&target, &reason).exit, exit, "{text}");
        }
        let reason = CloseReason::remote();
        assert_eq!(not_accepted(&target, &reason).exit, Exit::Unreachable);
    }
}

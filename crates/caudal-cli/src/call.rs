//! `caudal call`: one call, its result on stdout.

use std::error::Error as StdError;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use caudal::tls::TlsError;
use caudal::{
    Address, CallError, CloseReason, Config, Endpoint, Error, FrameError, JsonRpcError, Peer,
    RawValue,
};
use tokio::sync::mpsc;

use crate::args::Call;
use crate::endpoint::{self, Token, is_url};
use crate::exit::{Exit, Failure, chain, complain};
use crate::findings::{Finding, Findings};
use crate::layout::{Style, layout};
use crate::params;
use crate::signals::{Signals, aside};

/// So large an answer may be.
const MAX_ANSWER: usize = 64 << 20;
/// So long the connection may take to end when the answer is there. A program has
/// twice two seconds to end by itself.
const GOODBYE: Duration = Duration::from_secs(5);
/// The same when the time is up: a server that listens learns of it.
const FAREWELL: Duration = Duration::from_millis(250);

pub(crate) async fn run(call: Call) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = carry_out(call) => done,
        () = signals.next() => Err(Failure::interrupted()),
    }
}

/// What is to be called.
struct Target {
    endpoint: Endpoint,
    method: String,
    params: Option<Box<RawValue>>,
    /// How long it may take in all, as it was typed.
    timeout: Duration,
}

async fn carry_out(call: Call) -> Result<Exit, Failure> {
    let target = target(&call).await?;
    let token = Token::find(call.token)?;
    let options = endpoint::options(&target.endpoint, token, &call.header)?;
    let mut config = Config::default();
    config.policy.max_message = MAX_ANSWER;
    let (watch, findings) = Findings::new(call.verbose, config.policy);
    config.tap = Some(Arc::new(watch));

    let started = Instant::now();
    let peer = caudal::connect(&target.endpoint)
        .config(config)
        .http(options)
        .timeout(call.timeout)
        .await
        .map_err(|error| not_connected(&error))?;
    let left = call.timeout.saturating_sub(started.elapsed());
    // Zero would be for ever.
    let left = left.max(Duration::from_millis(1));
    if call.notify {
        return notify(&peer, &target, left).await;
    }
    let result = ask(&peer, &target, left, findings).await;
    if let Ok(result) = &result {
        print(result).await?;
    }
    let late = started.elapsed() >= call.timeout;
    let patience = match target.endpoint.address() {
        // It is killed as soon as nobody has a hold of it.
        Address::Command { .. } if late => return result.map(|_| Exit::Ok),
        _ if late => FAREWELL,
        _ => GOODBYE,
    };
    peer.close();
    // The call is over: how the connection ends is no matter.
    let _ = tokio::time::timeout(patience, peer.closed()).await;
    result.map(|_| Exit::Ok)
}

/// Sorts what was typed.
async fn target(call: &Call) -> Result<Target, Failure> {
    let words = [&call.first, &call.second, &call.third];
    let words: Vec<&str> = words
        .into_iter()
        .flatten()
        .chain(&call.further)
        .map(String::as_str)
        .collect();
    let (endpoint, rest) = match call.program.as_slice() {
        [] => endpoint_first(&words, call)?,
        [program, args @ ..] => (for_program(&words, program, args, call)?, words.as_slice()),
    };
    let (method, params) = match rest {
        [] => return Err(Failure::usage(format!("METHOD is missing; {FORMS}"))),
        [method] => (method, None),
        [method, params] => (method, Some(params::read(params).await?)),
        [method, words @ ..] => {
            return Err(Failure::usage(format!(
                "`{method}` has more than one word of params; they are one JSON text, so write {}",
                params::array(words.iter().copied()),
            )));
        }
    };
    if method.is_empty() {
        return Err(Failure::usage("METHOD is empty"));
    }
    Ok(Target {
        endpoint,
        method: (*method).to_owned(),
        params,
        timeout: call.timeout,
    })
}

const FORMS: &str = "write `caudal call ENDPOINT METHOD [PARAMS]` \
                     or `caudal call METHOD [PARAMS] -- PROGRAM [ARGS]`";

fn endpoint_first<'w>(
    words: &'w [&'w str],
    call: &Call,
) -> Result<(Endpoint, &'w [&'w str]), Failure> {
    let Some((first, rest)) = words.split_first() else {
        return Err(Failure::usage(format!(
            "ENDPOINT and METHOD are missing; {FORMS}"
        )));
    };
    let framing = call.framing.map(Into::into);
    let endpoint = endpoint::parse(first, framing).map_err(|failure| match rest.first() {
        Some(second) if second.parse::<Endpoint>().is_ok() => Failure::usage(format!(
            "the endpoint stands first: caudal call {} {}",
            params::quote(second),
            params::quote(first),
        )),
        Some(second) if second.starts_with(['[', '{']) => {
            Failure::usage(format!("ENDPOINT is missing before `{first}`; {FORMS}"))
        }
        _ => failure,
    })?;
    if *endpoint.address() == Address::Stdio {
        return Err(Failure::usage(
            "`stdio:` is this program's own stdin and stdout; to call a program write \
             `caudal call METHOD [PARAMS] -- PROGRAM [ARGS]`",
        ));
    }
    Ok((endpoint, rest))
}

fn for_program(
    words: &[&str],
    program: &str,
    args: &[String],
    call: &Call,
) -> Result<Endpoint, Failure> {
    if let Some(first) = words.first()
        && first.parse::<Endpoint>().is_ok()
    {
        return Err(Failure::usage(format!(
            "`{first}` and the program `{program}` after `--` are two endpoints; leave one out"
        )));
    }
    let endpoint = Endpoint::command(program, args.iter().cloned());
    endpoint::with_framing(endpoint, call.framing.map(Into::into))
}

/// Calls, and waits for the answer or for what takes its place.
async fn ask(
    peer: &Peer,
    target: &Target,
    limit: Duration,
    mut findings: mpsc::Receiver<Finding>,
) -> Result<Box<RawValue>, Failure> {
    let call = peer
        .call_raw(&target.method, target.params.as_deref())
        .timeout(limit);
    let mut call = std::pin::pin!(call.into_future());
    let mut garbage = None;
    let failed = loop {
        tokio::select! {
            biased;
            answer = &mut call => match answer {
                Ok(result) => return Ok(result),
                Err(error) => break error,
            },
            Some(finding) = findings.recv() => match finding {
                Finding::Refused(error) => break CallError::Remote(error),
                Finding::Garbage(text) => {
                    // A program may print before it serves; others have no excuse.
                    let Address::Command { .. } = target.endpoint.address() else {
                        return Err(violation(&target.endpoint, &text));
                    };
                    if garbage.is_none() {
                        complain(&format!("this is not JSON-RPC, and passed over: {text}"));
                    }
                    garbage = Some(text);
                }
            },
        }
    };
    // The call may have ended first, in the same breath.
    while let Ok(finding) = findings.try_recv() {
        match finding {
            Finding::Refused(error) => return Err(refused(&target.endpoint, &error)),
            Finding::Garbage(text) => garbage = Some(text),
        }
    }
    match garbage {
        Some(text) if matches!(failed, CallError::Timeout | CallError::Closed(_)) => {
            Err(violation(&target.endpoint, &text))
        }
        _ if matches!(failed, CallError::Timeout) && peer.stats().invalid > 0 => {
            let text = format!(
                "no message can be found in what it sends, or one has more than {MAX_ANSWER} bytes"
            );
            Err(violation(&target.endpoint, &text))
        }
        _ => Err(not_answered(target, &failed)),
    }
}

/// Sends a notification, and sees it off.
async fn notify(peer: &Peer, target: &Target, limit: Duration) -> Result<Exit, Failure> {
    let sent = async {
        let sent = peer.notify(&target.method, target.params.as_deref()).await;
        sent.map_err(|error| not_answered(target, &error))?;
        let reason = peer.shutdown(limit).await;
        match reason.is_local() {
            true => Ok(Exit::Ok),
            false => Err(not_accepted(target, &reason)),
        }
    };
    let sent = tokio::time::timeout(limit, sent).await;
    sent.unwrap_or_else(|_| Err(not_taken(target)))
}

async fn print(result: &RawValue) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let text = layout(result.get(), Style::of(&stdout));
    let written = aside(move || writeln!(stdout, "{text}").and_then(|()| stdout.flush()));
    match written.await {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::usage(format!("cannot write the result: {error}"))),
        Ok(()) => Ok(()),
    }
}

// ---- what went wrong, where, and what to try ----

fn not_connected(error: &Error) -> Failure {
    match error {
        // The library has hints of its own, for who writes a program.
        Error::Connect { endpoint, cause } => {
            let text = format!("cannot connect to `{endpoint}`: {}", chain(cause));
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

/// What kind of failure it is, and what to try.
fn sort(endpoint: &Endpoint, cause: &io::Error) -> (Exit, &'static str) {
    if let Address::Tcp { port: 0, .. } = endpoint.address() {
        return (Exit::Unreachable, "port 0 is for listening; use 1–65535");
    }
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(error) = inner {
        return not_secured(error);
    }
    let command = matches!(endpoint.address(), Address::Command { .. });
    match cause.kind() {
        // The system has numbers for its own refusals; HTTP's have none.
        io::ErrorKind::PermissionDenied if is_url(endpoint) && cause.raw_os_error().is_none() => {
            (Exit::Auth, TOKEN_HINT)
        }
        io::ErrorKind::InvalidData => (Exit::Protocol, PATH_HINT),
        io::ErrorKind::Unsupported => (Exit::Usage, ""),
        io::ErrorKind::InvalidInput if matches!(endpoint.address(), Address::Unix { .. }) => {
            (Exit::Usage, "no socket can have it; use a shorter path")
        }
        io::ErrorKind::NotFound if command => (
            Exit::Unreachable,
            "there is no such program; give its path, or look at PATH",
        ),
        io::ErrorKind::NotFound => (
            Exit::Unreachable,
            "there is no such socket; is the server running?",
        ),
        io::ErrorKind::PermissionDenied => (Exit::Unreachable, "look at the file's permissions"),
        io::ErrorKind::ConnectionRefused => (
            Exit::Unreachable,
            "nobody listens there; is the server running, and is this its address?",
        ),
        _ => (
            Exit::Unreachable,
            "check the address, and that the server is running",
        ),
    }
}

/// Without TLS nothing of the server has been heard yet.
fn not_secured(error: &TlsError) -> (Exit, &'static str) {
    match error {
        TlsError::Handshake { .. } => (
            Exit::Unreachable,
            "does it speak TLS, at this port? http:// and ws:// do without",
        ),
        TlsError::Refused { .. } => (
            Exit::Unreachable,
            "the certificate is not trusted; SSL_CERT_FILE may name a file of those to trust",
        ),
        // It says itself what to do.
        TlsError::NoSystemRoots { .. } => (Exit::Unreachable, ""),
        _ => (Exit::Usage, ""),
    }
}

const TOKEN_HINT: &str = "give the right token with `--token` or CAUDAL_TOKEN";

fn not_answered(target: &Target, error: &CallError) -> Failure {
    let endpoint = &target.endpoint;
    match error {
        CallError::Remote(error) => refused(endpoint, error),
        CallError::Timeout => Failure::new(
            Exit::Timeout,
            format!(
                "`{endpoint}` did not answer `{}` in {:?}; it may still run; \
                 give it longer with `--timeout`",
                target.method, target.timeout,
            ),
        ),
        CallError::Closed(reason) | CallError::AlreadyClosed(reason) => lost(endpoint, reason),
        CallError::Response(_) | CallError::Result(_) => violation(endpoint, &chain(error)),
        _ => Failure::usage(chain(error)),
    }
}

/// A notification that may be on its way still.
fn not_taken(target: &Target) -> Failure {
    let text = format!(
        "`{}` did not take `{}` in time (`--timeout` is {:?}); it may still run",
        target.endpoint, target.method, target.timeout,
    );
    Failure::new(Exit::Timeout, text)
}

/// A notification that the server did not take, as its transport has heard.
fn not_accepted(target: &Target, reason: &CloseReason) -> Failure {
    let endpoint = &target.endpoint;
    match io_cause(reason) {
        Some(cause) => {
            let late = cause.kind() == io::ErrorKind::TimedOut;
            let cause = chain(cause);
            let text = format!("`{endpoint}` did not accept `{}`: {cause}", target.method);
            match late {
                true => Failure::new(Exit::Timeout, with_hint(text, "it may still run")),
                false => ended(endpoint, reason, text),
            }
        }
        None => lost(endpoint, reason),
    }
}

/// The server's own error; or HTTP's, in the form of one.
fn refused(endpoint: &Endpoint, error: &JsonRpcError) -> Failure {
    if let Some((exit, hint)) = fault(endpoint, error) {
        if let Some(body) = unexpected(error) {
            return violation(endpoint, &format!("{}: `{body}`", error.message));
        }
        let text = format!("`{endpoint}`: {}", error.message);
        return Failure::new(exit, with_hint(text, hint));
    }
    let json = serde_json::to_string(error).unwrap_or_else(|_| error.to_string());
    Failure::rpc(layout(&json, Style::of(&io::stderr())))
}

/// The body of a response whose status says that all is well.
fn unexpected(error: &JsonRpcError) -> Option<&str> {
    let data = error.data.as_ref()?;
    let status = data.get("status")?.as_u64()?;
    let body = data.get("body")?.as_str()?;
    matches!(status, 200..=299).then_some(body)
}

/// What the transport says in the form of an error: no server has sent it.
fn fault(endpoint: &Endpoint, error: &JsonRpcError) -> Option<(Exit, &'static str)> {
    use caudal::http::fault::{LOST, REFUSED, STATUS, TOO_LARGE};
    let Address::Http { .. } = endpoint.address() else {
        return None;
    };
    let member = |name: &str| error.data.as_ref()?.get(name);
    let status = member("status").and_then(serde_json::Value::as_u64);
    let is = |code: i64| error.code == code;
    match status {
        Some(401 | 403) if is(REFUSED) => Some((Exit::Auth, TOKEN_HINT)),
        Some(502..=504) if is(STATUS) => Some((Exit::Unreachable, "try again later")),
        Some(_) if is(STATUS) => Some((Exit::Protocol, PATH_HINT)),
        // What came is not even HTTP, and has no status.
        None if is(STATUS) && (member("sent").is_some() || member("body").is_some()) => {
            Some((Exit::Protocol, PATH_HINT))
        }
        None if is(LOST) && member("sent").is_some() => Some((
            Exit::Unreachable,
            "check the address, and that the server is running",
        )),
        None if is(TOO_LARGE) && error.data.is_none() => Some((Exit::Protocol, "")),
        _ => None,
    }
}

const PATH_HINT: &str = "is it a JSON-RPC server, at this path?";

fn lost(endpoint: &Endpoint, reason: &CloseReason) -> Failure {
    let cause = chain(reason);
    let text = format!("the connection to `{endpoint}` ended too early: {cause}");
    ended(endpoint, reason, text)
}

/// Adds to `text` what the reason says about what to try.
fn ended(endpoint: &Endpoint, reason: &CloseReason, text: String) -> Failure {
    let sorted = io_cause(reason).map(|cause| sort(endpoint, cause));
    let exit = match sorted {
        Some((exit @ (Exit::Auth | Exit::Protocol), _)) => exit,
        _ if causes(reason).any(|cause| cause.is::<FrameError>()) => Exit::Protocol,
        _ => Exit::Unreachable,
    };
    let hint = match exit {
        Exit::Auth => TOKEN_HINT,
        Exit::Protocol if is_url(endpoint) => PATH_HINT,
        Exit::Protocol => "is it JSON-RPC, and the right `--framing`?",
        _ => "the server's own log may say why; it may have run",
    };
    Failure::new(exit, with_hint(text, hint))
}

type Cause = dyn StdError + 'static;

fn causes(reason: &CloseReason) -> impl Iterator<Item = &Cause> {
    std::iter::successors(reason.source(), |cause: &&Cause| (**cause).source())
}

fn io_cause(reason: &CloseReason) -> Option<&io::Error> {
    causes(reason).find_map(|cause| cause.downcast_ref())
}

fn violation(endpoint: &Endpoint, text: &str) -> Failure {
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
    use super::*;
    use serde_json::json;

    #[test]
    fn what_http_says_is_no_answer_of_the_server() {
        let http: Endpoint = "http://127.0.0.1:1/rpc#sse".parse().unwrap();
        let tcp: Endpoint = "tcp://127.0.0.1:1".parse().unwrap();
        let cases = [
            (-32011, json!({ "status": 401 }), Exit::Auth),
            (-32011, json!({ "status": 403, "body": "no" }), Exit::Auth),
            (-32010, json!({ "status": 404, "body": "" }), Exit::Protocol),
            (
                -32010,
                json!({ "status": 200, "body": "<html>" }),
                Exit::Protocol,
            ),
            (
                -32010,
                json!({ "status": 503, "body": "" }),
                Exit::Unreachable,
            ),
            // What came is not even HTTP.
            (-32010, json!({ "sent": true }), Exit::Protocol),
            (-32010, json!({ "body": "SSH-2.0" }), Exit::Protocol),
            (-32010, json!({}), Exit::Rpc),
            (-32012, json!({ "sent": false }), Exit::Unreachable),
            (1001, json!({ "status": 404 }), Exit::Rpc),
            (1001, json!({ "status": 401 }), Exit::Rpc),
            (1001, json!({ "status": 403 }), Exit::Rpc),
            (-32012, json!({}), Exit::Rpc),
        ];
        for (code, data, exit) in cases {
            let error = JsonRpcError::with_data(code, "x", data);
            assert_eq!(refused(&http, &error).exit, exit, "{error:?}");
            assert_eq!(refused(&tcp, &error).exit, Exit::Rpc, "{error:?}");
        }
        let error = JsonRpcError::new(-32013, "the answer is larger than 1 bytes");
        assert_eq!(refused(&http, &error).exit, Exit::Protocol);
    }

    #[test]
    fn a_refusal_of_http_is_told_from_one_of_the_system() {
        let denied = io::Error::new(io::ErrorKind::PermissionDenied, "HTTP 401");
        let os = io::Error::from_raw_os_error(13);
        assert_eq!(os.kind(), io::ErrorKind::PermissionDenied);
        let ws: Endpoint = "ws://127.0.0.1:1/rpc".parse().unwrap();
        assert_eq!(sort(&ws, &denied).0, Exit::Auth);
        assert_eq!(sort(&ws, &os).0, Exit::Unreachable);
        assert_eq!(sort(&Endpoint::unix("x"), &denied).0, Exit::Unreachable);
        // A session that is ended so says it by its reason.
        let reason = CloseReason::failed(denied);
        assert_eq!(lost(&ws, &reason).exit, Exit::Auth);
        let reason = CloseReason::failed(FrameError::MissingLength);
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
        let target = Target {
            endpoint: "http://127.0.0.1:1/rpc".parse().unwrap(),
            method: "x".to_owned(),
            params: None,
            timeout: Duration::from_secs(1),
        };
        for (kind, exit) in [
            (io::ErrorKind::PermissionDenied, Exit::Auth),
            (io::ErrorKind::InvalidData, Exit::Protocol),
            (io::ErrorKind::TimedOut, Exit::Timeout),
            (io::ErrorKind::ConnectionReset, Exit::Unreachable),
            (io::ErrorKind::Other, Exit::Unreachable),
        ] {
            let reason = CloseReason::failed(io::Error::new(kind, "HTTP 401"));
            assert_eq!(not_accepted(&target, &reason).exit, exit, "{kind}");
        }
        let reason = CloseReason::remote();
        assert_eq!(not_accepted(&target, &reason).exit, Exit::Unreachable);
    }
}

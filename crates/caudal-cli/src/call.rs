//! `caudal call`: one call, its result on stdout.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use caudal::transport::ChildOptions;
use caudal::{Address, CallError, Config, Endpoint, EndpointError, Peer, RawValue};
use tokio::sync::mpsc;

use crate::args::Call;
use crate::endpoint::{self, Role, Token, is_program, is_url};
use crate::exit::{Exit, Failure, complain};
use crate::explain::{
    garbled, has_failed, instead, not_accepted, not_answered, not_connected, not_taken, not_whole,
    old, rpc_error, violation,
};
use crate::findings::{Finding, Findings, Garbage, GarbageKind, PASSED_OVER, lenient};
use crate::layout::{Style, layout};
use crate::params;
use crate::signals::{Limit, Signals, aside};

/// Maximum size of an answer.
const MAX_ANSWER: usize = 64 << 20;
/// Time for the connection to end when the answer is there. A program has
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

/// Call that is to be made.
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
    /// Time limit for all of it, as it was typed.
    pub(crate) timeout: Duration,
}

async fn carry_out(call: Call) -> Result<Exit, Failure> {
    let target = target(&call).await?;
    let token = Token::find(call.token)?;
    let options = endpoint::options(&target.endpoint, token, &call.header)?;
    let mut config = Config::default();
    config.policy.max_message = MAX_ANSWER;
    if call.lenient {
        config.policy = lenient(config.policy);
    }
    let (watch, findings) = Findings::new(call.verbose, config.policy);
    let watch = Arc::new(watch);
    config.tap = Some(Arc::clone(&watch) as _);

    let started = Instant::now();
    let limit = Limit::new(call.timeout)?;
    let mut child = ChildOptions::default().end_with_parent(true);
    if call.notify {
        // Only the exit of a program shows that it has handled the notification.
        child = child.grace(call.timeout);
    }
    let connect = caudal::connect(&target.endpoint)
        .config(config)
        .http(options)
        .child(child)
        .timeout(call.timeout);
    let peer = connect.await.map_err(|error| not_connected(&error))?;
    let left = call.timeout.saturating_sub(started.elapsed());
    // Zero would be for ever.
    let left = left.max(Duration::from_millis(1));
    if call.notify {
        return notify(&peer, &target, left).await;
    }
    let result = ask(&peer, &target, left, &watch, findings).await;
    watch.stop_showing();
    drop(limit);
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
        [params, method] if is_params(params) && !is_params(method) && *method != "-" => {
            return Err(Failure::usage(format!(
                "the method stands before its params: {} {}",
                params::quote(method),
                params::quote(params),
            )));
        }
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
    let endpoint = endpoint::parse(first, framing, Role::Call).map_err(|failure| match rest {
        _ if ends_in_dashes() => {
            Failure::usage(format!("the program is missing after `--`; {FORMS}"))
        }
        [second, further @ ..] if second.parse::<Endpoint>().is_ok() => {
            let words = [*second, *first].into_iter().chain(further.iter().copied());
            let words: Vec<_> = words.map(params::quote).collect();
            Failure::usage(format!(
                "the endpoint stands first: caudal call {}",
                words.join(" "),
            ))
        }
        [] if is_name(first) => missing(first),
        [second, ..] if is_params(second) => missing(first),
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

/// Returns true if `--` was typed last; the parsed arguments do not tell it from nothing.
fn ends_in_dashes() -> bool {
    std::env::args_os().last().is_some_and(|word| word == "--")
}

/// Returns true if a word is an array or an object, or is meant to be.
fn is_params(word: &str) -> bool {
    word.starts_with(['[', '{'])
}

fn missing(method: &str) -> Failure {
    Failure::usage(format!("ENDPOINT is missing before `{method}`; {FORMS}"))
}

/// Returns true if a word can only be a method or a program; a program needs a method.
fn is_name(word: &str) -> bool {
    let error = word.parse::<Endpoint>();
    matches!(error, Err(EndpointError::NoScheme(_, hint)) if hint.starts_with("cmd:"))
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

const ECHO: &str = "it sends back what it was sent";

/// Calls, and waits for the answer or for what takes its place.
async fn ask(
    peer: &Peer,
    target: &Target,
    limit: Duration,
    watch: &Findings,
    mut findings: mpsc::Receiver<Finding>,
) -> Result<Box<RawValue>, Failure> {
    let call = peer
        .call_raw(&target.method, target.params.as_deref())
        .timeout(limit);
    let mut call = std::pin::pin!(call.into_future());
    let program = is_program(&target.endpoint);
    let (mut garbage, mut passed_over) = (None, 0);
    let error = loop {
        tokio::select! {
            biased;
            answer = &mut call => match answer {
                Ok(result) => return Ok(result),
                Err(error) => break error,
            },
            Some(finding) = findings.recv() => {
                let found = garbage_of(finding, &target.endpoint)?;
                passed_over += 1;
                let framing = [GarbageKind::Framing, GarbageKind::Headers];
                // A program may print before it serves; others have no excuse.
                let excused = program && !framing.contains(&found.kind);
                if !excused || passed_over == PASSED_OVER {
                    return Err(garbled(&target.endpoint, &found));
                }
                if garbage.is_none() {
                    let text = &found.text;
                    complain(&format!("this is not JSON-RPC, and passed over: {text}"));
                }
                garbage = Some(found);
            },
        }
    };
    // The call may have ended first, in the same breath.
    while let Ok(finding) = findings.try_recv() {
        let found = garbage_of(finding, &target.endpoint)?;
        // What others than a program say first tells most.
        if program || garbage.is_none() {
            garbage = Some(found);
        }
    }
    Err(unanswered(peer, target, watch, &error, garbage))
}

/// Garbage that was found, or the failure if the finding is another one.
fn garbage_of(finding: Finding, endpoint: &Endpoint) -> Result<Garbage, Failure> {
    match finding {
        Finding::Refused(error) => Err(rpc_error(&error)),
        Finding::Echo => Err(violation(endpoint, ECHO)),
        Finding::Old(text) => Err(old(endpoint, &text)),
        Finding::Garbage(found) => Ok(found),
    }
}

/// Explains why a call has no answer.
fn unanswered(
    peer: &Peer,
    target: &Target,
    watch: &Findings,
    error: &CallError,
    garbage: Option<Garbage>,
) -> Failure {
    let understood = watch.has_understood();
    let is_late = matches!(error, CallError::Timeout);
    let stats = peer.stats();
    match garbage {
        Some(garbage) if is_late || matches!(error, CallError::Closed(_)) => {
            instead(target, error, &garbage, understood)
        }
        _ if is_late && stats.invalid > 0 => {
            let text = format!(
                "no message can be found in what it sends, or one has more than {MAX_ANSWER} bytes"
            );
            violation(&target.endpoint, &text)
        }
        _ if is_late
            && stats.bytes_received > 0
            && !is_url(&target.endpoint)
            && !watch.has_heard() =>
        {
            not_whole(target, stats.bytes_received)
        }
        _ => not_answered(target, error, understood),
    }
}

/// Sends a notification, and sees it off.
async fn notify(peer: &Peer, target: &Target, limit: Duration) -> Result<Exit, Failure> {
    let sent = async {
        let sent = peer.notify(&target.method, target.params.as_deref()).await;
        sent.map_err(|error| not_answered(target, &error, false))?;
        let reason = peer.shutdown(limit).await;
        match reason.is_local() && !has_failed(&reason) {
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

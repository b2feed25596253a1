//! The command line: what may be typed, and the manual.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use caudal::Framing;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::limits::Limits;

const ENDPOINTS: &str = "\
Endpoints:
  http://HOST:PORT/PATH       HTTP: each call is a POST; also https://
  http://HOST:PORT/PATH#sse   the same, and the server speaks by server-sent events
  http://HOST:PORT/PATH#poll  the same, and the server speaks by long polling
  ws://HOST:PORT/PATH         WebSocket; also wss://
  tcp://HOST:PORT             TCP
  unix:PATH                   a Unix socket
  'cmd:PROGRAM ARGS'          a program, spoken to through its stdin and stdout
  stdio:                      this program's own stdin and stdout (serve only)
#sse and #poll are for `call`; over HTTP `serve` has both in any case.
The last four may end in ?framing=FRAMING, which --framing says too:
  line (a message a line; the default), header (Content-Length headers, as language
  servers speak) or concatenated (one message after the other).";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  wrong usage: arguments, endpoint or params; or `serve` cannot listen; or `call`
     cannot write the result to stdout (a pipe that nobody reads is no failure)
  2  no answer within --timeout; the call may still have run
  3  not let in: the server wants a token, or another one (HTTP 401); or it does not
     let in this caller, or this Host (HTTP 403); or a proxy does not (HTTP 407)
  4  not reached, or the connection was lost before the answer came; or the server has
     no time now (HTTP 429 and 502 to 504); or `serve` cannot write an answer to stdout
  5  the server answered with an error, which is on stderr as JSON
  6  what came back is not valid JSON-RPC
  130  ended by Ctrl-C or SIGTERM before it was done";

const EXAMPLES: &str = "\
Examples:
  caudal serve
  caudal call http://127.0.0.1:4100/rpc add '[1,2]'
  caudal help call";

const CALL_EXAMPLES: &str = "\
Examples:
  caudal call http://127.0.0.1:4100/rpc add '[1,2]'
  caudal call http://127.0.0.1:4100/rpc subtract '{\"minuend\":5,\"subtrahend\":3}'
  caudal call ws://127.0.0.1:4100/rpc ticks.start '{\"count\":3,\"wait\":true}' --verbose
  caudal call tcp://127.0.0.1:4100 add - < params.json
  caudal call unix:/run/my.sock reload --notify
  caudal call add '[1,2]' -- ./server --flag
  caudal call initialize '{\"capabilities\":{}}' --framing header -- rust-analyzer
  CAUDAL_TOKEN=s3cret caudal call https://api.example.com/rpc status --timeout 2s

The result goes to stdout as JSON: laid out at a terminal, else in one line; numbers keep
every digit. Everything else goes to stderr, also what a program writes to its own. If the
server answers with an error, stdout stays empty, and stderr has the error object:
{\"code\":…,\"message\":…,\"data\":…}.

A token in the environment is not seen by other users of this machine, as --token is.
Over https:// and wss:// the certificates that the system trusts are believed, or those in
the file that SSL_CERT_FILE names.";

const SERVE_EXAMPLES: &str = "\
Examples:
  caudal serve
  caudal serve --listen http://127.0.0.1:0/rpc       the system chooses a port
  caudal serve --token s3cret
  caudal serve --listen http://0.0.0.0:4100/rpc --allow-remote --token s3cret
  caudal serve --listen http://10.0.0.7:4100/rpc --allow-remote --allow-host box.example.com
  caudal serve --allow-origin https://app.example.com
  caudal serve --max-connections-per-address 5000
  caudal serve --listen https://127.0.0.1:4443/rpc --cert chain.pem --key key.pem
  caudal serve --listen tcp://127.0.0.1:4100
  caudal serve --listen unix:/tmp/caudal.sock --framing header
  caudal call add '[1,2]' -- caudal serve --listen stdio:

Methods, and their params:
  add                               [a,b], integers
  subtract                          [a,b] or {\"minuend\":a,\"subtrahend\":b}
  sum                               [n,…]
  echo                              anything or none
  get_data                          anything or none
  update, notify_hello, notify_sum  anything or none
  slow                              {\"ms\":n}
  fail                              anything or none
  panic                             anything or none
  ticks.start                       {\"every_ms\":1000,\"count\":10,\"wait\":false}
  ticks.stop                        none

A certificate to try https:// and wss:// with; clients trust it if SSL_CERT_FILE names it:
  openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out chain.pem \\
    -subj /CN=localhost -addext basicConstraints=critical,CA:FALSE \\
    -addext subjectAltName=DNS:localhost,IP:127.0.0.1

Ctrl-C and SIGTERM let what runs finish, for 10 s at most, and end with exit code 0; a
second one ends at once.";

/// Call any JSON-RPC 2.0 endpoint, or serve one to try
#[derive(Debug, Parser)]
#[command(
    name = "caudal",
    version,
    arg_required_else_help = true,
    after_help = format!("{EXAMPLES}\n\n{ENDPOINTS}\n\n{EXIT_CODES}"),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Call(Call),
}

impl Command {
    /// Maximum time of the command; zero for `serve`, which has none.
    pub(crate) const fn limit(&self) -> Duration {
        match self {
            Self::Serve(_) => Duration::ZERO,
            Self::Call(call) => call.timeout,
        }
    }
}

/// Serve methods to try, until Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = format!("{SERVE_EXAMPLES}\n\n{ENDPOINTS}\n\n{EXIT_CODES}"))]
pub(crate) struct Serve {
    /// Where to listen; over HTTP one path serves POST, WebSocket and sessions
    #[arg(
        long,
        value_name = "ENDPOINT",
        default_value = "http://127.0.0.1:4100/rpc"
    )]
    pub(crate) listen: String,

    /// Let in only who knows this token, over HTTP; also CAUDAL_TOKEN in the environment
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// Let other machines connect; without this only loopback addresses are served
    #[arg(long)]
    pub(crate) allow_remote: bool,

    /// Let callers name this host, over HTTP, beside loopback's and the address that is
    /// served (on 0.0.0.0, any address in numbers); may be given again
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub(crate) allow_host: Vec<String>,

    /// Let pages of this origin call, over HTTP, beside the server's own; may be given again
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) allow_origin: Vec<String>,

    /// The certificate for https:// and wss://, and those that lead to its root, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// Its private key, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// How messages are told apart without HTTP: see below
    #[arg(long, value_name = "FRAMING")]
    pub(crate) framing: Option<FramingName>,

    #[command(flatten)]
    pub(crate) limits: Limits,

    /// Taken in only to say where an endpoint is written.
    #[arg(hide = true)]
    pub(crate) further: Vec<String>,
}

/// Call a method, and print its result
#[derive(Debug, Args)]
#[command(
    override_usage = "caudal call [OPTIONS] ENDPOINT METHOD [PARAMS]\n       \
                      caudal call [OPTIONS] METHOD [PARAMS] -- PROGRAM [ARGS]...",
    after_help = format!("{CALL_EXAMPLES}\n\n{ENDPOINTS}\n\n{EXIT_CODES}"),
)]
pub(crate) struct Call {
    /// Whom to call; left out if a program follows after `--`
    #[arg(value_name = "ENDPOINT")]
    pub(crate) first: Option<String>,

    /// The method
    #[arg(value_name = "METHOD")]
    pub(crate) second: Option<String>,

    /// Its params as one JSON text: '[1,2]' or '{"a":1}'; `-` reads it from stdin
    #[arg(value_name = "PARAMS", allow_negative_numbers = true)]
    pub(crate) third: Option<String>,

    /// Taken in only to say how an array is written.
    #[arg(hide = true, allow_negative_numbers = true)]
    pub(crate) further: Vec<String>,

    /// A program to start and call through its stdin and stdout, and its arguments
    #[arg(last = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<String>,

    /// Send a notification: it has no answer, and nothing is printed. Over HTTP it waits
    /// for the response, which caudal sends when it is handled, or in a session when it is
    /// accepted; and with a program until that has ended
    #[arg(long)]
    pub(crate) notify: bool,

    /// How long connecting and calling may take in all: 500ms, 2s, 1.5m, 1h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) timeout: Duration,

    /// A header for HTTP and WebSocket; may be given again
    #[arg(long, value_name = "'NAME: VALUE'")]
    pub(crate) header: Vec<String>,

    /// A bearer token for HTTP and WebSocket; also CAUDAL_TOKEN in the environment
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,

    /// How messages are told apart without HTTP: see below
    #[arg(long, value_name = "FRAMING")]
    pub(crate) framing: Option<FramingName>,

    /// Accept what old servers answer: `"error":null` beside a result, `"result":null` beside
    /// an error, and the call's id as a string
    #[arg(long)]
    pub(crate) lenient: bool,

    /// Show notifications that come before the answer, on stderr
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FramingName {
    Line,
    Header,
    Concatenated,
}

impl From<FramingName> for Framing {
    fn from(name: FramingName) -> Self {
        match name {
            FramingName::Line => Self::Line,
            FramingName::Header => Self::Header,
            FramingName::Concatenated => Self::Concatenated,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    const HINT: &str = "write it as in 500ms, 2s, 1.5m or 1h";
    if text.starts_with('-') {
        return Err(format!("it must be longer than nothing; {HINT}"));
    }
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.strip_suffix(unit).unwrap_or(text);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" => return Err(format!("it has no unit; {HINT}")),
        _ => return Err(format!("`{unit}` is not a unit; {HINT}")),
    };
    let number: f64 = number.parse().map_err(|_| HINT)?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if duration.is_zero() => Err("it must be longer than nothing".to_owned()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("it is too long".to_owned()),
    }
}

/// A host as the header of that name has it: what is none matches nothing.
fn host(text: &str) -> Result<String, String> {
    match is_host(text) {
        true => Ok(text.to_owned()),
        false => Err(
            "it is no host; write one such as `example.org` or `example.org:8080`; an address of \
             IPv6 stands in brackets"
                .to_owned(),
        ),
    }
}

/// An origin as browsers write it: what they never send matches nothing.
fn origin(text: &str) -> Result<String, String> {
    const HINT: &str = "write one such as `https://app.example.org` or `http://localhost:3000`, \
                        without a path";
    let Some((scheme, host)) = text.split_once("://") else {
        return Err(format!("it is no origin; {HINT}"));
    };
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(in_scheme);
    if !is_scheme || !is_host(host) {
        return Err(format!("it is no origin; {HINT}"));
    }
    let port = match &*scheme.to_ascii_lowercase() {
        "http" => ":80",
        "https" => ":443",
        _ => return Ok(text.to_owned()),
    };
    match host.strip_suffix(port) {
        Some(host) => Err(format!(
            "browsers leave out this port; write `{scheme}://{host}`"
        )),
        None => Ok(text.to_owned()),
    }
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        // It is within an address.
        Some((_, rest)) if rest.ends_with(']') => (text, None),
        Some((name, port)) => (name, Some(port)),
        None => (text, None),
    };
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = match name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
    {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.bytes().all(in_name),
    };
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = port.is_none_or(|port| digits(port) && port.parse::<u16>().is_ok());
    is_name && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        let good = [
            ("500ms", 500),
            ("2s", 2000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
            ("0.5s", 500),
        ];
        for (text, ms) in good {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "5", "s", "-1s", "1d", "0s", "0ms", "1e9s", "1..2s", "1 s", "nans",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        let endless = "9".repeat(400) + "h";
        assert!(duration(&endless).is_err());
    }
}

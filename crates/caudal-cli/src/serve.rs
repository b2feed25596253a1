//! `caudal serve`: serves the demo methods until it is stopped.

use std::error::Error as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use caudal::http::{Allowed, Options};
use caudal::tls::{ServerTls, TlsError};
use caudal::{
    Address, CloseReason, Config, Downlink, Endpoint, Error, Peer, ServerLimits, transport,
};
use caudal_cli::demo;

use crate::args::Serve;
use crate::banner;
use crate::endpoint::{self, Role, TOKEN, Token, is_url};
use crate::exit::{Exit, Failure, chain, complain};
use crate::log;
use crate::params::quote;
use crate::signals::Signals;

/// Maximum time for running requests to finish after Ctrl-C.
const DRAIN: Duration = Duration::from_secs(10);

pub(crate) async fn run(serve: Serve) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let endpoint = endpoint(&serve)?;
    let token = Token::find(serve.token)?;
    let mut options = options(
        &endpoint,
        token.as_ref(),
        serve.allow_host,
        serve.allow_origin,
    )?;
    let mut config = demo::config();
    let mut limits = ServerLimits::default();
    let given = &serve.limits;
    given.set(&endpoint, &mut config, &mut limits, &mut options)?;
    options.tls = tls(&endpoint, serve.cert.as_deref().zip(serve.key.as_deref()))?;
    log::show();
    if *endpoint.address() == Address::Stdio {
        return on_stdio(&endpoint, config, signals).await;
    }
    let mut listen = caudal::serve(&endpoint, demo::router())
        .config(config)
        .limits(limits)
        .http(options);
    if serve.allow_remote {
        listen = listen.allow_remote();
    }
    let server = listen.await.map_err(|error| not_listening(&error))?;
    announce(server.endpoint(), token.as_ref(), serve.cert.as_deref());
    tokio::select! {
        () = server.wait() => return Ok(Exit::Ok),
        () = signals.next() => {}
    }
    complain(STOPPING);
    tokio::select! {
        () = server.shutdown(DRAIN) => Ok(Exit::Ok),
        () = signals.next() => Err(Failure::interrupted()),
    }
}

const STOPPING: &str = "stopping; once more ends it at once";

/// The one connection that there is; if it is lost, so may be answers.
async fn on_stdio(
    endpoint: &Endpoint,
    config: Config,
    mut signals: Signals,
) -> Result<Exit, Failure> {
    let stdio = transport::stdio(endpoint.framing());
    let stdio = stdio.map_err(|cause| {
        not_listening(&Error::Listen {
            endpoint: Box::new(endpoint.clone()),
            cause,
        })
    })?;
    announce(endpoint, None, None);
    let peer = Peer::start_with(stdio, demo::router(), config);
    tokio::select! {
        reason = peer.closed() => return ended(&reason),
        () = signals.next() => {}
    }
    complain(STOPPING);
    tokio::select! {
        reason = peer.shutdown(DRAIN) => ended(&reason),
        () = signals.next() => Err(Failure::interrupted()),
    }
}

fn ended(reason: &CloseReason) -> Result<Exit, Failure> {
    let cause = reason.source().and_then(|cause| cause.downcast_ref());
    match cause.map(io::Error::kind) {
        // The reader has closed the pipe, which is no failure.
        None | Some(io::ErrorKind::BrokenPipe) => Ok(Exit::Ok),
        Some(_) => Err(Failure::new(
            Exit::Unreachable,
            format!(
                "stdin or stdout failed, and answers may be lost: {}",
                chain(reason)
            ),
        )),
    }
}

fn endpoint(serve: &Serve) -> Result<Endpoint, Failure> {
    let framing = serve.framing.map(Into::into);
    if let Some(word) = serve.further.first() {
        return Err(Failure::usage(match word.parse::<Endpoint>() {
            Ok(_) => format!(
                "`{word}` stands alone; to listen there write `caudal serve --listen {}`",
                quote(word),
            ),
            Err(_) => format!("unexpected argument `{word}`; see `caudal help serve`"),
        }));
    }
    let endpoint = endpoint::parse(&serve.listen, framing, Role::Serve)?;
    let Address::Http { url, downlink } = endpoint.address() else {
        return Ok(endpoint);
    };
    if *downlink != Downlink::None {
        complain(&format!(
            "who calls chooses events or polling, and both are served in any case: `{}` is as good \
             as `{url}`",
            serve.listen,
        ));
    }
    endpoint::parse(url, None, Role::Serve)
}

/// Reads the server's certificate and key, which only TLS needs.
fn tls(endpoint: &Endpoint, files: Option<(&Path, &Path)>) -> Result<Option<ServerTls>, Failure> {
    match (endpoint::is_secure(endpoint), files) {
        (true, Some((cert, key))) => match ServerTls::read(cert, key) {
            Ok(tls) => {
                if let Err(error) = tls.check() {
                    complain(&format!(
                        "{error}; clients may refuse it; `caudal help serve` says how to make one \
                         that they take"
                    ));
                }
                Ok(Some(tls))
            }
            Err(error) => Err(Failure::usage(format!(
                "`{}`: {}",
                flag(&error, cert),
                chain(&error),
            ))),
        },
        (true, None) => Err(Failure::usage(format!(
            "`{endpoint}` needs a certificate; name its file and that of its key with `--cert` \
             and `--key`"
        ))),
        (false, Some(_)) => {
            let text = endpoint.to_string();
            let (scheme, rest) = text.split_once("://").unwrap_or_default();
            let instead = match scheme {
                "http" | "ws" => format!("; to use it, serve `{scheme}s://{rest}`"),
                _ => String::new(),
            };
            Err(Failure::usage(format!(
                "`--cert` is for https:// and wss://; `{endpoint}` has no TLS{instead}"
            )))
        }
        (false, None) => Ok(None),
    }
}

/// Which of the two files an error is about.
fn flag(error: &TlsError, cert: &Path) -> &'static str {
    let of_cert = match error {
        TlsError::Read { path, .. } => path == cert,
        TlsError::Pem { origin, .. } => *origin == format!("`{}`", cert.display()),
        TlsError::NoCertificate { .. } | TlsError::Certificate { .. } => true,
        _ => false,
    };
    if of_cert { "--cert" } else { "--key" }
}

fn options(
    endpoint: &Endpoint,
    token: Option<&Token>,
    hosts: Vec<String>,
    origins: Vec<String>,
) -> Result<Options, Failure> {
    let mut options = Options::default();
    match token {
        Some(token) if is_url(endpoint) => options.tokens.push(token.text().into()),
        Some(Token::Typed(_)) => {
            return Err(Failure::usage(format!(
                "`--token` is checked over HTTP and WebSocket only; `{endpoint}` would let \
                 everybody in"
            )));
        }
        Some(Token::Environment(_)) => {
            complain(&format!(
                "{TOKEN} is not checked here: only HTTP and WebSocket have tokens"
            ));
        }
        None => {}
    }
    if !hosts.is_empty() {
        if !is_url(endpoint) {
            return Err(Failure::usage(format!(
                "`--allow-host` is for HTTP and WebSocket only; `{endpoint}` is told no host"
            )));
        }
        options.hosts = Allowed::of(hosts);
    }
    if !origins.is_empty() {
        if !is_url(endpoint) {
            return Err(Failure::usage(format!(
                "`--allow-origin` is for HTTP and WebSocket only; no page reaches `{endpoint}`"
            )));
        }
        options.origins = Allowed::of(origins);
    }
    Ok(options)
}

/// Says where it listens: on stdout, unless that belongs to the protocol.
fn announce(endpoint: &Endpoint, token: Option<&Token>, cert: Option<&Path>) {
    let text = banner::text(endpoint, token, cert);
    let mut out: Box<dyn Write> = match endpoint.address() {
        Address::Stdio => Box::new(io::stderr()),
        _ => Box::new(io::stdout()),
    };
    // The server runs even if the text cannot be printed.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn not_listening(error: &Error) -> Failure {
    match error {
        Error::NotLoopback { endpoint } => {
            let token = match is_url(endpoint) {
                true => ", and better with `--token`",
                false => "; everybody who reaches it is let in",
            };
            Failure::usage(format!(
                "`{endpoint}` is no loopback address, so other machines may reach it; if that is meant, say \
                 `--allow-remote`{token}"
            ))
        }
        Error::Unsupported { endpoint, .. }
            if matches!(endpoint.address(), Address::Command { .. }) =>
        {
            Failure::usage(format!(
                "`{endpoint}` cannot be served: a program is called, with `caudal call METHOD \
                 [PARAMS] -- PROGRAM [ARGS]`"
            ))
        }
        // It says itself what to do.
        Error::Listen { endpoint, cause } if cause.kind() == io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("cannot listen on `{endpoint}`: {}", chain(cause)))
        }
        // The library has hints of its own, for who writes a program.
        Error::Listen { endpoint, cause } => Failure::usage(format!(
            "cannot listen on `{endpoint}`: {}; {}",
            chain(cause),
            hint(endpoint, cause),
        )),
        _ => Failure::usage(chain(error)),
    }
}

fn hint(endpoint: &Endpoint, cause: &io::Error) -> String {
    let unix = matches!(endpoint.address(), Address::Unix { .. });
    if let Address::Unix { path } = endpoint.address()
        && let Some(folder) = path.parent()
        && cause.kind() == io::ErrorKind::NotFound
    {
        return format!("make the folder `{}` first", folder.display());
    }
    match cause.kind() {
        io::ErrorKind::AddrInUse if unix => "stop it, or choose another path".to_owned(),
        io::ErrorKind::AddrInUse => format!(
            "another program has this port: stop it, or choose another with `--listen {}` (port 0 \
             is any free one)",
            banner::with_port(endpoint, 0),
        ),
        io::ErrorKind::PermissionDenied if !unix => {
            "ports below 1024 are for root; choose a higher one".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        _ => "choose another with `--listen`".to_owned(),
    }
}

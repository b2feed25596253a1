//! Sorts the error of a connection: the kind of a failure, and a remedy.

use std::io;

use caudal::tls::TlsError;
use caudal::{Address, Endpoint, StatusError};

use crate::endpoint::is_program;
use crate::exit::Exit;

/// Returns the kind of a failure, and a remedy.
pub(super) fn sort(endpoint: &Endpoint, cause: &io::Error) -> (Exit, &'static str) {
    if endpoint.port() == Some(0) {
        return (Exit::Unreachable, "port 0 is for listening; use 1–65535");
    }
    let inner = cause.get_ref();
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref()) {
        return not_secured(error);
    }
    if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<StatusError>()) {
        return match refused_by(error.status, &error.body) {
            // It may be there, and take a POST only.
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
        // The file is there, so that it is not what was not found.
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

/// Without TLS nothing of the server has been heard yet.
fn not_secured(error: &TlsError) -> (Exit, &'static str) {
    match error {
        TlsError::Handshake { .. } => (
            Exit::Unreachable,
            "does it speak TLS, at this port? http:// and ws:// do without",
        ),
        // What `openssl req -x509` makes, unless it is told otherwise.
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
        // It says itself what to do.
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

/// Sorts a response of HTTP that carries no answer.
pub(super) fn refused_by(status: u16, body: &str) -> (Exit, &'static str) {
    match status {
        300..=399 => (
            Exit::Protocol,
            "redirects are not followed; call the address that it leads to",
        ),
        401 => (Exit::Auth, TOKEN_HINT),
        // It says itself which of its lists it has looked at.
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

pub(super) const TOKEN_HINT: &str = "give the right token with `--token` or CAUDAL_TOKEN";
pub(super) const CALLER_HINT: &str = "it does not let this caller in, or not by this address";
const HOST_HINT: &str = "`caudal serve` has `--allow-host` for it";
const ORIGIN_HINT: &str = "leave the Origin header out: only browsers need it, and for these \
                           `caudal serve` has `--allow-origin`";

pub(super) const PATH_HINT: &str = "is it a JSON-RPC server, at this path?";
/// The same where a WebSocket was asked for.
const UPGRADE_HINT: &str = "is it a JSON-RPC server, at this path? without WebSocket it is called \
                            as http:// or https://";
/// The same where not even HTTP was heard.
const HTTP_HINT: &str = "is it the right port? JSON-RPC over a bare socket is called as tcp://, \
                         and with TLS as https:// or wss://";

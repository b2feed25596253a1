//! Errors of listening and connecting.

use std::fmt::{self, Display};
use std::io;

use caudal_core::EncodeError;
use thiserror::Error;

use crate::call::incident::Chain;
use crate::endpoint::{Address, Downlink, Endpoint, EndpointError};

/// Why a server does not listen, or a client is not connected.
///
/// It says what to try. `Debug` prints the same as `Display`, and all its sources
/// behind it, so that a `main` that returns it ends with a line for people.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use caudal::{Error, Router};
///
/// let error = caudal::serve("localhost:4017", Router::new()).await.unwrap_err();
/// assert!(matches!(error, Error::Endpoint(_)) && !error.is_recoverable());
/// assert_eq!(
///     format!("Error: {error:?}"), // as `main` prints it
///     "Error: `localhost:4017` has no scheme; try `tcp://localhost:4017`",
/// );
/// # }
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The address cannot be listened on.
    #[error("cannot listen on `{endpoint}`{}", listen_hint(.endpoint, .cause))]
    Listen {
        /// The address.
        endpoint: Box<Endpoint>,
        /// Underlying I/O error.
        #[source]
        cause: io::Error,
    },
    /// A socket of the application's cannot be served.
    #[error("cannot serve the socket: {cause}")]
    Socket {
        /// Underlying I/O error.
        #[source]
        cause: io::Error,
    },
    /// The address cannot be connected to.
    #[error("cannot connect to `{endpoint}`{}", connect_hint(.endpoint, .cause))]
    Connect {
        /// The address.
        endpoint: Box<Endpoint>,
        /// Underlying I/O error.
        #[source]
        cause: io::Error,
    },
    /// The connection was not made in time.
    #[error("`{endpoint}` did not answer in time")]
    ConnectTimeout {
        /// The address.
        endpoint: Box<Endpoint>,
    },
    /// The address can be reached from other machines, and that was not allowed.
    #[error(
        "`{endpoint}` is no loopback address, so other machines may reach it; if that is meant, say `allow_remote()`"
    )]
    NotLoopback {
        /// The address.
        endpoint: Box<Endpoint>,
    },
    /// A client's address was served, or the other way round; or the transport
    /// is not built in.
    #[error("`{endpoint}` cannot be {verb}: {hint}")]
    Unsupported {
        /// The address.
        endpoint: Box<Endpoint>,
        /// Requested operation.
        verb: &'static str,
        /// Advice for the user.
        hint: &'static str,
    },
    /// A message could not be serialised.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl Error {
    /// Error for an address whose transport is not compiled in.
    pub(crate) fn not_built_in(endpoint: &Endpoint, verb: &'static str) -> Self {
        Self::Unsupported {
            endpoint: Box::new(endpoint.clone()),
            verb,
            hint: missing_feature(endpoint.address()),
        }
    }

    /// Returns true if the same operation may succeed later without any change on this side.
    ///
    /// - `true`: the other side is not there, or not yet; try again after a while, as a
    ///   connection that was made once does with
    ///   [`reconnect`](crate::Connect::reconnect). A server that answers a handshake with
    ///   404 counts among these: it may be a proxy whose own server is not there yet.
    /// - `false`: the address, the permissions or the program are wrong; trying
    ///   again is of no use.
    #[must_use]
    pub fn is_recoverable(&self) -> bool {
        match self {
            Self::Connect { endpoint, .. } if endpoint.port() == Some(0) => false,
            Self::Connect { endpoint, cause } => match endpoint.address() {
                // A socket may appear; a program that is not installed will not.
                Address::Command { .. } if cause.kind() == io::ErrorKind::NotFound => false,
                _ => may_pass(cause),
            },
            // A missing directory does not appear by itself.
            Self::Listen { cause, .. } => {
                cause.kind() != io::ErrorKind::NotFound && may_pass(cause)
            }
            Self::ConnectTimeout { .. } => true,
            _ => false,
        }
    }
}

/// Which feature of this crate a transport needs.
fn missing_feature(address: &Address) -> &'static str {
    macro_rules! needs {
        ($features:literal) => {
            concat!(
                "this transport is not built in; give caudal ",
                $features,
                " in Cargo.toml"
            )
        };
    }
    let (Address::Http { url, .. } | Address::WebSocket { url }) = address else {
        return "this transport is not built in";
    };
    let secure = url.starts_with("https:") || url.starts_with("wss:");
    let downlink = match address {
        Address::Http { downlink, .. } => Some(downlink),
        _ => None,
    };
    match (downlink, secure) {
        (None, false) => needs!("the feature `ws`"),
        (None, true) => needs!("the features `ws` and `tls`"),
        (Some(Downlink::None), false) => needs!("the feature `http`"),
        (Some(Downlink::None), true) => needs!("the features `http` and `tls`"),
        (Some(Downlink::Sse), false) => needs!("the feature `sse`"),
        (Some(Downlink::Sse), true) => needs!("the features `sse` and `tls`"),
        (Some(Downlink::Poll), false) => needs!("the feature `polling`"),
        (Some(Downlink::Poll), true) => needs!("the features `polling` and `tls`"),
    }
}

fn may_pass(cause: &io::Error) -> bool {
    !matches!(
        cause.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::Unsupported
    )
}

/// Advice for an address that cannot be listened on.
fn listen_hint(endpoint: &Endpoint, cause: &io::Error) -> String {
    match (cause.kind(), endpoint.address()) {
        (io::ErrorKind::AddrInUse, Address::Unix { .. }) => {
            "; stop the other server, or choose another path".to_owned()
        }
        (io::ErrorKind::AddrInUse, _) => {
            "; stop whoever has the port, choose another, or 0 for a free one".to_owned()
        }
        (io::ErrorKind::AddrNotAvailable, _) => "; this machine has no such address".to_owned(),
        (io::ErrorKind::PermissionDenied, Address::Tcp { port: 1..1024, .. }) => {
            "; ports below 1024 are for root, choose a higher one".to_owned()
        }
        (io::ErrorKind::NotFound, Address::Unix { path }) => match path.parent() {
            Some(directory) if !directory.is_dir() => {
                format!("; make the directory `{}` first", directory.display())
            }
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Advice for an address that cannot be connected to.
fn connect_hint(endpoint: &Endpoint, cause: &io::Error) -> &'static str {
    match (endpoint.address(), cause.kind()) {
        _ if endpoint.port() == Some(0) => "; port 0 is for listening, use 1–65535",
        (Address::Unix { .. }, io::ErrorKind::NotFound) => {
            "; start the server first, or mend the path"
        }
        (Address::Command { .. }, io::ErrorKind::NotFound) => {
            "; install the program, or write its path"
        }
        (_, io::ErrorKind::ConnectionRefused) => "; start the server first, or mend the address",
        _ => "",
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Chain(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_built_in_names_its_feature() {
        for (address, features) in [
            ("http://a/rpc", "the feature `http`"),
            ("https://a/rpc", "the features `http` and `tls`"),
            ("http://a/rpc#sse", "the feature `sse`"),
            ("https://a/rpc#poll", "the features `polling` and `tls`"),
            ("ws://a/rpc", "the feature `ws`"),
            ("wss://a/rpc", "the features `ws` and `tls`"),
        ] {
            let endpoint = address.parse().unwrap();
            let error = Error::not_built_in(&endpoint, "served");
            assert_eq!(
                error.to_string(),
                format!(
                    "`{address}` cannot be served: this transport is not built in; \
                     give caudal {features} in Cargo.toml"
                ),
            );
        }
    }
}

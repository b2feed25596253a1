//! Why there is no connection.

use std::io;

use caudal_core::EncodeError;
use thiserror::Error;

use crate::endpoint::{Address, Endpoint, EndpointError};

/// Why a server does not listen, or a client is not connected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The address cannot be listened on.
    #[error("cannot listen on `{endpoint}`")]
    Listen {
        /// The address.
        endpoint: Box<Endpoint>,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// The address cannot be connected to.
    #[error("cannot connect to `{endpoint}`")]
    Connect {
        /// The address.
        endpoint: Box<Endpoint>,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// Nothing was reached in time.
    #[error("`{endpoint}` did not answer in time")]
    ConnectTimeout {
        /// The address.
        endpoint: Box<Endpoint>,
    },
    /// Other machines could reach it, and nobody asked for that.
    #[error(
        "`{endpoint}` can be reached from other machines; if that is meant, say `allow_remote()`"
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
        /// What was asked for.
        verb: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// A message could not be serialised.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

impl Error {
    /// Whether the same may succeed later, without any change here.
    ///
    /// - `true`: the other side is not there, or not yet; try again after a while
    ///   ([`Backoff`](crate::Backoff) does).
    /// - `false`: the address, the permissions or the program are wrong; trying
    ///   again is of no use.
    #[must_use]
    pub fn is_recoverable(&self) -> bool {
        match self {
            Self::Connect { endpoint, cause } | Self::Listen { endpoint, cause } => {
                match cause.kind() {
                    io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::AlreadyExists
                    | io::ErrorKind::Unsupported => false,
                    // A socket may appear; a program that is not installed will not.
                    io::ErrorKind::NotFound => {
                        !matches!(endpoint.address(), Address::Command { .. })
                    }
                    _ => true,
                }
            }
            Self::ConnectTimeout { .. } => true,
            _ => false,
        }
    }
}

//! Owner of a session, and the identity by which sessions are counted.

use std::net::IpAddr;

use http::header::AUTHORIZATION;
use http::request::Parts;
use subtle::ConstantTimeEq as _;

use crate::call::lone::LoneExchange;
use crate::http::{Caller, Http, network};

/// Identity that a request must show to use a session.
#[derive(PartialEq, Eq)]
pub(super) struct Owner(Vec<u8>);

impl Owner {
    /// Returns the caller that the application has named, or the request's credentials.
    pub(super) fn of(caller: &LoneExchange, head: &Parts) -> Self {
        if let Some(caller) = caller.extensions().get::<Caller>() {
            return Self([b"caller ", caller.name().as_bytes()].concat());
        }
        let header = head.headers.get(AUTHORIZATION);
        let header = header.map_or(&b""[..], |header| header.as_bytes());
        // No header value contains a zero byte.
        Self([b"header ", header, b"\0", certificate(head)].concat())
    }

    /// Compares in a time that does not reveal how many bytes were right.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// Identity by which sessions are counted: one that the client cannot change at will.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Opener {
    Caller(String),
    Certificate(Vec<u8>),
    Address(IpAddr),
}

impl Opener {
    pub(super) fn of(http: &Http, caller: &LoneExchange, head: &Parts) -> Option<Self> {
        if let Some(caller) = caller.extensions().get::<Caller>() {
            return Some(Self::Caller(caller.name().to_owned()));
        }
        match certificate(head) {
            [] => http
                .remote()
                .map(|remote| Self::Address(network(remote.ip()))),
            shown => Some(Self::Certificate(shown.to_vec())),
        }
    }
}

/// Certificate of the request's client; empty if there is none.
#[cfg(feature = "tls")]
fn certificate(head: &Parts) -> &[u8] {
    let shown = head.extensions.get::<crate::http::tls::PeerCertificate>();
    shown.map_or(b"", |shown| shown.as_der())
}

#[cfg(not(feature = "tls"))]
const fn certificate(_: &Parts) -> &[u8] {
    b""
}

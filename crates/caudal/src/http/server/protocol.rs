//! The version of HTTP that a connection speaks.

use std::time::Duration;

use tokio::net::TcpStream;
#[cfg(any(feature = "http2", feature = "tls"))]
use tokio::time::Instant;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

#[cfg(feature = "http2")]
use super::http2;
use crate::server::group::ConnectionGroup;

/// Version of HTTP that a connection speaks.
#[derive(Clone, Copy)]
pub(super) enum Protocol {
    Http1,
    #[cfg(feature = "http2")]
    Http2,
}

#[cfg(feature = "http2")]
impl Protocol {
    /// Looks at the first bytes of a connection, for `limit` at most. Returns `None` if the
    /// server stops first.
    pub(super) async fn spoken(
        hub: &ConnectionGroup,
        socket: &TcpStream,
        limit: Duration,
    ) -> Option<Self> {
        let late = hub.is_stopping();
        let by = begins_by(hub, late, limit);
        let is_http2 = tokio::select! {
            is_http2 = http2::is_spoken(socket, by) => is_http2,
            () = hub.stop.cancelled(), if !late => return None,
        };
        Some(if is_http2 { Self::Http2 } else { Self::Http1 })
    }

    /// The version that a TLS handshake has agreed on.
    #[cfg(feature = "tls")]
    pub(super) fn agreed<S>(socket: &TlsStream<S>) -> Self {
        match socket.get_ref().1.alpn_protocol() {
            Some(b"h2") => Self::Http2,
            _ => Self::Http1,
        }
    }
}

#[cfg(not(feature = "http2"))]
impl Protocol {
    pub(super) async fn spoken(_: &ConnectionGroup, _: &TcpStream, _: Duration) -> Option<Self> {
        Some(Self::Http1)
    }

    #[cfg(feature = "tls")]
    pub(super) fn agreed<S>(_: &TlsStream<S>) -> Self {
        Self::Http1
    }
}

/// Returns the deadline for the first bytes of a connection. While the server stops, clients
/// of sessions may still connect, but they cannot delay its end.
#[cfg(any(feature = "http2", feature = "tls"))]
pub(super) fn begins_by(hub: &ConnectionGroup, late: bool, limit: Duration) -> Instant {
    let by = crate::connection::deadline::after(Instant::now(), limit);
    match late {
        true => by.min(hub.deadline()),
        false => by,
    }
}

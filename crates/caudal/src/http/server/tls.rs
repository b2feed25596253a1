//! The TLS handshake of a connection, before its first request.

use std::io;
#[cfg(feature = "tls")]
use std::time::Duration;

#[cfg(feature = "tls")]
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(feature = "tls")]
use tokio::time::timeout_at;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

#[cfg(feature = "tls")]
use super::protocol::begins_by;
use crate::endpoint::Target;
use crate::http::options::Options;
#[cfg(feature = "tls")]
use crate::http::tls::{PeerCertificate, ServerTls};
#[cfg(feature = "tls")]
use crate::server::group::ConnectionGroup;

/// Checks that the URL and the options agree on TLS, and that TLS is built in if it is
/// needed.
pub(super) fn agree(target: &Target<'_>, options: &Options) -> io::Result<()> {
    #[cfg(feature = "tls")]
    let wrong = match (target.secure, &options.tls) {
        (true, None) => "https and wss need a certificate: set `tls` in `http::Options`",
        (false, Some(_)) => "`tls` in `http::Options` is for https and wss: serve one of them",
        _ => return Ok(()),
    };
    #[cfg(not(feature = "tls"))]
    let wrong = match (target.secure, options) {
        (true, _) => "TLS is not built in: the feature `tls` has it",
        (false, _) => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
}

/// The handshake, within its limit; a failure is the business of that client alone.
#[cfg(feature = "tls")]
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    hub: &ConnectionGroup,
    tls: &ServerTls,
    limit: Duration,
    socket: S,
) -> Option<(TlsStream<S>, Option<PeerCertificate>)> {
    let late = hub.is_stopping();
    let by = begins_by(hub, late, limit);
    let accepted = tokio::select! {
        accepted = timeout_at(by, tls.accept(socket)) => accepted,
        () = hub.stop.cancelled(), if !late => return None,
    };
    match accepted {
        Ok(Ok(accepted)) => return Some(accepted),
        Ok(Err(error)) => tracing::debug!(target: "caudal", %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!(target: "caudal", "a TLS handshake took too long"),
    }
    None
}

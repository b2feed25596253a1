//! The certificate of a client.

use std::fmt;
use std::sync::Arc;

/// The certificate that a client has shown, already verified: its own one, in DER.
///
/// A server that [asks for one](super::ServerTls::require_clients) puts it into the
/// extensions of each request, where [`Authorize`](crate::http::Authorize) finds it.
///
/// ```
/// use caudal::Extensions;
/// use caudal::http::{Caller, Options, Parts, StatusCode};
/// use caudal::tls::PeerCertificate;
///
/// # fn name_in(der: &[u8]) -> Option<String> { None }
/// let options = Options::default().authorize(|request: &Parts, found: &Extensions| {
///     let shown = request.extensions.get::<PeerCertificate>();
///     let shown = shown.ok_or(StatusCode::UNAUTHORIZED)?;
///     let name = name_in(shown.as_der()).ok_or(StatusCode::FORBIDDEN)?;
///     found.insert(Caller::new(name));
///     Ok(())
/// });
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PeerCertificate(Arc<[u8]>);

impl PeerCertificate {
    /// One that something else has verified, such as a proxy or an own TLS server.
    pub fn new(der: impl Into<Vec<u8>>) -> Self {
        Self(der.into().into())
    }

    /// The certificate in DER.
    #[must_use]
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerCertificate({} bytes)", self.0.len())
    }
}

//! TLS by rustls: who a server is, and whom a client believes.
//!
//! ```text
//! Pem → ServerTls → http::Options::tls         https:// and wss:// are served
//! Pem → ClientTls → http::ClientOptions::tls   https:// and wss:// are called
//! ```
//!
//! TLS 1.2 and 1.3, with the cryptography of *ring*. What the process has chosen as
//! its default for others does not matter here.

mod client;
mod error;
mod peer;
mod pem;
mod server;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, RootCertStore, SupportedProtocolVersion, version};

pub use client::ClientTls;
pub use error::TlsError;
pub use peer::PeerCertificate;
pub use pem::Pem;
pub use server::ServerTls;

static VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// A certificate with what proves that it is one's own.
fn identity(chain: &Pem, key: &Pem) -> Result<Arc<CertifiedKey>, TlsError> {
    let (certificates, secret) = (chain.certificates()?, key.key()?);
    let made = CertifiedKey::from_der(certificates, secret, &provider());
    made.map(Arc::new).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch {
            key: key.origin(),
            certificate: chain.origin(),
        },
        rustls::Error::InvalidCertificate(_) => TlsError::Certificate {
            origin: chain.origin(),
            cause: error.into(),
        },
        _ => TlsError::Key {
            origin: key.origin(),
            cause: error.into(),
        },
    })
}

/// Adds every certificate of a text to those that are believed.
fn trust(roots: &mut RootCertStore, pem: &Pem) -> Result<(), TlsError> {
    for certificate in pem.certificates()? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Certificate {
                origin: pem.origin(),
                cause: error.into(),
            })?;
    }
    Ok(())
}

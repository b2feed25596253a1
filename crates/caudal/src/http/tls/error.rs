//! Errors of TLS.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error of certificates, of private keys, or of a TLS handshake.
///
/// Constructors of this module return errors of certificates and keys. An error of a
/// handshake is inside the [`io::Error`] that a connection fails with.
///
/// ```
/// use caudal::tls::{ServerTls, TlsError};
///
/// let error = ServerTls::new("not PEM", "nor this").unwrap_err();
/// assert!(matches!(error, TlsError::NoCertificate { .. }));
/// assert_eq!(error.to_string(), "there is no certificate in the given PEM");
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// Its name.
        path: PathBuf,
        /// The error of the system.
        #[source]
        cause: io::Error,
    },
    /// The text is not PEM.
    #[error("{origin} is broken: {what}")]
    Pem {
        /// Origin of the PEM text.
        origin: String,
        /// The reason.
        what: &'static str,
    },
    /// There is no `BEGIN CERTIFICATE`.
    #[error("there is no certificate in {origin}")]
    NoCertificate {
        /// Origin of the PEM text.
        origin: String,
    },
    /// There is no `BEGIN PRIVATE KEY`, nor one of its older names.
    #[error("there is no private key in {origin}")]
    NoKey {
        /// Origin of the PEM text.
        origin: String,
    },
    /// The key is encrypted with a passphrase.
    #[error("the private key in {origin} is encrypted; `openssl pkey` can decrypt it")]
    EncryptedKey {
        /// Origin of the PEM text.
        origin: String,
    },
    /// A certificate cannot be read or used.
    #[error("a certificate in {origin} cannot be used")]
    Certificate {
        /// Origin of the PEM text.
        origin: String,
        /// The reason.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// A private key cannot be read or used.
    #[error("the private key in {origin} cannot be used")]
    Key {
        /// Origin of the PEM text.
        origin: String,
        /// The reason.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The key belongs to another certificate.
    #[error("the private key in {key} does not belong to the first certificate in {certificate}")]
    KeyMismatch {
        /// Origin of the key.
        key: String,
        /// Origin of the certificate.
        certificate: String,
    },
    /// Clients do not accept the certificate as that of a server.
    #[error("the certificate in {origin} {why}")]
    Unfit {
        /// Origin of the PEM text.
        origin: String,
        /// The reason.
        why: &'static str,
    },
    /// An environment variable names a file or folder of root certificates that cannot be used.
    #[error("{variable} names `{}`, {what}", path.display())]
    NoNamedRoots {
        /// `SSL_CERT_FILE` or `SSL_CERT_DIR`.
        variable: &'static str,
        /// The path in the variable.
        path: PathBuf,
        /// The reason.
        what: &'static str,
        /// The error of the system.
        #[source]
        cause: Option<io::Error>,
    },
    /// This machine has no root certificates.
    ///
    /// A program can do without them:
    /// [`ClientTls::with_roots`](super::ClientTls::with_roots) takes others.
    #[error(
        "the system has no root certificates; install them, or name a file of those to trust in \
         SSL_CERT_FILE"
    )]
    NoSystemRoots {
        /// The error of the system.
        #[source]
        cause: Option<Box<dyn Error + Send + Sync>>,
    },
    /// No certificate can name such a host.
    #[error("`{host}` is not a name that a certificate can have")]
    Host {
        /// The host.
        host: String,
    },
    /// The certificate of the server is not accepted.
    #[error("the certificate of `{host}` is not accepted")]
    Refused {
        /// The host.
        host: String,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with `{host}` failed")]
    Handshake {
        /// The host.
        host: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },
}

/// Converts the error for functions that return [`io::Error`].
impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        let kind = match &error {
            TlsError::Refused { cause, .. } | TlsError::Handshake { cause, .. } => cause.kind(),
            TlsError::Read { cause, .. } => cause.kind(),
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

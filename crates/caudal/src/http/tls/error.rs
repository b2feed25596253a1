//! Why there is no TLS.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why certificates or keys cannot be used, or a server is not believed.
///
/// The first kind comes from the constructors of this module. The second is inside
/// of the [`io::Error`] that a connection fails with.
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
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// The text is not PEM.
    #[error("{origin} is broken: {what}")]
    Pem {
        /// Where the text is from.
        origin: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no `BEGIN CERTIFICATE`.
    #[error("there is no certificate in {origin}")]
    NoCertificate {
        /// Where the text is from.
        origin: String,
    },
    /// There is no `BEGIN PRIVATE KEY`, nor one of its older names.
    #[error("there is no private key in {origin}")]
    NoKey {
        /// Where the text is from.
        origin: String,
    },
    /// The key has a passphrase, and nobody can be asked for it.
    #[error("the private key in {origin} is encrypted; `openssl pkey` can decrypt it")]
    EncryptedKey {
        /// Where the text is from.
        origin: String,
    },
    /// A certificate cannot be read or used.
    #[error("a certificate in {origin} cannot be used")]
    Certificate {
        /// Where it is from.
        origin: String,
        /// What is wrong with it.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// A private key cannot be read or used.
    #[error("the private key in {origin} cannot be used")]
    Key {
        /// Where it is from.
        origin: String,
        /// What is wrong with it.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The key is of another certificate.
    #[error("the private key in {key} does not belong to the first certificate in {certificate}")]
    KeyMismatch {
        /// Where the key is from.
        key: String,
        /// Where the certificate is from.
        certificate: String,
    },
    /// Clients do not take the certificate for a server's.
    #[error("the certificate in {origin} {why}")]
    Unfit {
        /// Where it is from.
        origin: String,
        /// Why not.
        why: &'static str,
    },
    /// What the environment names instead of the system's certificates is none.
    #[error("{variable} names `{}`, {what}", path.display())]
    NoNamedRoots {
        /// `SSL_CERT_FILE` or `SSL_CERT_DIR`.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
        /// What the system says.
        #[source]
        cause: Option<io::Error>,
    },
    /// This machine has no certificates that a client could believe.
    ///
    /// A program can do without them:
    /// [`ClientTls::with_roots`](super::ClientTls::with_roots) takes others.
    #[error(
        "the system has no root certificates; install them, or name a file of those to trust in \
         SSL_CERT_FILE"
    )]
    NoSystemRoots {
        /// What the system says.
        #[source]
        cause: Option<Box<dyn Error + Send + Sync>>,
    },
    /// No certificate can be for such a host.
    #[error("`{host}` is not a name that a certificate can have")]
    Host {
        /// The host.
        host: String,
    },
    /// The server is not believed to be who it says.
    #[error("the certificate of `{host}` is not accepted")]
    Refused {
        /// The host.
        host: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// The two sides did not come to terms.
    #[error("the TLS handshake with `{host}` failed")]
    Handshake {
        /// The host.
        host: String,
        /// What happened.
        #[source]
        cause: io::Error,
    },
}

/// For whoever waits for a connection.
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

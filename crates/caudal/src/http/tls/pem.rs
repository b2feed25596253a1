//! Certificates and keys as text.

use std::fmt;
use std::path::{Path, PathBuf};

use tokio_rustls::rustls::pki_types::pem::{Error, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsError;

/// Certificates or a key in the text form of RFC 7468, and where they are from.
///
/// Any text or bytes become one; [`Pem::read`] reads a file, and errors then say
/// which one.
///
/// ```
/// use caudal::tls::Pem;
///
/// let pem = Pem::from("-----BEGIN PRIVATE KEY-----\n…");
/// assert_eq!(format!("{pem:?}"), "Pem(the given PEM)"); // never what is in it
/// ```
#[derive(Clone)]
pub struct Pem {
    text: Vec<u8>,
    path: Option<PathBuf>,
}

impl Pem {
    /// Reads a file; what is in it is not looked at yet.
    ///
    /// # Errors
    /// [`TlsError::Read`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        let path = path.as_ref().to_owned();
        match std::fs::read(&path) {
            Ok(text) => Ok(Self {
                text,
                path: Some(path),
            }),
            Err(cause) => Err(TlsError::Read { path, cause }),
        }
    }

    /// Returns the origin of the text, for errors.
    pub(super) fn origin(&self) -> String {
        match &self.path {
            Some(path) => format!("`{}`", path.display()),
            None => "the given PEM".to_owned(),
        }
    }

    /// At least one certificate.
    pub(super) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.text).collect();
        match found {
            Ok(found) if found.is_empty() => Err(TlsError::NoCertificate {
                origin: self.origin(),
            }),
            found => found.map_err(|error| self.broken(&error)),
        }
    }

    /// The first private key.
    pub(super) fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(&self.text).map_err(|error| {
            let origin = self.origin();
            // The older form says so in a header, which is no base64.
            let encrypted = self.text.windows(9).any(|word| word == b"ENCRYPTED");
            match error {
                _ if encrypted => TlsError::EncryptedKey { origin },
                Error::NoItemsFound => TlsError::NoKey { origin },
                error => self.broken(&error),
            }
        })
    }

    /// The parser's own error repeats lines of the text, and so perhaps a key.
    fn broken(&self, error: &Error) -> TlsError {
        TlsError::Pem {
            origin: self.origin(),
            what: match error {
                Error::MissingSectionEnd { .. } => "an END line is missing",
                Error::IllegalSectionStart { .. } => "a BEGIN line has no proper end",
                Error::Base64Decode(_) => "it is not base64",
                Error::SectionTooLarge => "it is too large",
                _ => "it cannot be read",
            },
        }
    }
}

impl From<Vec<u8>> for Pem {
    fn from(text: Vec<u8>) -> Self {
        Self { text, path: None }
    }
}

impl From<&[u8]> for Pem {
    fn from(text: &[u8]) -> Self {
        text.to_vec().into()
    }
}

impl<const N: usize> From<&[u8; N]> for Pem {
    fn from(text: &[u8; N]) -> Self {
        text.to_vec().into()
    }
}

impl From<String> for Pem {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

impl From<&str> for Pem {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pem({})", self.origin())
    }
}

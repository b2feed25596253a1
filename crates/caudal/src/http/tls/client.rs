//! The client's side.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::{Pem, TlsError, VERSIONS, identity, provider, trust};

/// Which servers a client believes, and who it is itself; see
/// [`ClientOptions::tls`](crate::http::ClientOptions::tls).
///
/// By default it believes what the system does, which is read when it is first
/// needed. `SSL_CERT_FILE` and `SSL_CERT_DIR` say where else to look. Clones share
/// what was read.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::http::ClientOptions;
/// use caudal::tls::{ClientTls, Pem};
///
/// let tls = ClientTls::with_roots(Pem::read("root.pem")?)?;
/// let options = ClientOptions::default().tls(tls);
/// let peer = caudal::connect("https://10.0.0.7/rpc").http(options).await?;
/// # let _ = peer; Ok(()) }
/// ```
///
/// The host of the URL, be it a name or an address, must be in the certificate.
/// There is no way to leave that out.
#[derive(Clone)]
pub struct ClientTls {
    system: bool,
    roots: Arc<RootCertStore>,
    own: Option<Arc<CertifiedKey>>,
    config: Arc<OnceCell<Arc<ClientConfig>>>,
}

/// Believes what the system does.
impl Default for ClientTls {
    fn default() -> Self {
        Self {
            system: true,
            roots: Arc::new(RootCertStore::empty()),
            own: None,
            config: Arc::default(),
        }
    }
}

impl ClientTls {
    /// Accepts only servers whose certificate leads to one of these roots.
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    pub fn with_roots(roots: impl Into<Pem>) -> Result<Self, TlsError> {
        let none = Self {
            system: false,
            ..Self::default()
        };
        none.add_roots(roots)
    }

    /// Believes these roots, too.
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    pub fn add_roots(mut self, roots: impl Into<Pem>) -> Result<Self, TlsError> {
        trust(Arc::make_mut(&mut self.roots), &roots.into())?;
        self.config = Arc::default();
        Ok(self)
    }

    /// Shows this certificate to servers that ask for one; the chain and the key
    /// are as in [`ServerTls::new`](super::ServerTls::new).
    ///
    /// With TLS 1.3 a server that does not accept it says so after the handshake:
    /// the connection is there, and the first request fails.
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    pub fn certificate(
        mut self,
        chain: impl Into<Pem>,
        key: impl Into<Pem>,
    ) -> Result<Self, TlsError> {
        self.own = Some(identity(&chain.into(), &key.into())?);
        self.config = Arc::default();
        Ok(self)
    }

    /// Becomes acquainted with a server.
    pub(crate) async fn connect<S>(&self, host: &str, socket: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = name(host)?;
        let config = self.config().await?;
        let connected = TlsConnector::from(config).connect(name, socket).await;
        connected.map_err(|cause| failed(host, cause).into())
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let made = self.config.get_or_try_init(|| async {
            let roots = match self.system {
                true => system(RootCertStore::clone(&self.roots)).await?,
                false => Arc::clone(&self.roots),
            };
            Ok(Arc::new(config(roots, self.own.clone())))
        });
        made.await.cloned()
    }
}

/// Returns the name that the certificate of `host` must have.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host {
        host: host.to_owned(),
    })
}

fn failed(host: &str, cause: io::Error) -> TlsError {
    let host = host.to_owned();
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::InvalidCertificate(_)) => TlsError::Refused { host, cause },
        _ => TlsError::Handshake { host, cause },
    }
}

/// Adds what the system believes. That is a large file, or many small ones.
async fn system(mut roots: RootCertStore) -> Result<Arc<RootCertStore>, TlsError> {
    let none = |cause| TlsError::NoSystemRoots { cause };
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let found = found.map_err(|error| none(Some(error.into())))?;
    let (_, ignored) = roots.add_parsable_certificates(found.certs);
    if ignored > 0 {
        tracing::debug!(target: "caudal", ignored, "some root certificates of the system are of no use");
    }
    if roots.is_empty() {
        let named = tokio::task::spawn_blocking(named).await;
        return Err(named.ok().flatten().unwrap_or_else(|| {
            // It tells its own source, too.
            let cause = found.errors.first().map(ToString::to_string);
            none(cause.map(Into::into))
        }));
    }
    Ok(Arc::new(roots))
}

/// Returns the error for root certificates that the environment names, if it names any.
fn named() -> Option<TlsError> {
    let (variable, path) = ["SSL_CERT_FILE", "SSL_CERT_DIR"]
        .into_iter()
        .find_map(|variable| Some((variable, PathBuf::from(std::env::var_os(variable)?))))?;
    let cause = match variable {
        "SSL_CERT_FILE" => std::fs::read(&path).err(),
        // There may be several, and one that can be read holds none.
        _ => std::fs::read_dir(&path).err(),
    };
    Some(TlsError::NoNamedRoots {
        variable,
        path,
        what: match cause {
            Some(_) => "which cannot be read",
            None => "which holds no certificate that can be used",
        },
        cause,
    })
}

fn config(roots: Arc<RootCertStore>, own: Option<Arc<CertifiedKey>>) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder
        .with_protocol_versions(&VERSIONS)
        .expect("ring has suites for both versions")
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("system_roots", &self.system)
            .field("own_roots", &self.roots.len())
            .field("has_certificate", &self.own.is_some())
            .finish_non_exhaustive()
    }
}

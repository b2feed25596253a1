//! The server's side.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};
use tokio_rustls::rustls::server::{NoClientAuth, WebPkiClientVerifier, danger};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::{PeerCertificate, Pem, TlsError, VERSIONS, identity, provider, trust};

/// TLS of a server: its certificate and private key, and the client certificates that it
/// accepts; see [`Options::tls`](crate::http::Options::tls).
///
/// ```no_run
/// # async fn example(router: caudal::Router) -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::http::Options;
/// use caudal::tls::ServerTls;
///
/// let options = Options::default().tls(ServerTls::read("chain.pem", "key.pem")?);
/// caudal::serve("https://127.0.0.1:4443/rpc", router).http(options).await?;
/// # Ok(()) }
/// ```
///
/// HTTP/1.1 is offered, and HTTP/2 if it is built in. Early data is not: it could be sent twice.
#[derive(Clone)]
pub struct ServerTls {
    own: Arc<CertifiedKey>,
    config: Arc<ServerConfig>,
    clients: bool,
    /// Origin of the certificate, for errors.
    origin: String,
}

impl ServerTls {
    /// A server with this certificate, followed by those that lead from it to its
    /// root, and with the private key of the first one.
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    pub fn new(chain: impl Into<Pem>, key: impl Into<Pem>) -> Result<Self, TlsError> {
        let chain = chain.into();
        let own = identity(&chain, &key.into())?;
        Ok(Self {
            config: config(&own, Arc::new(NoClientAuth)),
            own,
            clients: false,
            origin: chain.origin(),
        })
    }

    /// The same from two files, or twice the same one.
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    pub fn read(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        Self::new(Pem::read(chain)?, Pem::read(key)?)
    }

    /// Lets only clients in whose certificate leads to one of these roots: mutual
    /// TLS. Requests then carry a [`PeerCertificate`].
    ///
    /// # Errors
    /// Says what is missing or broken, and in which file.
    ///
    /// ```
    /// # use caudal::tls::{Pem, ServerTls, TlsError};
    /// # fn example() -> Result<(), TlsError> {
    /// let tls = ServerTls::read("chain.pem", "key.pem")?;
    /// let tls = tls.require_clients(Pem::read("clients.pem")?)?;
    /// # let _ = tls; Ok(()) }
    /// ```
    pub fn require_clients(self, roots: impl Into<Pem>) -> Result<Self, TlsError> {
        let pem = roots.into();
        let mut roots = RootCertStore::empty();
        trust(&mut roots, &pem)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider());
        let verifier = verifier.build().map_err(|error| TlsError::Certificate {
            origin: pem.origin(),
            cause: error.into(),
        })?;
        Ok(Self {
            config: config(&self.own, verifier),
            own: self.own,
            clients: true,
            origin: self.origin,
        })
    }

    /// Checks that clients such as rustls accept the certificate as that of a server,
    /// whichever roots they trust. The result changes nothing: other clients may be less
    /// strict.
    ///
    /// # Errors
    /// [`TlsError::Unfit`]: the certificate is that of an authority, as `openssl req -x509`
    /// makes it by default, or it is not for servers, or it is not valid now.
    ///
    /// ```
    /// # use caudal::tls::{ServerTls, TlsError};
    /// # fn example() -> Result<(), TlsError> {
    /// let tls = ServerTls::read("chain.pem", "key.pem")?;
    /// if let Err(error) = tls.check() {
    ///     eprintln!("warning: {error}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), TlsError> {
        match unfit(&self.own) {
            None => Ok(()),
            Some(why) => Err(TlsError::Unfit {
                origin: self.origin.clone(),
                why,
            }),
        }
    }

    /// Becomes acquainted with a client.
    pub(crate) async fn accept<S>(
        &self,
        socket: S,
    ) -> io::Result<(TlsStream<S>, Option<PeerCertificate>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        let stream = acceptor.accept(socket).await?;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(<[_]>::first);
        let shown = shown.map(|certificate| PeerCertificate::new(certificate.as_ref()));
        Ok((stream, shown))
    }
}

/// Why no client takes a certificate for a server's. Who has signed it, and for which
/// name, is not asked: that depends on the client.
fn unfit(own: &CertifiedKey) -> Option<&'static str> {
    let (first, rest) = own.cert.split_first()?;
    let mut roots = RootCertStore::empty();
    // Who is its own root is refused all the same.
    roots.add(first.clone()).ok()?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
    let verifier = verifier.build().ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let verified = verifier.verify_server_cert(first, rest, &name, &[], UnixTime::now());
    let Err(Error::InvalidCertificate(error)) = verified else {
        return None;
    };
    use CertificateError::*;
    match error {
        Expired | ExpiredContext { .. } => Some("has expired"),
        NotValidYet | NotValidYetContext { .. } => Some("is not valid yet"),
        InvalidPurpose | InvalidPurposeContext { .. } => Some("is not for servers"),
        // rustls has no name of its own for it.
        Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            Some("is that of an authority (CA:TRUE), which no server may show for its own")
        }
        _ => None,
    }
}

fn config(
    own: &Arc<CertifiedKey>,
    verifier: Arc<dyn danger::ClientCertVerifier>,
) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider());
    let mut config = builder
        .with_protocol_versions(&VERSIONS)
        .expect("ring has suites for both versions")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(own))));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    #[cfg(feature = "http2")]
    config.alpn_protocols.insert(0, b"h2".to_vec());
    Arc::new(config)
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("certificates", &self.own.cert.len())
            .field("requires_clients", &self.clients)
            .finish_non_exhaustive()
    }
}

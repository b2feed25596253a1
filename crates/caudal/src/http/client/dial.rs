//! A client's socket to a server.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use caudal_core::setters;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::endpoint::Target;
use crate::http::options::Secret;
use crate::transport::tcp;

/// Options of an HTTP client; see
/// [`Connect::http`](crate::Connect::http).
///
/// ```
/// use caudal::http::ClientOptions;
///
/// use caudal::http::{HeaderName, HeaderValue};
///
/// let options = ClientOptions::default()
///     .token("s3cret")
///     .header(HeaderName::from_static("x-tenant"), HeaderValue::from_static("blue"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Headers of every request. They replace those that would be sent otherwise:
    /// `Authorization` the token, and `Host` the one of the URL.
    pub headers: HeaderMap,
    /// Token that is sent as `Authorization: Bearer …`.
    pub token: Option<Secret>,
    /// Trusted servers; those that the system trusts, by default.
    #[cfg(feature = "tls")]
    pub tls: crate::tls::ClientTls,
    /// Maximum number of connections for single requests; further requests wait. In a
    /// session, the maximum number of calls that wait for the response to their POST, where
    /// a server answers there.
    pub connections: usize,
    /// Header that carries the id of a session.
    pub session_header: HeaderName,
}

impl ClientOptions {
    setters! {
        headers: HeaderMap,
        #[cfg(feature = "tls")]
        tls: crate::tls::ClientTls,
        connections: usize,
        session_header: HeaderName,
    }

    /// Sets [`token`](Self#structfield.token).
    #[must_use]
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Adds a header to [`headers`](Self#structfield.headers), in place of one of the same
    /// name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            headers: HeaderMap::new(),
            token: None,
            #[cfg(feature = "tls")]
            tls: crate::tls::ClientTls::default(),
            connections: 64,
            session_header: HeaderName::from_static("mcp-session-id"),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("token", &self.token)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// A socket, with TLS or without.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Secure(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Opens a socket to the host of a URL.
pub(crate) async fn dial(target: &Target<'_>, options: &ClientOptions) -> io::Result<Socket> {
    let socket = TcpStream::connect((target.host, target.port)).await?;
    secure(socket, target, options).await
}

/// Opens a socket to an address that has been looked up and checked. The host of the
/// URL is not looked up again; with TLS it is what the certificate must name.
#[cfg(feature = "webhook")]
pub(crate) async fn dial_at(
    address: std::net::SocketAddr,
    target: &Target<'_>,
    options: &ClientOptions,
) -> io::Result<Socket> {
    let socket = TcpStream::connect(address).await?;
    secure(socket, target, options).await
}

/// Secures a socket, if the URL asks for it.
async fn secure(
    socket: TcpStream,
    target: &Target<'_>,
    options: &ClientOptions,
) -> io::Result<Socket> {
    tcp::set_up(&socket)?;
    if !target.secure {
        return Ok(Socket::Plain(socket));
    }
    #[cfg(feature = "tls")]
    {
        let secured = options.tls.connect(target.host, socket).await?;
        Ok(Socket::Secure(Box::new(secured)))
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = options;
        let hint = "TLS is not built in: the feature `tls` has it";
        Err(io::Error::new(io::ErrorKind::Unsupported, hint))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Pin::new(socket).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Pin::new(socket).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Pin::new(socket).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Secure(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

//! Sockets that a server accepts connections from, and the connections that it accepted.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use caudal_core::Framing;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::Transport;
use super::stream::Stream;
use super::{tcp, unix};
use crate::connection::incomplete::Share;

/// A socket that listens already, for [`serve_on`](crate::serve_on) and
/// [`Server::listen_on`](crate::Server::listen_on).
///
/// It is made of a listener of tokio or of the standard library, such as one that the
/// service manager has passed to this process.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use caudal::BoundListener;
///
/// let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let listener = BoundListener::from(socket);
/// # let _ = listener; Ok(()) }
/// ```
#[derive(Debug)]
pub struct BoundListener(Bound);

#[derive(Debug)]
enum Bound {
    Ready(Listener),
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener),
}

impl BoundListener {
    /// Registers the socket with the runtime.
    pub(crate) fn into_listener(self) -> io::Result<Listener> {
        Ok(match self.0 {
            Bound::Ready(listener) => listener,
            Bound::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(socket)?)
            }
            #[cfg(unix)]
            Bound::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Listener::Unix(UnixListener::from_std(socket)?.into())
            }
        })
    }
}

impl From<TcpListener> for BoundListener {
    fn from(socket: TcpListener) -> Self {
        Self(Bound::Ready(Listener::Tcp(socket)))
    }
}

impl From<std::net::TcpListener> for BoundListener {
    fn from(socket: std::net::TcpListener) -> Self {
        Self(Bound::Tcp(socket))
    }
}

#[cfg(unix)]
impl From<UnixListener> for BoundListener {
    fn from(socket: UnixListener) -> Self {
        Self(Bound::Ready(Listener::Unix(socket.into())))
    }
}

#[cfg(unix)]
impl From<std::os::unix::net::UnixListener> for BoundListener {
    fn from(socket: std::os::unix::net::UnixListener) -> Self {
        Self(Bound::Unix(socket))
    }
}

/// A connection that the application has accepted, for [`serve_stream`](crate::serve_stream)
/// and [`Server::serve_stream`](crate::Server::serve_stream).
///
/// ```
/// use caudal::AcceptedStream;
///
/// let (here, _there) = tokio::io::duplex(4096);
/// let stream = AcceptedStream::new(here); // any byte stream
/// # let _ = stream;
/// ```
pub struct AcceptedStream(pub(crate) Socket);

impl AcceptedStream {
    /// A byte stream of any kind, such as the stream of a virtual machine's socket.
    ///
    /// Its address is not known, so no limit counts connections of one address, and the
    /// application decides who may connect.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self(Socket::Other(Box::new(stream)))
    }
}

impl From<TcpStream> for AcceptedStream {
    fn from(stream: TcpStream) -> Self {
        Self(Socket::Tcp(stream))
    }
}

#[cfg(unix)]
impl From<UnixStream> for AcceptedStream {
    fn from(stream: UnixStream) -> Self {
        Self(Socket::Unix(stream, String::new()))
    }
}

impl fmt::Debug for AcceptedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptedStream")
    }
}

/// A byte stream of any kind.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A connection that was accepted.
pub(crate) enum Socket {
    Tcp(TcpStream),
    /// The path of the listener follows, if it is known.
    #[cfg(unix)]
    Unix(UnixStream, String),
    Other(Box<dyn ByteStream>),
}

impl Socket {
    /// Local address of a TCP connection.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr().ok(),
            _ => None,
        }
    }

    /// A transport of frames on this connection.
    pub(crate) fn framed(self, framing: Framing, share: Share) -> io::Result<Box<dyn Transport>> {
        Ok(match self {
            Self::Tcp(socket) => {
                let stream = tcp::stream(socket, framing)?;
                Box::new(stream.with_share(share))
            }
            #[cfg(unix)]
            Self::Unix(socket, path) => {
                let stream = unix::stream(socket, &path, framing);
                Box::new(stream.with_share(share))
            }
            Self::Other(stream) => {
                let stream = Stream::new(stream, framing);
                Box::new(stream.with_share(share))
            }
        })
    }
}

/// Socket that accepts the connections of a server.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(unix::Listener),
}

impl Listener {
    pub(crate) async fn tcp(host: &str, port: u16) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind((host, port)).await?))
    }

    #[cfg(unix)]
    pub(crate) fn unix(path: &std::path::Path) -> io::Result<Self> {
        Ok(Self::Unix(unix::Listener::bind(path)?))
    }

    #[cfg(not(unix))]
    pub(crate) fn unix(_: &std::path::Path) -> io::Result<Self> {
        Err(unix::unsupported())
    }

    /// Address on which it listens, if it is a TCP socket.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }

    /// Path on which it listens, if it is a Unix socket that has one.
    pub(crate) fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Tcp(_) => None,
            #[cfg(unix)]
            Self::Unix(listener) => listener.path(),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept().await?.0),
            #[cfg(unix)]
            Self::Unix(listener) => {
                let path = listener.path().map(|path| path.display().to_string());
                Socket::Unix(listener.accept().await?, path.unwrap_or_default())
            }
        })
    }
}

/// Logs that a connection could not be accepted, for example for lack of file descriptors,
/// and waits a moment before the next attempt.
pub(crate) async fn accept_failed(error: &io::Error) {
    tracing::warn!(target: "caudal", %error, "a connection was not accepted");
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
}

//! One connection, from its first bytes to its end.

use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "ws")]
use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
#[cfg(feature = "ws")]
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::idle_timeout::{IdleTimeout, RequestActivity};
use super::protocol::Protocol;
use super::quota::QuotaPermit;
use super::request::{self, RequestGuard};
use super::service::Http;
#[cfg(feature = "tls")]
use super::tls;
use crate::connection::deadline::after;
use crate::server::group::{GroupGuard, Member, Membership};
use crate::transport::{Socket, tcp};

/// Maximum bytes of the head of a request.
pub(super) const MAX_HEAD: u16 = u16::MAX;
/// Additional time after the deadline of the server, in which connections report their end.
const FAREWELL: Duration = Duration::from_millis(500);

/// A connection that is served, and counted while it lasts.
#[derive(Debug)]
pub(super) struct HttpConnection {
    pub(super) http: Http,
    /// The path that is served.
    pub(super) path: Arc<str>,
    pub(super) activity: Arc<RequestActivity>,
    pub(super) permit: QuotaPermit<IpAddr>,
    #[cfg(feature = "tls")]
    pub(super) certificate: Option<crate::http::tls::PeerCertificate>,
    /// Cancelled when the server ends, after it has stopped. See [`Site`](super::Site).
    pub(super) over: CancellationToken,
}

/// Serves a connection that was accepted.
pub(super) async fn run(hub: GroupGuard, socket: Socket, connection: HttpConnection) {
    match socket {
        Socket::Tcp(socket) => run_tcp(&hub, socket, connection).await,
        #[cfg(unix)]
        Socket::Unix(socket, _) => run_stream(&hub, socket, connection).await,
        Socket::Other(stream) => run_stream(&hub, stream, connection).await,
    }
}

async fn run_tcp(hub: &GroupGuard, socket: TcpStream, connection: HttpConnection) {
    if let Err(error) = tcp::set_up(&socket) {
        tracing::debug!(target: "caudal", %error, "a connection was lost at once");
        return;
    }
    let options = connection.http.options();
    #[cfg(feature = "tls")]
    if options.tls.is_some() {
        return run_stream(hub, socket, connection).await;
    }
    if let Some(protocol) = Protocol::spoken(hub, &socket, options.header_timeout).await {
        serve(hub, socket, protocol, connection);
    }
}

/// Serves a connection over TLS, or over another byte stream than TCP. Without TLS it speaks
/// HTTP/1.1, since its first bytes cannot be looked at beforehand.
async fn run_stream<S>(hub: &GroupGuard, stream: S, connection: HttpConnection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    #[cfg(feature = "tls")]
    if let Some(tls) = connection.http.options().tls.clone() {
        let limit = connection.http.options().header_timeout;
        if let Some((stream, certificate)) = tls::accept(hub, &tls, limit, stream).await {
            let protocol = Protocol::agreed(&stream);
            let connection = HttpConnection {
                certificate,
                ..connection
            };
            serve(hub, stream, protocol, connection);
        }
        return;
    }
    serve(hub, stream, Protocol::Http1, connection);
}

/// Serves the requests of a connection in a task of its own.
fn serve<S>(hub: &GroupGuard, io: S, protocol: Protocol, connection: HttpConnection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let membership = hub.join(Member::Lone(Arc::clone(connection.http.origin())));
    // A client that comes while the server stops is served until the server ends. Over
    // HTTP/1.1 it has one request.
    let is_late = hub.is_stopping();
    let stop = match is_late {
        true => connection.over.clone(),
        false => hub.stop.clone(),
    };
    let io = IdleTimeout::new(io, Arc::clone(&connection.activity));
    let io = TokioIo::new(io);
    let connection = Arc::new(connection);
    let requests = Arc::clone(&connection);
    let service = service_fn(move |request: Request<Incoming>| {
        let guard = RequestGuard::begin(&requests, request.version());
        request::answer(request, guard)
    });
    match protocol {
        Protocol::Http1 => {
            let mut builder = http1::Builder::new();
            // Head and body in one piece cost less to send than in two.
            builder.max_buf_size(MAX_HEAD.into()).writev(false);
            builder.keep_alive(!is_late);
            let served = builder.serve_connection(io, service).with_upgrades();
            let graceful = http1::UpgradeableConnection::graceful_shutdown;
            tokio::spawn(until_end(served, graceful, stop, membership));
        }
        #[cfg(feature = "http2")]
        Protocol::Http2 => {
            let served = super::http2::connection(io, service, connection.http.options());
            let graceful = hyper::server::conn::http2::Connection::graceful_shutdown;
            tokio::spawn(until_end(served, graceful, stop, membership));
        }
    }
}

/// Runs a connection of hyper's to its end. Once `stop` is cancelled, it takes no new requests,
/// and ends at the deadline of the server.
async fn until_end<C: Future<Output = hyper::Result<()>>>(
    served: C,
    graceful: fn(Pin<&mut C>),
    stop: CancellationToken,
    membership: Membership,
) {
    let mut served = pin!(served);
    let mut ended = tokio::select! {
        biased;
        ended = &mut served => Some(ended),
        () = stop.cancelled() => None,
    };
    if ended.is_none() {
        graceful(served.as_mut());
        let deadline = after(membership.hub().deadline(), FAREWELL);
        ended = tokio::time::timeout_at(deadline, served).await.ok();
    }
    if let Some(Err(error)) = ended {
        tracing::debug!(target: "caudal", %error, "a connection ended");
    }
}

/// The socket of an upgraded connection and the bytes that were read from it, without the
/// layers that only HTTP needs.
///
/// # Errors
/// The connection, if there are other layers below it.
#[cfg(feature = "ws")]
pub(crate) fn bare(upgraded: Upgraded) -> Result<(TcpStream, Bytes), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<IdleTimeout<TcpStream>>>()?;
    Ok((parts.io.into_inner().into_inner(), parts.read_buf))
}

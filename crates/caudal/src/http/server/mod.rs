//! Connections: taken in, bounded, served, and ended in good order.

mod access;
pub(crate) mod answer;
pub(crate) mod body;
mod connection;
mod drain_body;
#[cfg(feature = "http2")]
mod http2;
mod idle_timeout;
mod protocol;
pub(crate) mod quota;
mod refuse;
mod request;
pub(crate) mod service;
pub(crate) mod status;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "ws")]
use bytes::Bytes;
use http::header::UPGRADE;
use http::{Extensions, Method, Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
#[cfg(feature = "ws")]
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::access::Own;
use self::connection::Serving;
use self::idle_timeout::{Timed, Watch};
use self::protocol::Protocol;
use self::quota::{Full, Quota, QuotaLimits, QuotaPermit, network};
use self::refuse::refuse;
use self::request::Served;
use self::service::Http;
use super::options::Options;
use crate::endpoint::Target;
use crate::server::group::{ConnectionGroup, GroupGuard, Member};
use crate::transport::{accept_failed, tcp};

/// Maximum bytes of the head of a request.
const HEAD: u16 = u16::MAX;

/// Interval at which a stopping server checks for open sessions. It is also the interval of
/// looks at the first bytes of a connection, while they may be those of HTTP/2.
const LOOK: Duration = Duration::from_millis(20);

/// An HTTP server that is about to run.
pub(crate) struct Listener {
    listener: TcpListener,
    http: Http,
    path: Arc<str>,
    most: QuotaLimits,
    quota: Arc<Quota<IpAddr>>,
    /// Cancelled when the server no longer accepts connections and all sessions have ended, or
    /// at the deadline.
    over: CancellationToken,
}

impl Listener {
    pub(crate) async fn bind(
        target: &Target<'_>,
        hub: &Arc<ConnectionGroup>,
        options: Options,
    ) -> io::Result<Self> {
        tls::agree(target, &options)?;
        let listener = TcpListener::bind((target.host, target.port)).await?;
        let most = QuotaLimits {
            all: hub.config.limits.connections,
            each: options.connections_per_address,
        };
        let own = match target.host {
            _ if listener.local_addr()?.ip().is_unspecified() => Own::Everywhere,
            host if host.contains(':') => Own::At(format!("[{host}]")),
            host => Own::At(host.to_owned()),
        };
        Ok(Self {
            http: Http::on(hub, options, own),
            listener,
            // What is asked may follow the host at once.
            path: match target.path.split('?').next() {
                None | Some("") => "/".into(),
                Some(path) => path.into(),
            },
            most,
            quota: Arc::default(),
            over: CancellationToken::new(),
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Accepts connections until the server stops.
    pub(crate) async fn run(self, hub: GroupGuard) {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => self.take(&hub, accepted).await,
                () = hub.stop.cancelled() => break,
            }
        }
        // The clients of sessions may have to come again for what they are owed.
        let mut look = tokio::time::interval(LOOK);
        while self.http.has_sessions() && Instant::now() < hub.deadline() {
            tokio::select! {
                accepted = self.listener.accept() => self.take(&hub, accepted).await,
                _ = look.tick() => {}
            }
        }
        self.over.cancel();
    }

    async fn take(&self, hub: &GroupGuard, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (socket, remote) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return accept_failed(&error).await,
        };
        let permit = match QuotaPermit::take(&self.quota, Some(network(remote.ip())), self.most) {
            Ok(permit) => permit,
            Err(full) => return self.refuse(hub, socket, remote, full),
        };
        let place = Arc::new(Place {
            permit,
            watch: Watch::new(),
            http: self.http.for_connection(remote),
            path: Arc::clone(&self.path),
            over: self.over.clone(),
        });
        tokio::spawn(connection(hub.hold(), socket, place));
    }

    /// Refuses a connection beyond the limit, and sends its client the reason. With TLS, the
    /// connection is closed without a response, because a handshake is expensive.
    fn refuse(&self, hub: &ConnectionGroup, socket: TcpStream, remote: SocketAddr, full: Full) {
        let reason = match full {
            Full::All => hub.full(),
            Full::Each => format!(
                "connections from one address are limited to {}",
                self.most.each
            ),
        };
        hub.log_refused(Some(remote), &reason);
        #[cfg(feature = "tls")]
        if self.http.options().tls.is_some() {
            return;
        }
        hub.tell_refused(refuse(socket, reason));
    }
}

async fn connection(hub: GroupGuard, socket: TcpStream, place: Arc<Place>) {
    if let Err(error) = tcp::set_up(&socket) {
        tracing::debug!(target: "caudal", %error, "a connection was lost at once");
        return;
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = place.http.options().tls.clone() {
        let limit = place.http.options().header_timeout;
        if let Some((socket, shown)) = tls::accept(&hub, &tls, limit, socket).await {
            let mark = move |extensions: &mut Extensions| {
                if let Some(shown) = &shown {
                    extensions.insert(shown.clone());
                }
            };
            let protocol = Protocol::agreed(&socket);
            serve(&hub, socket, protocol, place, mark);
        }
        return;
    }
    if let Some(protocol) = Protocol::spoken(&hub, &socket, &place).await {
        serve(&hub, socket, protocol, place, |_| ());
    }
}

/// Serves a connection in a task of its own. `mark` adds extensions to each request.
fn serve<S>(
    hub: &GroupGuard,
    io: S,
    protocol: Protocol,
    place: Arc<Place>,
    mark: impl Fn(&mut Extensions) + Send + Unpin + 'static,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let attended = hub.join(Member::Lone(Arc::clone(place.http.origin())));
    let served = Arc::clone(&place);
    let options = served.http.options();
    let io = Timed::new(
        io,
        Arc::clone(&place),
        options.header_timeout,
        options.idle_timeout,
    );
    let service = service_fn(move |mut request: Request<Incoming>| {
        let visit = Visit::begin(&place, request.version());
        if request.method() != Method::POST {
            mark_upgrade(&mut request, &place);
        }
        mark(request.extensions_mut());
        Served::new(request, visit)
    });
    // Whoever comes after the end is not cut off before that is over for all. By HTTP/1.1
    // it has one request.
    let late = hub.is_stopping();
    let stopped = match late {
        true => &served.over,
        false => &hub.stop,
    };
    let stopped = stopped.clone().cancelled_owned();
    let io = TokioIo::new(io);
    match protocol {
        Protocol::Http1 => {
            let mut builder = http1::Builder::new();
            // Head and body in one piece cost less to send than in two.
            builder.max_buf_size(HEAD.into()).writev(false);
            builder.keep_alive(!late);
            let served = builder.serve_connection(io, service).with_upgrades();
            let graceful = http1::UpgradeableConnection::graceful_shutdown;
            tokio::spawn(Serving::new(served, attended, stopped, graceful));
        }
        #[cfg(feature = "http2")]
        Protocol::Http2 => {
            let served = http2::connection(io, service, options);
            let graceful = hyper::server::conn::http2::Connection::graceful_shutdown;
            tokio::spawn(Serving::new(served, attended, stopped, graceful));
        }
    }
}

/// Adds a [`Lasting`] to a request that may be upgraded, because an upgraded connection
/// outlives its request.
fn mark_upgrade(request: &mut Request<Incoming>, place: &Arc<Place>) {
    let is_stream = request.method() == Method::CONNECT;
    if is_stream || request.headers().contains_key(UPGRADE) {
        let permit = is_stream.then(|| place.permit.another());
        let lasting = Lasting {
            visit: Visit::begin(place, request.version()),
            is_stream,
            has_seat: !matches!(permit, Some(None)),
            _permit: permit.flatten(),
        };
        request.extensions_mut().insert(Arc::new(lasting));
    }
}

/// A request that becomes something else: its connection is not idle while that lasts.
#[derive(Debug)]
#[cfg_attr(not(feature = "ws"), allow(dead_code, reason = "WebSockets ask"))]
pub(crate) struct Lasting {
    visit: Visit,
    is_stream: bool,
    /// A stream of a connection counts beside it; any other takes its place.
    _permit: Option<QuotaPermit<IpAddr>>,
    pub(crate) has_seat: bool,
}

#[cfg_attr(not(feature = "ws"), allow(dead_code, reason = "WebSockets ask"))]
impl Lasting {
    /// It has become what it asked for, and with it its connection, unless it is one
    /// stream of many.
    pub(crate) fn begin(&self) {
        if !self.is_stream {
            self.visit.place.watch.last();
        }
    }
}

/// The socket of a connection that has become something else, without the layers that
/// only HTTP needs, and what was read of it already; if that is what is below.
#[cfg(feature = "ws")]
pub(crate) fn bare(upgraded: Upgraded) -> Result<(TcpStream, Bytes), Upgraded> {
    let parts = upgraded.downcast::<TokioIo<Timed<TcpStream, Place>>>()?;
    Ok((parts.io.into_inner().into_inner(), parts.read_buf))
}

/// A request: while it lasts, its connection is not idle, and counted even if it
/// has become something else.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(super) place: Arc<Place>,
}

impl Visit {
    fn begin(place: &Arc<Place>, version: Version) -> Self {
        place.watch.begin(version);
        Self {
            place: Arc::clone(place),
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.place.watch.end();
    }
}

/// A connection that is counted while it lasts, and what it is served.
// In this order: what every request looks at stands together.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Place {
    watch: Watch,
    pub(super) http: Http,
    pub(super) path: Arc<str>,
    permit: QuotaPermit<IpAddr>,
    /// See [`Listener`].
    over: CancellationToken,
}

impl AsRef<Watch> for Place {
    fn as_ref(&self) -> &Watch {
        &self.watch
    }
}

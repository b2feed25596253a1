//! Connections: taken in, bounded, served, and ended in good order.

mod access;
pub(crate) mod body;
mod connection;
pub(crate) mod content_type;
mod drain_body;
#[cfg(feature = "http2")]
mod http2;
mod idle_timeout;
mod protocol;
pub(crate) mod quota;
mod refuse;
mod request;
pub(crate) mod responses;
pub(crate) mod service;
pub(crate) mod status;
mod tls;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::access::Own;
use self::connection::HttpConnection;
#[cfg(feature = "ws")]
pub(crate) use self::connection::bare;
use self::idle_timeout::RequestActivity;
use self::quota::{Full, Quota, QuotaLimits, QuotaPermit, network};
use self::refuse::refuse;
#[cfg(feature = "ws")]
pub(crate) use self::request::UpgradeGuard;
use self::service::Http;
use super::options::Options;
use crate::endpoint::Target;
use crate::server::group::{ConnectionGroup, GroupGuard};
use crate::transport::accept_failed;

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
        let options = self.http.options();
        let connection = HttpConnection {
            http: self.http.for_connection(remote),
            path: Arc::clone(&self.path),
            activity: RequestActivity::new(options.header_timeout, options.idle_timeout),
            permit,
            #[cfg(feature = "tls")]
            certificate: None,
            over: self.over.clone(),
        };
        tokio::spawn(connection::run(hub.hold(), socket, connection));
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

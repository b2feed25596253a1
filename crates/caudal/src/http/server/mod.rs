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
use crate::transport::{Listener, Socket, accept_failed};

/// Interval at which a stopping server checks for open sessions. It is also the interval of
/// looks at the first bytes of a connection, while they may be those of HTTP/2.
const LOOK: Duration = Duration::from_millis(20);

/// State that all HTTP endpoints of a server share.
pub(crate) struct SharedState {
    /// Counts their connections.
    quota: Arc<Quota<IpAddr>>,
    #[cfg(feature = "session")]
    sessions: Arc<crate::http::session::Sessions>,
}

impl SharedState {
    #[cfg_attr(
        not(feature = "session"),
        expect(unused_variables, reason = "for sessions")
    )]
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            quota: Arc::default(),
            #[cfg(feature = "session")]
            sessions: Arc::new(crate::http::session::Sessions::new(options)),
        }
    }
}

/// One URL of a server, and the connections that are accepted for it.
pub(crate) struct Site {
    http: Http,
    path: Arc<str>,
    most: QuotaLimits,
    quota: Arc<Quota<IpAddr>>,
    /// Cancelled when the server no longer accepts connections and all sessions have ended, or
    /// at the deadline.
    over: CancellationToken,
}

impl Site {
    /// A site that is reached by `target`, or if `everywhere` is true, by all addresses of this
    /// machine.
    pub(crate) fn new(
        target: &Target<'_>,
        everywhere: bool,
        hub: &Arc<ConnectionGroup>,
        options: Options,
        shared: &SharedState,
    ) -> io::Result<Arc<Self>> {
        tls::agree(target, &options)?;
        let most = QuotaLimits {
            all: hub.max_connections,
            each: options.connections_per_address,
        };
        let own = match target.host {
            _ if everywhere => Own::Everywhere,
            host if host.contains(':') => Own::At(format!("[{host}]")),
            host => Own::At(host.to_owned()),
        };
        Ok(Arc::new(Self {
            http: Http::on(hub, options, own, shared),
            // A query may follow the host at once.
            path: match target.path.split('?').next() {
                None | Some("") => "/".into(),
                Some(path) => path.into(),
            },
            most,
            quota: Arc::clone(&shared.quota),
            over: CancellationToken::new(),
        }))
    }

    /// Accepts connections until the server stops.
    pub(crate) async fn run(self: Arc<Self>, hub: GroupGuard, listener: Listener) {
        loop {
            tokio::select! {
                accepted = listener.accept() => self.take(&hub, accepted).await,
                () = hub.stop.cancelled() => break,
            }
        }
        // The clients of sessions may have to connect again for their last messages.
        let mut look = tokio::time::interval(LOOK);
        while self.has_sessions() && Instant::now() < hub.deadline() {
            tokio::select! {
                accepted = listener.accept() => self.take(&hub, accepted).await,
                _ = look.tick() => {}
            }
        }
        self.over.cancel();
    }

    /// Waits for the end of a site whose connections the application accepts.
    pub(crate) async fn run_without_listener(self: Arc<Self>, hub: Arc<ConnectionGroup>) {
        hub.stop.cancelled().await;
        while self.has_sessions() && Instant::now() < hub.deadline() {
            tokio::time::sleep(LOOK).await;
        }
        self.over.cancel();
    }

    fn has_sessions(&self) -> bool {
        self.http.has_sessions()
    }

    async fn take(&self, hub: &GroupGuard, accepted: io::Result<Socket>) {
        match accepted {
            Ok(socket) => self.serve(hub, socket),
            Err(error) => accept_failed(&error).await,
        }
    }

    /// Serves a connection in a task of its own.
    pub(crate) fn serve(&self, hub: &GroupGuard, socket: Socket) {
        let remote = match &socket {
            Socket::Tcp(socket) => match socket.peer_addr() {
                Ok(remote) => Some(remote),
                // The client has gone again.
                Err(_) => return,
            },
            _ => None,
        };
        let network = remote.map(|remote| network(remote.ip()));
        let permit = match QuotaPermit::take(&self.quota, network, self.most) {
            Ok(permit) if hub.has_room() => permit,
            Ok(_) => return self.refuse(hub, socket, remote, Full::All),
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
    fn refuse(&self, hub: &GroupGuard, socket: Socket, remote: Option<SocketAddr>, full: Full) {
        let reason = match full {
            Full::All => hub.full(),
            Full::Each => format!(
                "connections from one address are limited to {}",
                self.most.each
            ),
        };
        hub.log_refused(remote, &reason);
        #[cfg(feature = "tls")]
        if self.http.options().tls.is_some() {
            return;
        }
        hub.tell_refused(refuse(socket, reason));
    }
}

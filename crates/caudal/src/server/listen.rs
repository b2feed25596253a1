//! Endpoints of a server: bound, checked, and accepting connections.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use caudal_core::Framing;

use super::group::{ConnectionGroup, GroupGuard};
use super::protocol::{Kind, Protocol};
use crate::connection::incomplete::Share;
use crate::endpoint::{Address, Endpoint};
use crate::error::Error;
#[cfg(feature = "http")]
use crate::http::{self, SharedState, Site};
use crate::observe::stats::Stats;
use crate::sync::lock;
use crate::transport::{self, AcceptedStream, BoundListener, Listener, Socket};

/// Endpoints of a server, and what decides about new ones.
pub(super) struct Endpoints {
    allow_remote: bool,
    first: OnceLock<Endpoint>,
    all: Mutex<Vec<Endpoint>>,
    #[cfg(feature = "http")]
    http: http::Options,
    #[cfg(feature = "http")]
    shared: SharedState,
    /// The service that the application mounts.
    #[cfg(feature = "http")]
    mounted: OnceLock<http::Http>,
    /// The URLs on which the application accepts connections.
    #[cfg(feature = "http")]
    sites: Mutex<Vec<(Endpoint, Arc<Site>)>>,
}

impl Endpoints {
    pub(super) fn new(allow_remote: bool, #[cfg(feature = "http")] http: http::Options) -> Self {
        Self {
            allow_remote,
            first: OnceLock::new(),
            all: Mutex::default(),
            #[cfg(feature = "http")]
            shared: SharedState::new(&http),
            #[cfg(feature = "http")]
            mounted: OnceLock::new(),
            #[cfg(feature = "http")]
            http,
            #[cfg(feature = "http")]
            sites: Mutex::default(),
        }
    }

    pub(super) fn first(&self) -> Option<&Endpoint> {
        self.first.get()
    }

    pub(super) fn all(&self) -> Vec<Endpoint> {
        lock(&self.all).clone()
    }

    /// Binds an endpoint and serves it.
    pub(super) async fn listen(
        &self,
        group: &Arc<ConnectionGroup>,
        endpoint: Endpoint,
    ) -> Result<Endpoint, Error> {
        self.check_loopback(endpoint.is_loopback(), &endpoint)?;
        let failed = |cause| Error::Listen {
            endpoint: Box::new(endpoint.clone()),
            cause,
        };
        let listener = match endpoint.address() {
            Address::Stdio => {
                let stdio = transport::stdio(endpoint.framing()).map_err(failed)?;
                let share = Share::of_connection(&group.incomplete);
                group.start(Box::new(stdio.with_share(share)));
                return Ok(self.add(endpoint));
            }
            Address::Tcp { host, port } => Listener::tcp(host, *port).await,
            Address::Unix { path } => Listener::unix(path),
            Address::Command { .. } => {
                return Err(Error::Unsupported {
                    endpoint: Box::new(endpoint),
                    verb: "served",
                    hint: "a program is connected to, with `connect`",
                });
            }
            #[cfg(feature = "http")]
            Address::Http { .. } | Address::WebSocket { .. } => {
                check_websocket(&endpoint)?;
                match endpoint.target() {
                    Some(target) => Listener::tcp(target.host, target.port).await,
                    None => Err(io::ErrorKind::InvalidInput.into()),
                }
            }
            #[cfg(not(feature = "http"))]
            _ => return Err(Error::not_built_in(&endpoint, "served")),
        };
        let listener = listener.map_err(failed)?;
        self.accept_from(group, listener, endpoint)
    }

    /// Serves the connections of a socket that listens already.
    pub(super) fn listen_on(
        &self,
        group: &Arc<ConnectionGroup>,
        listener: BoundListener,
        protocol: Protocol,
    ) -> Result<Endpoint, Error> {
        let failed = |cause| Error::Socket { cause };
        let listener = listener.into_listener().map_err(failed)?;
        let endpoint = match (protocol.0, listener.local_addr()) {
            (Kind::Framed(framing), Some(local)) => tcp(local).with_framing(framing),
            (Kind::Framed(framing), None) => path(&listener).with_framing(framing),
            (Kind::Http(endpoint), _) => endpoint,
        };
        let local = listener.local_addr();
        let is_loopback = local.is_none_or(|local| local.ip().to_canonical().is_loopback());
        self.check_loopback(is_loopback, &local.map_or(endpoint.clone(), tcp))?;
        self.accept_from(group, listener, endpoint)
    }

    /// Serves one connection that was accepted already.
    pub(super) fn serve_stream(
        &self,
        group: &Arc<ConnectionGroup>,
        stream: AcceptedStream,
        protocol: Protocol,
    ) -> Result<(), Error> {
        let AcceptedStream(socket) = stream;
        if group.stop.is_cancelled() {
            let cause = stopped();
            return Err(Error::Socket { cause });
        }
        if let Some(local) = socket.local_addr() {
            let is_loopback = local.ip().to_canonical().is_loopback();
            self.check_loopback(is_loopback, &tcp(local))?;
        }
        match protocol.0 {
            Kind::Framed(framing) => {
                serve_framed(&group.hold(), socket, framing);
                Ok(())
            }
            #[cfg(feature = "http")]
            Kind::Http(endpoint) => {
                self.site(group, endpoint)?.serve(&group.hold(), socket);
                Ok(())
            }
            #[cfg(not(feature = "http"))]
            Kind::Http(endpoint) => Err(Error::not_built_in(&endpoint, "served")),
        }
    }

    /// Accepts the connections of a listener in a task of its own.
    fn accept_from(
        &self,
        group: &Arc<ConnectionGroup>,
        listener: Listener,
        endpoint: Endpoint,
    ) -> Result<Endpoint, Error> {
        if group.stop.is_cancelled() {
            let cause = stopped();
            let endpoint = Box::new(endpoint);
            return Err(Error::Listen { endpoint, cause });
        }
        let local = listener.local_addr();
        let port = local.map(|local| local.port());
        #[cfg(feature = "http")]
        if endpoint.target().is_some() {
            let everywhere = local.is_some_and(|local| local.ip().is_unspecified());
            let site = self.new_site(group, &endpoint, everywhere)?;
            tokio::spawn(site.run(group.hold(), listener));
            return Ok(self.add(endpoint.with_port(port)));
        }
        let framing = endpoint.framing();
        tokio::spawn(accept_framed(group.hold(), listener, framing));
        Ok(self.add(endpoint.with_port(port)))
    }

    /// The site of a URL for connections that the application accepts.
    #[cfg(feature = "http")]
    fn site(&self, group: &Arc<ConnectionGroup>, endpoint: Endpoint) -> Result<Arc<Site>, Error> {
        let mut sites = lock(&self.sites);
        if let Some((_, site)) = sites.iter().find(|(known, _)| *known == endpoint) {
            return Ok(Arc::clone(site));
        }
        let site = self.new_site(group, &endpoint, false)?;
        tokio::spawn(Arc::clone(&site).run_without_listener(Arc::clone(group)));
        sites.push((endpoint, Arc::clone(&site)));
        Ok(site)
    }

    #[cfg(feature = "http")]
    pub(super) fn http_service(&self, group: &Arc<ConnectionGroup>) -> http::Http {
        let mount = || http::Http::mounted(group, self.http.clone(), &self.shared);
        self.mounted.get_or_init(mount).clone()
    }

    /// Adds the statistics of the service that the application mounts.
    #[cfg(feature = "http")]
    pub(super) fn with_mounted(&self, mut stats: Stats) -> Stats {
        if let Some(mounted) = self.mounted.get() {
            stats.add(&mounted.origin().stats());
        }
        stats
    }

    #[cfg(not(feature = "http"))]
    pub(super) fn with_mounted(&self, stats: Stats) -> Stats {
        stats
    }

    /// Makes a site of a URL, with what all sites of the server share.
    #[cfg(feature = "http")]
    fn new_site(
        &self,
        group: &Arc<ConnectionGroup>,
        endpoint: &Endpoint,
        everywhere: bool,
    ) -> Result<Arc<Site>, Error> {
        check_websocket(endpoint)?;
        let failed = |cause| Error::Listen {
            endpoint: Box::new(endpoint.clone()),
            cause,
        };
        let target = endpoint.target();
        let target = target.ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let options = self.http.clone();
        // A further endpoint may be without TLS. For the first one, that is an error.
        #[cfg(feature = "tls")]
        let options = match target.secure || self.first().is_none() {
            true => options,
            false => options.tls(None),
        };
        Site::new(&target, everywhere, group, options, &self.shared).map_err(failed)
    }

    fn check_loopback(&self, is_loopback: bool, endpoint: &Endpoint) -> Result<(), Error> {
        if is_loopback || self.allow_remote {
            return Ok(());
        }
        let endpoint = Box::new(endpoint.clone());
        Err(Error::NotLoopback { endpoint })
    }

    fn add(&self, endpoint: Endpoint) -> Endpoint {
        self.first.get_or_init(|| endpoint.clone());
        lock(&self.all).push(endpoint.clone());
        endpoint
    }
}

/// Refuses a WebSocket endpoint if WebSocket is not built in.
#[cfg(feature = "http")]
fn check_websocket(endpoint: &Endpoint) -> Result<(), Error> {
    let is_websocket = matches!(endpoint.address(), Address::WebSocket { .. });
    match is_websocket && !cfg!(feature = "ws") {
        true => Err(Error::not_built_in(endpoint, "served")),
        false => Ok(()),
    }
}

fn stopped() -> io::Error {
    io::Error::other("the server has been shut down")
}

fn tcp(address: SocketAddr) -> Endpoint {
    Endpoint::tcp(address.ip().to_string(), address.port())
}

/// Endpoint of a Unix socket, which may have no path.
fn path(listener: &Listener) -> Endpoint {
    Endpoint::unix(listener.path().unwrap_or(Path::new("")))
}

/// Accepts connections until the server stops.
async fn accept_framed(group: GroupGuard, listener: Listener, framing: Framing) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = group.stop.cancelled() => break,
        };
        match accepted {
            Ok(socket) => serve_framed(&group, socket, framing),
            Err(error) => transport::accept_failed(&error).await,
        }
    }
}

/// Serves a connection that speaks JSON-RPC without HTTP.
fn serve_framed(group: &GroupGuard, socket: Socket, framing: Framing) {
    let share = Share::of_connection(&group.incomplete);
    match socket.framed(framing, share) {
        Ok(transport) if group.has_room() => drop(group.start(transport)),
        Ok(transport) => group.refuse(transport),
        Err(error) => {
            tracing::debug!(target: "caudal", %error, "a connection was lost at once");
        }
    }
}

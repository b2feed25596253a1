//! A client: a peer that made the connection itself.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use super::connection;
#[cfg(feature = "http")]
use super::http;
use super::transport;
use crate::config::Config;
use crate::connection::{OnReconnect, Reconnect};
use crate::endpoint::{Address, Endpoint, EndpointError};
#[cfg(feature = "http")]
use crate::endpoint::{Downlink, Target};
use crate::error::Error;
use crate::extensions::Extensions;
use crate::peer::Peer;
use crate::peer::{Backoff, ConnectionGap};
use crate::router::Router;
use crate::router::handler::BoxFuture;
use crate::router::routes::Routes;
use crate::transport::{ChildOptions, Transport};

/// Connects to an [`Endpoint`], or to its text.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let peer = caudal::connect("tcp://127.0.0.1:4017").await?;
/// let sum: i64 = peer.call("add", (1, 2)).await?;
/// # Ok(()) }
/// ```
pub fn connect<E>(endpoint: E) -> Connect
where
    E: TryInto<Endpoint, Error: Into<EndpointError>>,
{
    Connect {
        endpoint: endpoint.try_into().map_err(Into::into),
        router: Routes::default(),
        config: Config::default(),
        timeout: Some(Duration::from_secs(10)),
        child: ChildOptions::default(),
        backoff: None,
        on_reconnect: None,
        #[cfg(feature = "http")]
        http: http::ClientOptions::default(),
        #[cfg(feature = "webhook")]
        webhook: None,
    }
}

/// A connection that is about to be made; made by [`connect`].
#[must_use = "nothing is connected until this is awaited"]
pub struct Connect {
    endpoint: Result<Endpoint, EndpointError>,
    router: Routes,
    config: Config,
    timeout: Option<Duration>,
    child: ChildOptions,
    backoff: Option<Backoff>,
    on_reconnect: Option<OnReconnect>,
    #[cfg(feature = "http")]
    http: http::ClientOptions,
    #[cfg(feature = "webhook")]
    webhook: Option<http::session::webhook::Receiver>,
}

impl Connect {
    /// Sets the methods that this side serves; none by default.
    pub fn router<S, E>(mut self, router: Router<S, E>) -> Self {
        self.router = router.into_routes();
        self
    }

    /// Sets limits, timeouts and conventions.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the options of HTTP requests, such as headers and a token.
    #[cfg(feature = "http")]
    pub fn http(mut self, options: http::ClientOptions) -> Self {
        self.http = options;
        self
    }

    /// Opens a session in which the server delivers its messages to this receiver. The
    /// fragment of the address is ignored.
    #[cfg(feature = "webhook")]
    pub fn webhook(mut self, receiver: &http::session::webhook::Receiver) -> Self {
        self.webhook = Some(receiver.clone());
        self
    }

    /// Sets the maximum time for one connection attempt: 10 s by default; `None` means no limit.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the options of a program that is started for a `cmd:` endpoint. Its framing is
    /// ignored: it is that of the endpoint.
    pub fn child(mut self, options: ChildOptions) -> Self {
        self.child = options;
        self
    }

    /// Makes the connection again when it is lost.
    ///
    /// Meanwhile [`Peer::state`] is
    /// [`Connecting`](crate::ConnectionState::Connecting) and new calls wait. Calls that
    /// had been sent fail, unless they are
    /// [idempotent](crate::Call::idempotent).
    ///
    /// The connection ends for good, with the last failure as its reason, when
    /// [`Backoff::tries`] attempts have failed, or at once when a failure
    /// [cannot pass](Error::is_recoverable), such as a token that is refused. A program that
    /// was started for a `cmd:` endpoint is started again.
    ///
    /// The first connection is not tried again: if that fails, so does this. Over plain
    /// `http://`, where each call is a POST, there is no connection to be lost: the state
    /// stays `Connected`, and a call that finds no server fails at once.
    pub fn reconnect(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Sets a function that is called after each reconnection, with the [gap](crate::ConnectionGap) in
    /// the connection. Use it to subscribe again.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), caudal::Error> {
    /// use caudal::Backoff;
    ///
    /// let peer = caudal::connect("tcp://127.0.0.1:4017")
    ///     .reconnect(Backoff::default())
    ///     .on_reconnect(|peer, gap| async move {
    ///         eprintln!("nothing was heard for {:?}", gap.lasted);
    ///         let _ = peer.notify("subscribe", ("ticks",)).await;
    ///     })
    ///     .await?;
    /// # let _ = peer; Ok(()) }
    /// ```
    pub fn on_reconnect<F, Fut>(mut self, on_reconnect: F) -> Self
    where
        F: Fn(Peer, ConnectionGap) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_reconnect = Some(Arc::new(move |peer, gap| Box::pin(on_reconnect(peer, gap))));
        self
    }
}

impl IntoFuture for Connect {
    type Output = Result<Peer, Error>;
    type IntoFuture = BoxFuture<Result<Peer, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let endpoint = self.endpoint?;
            let config = Arc::new(self.config);
            let dial = Arc::new(Dial {
                endpoint,
                timeout: self.timeout,
                child: self.child,
                #[cfg(feature = "http")]
                config: Arc::clone(&config),
                #[cfg(feature = "http")]
                http: self.http,
                #[cfg(feature = "webhook")]
                webhook: self.webhook,
            });
            let transport = open(Arc::clone(&dial)).await?;
            let reconnect = self.backoff.map(|backoff| Reconnect {
                backoff,
                connect: Box::new(move || Box::pin(open(Arc::clone(&dial)))),
                on_reconnect: self.on_reconnect,
            });
            let (router, extensions) = (Arc::new(self.router), Extensions::default());
            let connection =
                connection::start(transport, router, config, reconnect, extensions, |_| None);
            Ok(Peer::owning(connection))
        })
    }
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// Settings for making a connection, the first time and on reconnection.
struct Dial {
    endpoint: Endpoint,
    timeout: Option<Duration>,
    child: ChildOptions,
    #[cfg(feature = "http")]
    config: Arc<Config>,
    #[cfg(feature = "http")]
    http: http::ClientOptions,
    #[cfg(feature = "webhook")]
    webhook: Option<http::session::webhook::Receiver>,
}

/// Opens a transport to an endpoint.
async fn open(dial: Arc<Dial>) -> Result<Box<dyn Transport>, Error> {
    let Dial {
        endpoint, timeout, ..
    } = &*dial;
    let framing = endpoint.framing();
    let opened = async {
        #[cfg(feature = "http")]
        if let Some(target) = endpoint.target() {
            return open_url(&dial, &target).await;
        }
        Ok(match endpoint.address() {
            Address::Tcp { host, port } => {
                let stream = transport::tcp_connect(host, *port, framing).await?;
                Box::new(stream) as Box<dyn Transport>
            }
            Address::Unix { path } => Box::new(transport::unix_connect(path, framing).await?),
            Address::Command { program, args } => {
                let mut command = std::process::Command::new(program);
                command.args(args);
                let options = dial.child.clone();
                let options = options.framing(framing);
                Box::new(transport::Child::spawn(command, options)?)
            }
            Address::Stdio => Box::new(transport::stdio(framing)?),
            _ => return Err(None),
        })
    };
    let connect = |cause| Error::Connect {
        endpoint: Box::new(endpoint.clone()),
        cause,
    };
    match tokio::time::timeout(timeout.unwrap_or(Duration::MAX), opened).await {
        Ok(Ok(transport)) => Ok(transport),
        Ok(Err(Some(cause))) => Err(connect(cause)),
        Ok(Err(None)) => Err(Error::not_built_in(endpoint, "connected to")),
        Err(_) => Err(Error::ConnectTimeout {
            endpoint: Box::new(endpoint.clone()),
        }),
    }
}

/// Opens a transport of the HTTP family; no error if it is not built in.
#[cfg(feature = "http")]
async fn open_url(
    dial: &Dial,
    target: &Target<'_>,
) -> Result<Box<dyn Transport>, Option<std::io::Error>> {
    let (options, config) = (&dial.http, &dial.config);
    if target.secure && !cfg!(feature = "tls") {
        return Err(None);
    }
    let opened = match dial.endpoint.address() {
        #[cfg(feature = "webhook")]
        Address::Http { .. } if let Some(receiver) = &dial.webhook => {
            http::session::webhook::connect(target, options, config, receiver).await
        }
        #[cfg(feature = "ws")]
        Address::WebSocket { .. } => http::ws::connect(target, options, config).await,
        #[cfg(feature = "sse")]
        Address::Http {
            downlink: Downlink::Sse,
            ..
        } => http::session::sse::connect(target, options, config).await,
        #[cfg(feature = "polling")]
        Address::Http {
            downlink: Downlink::Poll,
            ..
        } => http::session::polling::connect(target, options, config).await,
        Address::Http {
            downlink: Downlink::None,
            ..
        } => http::client::connect(target, options, config).await,
        _ => return Err(None),
    };
    opened.map_err(Some)
}

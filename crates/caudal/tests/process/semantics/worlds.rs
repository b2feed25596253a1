//! A server on each transport, and how it is reached.

use std::convert::Infallible;
use std::process::{Command, Stdio};
use std::time::Duration;

use caudal::webhook::Receiver;
use caudal::{Config, Peer, Router, Server};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::{methods, raw};

/// How that server gets its config.
const CONFIG: &str = "CAUDAL_SEMANTICS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Stdio,
    Tcp,
    Unix,
    Post,
    WebSocket,
    Sse,
    Polling,
    Webhook,
}

pub(crate) const KINDS: [Kind; 9] = [
    Kind::Memory,
    Kind::Stdio,
    Kind::Tcp,
    Kind::Unix,
    Kind::Post,
    Kind::WebSocket,
    Kind::Sse,
    Kind::Polling,
    Kind::Webhook,
];

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Stdio => "stdio",
            Self::Tcp => "TCP",
            Self::Unix => "Unix",
            Self::Post => "POST",
            Self::WebSocket => "WebSocket",
            Self::Sse => "SSE",
            Self::Polling => "polling",
            Self::Webhook => "webhook",
        }
    }
}

/// What a case may change; it must reach a child process too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) in_flight: Option<usize>,
    pub(crate) max_message: Option<usize>,
    pub(crate) lsp: bool,
}

impl Settings {
    fn config(self) -> Config {
        let mut config = Config::default();
        if let Some(limit) = self.in_flight {
            config.in_flight = limit;
        }
        if let Some(limit) = self.max_message {
            config.policy.max_message = limit;
        }
        if self.lsp {
            config.dialect = caudal::Dialect::lsp();
        }
        config
    }

    fn to_text(self) -> String {
        let number = |value: Option<usize>| value.map_or(String::new(), |v| v.to_string());
        format!(
            "{},{},{}",
            number(self.in_flight),
            number(self.max_message),
            self.lsp
        )
    }

    fn of_text(text: &str) -> Self {
        let parts: Vec<&str> = text.split(',').collect();
        Self {
            in_flight: parts[0].parse().ok(),
            max_message: parts[1].parse().ok(),
            lsp: parts[2] == "true",
        }
    }
}

/// This program, as a server on stdin and stdout.
///
/// The test runner prints on stdout, so the server finds the real one at another place.
fn child(settings: Settings) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"exec "$0" "$@" 3>&1 1>&2"#])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "semantics::a_child_serves_on_stdio"])
        .args(["--ignored", "--nocapture", "--quiet"])
        .env(CONFIG, settings.to_text());
    command
}

/// Serves on stdin and stdout in the process that [`child`] starts, and ends it.
#[expect(clippy::exit, reason = "the test runner would print on stdout")]
pub(crate) fn serve_stdio() {
    let stdout = std::fs::File::options().write(true).open("/dev/fd/3");
    rustix::stdio::dup2_stdout(stdout.unwrap()).unwrap();
    let settings = Settings::of_text(&std::env::var(CONFIG).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let served = caudal::serve("stdio:", methods::served()).config(settings.config());
        served.await.unwrap().wait().await;
    });
    std::process::exit(0);
}

/// A server, and all that is needed to reach it.
pub(crate) struct World {
    pub(crate) kind: Kind,
    settings: Settings,
    /// None in memory, and none of ours in a child process.
    pub(crate) server: Option<Server>,
    address: String,
    folder: Option<tempfile::TempDir>,
}

impl World {
    pub(crate) async fn start(kind: Kind, settings: Settings) -> Self {
        let folder = (kind == Kind::Unix).then(|| tempfile::tempdir().unwrap());
        let listen = match kind {
            Kind::Memory | Kind::Stdio => None,
            Kind::Tcp => Some("tcp://127.0.0.1:0".to_owned()),
            Kind::Unix => {
                let path = folder.as_ref().unwrap().path().join("socket");
                Some(format!("unix:{}", path.display()))
            }
            _ => Some("http://127.0.0.1:0/rpc".to_owned()),
        };
        let server = match listen {
            None => None,
            Some(listen) => {
                let served = caudal::serve(&*listen, methods::served());
                let mut options = caudal::http::Options::default();
                options.private_webhooks = true;
                let served = served.config(settings.config()).http(options);
                Some(served.await.unwrap())
            }
        };
        let listens = server.as_ref().map(|server| server.endpoint().to_string());
        let listens = listens.unwrap_or_default();
        let address = match kind {
            Kind::WebSocket => listens.replacen("http", "ws", 1),
            Kind::Sse => listens + "#sse",
            Kind::Polling => listens + "#poll",
            _ => listens,
        };
        Self {
            kind,
            settings,
            server,
            address,
            folder,
        }
    }

    /// A client whose side serves `router`.
    pub(crate) async fn connect(&self, router: Router) -> Peer {
        let config = self.settings.config();
        match self.kind {
            Kind::Memory => {
                let (client, server) = Peer::pair_with(router, methods::served(), &config);
                // It lives as long as its connection.
                tokio::spawn(async move { server.closed().await });
                client
            }
            Kind::Stdio => {
                let options = caudal::transport::ChildOptions::default();
                let child = caudal::transport::Child::spawn(child(self.settings), options);
                Peer::start_with(child.unwrap(), router, config)
            }
            Kind::Webhook => {
                let receiver = listen_for_webhooks().await;
                let connected = caudal::connect(&*self.address).router(router);
                let peer = connected.config(config).webhook(&receiver).await.unwrap();
                let watched = peer.clone();
                tokio::spawn(async move {
                    watched.closed().await;
                    drop(receiver);
                });
                peer
            }
            _ => {
                let connected = caudal::connect(&*self.address).router(router);
                connected.config(config).await.unwrap()
            }
        }
    }

    /// What is answered to these bytes.
    pub(crate) async fn answers(&self, text: &str) -> raw::Answers {
        let config = self.settings.config();
        match self.kind {
            Kind::Memory => {
                let (here, there) = tokio::io::duplex(1 << 16);
                let stream = caudal::transport::Stream::new(there, caudal::Framing::Line);
                let _peer = Peer::start_with(stream, methods::served(), config);
                raw::over_lines(here, text).await
            }
            Kind::Stdio => {
                let mut command = tokio::process::Command::from(child(self.settings));
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.kill_on_drop(true).spawn().unwrap();
                let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
                raw::over_lines(tokio::io::join(stdout, stdin), text).await
            }
            Kind::Tcp => {
                let host = self.address.trim_start_matches("tcp://");
                let stream = tokio::net::TcpStream::connect(host).await.unwrap();
                raw::over_lines(stream, text).await
            }
            Kind::Unix => {
                let path = self.address.trim_start_matches("unix:");
                let stream = tokio::net::UnixStream::connect(path).await.unwrap();
                raw::over_lines(stream, text).await
            }
            Kind::WebSocket => raw::over_websocket(&self.address, text).await,
            Kind::Post => raw::over_post(&self.address, text).await,
            Kind::Sse | Kind::Polling | Kind::Webhook => {
                raw::over_session(&self.address, self.kind, text).await
            }
        }
    }

    pub(crate) async fn stop(&self) {
        if let Some(server) = &self.server {
            server.shutdown(Duration::from_secs(5)).await;
        }
        let _ = &self.folder;
    }
}

/// A web server of the client's, for the messages of its server.
async fn listen_for_webhooks() -> Receiver {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let receiver = Receiver::new(&format!("http://{address}/hook")).unwrap();
    let served = receiver.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let receiver = served.clone();
            let service = service_fn(move |request| {
                let receiver = receiver.clone();
                async move { Ok::<_, Infallible>(receiver.answer(request).await) }
            });
            tokio::spawn(async move {
                let io = TokioIo::new(socket);
                let _ = http1::Builder::new().serve_connection(io, service).await;
            });
        }
    });
    receiver
}

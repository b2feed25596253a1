//! TLS, seen from the outside by a client of another make.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

mod http2;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::root::Root;
use crate::support::within;
use caudal::http::{Options, Parts};
use caudal::tls::{ClientTls, PeerCertificate, Pem, ServerTls, TlsError};
use caudal::{Error, Extensions, Router, Server, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, ProtocolVersion, RootCertStore, version};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":3}"#;

/// A client that believes one root.
struct Client {
    root: String,
    own: Option<(String, String)>,
    alpn: Vec<&'static str>,
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
}

impl Client {
    fn of(root: &Root) -> Self {
        Self {
            root: root.pem.clone(),
            own: None,
            alpn: vec!["http/1.1"],
            versions: vec![&version::TLS13, &version::TLS12],
        }
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(self.root.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        config.alpn_protocols = self
            .alpn
            .iter()
            .map(|name| name.as_bytes().into())
            .collect();
        config
    }

    async fn connect(&self, server: &Server) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(self.config()));
        connector.connect(name, socket(server).await).await
    }

    /// One request, to the very end of the connection.
    #[cfg(feature = "polling")]
    async fn ask(&self, server: &Server, head: &str, body: &str) -> io::Result<String> {
        let mut stream = self.connect(server).await?;
        let length = body.len();
        // A GET that says what it sends opens no session.
        let kind = match body {
            "" => "",
            _ => "content-type: application/json\r\n",
        };
        let rest = format!("host: localhost\r\nconnection: close\r\n{kind}");
        let text = format!("{head}\r\n{rest}content-length: {length}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    /// One call, to the very end of the connection.
    async fn post(&self, server: &Server) -> io::Result<String> {
        let mut stream = self.connect(server).await?;
        let length = CALL.len();
        let head = "POST /rpc HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        let kind = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        stream
            .write_all(format!("{head}{kind}{CALL}").as_bytes())
            .await?;
        // Without close_notify this is an error.
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }
}

fn port(server: &Server) -> u16 {
    let text = server.endpoint().to_string();
    let (_, rest) = text.rsplit_once(':').unwrap();
    rest.trim_end_matches("/rpc").parse().unwrap()
}

async fn socket(server: &Server) -> TcpStream {
    let address = ("127.0.0.1", port(server));
    TcpStream::connect(address).await.unwrap()
}

fn router() -> Router {
    Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b))
}

async fn serving(options: Options) -> Server {
    let served = serve("https://127.0.0.1:0/rpc", router()).http(options);
    served.await.unwrap()
}

fn with(tls: ServerTls) -> Options {
    let mut options = Options::default();
    options.tls = Some(tls);
    options
}

/// The other side ends the connection, in whatever way.
async fn ends(socket: &mut TcpStream) {
    let mut rest = Vec::new();
    let end = socket.read_to_end(&mut rest);
    let _: io::Result<usize> = within(end).await;
}

#[track_caller]
fn answered(response: io::Result<String>) {
    let text = response.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.ends_with(ANSWER), "{text}");
}

#[tokio::test]
async fn a_post_is_answered_with_either_version() {
    let root = Root::new("a");
    let server = serving(with(root.server())).await;
    for (version, name) in [
        (&version::TLS12, ProtocolVersion::TLSv1_2),
        (&version::TLS13, ProtocolVersion::TLSv1_3),
    ] {
        let mut client = Client::of(&root);
        client.versions = vec![version];
        let stream = client.connect(&server).await.unwrap();
        assert_eq!(stream.get_ref().1.protocol_version(), Some(name));
        answered(client.post(&server).await);
    }
}

#[cfg(feature = "polling")]
#[tokio::test]
async fn a_page_over_http_is_a_foreign_one() {
    let root = Root::new("a");
    let server = serving(with(root.server())).await;
    let client = Client::of(&root);
    let ask = async |origin| {
        let head = format!("POST /rpc HTTP/1.1\r\norigin: {origin}://localhost");
        client.ask(&server, &head, CALL).await
    };
    answered(ask("https").await);
    let refused = ask("http").await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
}

#[cfg(feature = "ws")]
#[tokio::test]
async fn wss_is_served_like_https() {
    use std::net::TcpStream;
    let root = Root::new("a");
    let served = serve("wss://127.0.0.1:0/rpc", router()).http(with(root.server()));
    let server = served.await.unwrap();
    let client = Client::of(&root);
    answered(client.post(&server).await);
    let (config, port) = (Arc::new(client.config()), port(&server));
    let spoken = tokio::task::spawn_blocking(move || {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = rustls::ClientConnection::new(config, name).unwrap();
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let limit = Some(Duration::from_secs(60));
        socket.set_read_timeout(limit).unwrap();
        let stream = rustls::StreamOwned::new(tls, socket);
        let (mut socket, _) = tungstenite::client("wss://localhost/rpc", stream).unwrap();
        for _ in 0..2 {
            socket.send(CALL.into()).unwrap();
            assert_eq!(socket.read().unwrap().into_text().unwrap(), ANSWER);
        }
        socket.close(None).unwrap();
        assert!(socket.read().unwrap().is_close());
        // Without close_notify this is another error.
        let end = socket.read().unwrap_err();
        assert!(matches!(end, tungstenite::Error::ConnectionClosed), "{end}");
    });
    spoken.await.unwrap();
}

#[tokio::test]
async fn a_client_that_refuses_ends_only_its_own_connection() {
    let (root, other) = (Root::new("a"), Root::new("b"));
    let server = serving(with(root.server())).await;
    let error = Client::of(&other).post(&server).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    answered(Client::of(&root).post(&server).await);
}

#[tokio::test]
async fn mutual_tls_lets_known_clients_in_and_shows_who_they_are() {
    let (servers, clients) = (Root::new("servers"), Root::new("clients"));
    let tls = servers.server();
    let mut options = with(tls.require_clients(clients.pem.as_str()).unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    options.authorize = Some(Arc::new(move |request: &Parts, _: &Extensions| {
        let shown = request.extensions.get::<PeerCertificate>().cloned();
        log.lock().unwrap().push(shown);
        Ok(())
    }));
    let server = serving(options).await;

    for version in [&version::TLS12, &version::TLS13] {
        let mut client = Client::of(&servers);
        client.versions = vec![version];
        let refused = client.post(&server).await;
        refused.expect_err("nobody showed a certificate");
        client.own = Some(servers.issue("ada"));
        let refused = client.post(&server).await;
        refused.expect_err("the certificate is of another root");
        assert!(seen.lock().unwrap().is_empty());

        let own = clients.issue("ada");
        let der = CertificateDer::from_pem_slice(own.0.as_bytes()).unwrap();
        client.own = Some(own);
        answered(client.post(&server).await);
        let shown = seen.lock().unwrap().pop().unwrap().expect("no certificate");
        assert_eq!(shown.as_der(), der.as_ref());
        assert_eq!(shown, PeerCertificate::new(der.as_ref()));
    }
}

#[tokio::test]
async fn without_mutual_tls_nobody_is_asked() {
    let root = Root::new("a");
    let mut options = with(root.server());
    options.authorize = Some(Arc::new(|request: &Parts, _: &Extensions| {
        match request.extensions.get::<PeerCertificate>() {
            None => Ok(()),
            Some(_) => Err(caudal::http::StatusCode::FORBIDDEN),
        }
    }));
    let server = serving(options).await;
    let mut client = Client::of(&root);
    client.own = Some(root.issue("ada"));
    answered(client.post(&server).await);
}

#[tokio::test]
async fn plain_http_and_noise_end_at_once() {
    let root = Root::new("a");
    let mut options = with(root.server());
    options.header_timeout = Duration::from_secs(3600);
    let server = serving(options).await;
    let texts: [&[u8]; 3] = [
        b"POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &[0xff; 4096],
    ];
    for text in texts {
        let mut socket = socket(&server).await;
        socket.write_all(text).await.unwrap();
        ends(&mut socket).await;
    }
    answered(Client::of(&root).post(&server).await);
}

#[tokio::test]
async fn a_handshake_that_does_not_end_is_ended() {
    let root = Root::new("a");
    let mut options = with(root.server());
    options.header_timeout = Duration::from_millis(100);
    let server = serving(options).await;
    // Silence, and a record that says it is longer than what comes of it.
    let beginnings: [&[u8]; 2] = [b"", &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]];
    for beginning in beginnings {
        let mut socket = socket(&server).await;
        socket.write_all(beginning).await.unwrap();
        ends(&mut socket).await;
    }
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn a_slow_handshake_keeps_nobody_waiting() {
    let root = Root::new("a");
    let mut options = with(root.server());
    options.header_timeout = Duration::from_secs(3600);
    let server = serving(options).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(socket(&server).await);
    }
    answered(Client::of(&root).post(&server).await);
    // Nor does it keep the server from stopping.
    let stopped = server.shutdown(Duration::from_secs(3600));
    within(stopped).await;
    for mut socket in slow {
        ends(&mut socket).await;
    }
}

#[tokio::test]
async fn shutdown_says_goodbye() {
    let root = Root::new("a");
    let server = serving(with(root.server())).await;
    let mut stream = Client::of(&root).connect(&server).await.unwrap();
    let request = "GET /elsewhere HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = [0; 12];
    stream.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 404");
    server.shutdown(Duration::from_secs(60)).await;
    // Without close_notify this is an error.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn an_address_and_its_options_must_agree() {
    let root = Root::new("a");
    for (address, options, hint) in [
        ("https://127.0.0.1:0", Options::default(), "set `tls` in"),
        ("wss://127.0.0.1:0", Options::default(), "set `tls` in"),
        ("http://127.0.0.1:0", with(root.server()), "https and wss"),
        ("ws://127.0.0.1:0", with(root.server()), "https and wss"),
    ] {
        let error = serve(address, router()).http(options).await.unwrap_err();
        assert!(!error.is_recoverable());
        let Error::Listen { cause, .. } = error else {
            panic!("{error:?}");
        };
        assert!(cause.to_string().contains(hint), "{cause}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let root = Root::new("a");
    let (chain, key) = root.issue("localhost");
    let (_, other) = root.issue("localhost");
    let (chain, key, other) = (chain.as_str(), key.as_str(), other.as_str());
    let broken = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n";
    let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let no_end = &chain[..chain.len() - 12];
    for (chain, key, says) in [
        ("", key, "there is no certificate in the given PEM"),
        (key, key, "there is no certificate in the given PEM"),
        (chain, "", "there is no private key in the given PEM"),
        (chain, chain, "there is no private key in the given PEM"),
        (broken, key, "the given PEM is broken: it is not base64"),
        (
            no_end,
            key,
            "the given PEM is broken: an END line is missing",
        ),
        (
            "-----BEGIN X\n",
            key,
            "the given PEM is broken: a BEGIN line has no proper end",
        ),
        (empty, key, "a certificate in the given PEM cannot be used"),
        (
            chain,
            odd,
            "the private key in the given PEM cannot be used",
        ),
        (
            chain,
            locked,
            "the private key in the given PEM is encrypted; `openssl pkey` can decrypt it",
        ),
        (
            chain,
            older,
            "the private key in the given PEM is encrypted; `openssl pkey` can decrypt it",
        ),
        (
            chain,
            other,
            "the private key in the given PEM does not belong to the first certificate in the given PEM",
        ),
    ] {
        assert_eq!(ServerTls::new(chain, key).unwrap_err().to_string(), says);
        let client = ClientTls::default().certificate(chain, key);
        assert_eq!(client.unwrap_err().to_string(), says);
    }
    for (roots, says) in [
        ("", "there is no certificate in the given PEM"),
        (empty, "a certificate in the given PEM cannot be used"),
    ] {
        let error = ClientTls::with_roots(roots).unwrap_err();
        assert_eq!(error.to_string(), says);
        let error = root.server().require_clients(roots).unwrap_err();
        assert_eq!(error.to_string(), says);
    }
}

#[test]
fn errors_say_which_file_is_wrong() {
    let root = Root::new("a");
    let (chain, key) = root.issue("localhost");
    let folder = std::env::temp_dir().join(format!("caudal-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    std::fs::write(at("chain.pem"), &chain).unwrap();
    std::fs::write(at("key.pem"), &key).unwrap();
    std::fs::write(at("both.pem"), format!("{chain}{key}")).unwrap();
    std::fs::write(at("other.pem"), root.issue("localhost").1).unwrap();

    ServerTls::read(at("chain.pem"), at("key.pem")).unwrap();
    ServerTls::read(at("both.pem"), at("both.pem")).unwrap();
    let error = ServerTls::read(at("none.pem"), at("key.pem")).unwrap_err();
    assert!(matches!(&error, TlsError::Read { path, .. } if *path == at("none.pem")));
    assert!(error.to_string().contains("none.pem"), "{error}");
    let error = ServerTls::read(at("chain.pem"), at("chain.pem")).unwrap_err();
    assert!(error.to_string().contains("chain.pem"), "{error}");
    let error = ServerTls::read(at("chain.pem"), at("other.pem")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("chain.pem") && text.contains("other.pem"),
        "{text}"
    );
    let pem = Pem::read(at("key.pem")).unwrap();
    assert!(format!("{pem:?}").contains("key.pem"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Neither does an error, not even if the text is all on one line.
#[test]
fn nothing_shows_a_key() {
    let root = Root::new("a");
    let (chain, key) = root.issue("localhost");
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let server = ServerTls::new(chain.as_str(), key.as_str()).unwrap();
    let client = ClientTls::default();
    let client = client.certificate(chain.as_str(), key.as_str()).unwrap();
    let joined = key.replace(['\r', '\n'], "");
    let cut = &key[..key.len() / 2];
    let mut shown = format!("{server:?}{client:?}{:?}", Pem::from(key.as_str()));
    for bad in [joined.as_str(), cut] {
        let error = ServerTls::new(chain.as_str(), bad).unwrap_err();
        shown += &format!("{error}{error:?}");
    }
    let listed = |text: &str| format!("{:?}", &text.as_bytes()[..8]);
    let listed = listed(&body).trim_matches(['[', ']']).to_owned();
    assert!(!shown.contains(&body[..8]), "{shown}");
    assert!(!shown.contains(&listed), "{shown}");
}

#[cfg(feature = "polling")]
#[tokio::test]
async fn while_the_server_stops_clients_of_sessions_may_still_come() {
    let root = Root::new("a");
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let opened = Arc::clone(&gate);
    let router = router().method("hold", move |_: Option<i64>| {
        let gate = Arc::clone(&opened);
        async move {
            gate.acquire().await.unwrap().forget();
            Ok("held")
        }
    });
    let served = serve("https://127.0.0.1:0/rpc", router).http(with(root.server()));
    let server = served.await.unwrap();
    let client = Client::of(&root);
    let head = "GET /rpc HTTP/1.1\r\naccept: application/json";
    let text = client.ask(&server, head, "").await.unwrap();
    let mut lines = text.lines();
    let session = lines.find(|line| line.starts_with("mcp-session-id: "));
    let session = session.unwrap();
    let head = format!("POST /rpc HTTP/1.1\r\nprefer: respond-async\r\n{session}");
    let hold = r#"{"jsonrpc":"2.0","id":1,"method":"hold"}"#;
    let text = client.ask(&server, &head, hold).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 202"), "{text}");
    let stopping = server.clone();
    let end = tokio::spawn(async move { stopping.shutdown(Duration::from_secs(60)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let head = format!("GET /rpc HTTP/1.1\r\nprefer: wait=0\r\n{session}");
    let text = client.ask(&server, &head, "").await.unwrap();
    assert!(text.starts_with("HTTP/1.1 204"), "{text}");
    gate.add_permits(1);
    let head = format!("GET /rpc HTTP/1.1\r\n{session}");
    let text = client.ask(&server, &head, "").await.unwrap();
    assert!(text.contains("held"), "{text}");
    end.await.unwrap();
}

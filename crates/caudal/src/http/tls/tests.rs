//! A client's socket, against a server of our own.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::error::Error as _;
use std::io;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{ClientTls, ServerTls, TlsError};
use crate::http;
use crate::http::client::dial::dial;
use crate::http::{ClientOptions, Socket};
use crate::{Endpoint, Router, Server, serve};

struct Root {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn root(name: &str) -> Root {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    Root { pem, issuer }
}

impl Root {
    fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn named(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    CertificateParams::new(names).unwrap()
}

async fn serving(tls: ServerTls) -> Server {
    let options = http::Options {
        tls: Some(tls),
        ..Default::default()
    };
    let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let served = serve("https://127.0.0.1:0/rpc", router).http(options);
    served.await.unwrap()
}

/// Dials the server under some name.
async fn reach(server: &Server, host: &str, tls: ClientTls) -> io::Result<Socket> {
    let port = server.endpoint().target().unwrap().port;
    let endpoint: Endpoint = format!("https://{host}:{port}/rpc").parse().unwrap();
    let options = ClientOptions {
        tls,
        ..Default::default()
    };
    dial(&endpoint.target().unwrap(), &options).await
}

async fn ask(mut socket: Socket) -> io::Result<String> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
    let head = "POST /rpc HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let kind = "content-type: application/json\r\ncontent-length: 54\r\n\r\n";
    socket
        .write_all(format!("{head}{kind}{body}").as_bytes())
        .await?;
    let mut text = String::new();
    socket.read_to_string(&mut text).await?;
    socket.shutdown().await?;
    Ok(text)
}

fn tls_error(error: &io::Error) -> &TlsError {
    let inner = error.get_ref().expect("an error of ours");
    inner.downcast_ref().expect("an error of ours")
}

#[tokio::test]
async fn own_roots_are_believed_for_names_and_addresses() {
    let root = root("a");
    let (chain, key) = root.issue(&named(&["localhost", "127.0.0.1"]));
    let server = serving(ServerTls::new(chain, key).unwrap()).await;
    for host in ["localhost", "127.0.0.1"] {
        let tls = ClientTls::with_roots(root.pem.as_str()).unwrap();
        let socket = reach(&server, host, tls).await.unwrap();
        let Socket::Secure(stream) = &socket else {
            panic!("there is no TLS");
        };
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        let text = ask(socket).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.ends_with(r#""result":3}"#), "{text}");
    }
}

#[tokio::test]
async fn an_unknown_root_is_refused_and_then_added() {
    let (known, other) = (root("a"), root("b"));
    let (chain, key) = known.issue(&named(&["localhost"]));
    let server = serving(ServerTls::new(chain, key).unwrap()).await;
    let tls = ClientTls::with_roots(other.pem).unwrap();
    let error = reach(&server, "localhost", tls.clone()).await.unwrap_err();
    assert!(matches!(tls_error(&error), TlsError::Refused { .. }));
    assert_eq!(
        error.to_string(),
        "the certificate of `localhost` is not accepted"
    );
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("UnknownIssuer"), "{cause}");

    // What was built for the old roots is not used any more.
    let tls = tls.add_roots(known.pem).unwrap();
    let socket = reach(&server, "localhost", tls).await.unwrap();
    assert!(ask(socket).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn another_host_is_refused() {
    let root = root("a");
    let (chain, key) = root.issue(&named(&["example.com"]));
    let server = serving(ServerTls::new(chain, key).unwrap()).await;
    for host in ["localhost", "127.0.0.1"] {
        let tls = ClientTls::with_roots(root.pem.as_str()).unwrap();
        let error = reach(&server, host, tls).await.unwrap_err();
        assert!(matches!(tls_error(&error), TlsError::Refused { .. }));
        assert!(error.to_string().contains(host), "{error}");
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains("not valid for name"), "{cause}");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let root = root("a");
    let mut params = named(&["localhost"]);
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let (chain, key) = root.issue(&params);
    let server = serving(ServerTls::new(chain, key).unwrap()).await;
    let tls = ClientTls::with_roots(root.pem).unwrap();
    let error = reach(&server, "localhost", tls).await.unwrap_err();
    assert!(matches!(tls_error(&error), TlsError::Refused { .. }));
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("expired"), "{cause}");
}

#[tokio::test]
async fn the_system_does_not_believe_a_root_of_ours() {
    let root = root("a");
    let (chain, key) = root.issue(&named(&["localhost"]));
    let server = serving(ServerTls::new(chain, key).unwrap()).await;
    let tls = ClientTls::default();
    let error = reach(&server, "localhost", tls.clone()).await.unwrap_err();
    // A machine may have no roots at all.
    let error = tls_error(&error);
    let expected = matches!(
        error,
        TlsError::Refused { .. } | TlsError::NoSystemRoots { .. }
    );
    assert!(expected, "{error:?}");
    let tls = tls.add_roots(root.pem).unwrap();
    let socket = reach(&server, "localhost", tls).await.unwrap();
    assert!(ask(socket).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let (servers, clients) = (root("servers"), root("clients"));
    let (chain, key) = servers.issue(&named(&["localhost"]));
    let tls = ServerTls::new(chain, key).unwrap();
    let server = serving(tls.require_clients(clients.pem.as_str()).unwrap()).await;

    let bare = ClientTls::with_roots(servers.pem.as_str()).unwrap();
    let asked = match reach(&server, "localhost", bare.clone()).await {
        Ok(socket) => ask(socket).await,
        Err(error) => Err(error),
    };
    let _: io::Error = asked.expect_err("nobody showed a certificate");

    let (chain, key) = servers.issue(&named(&["ada"]));
    let foreign = bare.clone().certificate(chain, key).unwrap();
    let asked = match reach(&server, "localhost", foreign).await {
        Ok(socket) => ask(socket).await,
        Err(error) => Err(error),
    };
    let _: io::Error = asked.expect_err("the certificate is of another root");

    let (chain, key) = clients.issue(&named(&["ada"]));
    let known = bare.certificate(chain, key).unwrap();
    let socket = reach(&server, "localhost", known).await.unwrap();
    assert!(ask(socket).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_server_without_tls_is_no_https_server() {
    let router = Router::new();
    let server = serve("http://127.0.0.1:0/rpc", router).await.unwrap();
    let tls = ClientTls::with_roots(root("a").pem).unwrap();
    let error = reach(&server, "localhost", tls).await.unwrap_err();
    assert!(matches!(tls_error(&error), TlsError::Handshake { .. }));
    assert_eq!(
        error.to_string(),
        "the TLS handshake with `localhost` failed"
    );
}

#[test]
fn a_host_must_be_a_name_or_an_address() {
    for host in ["localhost", "127.0.0.1", "::1", "a.example"] {
        assert!(super::client::name(host).is_ok(), "{host}");
    }
    let error = crate::http::tls::client::name("a b").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`a b` is not a name that a certificate can have"
    );
}

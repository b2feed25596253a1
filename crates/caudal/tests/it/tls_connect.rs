//! TLS as the clients of this crate speak it, each side with a certificate.
#![cfg(all(feature = "tls", feature = "ws", feature = "sse", feature = "polling"))]
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::{Arc, Mutex};

use crate::support::root::Root;
use caudal::http::{ClientOptions, Options, Parts};
use caudal::tls::{ClientTls, PeerCertificate, TlsError};
use caudal::{CallError, Context, Error, Extensions, Peer, Router, Server, connect, serve};
use tokio::sync::mpsc;

use crate::support::within;

/// What comes before the host, and after the path.
const KINDS: [(&str, &str); 4] = [
    ("https", ""),
    ("wss", ""),
    ("https", "#sse"),
    ("https", "#poll"),
];

/// A server that lets only those in who show a certificate of its root.
struct Site {
    server: Server,
    servers: Root,
    clients: Root,
    notes: mpsc::UnboundedReceiver<String>,
    /// Of each request, what the client has shown.
    shown: Arc<Mutex<Vec<Option<PeerCertificate>>>>,
}

impl Site {
    async fn new() -> Self {
        let (servers, clients) = (Root::new("servers"), Root::new("clients"));
        let shown: Arc<Mutex<Vec<_>>> = Arc::default();
        let log = Arc::clone(&shown);
        let mut options = Options::default();
        let tls = servers.server().require_clients(clients.pem.as_str());
        options.tls = Some(tls.unwrap());
        options.authorize = Some(Arc::new(move |request: &Parts, _: &Extensions| {
            let shown = request.extensions.get::<PeerCertificate>().cloned();
            log.lock().unwrap().push(shown);
            Ok(())
        }));
        let (told, notes) = mpsc::unbounded_channel();
        let router = Router::new()
            .method("add", |(a, b): (i64, i64)| Ok(a + b))
            .method("ask", |cx: Context, (n,): (i64,)| async move {
                let doubled: i64 = cx.peer().call("double", (n,)).await?;
                Ok(doubled)
            })
            .method("note", move |(text,): (String,)| {
                let _ = told.send(text);
                Ok(())
            });
        let server = serve("https://127.0.0.1:0/rpc", router).http(options);
        Self {
            server: server.await.unwrap(),
            servers,
            clients,
            notes,
            shown,
        }
    }

    /// Believes the server, and shows nothing.
    fn bare(&self) -> ClientTls {
        ClientTls::with_roots(self.servers.pem.as_str()).unwrap()
    }

    async fn connect(&self, (scheme, kind): (&str, &str), tls: ClientTls) -> Result<Peer, Error> {
        let text = self.server.endpoint().to_string();
        let (_, port) = text.trim_end_matches("/rpc").rsplit_once(':').unwrap();
        let mut options = ClientOptions::default();
        options.tls = tls;
        let own = Router::new().method("double", |(n,): (i64,)| Ok(n * 2));
        let connecting = connect(&*format!("{scheme}://localhost:{port}/rpc{kind}"));
        within(connecting.router(own).http(options)).await
    }
}

#[tokio::test]
async fn clients_with_a_certificate_speak_over_tls() {
    let mut site = Site::new().await;
    let (chain, key) = site.clients.issue("ada");
    let own = Some(PeerCertificate::new(der(&chain)));
    let tls = site.bare().certificate(chain, key).unwrap();
    for kind in KINDS {
        let peer = site.connect(kind, tls.clone()).await.unwrap();
        let sum: i64 = within(peer.call("add", (1, 2))).await.unwrap();
        assert_eq!(sum, 3, "{kind:?}");
        within(peer.notify("note", (kind.1,))).await.unwrap();
        assert_eq!(within(site.notes.recv()).await.unwrap(), kind.1);
        let doubled = within(peer.call::<i64>("ask", (21,))).await;
        match kind {
            // A POST that stands alone has no way back.
            ("https", "") => drop(doubled.unwrap_err()),
            _ => assert_eq!(doubled.unwrap(), 42, "{kind:?}"),
        }
    }
    let shown = site.shown.lock().unwrap();
    assert!(shown.len() > KINDS.len() && shown.iter().all(|one| *one == own));
}

fn der(pem: &str) -> Vec<u8> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
    certificate.unwrap().to_vec()
}

#[tokio::test]
async fn clients_without_a_certificate_of_the_right_root_are_refused() {
    let mut site = Site::new().await;
    let (chain, key) = site.servers.issue("ada");
    let other = site.bare().certificate(chain, key).unwrap();
    for tls in [site.bare(), other] {
        for kind in KINDS {
            match site.connect(kind, tls.clone()).await {
                Err(error) => assert!(matches!(error, Error::Connect { .. }), "{error:?}"),
                // With TLS 1.3 a client learns it by its first request, and a POST is
                // only made when there is something to say.
                Ok(peer) => {
                    assert_eq!(kind, ("https", ""));
                    let _ = within(peer.notify("note", ("no",))).await;
                    let error = within(peer.call::<i64>("add", (1, 2))).await.unwrap_err();
                    assert!(matches!(error, CallError::Closed(_)), "{error:?}");
                }
            }
        }
    }
    assert!(site.shown.lock().unwrap().is_empty());
    assert!(site.notes.try_recv().is_err());
    assert_eq!(site.server.stats().requests_served, 0);
}

#[tokio::test]
async fn clients_do_not_believe_a_server_of_another_root() {
    let site = Site::new().await;
    let (chain, key) = site.clients.issue("ada");
    let tls = ClientTls::with_roots(site.clients.pem.as_str()).unwrap();
    let tls = tls.certificate(chain, key).unwrap();
    for kind in KINDS {
        let error = site.connect(kind, tls.clone()).await.unwrap_err();
        let Error::Connect { cause, .. } = &error else {
            panic!("{error:?}");
        };
        let cause = cause.get_ref().and_then(|inner| inner.downcast_ref());
        assert!(matches!(cause, Some(TlsError::Refused { .. })), "{error:?}");
    }
    assert!(site.shown.lock().unwrap().is_empty());
}

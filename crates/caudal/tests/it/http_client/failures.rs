//! The same failure of a call is the same variant on every transport.

use std::time::Duration;

use caudal::{CallError, Error, Peer, Router, Server, StatusError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::sse::SESSION;
use crate::support::fake::Fake;
use crate::support::within;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Unix,
    WebSocket,
    Post,
    Sse,
    Polling,
}

use Kind::*;

/// Every transport.
const ALL: &[Kind] = &[
    Tcp,
    #[cfg(unix)]
    Unix,
    WebSocket,
    Post,
    Sse,
    Polling,
];

/// A server, and what its address has to be kept for.
struct Served {
    server: Server,
    _directory: Option<tempfile::TempDir>,
}

/// A peer of a server that serves this router.
async fn pair(kind: Kind, router: Router) -> (Served, Peer) {
    let directory = (kind == Unix).then(|| tempfile::tempdir().unwrap());
    let address = match (kind, &directory) {
        (Tcp, _) => "tcp://127.0.0.1:0".to_owned(),
        (_, Some(directory)) => format!("unix://{}", directory.path().join("s").display()),
        _ => "http://127.0.0.1:0/rpc".to_owned(),
    };
    let server = caudal::serve(&*address, router).await.unwrap();
    let url = server.endpoint().to_string();
    let url = match kind {
        Tcp | Unix | Post => url,
        WebSocket => url.replace("http:", "ws:"),
        Sse => url + "#sse",
        Polling => url + "#poll",
    };
    let peer = caudal::connect(&*url).await.unwrap();
    let served = Served {
        server,
        _directory: directory,
    };
    (served, peer)
}

/// A peer of a server that is spoken for by hand.
async fn by_hand(kind: Kind, fake: &mut Fake) -> Peer {
    let fragment = match kind {
        Sse => "#sse",
        Polling => "#poll",
        _ => "",
    };
    let connecting = tokio::spawn(caudal::connect(&*fake.url(fragment)).into_future());
    match kind {
        Sse => {
            let stream = fake.expect("GET").await;
            stream.begin_events(SESSION);
            // It stays open.
            tokio::spawn(async move { stream.gone().await });
        }
        Polling => {
            let page = r#"{"cursor":0,"messages":[]}"#;
            let poll = fake.expect("GET").await;
            poll.answer("200 OK", SESSION, page);
            let poll = fake.expect("GET").await;
            tokio::spawn(async move { poll.gone().await });
        }
        _ => {}
    }
    connecting.await.unwrap().unwrap()
}

fn call(peer: &Peer, method: &'static str) -> JoinHandle<Result<String, CallError>> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.call(method, ()).await })
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_too_large_everywhere() {
    for &kind in ALL {
        let router = Router::new().method("large", || Ok("x".repeat(3_000_000)));
        let (_served, peer) = pair(kind, router).await;
        let error = within(call(&peer, "large")).await.unwrap().unwrap_err();
        let CallError::TooLarge { limit } = error else {
            panic!("{kind:?}: {error:?}");
        };
        assert_eq!(limit, 1 << 20);
        assert!(error.may_have_run() && !error.is_fatal());
        assert_eq!(peer.stats().calls_failed, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_whose_connection_is_lost_is_closed_everywhere() {
    for &kind in ALL
        .iter()
        .filter(|kind| matches!(kind, Tcp | Unix | WebSocket))
    {
        let (entered, mut running) = mpsc::unbounded_channel();
        let router = Router::new().method("wait", move || {
            entered.send(()).unwrap();
            async move {
                std::future::pending::<()>().await;
                Ok("")
            }
        });
        let (served, peer) = pair(kind, router).await;
        let lost = call(&peer, "wait");
        within(running.recv()).await.unwrap();
        served.server.peers()[0].close();
        let error = within(lost).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{kind:?}: {error:?}");
        assert!(error.may_have_run() && error.is_fatal(), "{kind:?}");
    }
    for kind in [Post, Sse, Polling] {
        let mut fake = Fake::start().await;
        let peer = by_hand(kind, &mut fake).await;
        let lost = call(&peer, "n");
        drop(fake.expect("POST").await);
        if kind != Post {
            fake.expect("DELETE").await.accept();
        }
        let error = within(lost).await.unwrap().unwrap_err();
        assert!(matches!(error, CallError::Closed(_)), "{kind:?}: {error:?}");
        assert!(error.may_have_run(), "{kind:?}");
        // Only a POST has a connection of its own.
        assert_eq!(error.is_fatal(), kind != Post, "{kind:?}");
    }
}

#[tokio::test]
async fn a_call_that_reaches_no_server_is_not_sent_everywhere() {
    for &kind in ALL {
        let (served, peer) = pair(kind, Router::new()).await;
        served.server.shutdown(Duration::from_secs(5)).await;
        within(served.server.wait()).await;
        if kind != Post {
            within(peer.closed()).await;
        }
        let error = within(call(&peer, "n")).await.unwrap().unwrap_err();
        assert!(
            matches!(error, CallError::AlreadyClosed(_)),
            "{kind:?}: {error:?}"
        );
        assert!(!error.may_have_run(), "{kind:?}");
        assert_eq!(error.is_fatal(), kind != Post, "{kind:?}");
    }
}

#[tokio::test]
async fn who_is_not_let_in_is_refused_everywhere() {
    for kind in [Post, Sse, Polling] {
        for status in ["401 Unauthorized", "403 Forbidden"] {
            let mut fake = Fake::start().await;
            let peer = by_hand(kind, &mut fake).await;
            let refused = call(&peer, "n");
            fake.expect("POST").await.answer(status, "", "who?");
            let error = within(refused).await.unwrap().unwrap_err();
            assert!(!error.may_have_run() && !error.is_fatal(), "{kind:?}");
            let CallError::Refused(response) = error else {
                panic!("{kind:?}: {error:?}");
            };
            assert_eq!(response.to_string(), format!("HTTP {status}: who?"));
        }
    }
    // Where a request opens the connection, it is that which fails.
    for (scheme, fragment) in [("ws://", ""), ("http://", "#sse"), ("http://", "#poll")] {
        let mut fake = Fake::start().await;
        let url = fake.url(fragment).replace("http://", scheme);
        let connecting = tokio::spawn(caudal::connect(&*url).into_future());
        let asked = fake.expect("GET").await;
        asked.answer("403 Forbidden", "", "who?");
        let Err(Error::Connect { cause, .. }) = within(connecting).await.unwrap() else {
            panic!("{scheme}{fragment}");
        };
        let response = cause.get_ref().unwrap().downcast_ref::<StatusError>();
        assert!(response.unwrap().is_refusal(), "{scheme}{fragment}");
    }
}

#[tokio::test]
async fn a_response_that_is_no_answer_is_unexpected_everywhere() {
    for kind in [Post, Sse, Polling] {
        let mut fake = Fake::start().await;
        let peer = by_hand(kind, &mut fake).await;
        for (status, headers, body) in [
            ("503 Service Unavailable", "Retry-After: 7\r\n", "busy"),
            ("200 OK", "", "<html>"),
            ("308 Permanent Redirect", "Location: /there\r\n", ""),
        ] {
            let failed = call(&peer, "n");
            fake.expect("POST").await.answer(status, headers, body);
            let error = within(failed).await.unwrap().unwrap_err();
            assert!(!error.is_fatal(), "{kind:?}");
            let CallError::UnexpectedResponse(response) = error else {
                panic!("{kind:?}: {error:?}");
            };
            assert_eq!(response.status.to_string(), status[..3]);
            assert_eq!(response.body, body);
            let shown = response.retry_after.is_some() || response.location.is_some();
            assert_eq!(shown, !headers.is_empty(), "{response:?}");
            assert_eq!(response.reason.is_some(), response.status == 200);
        }
    }
}

#[tokio::test]
async fn an_error_of_the_server_keeps_its_code_whatever_it_is() {
    for &kind in ALL {
        let router = Router::new().method("fail", |(code,): (i64,)| {
            Err::<(), _>(caudal::JsonRpcError::new(code, "mine"))
        });
        let (_served, peer) = pair(kind, router).await;
        for code in [-32_010, -32_011, -32_012, -32_013] {
            let error = within(peer.call::<String>("fail", (code,)).into_future()).await;
            match error.unwrap_err() {
                CallError::Remote(error) => assert_eq!(error.code, code, "{kind:?}"),
                other => panic!("{kind:?}: {other:?}"),
            }
        }
    }
}

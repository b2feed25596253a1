//! Functions of the application that run when a client connects or disconnects, and the
//! facts about its caller that a handler can read.
#![allow(clippy::unwrap_used, clippy::string_slice, reason = "a test may")]

use std::sync::Arc;
use std::time::Duration;

use caudal::{
    CallError, CloseReason, Context, ErrorCode, JsonRpcError, Method, Peer, PeerId, ReturnPath,
    Router, Serve, connect, serve,
};
use tokio::sync::{Notify, mpsc};

use crate::support::wire::Wire;
use crate::support::{Log, eventually, within};

/// Addresses of all kinds of connections.
const CONNECTIONS: &[&str] = &[
    "tcp://127.0.0.1:0",
    "ws://127.0.0.1:0/rpc",
    "http://127.0.0.1:0/rpc#sse",
    "http://127.0.0.1:0/rpc#poll",
    #[cfg(unix)]
    #[cfg(unix)]
    "unix:",
];

/// Serves on an address; an empty path is one in `directory`.
fn serve_in(directory: &tempfile::TempDir, address: &str, router: Router) -> Serve {
    match address {
        "unix:" => serve(
            format!("unix:{}/socket", directory.path().display()),
            router,
        ),
        other => serve(other, router),
    }
}

/// Connects to a server with the channel of the address on which it listens.
async fn client(server: &caudal::Server, address: &str) -> Result<Peer, caudal::Error> {
    let channel = address.find('#').map_or("", |at| &address[at..]);
    let base = server.endpoint().to_string();
    let base = base.split('#').next().unwrap_or_default();
    connect(format!("{base}{channel}")).await
}

#[tokio::test]
async fn hooks_enclose_all_that_a_client_does() {
    for &address in CONNECTIONS {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::default();
        let (joined, left, called) = (log.clone(), log.clone(), log.clone());
        let (reasons, mut reason) = mpsc::unbounded_channel::<(PeerId, CloseReason)>();
        let router = Router::new().method("call", move |cx: Context| {
            called.add(format!("call of {}", cx.peer().id()));
            Ok(cx.peer().id().to_string())
        });
        let server = serve_in(&directory, address, router)
            .on_connect(move |peer| {
                let joined = joined.clone();
                async move {
                    tokio::task::yield_now().await;
                    peer.extensions().insert("known");
                    joined.add(format!("connect of {}", peer.id()));
                    Ok(())
                }
            })
            .on_disconnect(move |peer, reason| {
                left.add(format!("disconnect of {}", peer.id()));
                assert_eq!(*peer.extensions().get::<&str>().unwrap(), "known");
                let _ = reasons.send((peer.id(), reason));
                async {}
            })
            .await
            .unwrap();
        let peer = client(&server, address).await.unwrap();
        let id: String = within(peer.call("initialize", ()))
            .await
            .unwrap_or_default();
        assert_eq!(id, "", "{address}");
        let id: String = within(peer.call("call", ())).await.unwrap();
        peer.close();
        peer.closed().await;
        let (closed, reason) = within(reason.recv()).await.unwrap();
        assert_eq!(closed.to_string(), id, "{address}");
        assert!(reason.is_remote(), "{address}: {reason}");
        server.shutdown(Duration::from_secs(5)).await;
        let expected = ["connect", "call", "disconnect"].map(|what| format!("{what} of {id}"));
        assert_eq!(log.take(), expected, "{address}");
    }
}

#[tokio::test]
async fn a_client_that_is_refused_is_told_and_runs_nothing() {
    for &address in CONNECTIONS {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::default();
        let (called, left) = (log.clone(), log.clone());
        let router = Router::new().method("initialize", move || {
            called.add("called");
            Ok(())
        });
        let gate = Arc::new(Notify::new());
        let opens = Arc::clone(&gate);
        let server = serve_in(&directory, address, router)
            .on_connect(move |_| {
                let gate = Arc::clone(&gate);
                async move {
                    gate.notified().await;
                    Err(JsonRpcError::new(7, "closed on Sundays"))
                }
            })
            .on_disconnect(move |_, _| {
                left.add("disconnected");
                async {}
            })
            .await
            .unwrap();
        let peer = client(&server, address).await.unwrap();
        let caller = peer.clone();
        let call = tokio::spawn(async move { caller.call::<()>("initialize", ()).await });
        eventually("the call has come", || server.stats().bytes_received > 0).await;
        opens.notify_one();
        let error = within(call).await.unwrap().unwrap_err();
        let CallError::Remote(error) = error else {
            panic!("{address}: {error}");
        };
        assert_eq!(error.code.get(), 7, "{address}");
        assert!(server.peers().is_empty(), "{address}");
        eventually("the connection has ended", || server.connections() == 0).await;
        peer.close();
        server.shutdown(Duration::from_secs(5)).await;
        assert_eq!(log.take(), [""; 0], "{address}");
    }
}

#[tokio::test]
async fn the_reason_of_a_refusal_reaches_the_client() {
    let server = serve("tcp://127.0.0.1:0", Router::new())
        .on_connect(|_| async { Err(JsonRpcError::new(7, "closed on Sundays")) })
        .await
        .unwrap();
    let mut client = Wire::to(&server).await;
    let line = client.line().await;
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":7,"message":"closed on Sundays"}}"#;
    assert_eq!(line, error);
    assert_eq!(client.end().await, "");
}

#[tokio::test]
async fn a_hook_that_panics_refuses_its_client() {
    let server = serve("tcp://127.0.0.1:0", Router::new().method("call", || Ok(())))
        .on_connect(|_| async { panic!("on purpose") })
        .await
        .unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    let error = within(peer.call::<()>("call", ())).await.unwrap_err();
    let CallError::Remote(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
}

#[tokio::test]
async fn a_hook_may_call_its_client() {
    let name = Router::new().method("name", || Ok("Ann"));
    let router = Router::new().method("greet", |cx: Context| {
        Ok(cx.peer().extensions().get::<String>().unwrap().to_string())
    });
    let server = serve("tcp://127.0.0.1:0", router)
        .on_connect(|peer| async move {
            let name: String = peer.call("name", ()).await?;
            peer.extensions().insert(name);
            Ok(())
        })
        .await
        .unwrap();
    let peer = connect(server.endpoint()).router(name).await.unwrap();
    assert_eq!(
        within(peer.call::<String>("greet", ())).await.unwrap(),
        "Ann"
    );
}

#[tokio::test]
async fn the_end_waits_for_the_last_handler() {
    let log = Log::default();
    let (finished, left) = (log.clone(), log.clone());
    let (go_on, runs) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (wait, started) = (Arc::clone(&go_on), Arc::clone(&runs));
    let work = Method::new(move |_: Context| {
        let (wait, finished, started) = (wait.clone(), finished.clone(), started.clone());
        async move {
            started.notify_one();
            wait.notified().await;
            finished.add("handler");
            Ok(())
        }
    });
    let router = Router::new().method("work", work.finish_when_cancelled());
    let server = serve("tcp://127.0.0.1:0", router)
        .on_disconnect(move |_, _| {
            left.add("disconnect");
            async {}
        })
        .await
        .unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    peer.notify("work", ()).await.unwrap();
    within(runs.notified()).await;
    peer.close();
    let served = server.peers().pop();
    if let Some(served) = served {
        served.close();
        within(served.closed()).await;
    }
    assert_eq!(log.len(), 0);
    go_on.notify_one();
    eventually("both have run", || log.len() == 2).await;
    assert_eq!(log.take(), ["handler", "disconnect"]);
}

#[tokio::test]
async fn a_single_post_is_no_connection() {
    let log = Log::default();
    let (joined, left) = (log.clone(), log.clone());
    let ask = Method::new(|cx: Context| async move { Ok(cx.peer().call::<u8>("n", ()).await?) });
    let router = Router::new()
        .method("path", |cx: Context| {
            Ok(cx.return_path() == ReturnPath::None)
        })
        .method("ask", ask.calls_back());
    let server = serve("http://127.0.0.1:0/rpc", router)
        .on_connect(move |_| {
            joined.add("connect");
            async { Ok(()) }
        })
        .on_disconnect(move |_, _| {
            left.add("disconnect");
            async {}
        })
        .await
        .unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    assert!(peer.call::<bool>("path", ()).await.unwrap());
    let error = peer.call::<u8>("ask", ()).await.unwrap_err();
    let CallError::Remote(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.code, ErrorCode::CALLBACK_REQUIRED);
    server.shutdown(Duration::from_secs(5)).await;
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn a_method_that_calls_back_is_served_on_a_connection() {
    let ask = Method::new(|cx: Context| async move {
        assert_eq!(cx.return_path(), ReturnPath::Calls);
        Ok(cx.peer().call::<u8>("n", ()).await? + 1)
    });
    let here = Router::new().method("n", || Ok(6));
    let (peer, _there) = Peer::pair(here, Router::new().method("ask", ask.calls_back()));
    assert_eq!(peer.call::<u8>("ask", ()).await.unwrap(), 7);
}

#[tokio::test]
#[expect(clippy::mutable_key_type, reason = "a peer is hashed by its number")]
async fn a_peer_is_a_key() {
    let router = Router::new().method("id", |cx: Context| {
        let peers = std::collections::HashSet::from([cx.peer().clone()]);
        Ok((peers.contains(cx.peer()), cx.peer().id().to_string()))
    });
    let (peer, there) = Peer::pair(Router::new(), router);
    let (is_found, id): (bool, String) = peer.call("id", ()).await.unwrap();
    assert!(is_found);
    assert_eq!(id, there.id().to_string());
    assert_ne!(peer.id(), there.id());
    assert_ne!(peer, there);
    assert_eq!(peer, peer.clone());
}

#[tokio::test]
async fn a_hook_that_never_returns_does_not_hold_up_the_end() {
    let log = Log::default();
    let left = log.clone();
    let server = serve("tcp://127.0.0.1:0", Router::new())
        .limits(caudal::ServerLimits::default().connections(1))
        .on_connect(|_| std::future::pending())
        .on_disconnect(move |_, _| {
            left.add("disconnect");
            async {}
        })
        .await
        .unwrap();
    for expected in 1..=2 {
        let client = Wire::to(&server).await;
        eventually("it is there", || server.connections() == 1).await;
        assert!(server.peers().is_empty(), "it is not accepted");
        drop(client);
        eventually("it has left", || log.len() == expected).await;
        eventually("its place is free", || server.connections() == 0).await;
    }
    let _client = Wire::to(&server).await;
    within(server.shutdown(Duration::ZERO)).await;
}

#[tokio::test]
async fn a_handler_that_never_ends_does_not_hold_up_the_shutdown() {
    let runs = Arc::new(Notify::new());
    let started = Arc::clone(&runs);
    let work = Method::new(move |_: Context| {
        started.notify_one();
        std::future::pending::<Result<(), JsonRpcError>>()
    });
    let router = Router::new().method("work", work.finish_when_cancelled());
    let server = serve("tcp://127.0.0.1:0", router)
        .on_disconnect(|_, _| async {})
        .await
        .unwrap();
    let peer = connect(server.endpoint()).await.unwrap();
    peer.notify("work", ()).await.unwrap();
    within(runs.notified()).await;
    within(server.shutdown(Duration::ZERO)).await;
}

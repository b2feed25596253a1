//! Sessions from end to end, over this crate's own server.

use std::time::Duration;

use caudal::http::{ClientOptions, Options};
use caudal::{Context, Peer, Router, Server};
use tokio::sync::mpsc;

async fn pair(kind: &str, router: Router, own: Router) -> (Server, Peer) {
    let server = caudal::serve("http://127.0.0.1:0/rpc", router)
        .await
        .unwrap();
    let url = format!("{}{kind}", server.endpoint());
    let peer = caudal::connect(&*url).router(own).await.unwrap();
    (server, peer)
}

#[tokio::test]
async fn calls_are_answered() {
    for kind in ["#sse", "#poll"] {
        let router = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
        let (_server, peer) = pair(kind, router, Router::new()).await;
        let calls = (0..32).map(|n| {
            let peer = peer.clone();
            tokio::spawn(async move { (n, peer.call::<_, i64>("add", (n, 1)).await.unwrap()) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (n, sum) = call.await.unwrap();
            assert_eq!(sum, n + 1, "{kind}");
        }
    }
}

#[tokio::test]
async fn handlers_call_back_and_notifications_come_in_order() {
    for kind in ["#sse", "#poll"] {
        let router = Router::new().method("count", |ctx: Context, (to,): (i64,)| async move {
            for n in 0..to {
                ctx.peer().notify("tick", (n,)).await?;
            }
            let doubled: i64 = ctx.peer().call("double", (to,)).await?;
            Ok(doubled)
        });
        let (told, mut heard) = mpsc::unbounded_channel();
        let own = Router::new()
            .method("double", |(n,): (i64,)| Ok(n * 2))
            .notification("tick", move |(n,): (i64,)| {
                told.send(n).unwrap();
                Ok(())
            });
        let (_server, peer) = pair(kind, router, own).await;
        assert_eq!(
            peer.call::<_, i64>("count", (100,)).await.unwrap(),
            200,
            "{kind}"
        );
        for n in 0..100 {
            assert_eq!(heard.recv().await, Some(n), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_session_ends_at_both_ends() {
    for kind in ["#sse", "#poll"] {
        let router = Router::new().method("ping", || Ok(1));
        let (server, peer) = pair(kind, router, Router::new()).await;
        assert_eq!(peer.call::<_, i64>("ping", ()).await.unwrap(), 1);
        let mut open = server.peers();
        open.retain(|peer| !peer.state().is_closed());
        let [there] = &open[..] else {
            panic!("one session: {kind}");
        };
        peer.close();
        assert!(peer.closed().await.is_local(), "{kind}");
        let closed = tokio::time::timeout(Duration::from_secs(60), there.closed());
        closed.await.expect(kind);
    }
}

#[tokio::test]
async fn the_header_of_sessions_may_have_another_name() {
    let name = http::HeaderName::from_static("x-session");
    let (mut options, mut client) = (Options::default(), ClientOptions::default());
    options.session_header = name.clone();
    client.session_header = name;
    let ask = Router::new().method("ask", |cx: Context, (n,): (i64,)| async move {
        let doubled: i64 = cx.peer().call("double", (n,)).await?;
        Ok(doubled)
    });
    let serve = caudal::serve("http://127.0.0.1:0/rpc", ask).http(options);
    let server = serve.await.unwrap();
    for kind in ["#sse", "#poll"] {
        let url = format!("{}{kind}", server.endpoint());
        let double = Router::new().method("double", |(n,): (i64,)| Ok(n * 2));
        let connect = caudal::connect(&*url).router(double);
        let peer = connect.http(client.clone()).await.unwrap();
        let ask = peer.call::<_, i64>("ask", (21,));
        assert_eq!(
            ask.timeout(Duration::from_secs(30)).await.unwrap(),
            42,
            "{kind}"
        );
    }
}

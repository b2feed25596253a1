//! Sessions from end to end, over this crate's own server.

use std::time::Duration;

use caudal::http::{ClientOptions, Options};
use caudal::{CallError, Context, Peer, Router, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::within;
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
            tokio::spawn(async move { (n, peer.call::<i64>("add", (n, 1)).await.unwrap()) })
        });
        for call in calls.collect::<Vec<_>>() {
            let (n, sum) = call.await.unwrap();
            assert_eq!(sum, n + 1, "{kind}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_ends_its_call_and_no_other() {
    for kind in ["", "#sse", "#poll"] {
        let router = Router::new()
            .method("large", |(size,): (usize,)| Ok("x".repeat(size)))
            .method("slow", || async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                Ok(7)
            });
        let (_server, peer) = pair(kind, router, Router::new()).await;
        for size in [1_500_000, 3_000_000] {
            let other = peer.call::<i64>("slow", ()).timeout(None);
            let large = peer.call::<String>("large", (size,));
            let large = large.timeout(None);
            let both = async { tokio::join!(other, large) };
            let (other, large) = within(both).await;
            let error = large.unwrap_err();
            assert!(
                matches!(error, CallError::TooLarge { limit: 1_048_576 }),
                "{kind}"
            );
            assert_eq!(other.unwrap(), 7, "{kind}");
        }
        assert_eq!(peer.call::<i64>("slow", ()).await.unwrap(), 7, "{kind}");
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
            .method("tick", move |(n,): (i64,)| {
                told.send(n).unwrap();
                Ok(())
            });
        let (_server, peer) = pair(kind, router, own).await;
        assert_eq!(
            peer.call::<i64>("count", (100,)).await.unwrap(),
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
        assert_eq!(peer.call::<i64>("ping", ()).await.unwrap(), 1);
        let mut open = server.peers();
        open.retain(|peer| !peer.state().is_closed());
        let [there] = &open[..] else {
            panic!("one session: {kind}");
        };
        peer.close();
        assert!(peer.closed().await.is_local(), "{kind}");
        within(there.closed()).await;
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
        let ask = peer.call::<i64>("ask", (21,));
        assert_eq!(
            ask.timeout(Duration::from_secs(30)).await.unwrap(),
            42,
            "{kind}"
        );
    }
}

/// Reads until a text is there, and returns all up to its end.
async fn read_to(socket: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut got = Vec::new();
    while !got.ends_with(text.as_bytes()) {
        got.push(socket.read_u8().await.unwrap());
    }
    got
}

/// Stands between client and server, and passes on everything but the first stream: of
/// that only the head, and it is cut when the server has sent `last`.
async fn cut_first_stream(server: &Server, last: &'static str) -> u16 {
    let endpoint = server.endpoint().to_string();
    let address = endpoint
        .trim_start_matches("http://")
        .trim_end_matches("/rpc");
    let address = address.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for connection in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move {
                if connection > 0 {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                    return;
                }
                let request = read_to(&mut client, "\r\n\r\n").await;
                server.write_all(&request).await.unwrap();
                let head = read_to(&mut server, "\r\n\r\n").await;
                client.write_all(&head).await.unwrap();
                read_to(&mut server, last).await;
            });
        }
    });
    port
}

#[tokio::test]
async fn what_was_sent_on_a_first_stream_that_broke_at_once_is_not_lost() {
    let serve = caudal::serve("http://127.0.0.1:0/rpc", Router::new());
    let server = serve.await.unwrap();
    let port = cut_first_stream(&server, "[3]}").await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let own = Router::new().method("tick", move |(n,): (i64,)| {
        told.send(n).unwrap();
        Ok(())
    });
    let connect = caudal::connect(&*format!("http://127.0.0.1:{port}/rpc#sse"));
    let peer = connect.router(own).await.unwrap();
    let open = server.peers();
    let [there] = &open[..] else {
        panic!("one session");
    };
    for n in 1..=3 {
        there.notify("tick", (n,)).await.unwrap();
    }
    for n in 1..=3 {
        assert_eq!(within(heard.recv()).await, Some(n));
    }
    assert!(!peer.state().is_closed());
}

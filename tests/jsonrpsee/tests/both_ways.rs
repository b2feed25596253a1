//! Each side as the client of the other, over HTTP and over WebSocket.

use std::time::Duration;

use caudal::{CallError, Context, JsonRpcError, Peer, Router, Server};
use jsonrpsee_core::client::{ClientT, Error, Subscription, SubscriptionClientT};
use jsonrpsee_core::params::{ArrayParams, BatchRequestBuilder, ObjectParams};
use jsonrpsee_core::rpc_params;
use jsonrpsee_core::server::RpcModule;
use jsonrpsee_http_client::HttpClientBuilder;
use jsonrpsee_server::ServerHandle;
use jsonrpsee_server::types::ErrorObjectOwned;
use jsonrpsee_ws_client::WsClientBuilder;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Nothing may take longer; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

async fn soon<F: Future>(future: F) -> F::Output {
    timeout(LIMIT, future).await.expect("it comes in time")
}

/// Our server, and what notifications told it.
async fn ours(scheme: &str) -> (Server, mpsc::UnboundedReceiver<Value>) {
    let (sender, notes) = mpsc::unbounded_channel();
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("echo", |params: Value| Ok(params))
        .method("fail", || {
            let data = json!({"why": "test"});
            Err::<(), _>(JsonRpcError::with_data(1001, "failed on purpose", data))
        })
        .method("note", move |params: Value| {
            let _ = sender.send(params);
        })
        .method("subscribe", || Ok("s1"))
        .method("unsubscribe", |(id,): (String,)| Ok(id == "s1"))
        // So that no message comes before the answer of `subscribe`.
        .method("publish", |cx: Context, (count,): (u32,)| async move {
            for n in 0..count {
                let params = json!({"subscription": "s1", "result": n});
                cx.peer().notify("item", params).await?;
                cx.peer().notify("tick", [n]).await?;
            }
            Ok(count)
        });
    let endpoint = format!("{scheme}://127.0.0.1:0/rpc");
    let server = caudal::serve(endpoint.as_str(), router).await.unwrap();
    (server, notes)
}

fn object(pairs: &[(&str, i64)]) -> ObjectParams {
    let mut params = ObjectParams::new();
    for (name, value) in pairs {
        params.insert(name, value).unwrap();
    }
    params
}

/// What every client of theirs does with our server.
async fn their_client_calls(client: &impl ClientT) {
    let sum: i64 = client.request("add", rpc_params![1, 2]).await.unwrap();
    assert_eq!(sum, 3);
    let named: Value = client
        .request("echo", object(&[("a", 1), ("b", i64::MIN)]))
        .await
        .unwrap();
    assert_eq!(named, json!({"a": 1, "b": i64::MIN}));
    let long = "ä\u{1F600}".repeat(50_000);
    let echoed: [String; 1] = client.request("echo", rpc_params![&long]).await.unwrap();
    assert!(echoed[0] == long);

    match client.request::<(), _>("fail", rpc_params![]).await {
        Err(Error::Call(error)) => {
            assert_eq!((error.code(), error.message()), (1001, "failed on purpose"));
            let data: Value = serde_json::from_str(error.data().unwrap().get()).unwrap();
            assert_eq!(data, json!({"why": "test"}));
        }
        other => panic!("{other:?}"),
    }
    for (method, params, code) in [
        ("no_such_method", rpc_params![], -32601),
        ("add", rpc_params!["one", "two"], -32602),
    ] {
        match client.request::<Value, ArrayParams>(method, params).await {
            Err(Error::Call(error)) => assert_eq!(error.code(), code),
            other => panic!("{other:?}"),
        }
    }

    let mut batch = BatchRequestBuilder::new();
    for n in 0..20 {
        batch.insert("add", rpc_params![n, 1]).unwrap();
    }
    batch.insert("fail", rpc_params![]).unwrap();
    let answers = client.batch_request::<i64>(batch).await.unwrap();
    assert_eq!(
        (answers.num_successful_calls(), answers.num_failed_calls()),
        (20, 1)
    );
    let sums: Vec<i64> = answers.into_iter().filter_map(Result::ok).collect();
    assert_eq!(sums, (1..=20).collect::<Vec<_>>());
    client
        .notification("note", rpc_params!["hello"])
        .await
        .unwrap();
}

#[tokio::test]
async fn its_http_client_speaks_with_our_server() {
    let (server, mut notes) = ours("http").await;
    let client = HttpClientBuilder::default()
        .build(server.endpoint().to_string())
        .unwrap();
    soon(their_client_calls(&client)).await;
    assert_eq!(soon(notes.recv()).await, Some(json!(["hello"])));
    drop(client);
    soon(server.shutdown(LIMIT)).await;
}

#[tokio::test]
async fn its_websocket_client_speaks_with_our_server() {
    let (server, mut notes) = ours("ws").await;
    let client = WsClientBuilder::default()
        .build(server.endpoint().to_string())
        .await
        .unwrap();
    soon(their_client_calls(&client)).await;
    assert_eq!(soon(notes.recv()).await, Some(json!(["hello"])));

    let mut items: Subscription<u32> = client
        .subscribe("subscribe", rpc_params![], "unsubscribe")
        .await
        .unwrap();
    let mut ticks: Subscription<[u32; 1]> = client.subscribe_to_method("tick").await.unwrap();
    let count: u32 = client.request("publish", rpc_params![5]).await.unwrap();
    assert_eq!(count, 5);
    for n in 0..count {
        assert_eq!(soon(items.next()).await.unwrap().unwrap(), n);
        assert_eq!(soon(ticks.next()).await.unwrap().unwrap(), [n]);
    }
    soon(items.unsubscribe()).await.unwrap();
    // The server goes first: their client is told by a closing handshake.
    soon(server.shutdown(LIMIT)).await;
    soon(client.on_disconnect()).await;
}

/// Their server, and where it listens.
async fn theirs() -> (ServerHandle, String) {
    let mut module = RpcModule::new(());
    module
        .register_method("add", |params, _, _| {
            let (a, b): (i64, i64) = params.parse()?;
            Ok::<_, ErrorObjectOwned>(a + b)
        })
        .unwrap();
    module
        .register_method("echo", |params, _, _| params.parse::<Value>())
        .unwrap();
    module
        .register_method("fail", |_, _, _| {
            let data = Some(json!({"why": "test"}));
            Err::<(), _>(ErrorObjectOwned::owned(1001, "failed on purpose", data))
        })
        .unwrap();
    module
        .register_subscription(
            "subscribe",
            "item",
            "unsubscribe",
            |_, sink, _, _| async move {
                let sink = sink.accept().await?;
                for n in 0..5 {
                    let item = serde_json::value::to_raw_value(&n)?;
                    sink.send(item).await?;
                }
                sink.closed().await;
                Ok(())
            },
        )
        .unwrap();
    let server = jsonrpsee_server::Server::builder()
        .build("127.0.0.1:0")
        .await
        .unwrap();
    let address = server.local_addr().unwrap().to_string();
    (server.start(module), address)
}

/// What every client of ours does with their server.
async fn our_client_calls(peer: &Peer) {
    assert_eq!(peer.call::<i64>("add", (1, 2)).await.unwrap(), 3);
    let named = json!({"a": 1, "b": i64::MIN});
    assert_eq!(peer.call::<Value>("echo", &named).await.unwrap(), named);
    let long = ["ä\u{1F600}".repeat(50_000)];
    assert!(peer.call::<[String; 1]>("echo", &long).await.unwrap() == long);

    match peer.call::<()>("fail", ()).await {
        Err(CallError::Remote(error)) => {
            assert_eq!(error.code, 1001);
            assert_eq!(error.message, "failed on purpose");
            assert_eq!(error.data, Some(json!({"why": "test"})));
        }
        other => panic!("{other:?}"),
    }
    for (method, params, code) in [
        ("no_such_method", json!([]), -32601),
        ("add", json!(["one", "two"]), -32602),
    ] {
        match peer.call::<Value>(method, params).await {
            Err(CallError::Remote(error)) => assert_eq!(error.code, code),
            other => panic!("{other:?}"),
        }
    }

    let mut batch = peer.batch();
    let sums: Vec<_> = (0..20)
        .map(|n| batch.call::<i64>("add", (n, 1)).unwrap())
        .collect();
    let fails = batch.call::<()>("fail", ()).unwrap();
    batch.notify("note", ["in a batch"]).unwrap();
    batch.send().await.unwrap();
    for (n, sum) in (0..20).zip(sums) {
        assert_eq!(sum.await.unwrap(), n + 1);
    }
    assert!(matches!(fails.await, Err(CallError::Remote(error)) if error.code == 1001));
    // Their server takes notifications, and runs no method for them.
    peer.notify("note", ["alone"]).await.unwrap();
    let mut batch = peer.batch();
    batch.notify("note", ["alone in a batch"]).unwrap();
    batch.send().await.unwrap();
    assert_eq!(peer.call::<i64>("add", (3, 4)).await.unwrap(), 7);
    assert_eq!(peer.stats().invalid, 0);
}

#[tokio::test]
async fn our_http_client_speaks_with_its_server() {
    let (server, address) = theirs().await;
    let peer = caudal::connect(format!("http://{address}")).await.unwrap();
    soon(our_client_calls(&peer)).await;
    peer.close();
    server.stop().unwrap();
    soon(server.stopped()).await;
}

#[tokio::test]
async fn our_websocket_client_speaks_with_its_server() {
    let (server, address) = theirs().await;
    let (sender, mut items) = mpsc::unbounded_channel();
    let router = Router::new().method("item", move |params: Value| {
        let _ = sender.send(params);
    });
    let peer = caudal::connect(format!("ws://{address}"))
        .router(router)
        .await
        .unwrap();
    soon(our_client_calls(&peer)).await;

    let id: Value = peer.call("subscribe", ()).await.unwrap();
    for n in 0..5 {
        let item = soon(items.recv()).await.unwrap();
        assert_eq!(item, json!({"subscription": id, "result": n}));
    }
    assert!(peer.call::<bool>("unsubscribe", [id]).await.unwrap());
    server.stop().unwrap();
    // Theirs says goodbye, and ours understands.
    assert!(soon(peer.closed()).await.is_remote());
    soon(server.stopped()).await;
}

//! Two peers in memory: calls in both directions, order, settling.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::time::Duration;

use caudal::{CallError, Context, JsonRpcError, Method, Peer, Router};
use serde::Deserialize;

#[derive(Deserialize)]
struct Named {
    a: i64,
    b: i64,
}

fn calculator() -> Router {
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("add_async", |(a, b): (i64, i64)| async move { Ok(a + b) })
        .method("named", |p: Named| async move { Ok(p.a - p.b) })
        .method("named_sync", |cx: Context, p: Named| {
            Ok((cx.method().to_owned(), p.a - p.b))
        })
        .method("ping", || Ok("pong"))
        .method("ping_async", || async { Ok("pong") })
        .method("who", |cx: Context| async move {
            tokio::task::yield_now().await;
            Ok(cx.method().to_owned())
        })
        .method(
            "hash",
            Method::blocking(|(text,): (String,)| Ok(text.len())),
        )
        .method("slow", |(ms,): (u64,)| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
        .method("fail", || Err::<(), _>(JsonRpcError::new(1001, "no")))
        .method("panic", |(): ()| -> Result<(), JsonRpcError> {
            panic!("boom")
        })
        .notification("log", |_: (String,)| ())
}

/// Proves: A32, A33, A35
#[tokio::test]
async fn every_shape_of_handler_answers() {
    let (peer, _server) = Peer::pair(Router::new(), calculator());
    assert_eq!(peer.call::<_, i64>("add", (1, 2)).await.unwrap(), 3);
    assert_eq!(peer.call::<_, i64>("add_async", (1, 2)).await.unwrap(), 3);
    let named = serde_json::json!({"a": 5, "b": 3});
    assert_eq!(peer.call::<_, i64>("named", &named).await.unwrap(), 2);
    let sync: (String, i64) = peer.call("named_sync", &named).await.unwrap();
    assert_eq!(sync, ("named_sync".to_owned(), 2));
    assert_eq!(peer.call::<_, String>("ping", ()).await.unwrap(), "pong");
    assert_eq!(
        peer.call::<_, String>("ping_async", ()).await.unwrap(),
        "pong"
    );
    assert_eq!(peer.call::<_, String>("who", ()).await.unwrap(), "who");
    assert_eq!(peer.call::<_, usize>("hash", ("abc",)).await.unwrap(), 3);
    assert_eq!(peer.call::<_, u64>("slow", (5,)).await.unwrap(), 5);
    let error = peer.call::<_, ()>("fail", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.code == 1001));
    let error = peer.call::<_, ()>("panic", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.code == -32603));
    assert_eq!(peer.call::<_, i64>("add", (1, 2)).await.unwrap(), 3);
    let error = peer.call::<_, ()>("nope", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Remote(e) if e.message == "Method not found: nope"));
}

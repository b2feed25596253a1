//! What both sides of every transport serve.

use std::time::Duration;

use caudal::{Context, JsonRpcError, RawValue, Router};

use crate::panics::ON_PURPOSE;
use crate::support::Log;

/// Writes into a log when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

/// By position or by name, as the specification's examples do.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Subtract {
    Position(i64, i64),
    Name { minuend: i64, subtrahend: i64 },
}

/// The server's side.
pub(crate) fn served() -> Router {
    let log = Log::default();
    let noted = log.clone();
    let stuck = log.clone();
    let started = log.clone();
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("subtract", |both: Subtract| match both {
            Subtract::Position(a, b) => Ok(a - b),
            Subtract::Name {
                minuend,
                subtrahend,
            } => Ok(minuend - subtrahend),
        })
        .method("sum", |all: Vec<i64>| Ok(all.iter().sum::<i64>()))
        .method("get_data", || Ok(("hello", 5)))
        .method("update", |_: Vec<i64>| Ok(()))
        .method("notify_hello", |_: Vec<i64>| Ok(()))
        .method("echo", |value: Box<RawValue>| Ok(value))
        .method("fail", || Err::<(), _>(JsonRpcError::new(7, "no")))
        .method("boom", || -> Result<(), JsonRpcError> {
            panic!("{ON_PURPOSE}")
        })
        .method("slow", |(ms,): (u64,)| async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(ms)
        })
        .method("log", move || Ok(log.all()))
        // Takes its time, so that whoever does not wait for it is seen.
        .method("note", move |(text, ms): (String, u64)| {
            let log = noted.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                log.add(text);
                Ok(())
            }
        })
        .method("start", move |(text, ms): (String, u64)| {
            started.add(text);
            async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(())
            }
        })
        .method("stuck", move || {
            let dropped = Dropped(stuck.clone());
            async move {
                std::future::pending::<()>().await;
                drop(dropped);
                Ok(())
            }
        })
        .method("count", |cx: Context, (n,): (u32,)| async move {
            for i in 0..n {
                cx.peer().notify("tick", [i]).await?;
            }
            Ok(n)
        })
        .method("later", |cx: Context, (n, ms): (u32, u64)| {
            let peer = cx.peer().clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                for i in 0..n {
                    if peer.notify("tick", [i]).await.is_err() {
                        return;
                    }
                }
            });
            Ok(())
        })
        .method("ask", |cx: Context, (a, b): (i64, i64)| async move {
            Ok(cx.peer().call::<i64>("multiply", (a, b)).await?)
        })
        .method("nested", nested)
}

/// The client's side.
pub(crate) fn answered(log: &Log) -> Router {
    let log = log.clone();
    Router::new()
        .method("multiply", |(a, b): (i64, i64)| Ok(a * b))
        .method("tick", move |(n,): (u32,)| {
            log.add(n.to_string());
            Ok(())
        })
        .method("nested", nested)
}

/// Calls the other side's, which calls back, and so on.
async fn nested(cx: Context, (depth,): (u32,)) -> Result<u32, JsonRpcError> {
    if depth == 0 {
        return Ok(0);
    }
    let inner: u32 = cx.peer().call("nested", (depth - 1,)).await?;
    Ok(inner + 1)
}

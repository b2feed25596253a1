//! What must hold over every transport.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use caudal::{CallError, Peer, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::methods::answered;
use super::worlds::{Kind, Settings, World};
use crate::panics::ON_PURPOSE;
use crate::support::Log;

type Outcome = Result<(), String>;
type Run = Pin<Box<dyn Future<Output = Outcome>>>;

pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) config: fn() -> Settings,
    pub(crate) run: fn(World) -> Run,
    /// Where it is not tried.
    pub(crate) except: Option<Kind>,
}

impl Case {
    const fn except(mut self, kind: Kind) -> Self {
        self.except = Some(kind);
        self
    }
}

/// Fails the case, with what is wrong.
macro_rules! check {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err(format!($($said)+));
        }
    };
}

macro_rules! case {
    ($what:literal, $run:ident) => {
        case!($what, $run, Settings::default())
    };
    ($what:literal, $run:ident, $settings:expr) => {
        Case {
            what: $what,
            config: || $settings,
            run: |world| Box::pin($run(world)),
            except: None,
        }
    };
}

pub(crate) fn all() -> Vec<Case> {
    vec![
        case!("the specification's transcripts", transcripts),
        case!("calls by position and by name", calls),
        case!("errors, and what they carry", errors),
        case!("batches, in their order", batches),
        case!("notifications are served", notifications),
        case!("200 calls at once", many),
        case!("a message of 500 KB, both ways", large),
        case!("a panic is answered, and nothing else is lost", panics),
        case!("a call that is too late fails alone", late),
        case!(
            "a call that is given up is cancelled",
            given_up,
            Settings {
                lsp: true,
                ..Settings::default()
            }
        ),
        case!(
            "overload is answered with -32000",
            overload,
            Settings {
                in_flight: Some(4),
                ..Settings::default()
            }
        ),
        case!(
            "a message over the limit is answered with -32600",
            too_large,
            Settings {
                max_message: Some(2_000),
                ..Settings::default()
            }
        ),
        case!(
            "after a message over the limit the connection goes on",
            goes_on,
            Settings {
                max_message: Some(2_000),
                ..Settings::default()
            }
        ),
        // Two POSTs may arrive in either order: sometimes it would hold by chance.
        case!("requests start in their order", starts).except(Kind::Post),
        case!(
            "a notification is done before the next message begins",
            order
        )
        .except(Kind::Post),
        case!("what a handler sends arrives before its answer", before),
        case!("the server speaks unasked", unasked),
        case!("the server calls its client", callbacks),
        case!("calls back and forth, ten deep", nested),
        case!("a client that leaves cancels its handlers", leaving),
        case!("a shutdown answers what was accepted", shutdown),
        case!("the end of the server is noticed", end),
    ]
}

/// There the server lives and ends with its only client.
pub(crate) const ONLY_CLIENT: &str = "does not apply";

async fn alone(world: &World) -> Peer {
    world.connect(Router::new()).await
}

/// Makes a call in a task of its own.
fn begin<T: DeserializeOwned + Send + 'static>(
    peer: &Peer,
    method: &'static str,
    params: impl Serialize + Send + 'static,
) -> JoinHandle<Result<T, CallError>> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.call(method, params).await })
}

fn text(error: CallError) -> String {
    format!("{error:?}")
}

async fn transcripts(world: World) -> Outcome {
    // What is sent, and what comes back, with `message` left out.
    let transcripts = [
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
            json!([{"id": 1, "result": 19}]),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
            json!([{"id": 3, "result": 19}]),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#,
            json!([]),
        ),
        (r#"{"jsonrpc": "2.0", "method": "foobar"}"#, json!([])),
        (
            r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
            json!([{"id": "1", "code": -32601}]),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
            json!([{"id": null, "code": -32700}]),
        ),
        (
            r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
            json!([{"id": null, "code": -32600}]),
        ),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method""#,
            json!([{"id": null, "code": -32700}]),
        ),
        ("[]", json!([{"id": null, "code": -32600}])),
        ("[1]", json!([[{"id": null, "code": -32600}]])),
        (
            "[1,2,3]",
            json!([[{"id": null, "code": -32600}, {"id": null, "code": -32600}, {"id": null, "code": -32600}]]),
        ),
        (
            r#"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},{"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},{"foo": "boo"},{"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},{"jsonrpc": "2.0", "method": "get_data", "id": "9"}]"#,
            json!([[
                {"id": "1", "result": 7},
                {"id": "2", "result": 19},
                {"id": null, "code": -32600},
                {"id": "5", "code": -32601},
                {"id": "9", "result": ["hello", 5]},
            ]]),
        ),
        (
            r#"[{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},{"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]"#,
            json!([]),
        ),
    ];
    for (sent, expected) in transcripts {
        let answers = world.answers(sent).await;
        let answers = Value::from(answers.map_err(|ended| ended.why)?);
        let found = essence(&answers);
        check!(found == expected, "{sent}: {answers}");
    }
    Ok(())
}

/// An answer without what may be worded in any way.
fn essence(answer: &Value) -> Value {
    if let Some(all) = answer.as_array() {
        return all.iter().map(essence).collect();
    }
    match (answer.get("error"), answer.get("jsonrpc")) {
        (Some(error), Some(_)) => json!({"id": answer["id"], "code": error["code"]}),
        (None, Some(_)) => json!({"id": answer["id"], "result": answer["result"]}),
        _ => answer.clone(),
    }
}

async fn calls(world: World) -> Outcome {
    let peer = alone(&world).await;
    let sum: i64 = peer.call("add", (1, 2)).await.map_err(text)?;
    check!(sum == 3, "{sum}");
    let by_name = json!({"minuend": 5, "subtrahend": 3});
    let difference: i64 = peer.call("subtract", by_name).await.map_err(text)?;
    check!(difference == 2, "{difference}");
    let odd = json!({"ä\u{2028}\n": [1.5, null, "\u{0}😀"]});
    let same: Value = peer.call("echo", &odd).await.map_err(text)?;
    check!(same == odd, "{same}");
    world.stop().await;
    Ok(())
}

async fn errors(world: World) -> Outcome {
    let peer = alone(&world).await;
    for (method, code) in [("nothing", -32601), ("fail", 7)] {
        let error = peer.call::<Value>(method, ()).await.unwrap_err();
        let CallError::Remote(error) = error else {
            return Err(text(error));
        };
        check!(i64::from(error.code) == code, "{method}: {error}");
    }
    let error = peer.call::<Value>("add", ("x", 1)).await.unwrap_err();
    check!(
        matches!(&error, CallError::Remote(e) if i64::from(e.code) == -32602),
        "{error:?}"
    );
    Ok(())
}

async fn batches(world: World) -> Outcome {
    let peer = alone(&world).await;
    let mut batch = peer.batch();
    let slow = batch
        .call::<u64>("slow", (50,))
        .map_err(|e| e.to_string())?;
    batch.notify("note", ("n", 0)).map_err(|e| e.to_string())?;
    let sum = batch
        .call::<i64>("add", (1, 2))
        .map_err(|e| e.to_string())?;
    let none = batch
        .call::<i64>("nothing", ())
        .map_err(|e| e.to_string())?;
    batch.send().await.map_err(text)?;
    check!(slow.await.map_err(text)? == 50, "slow");
    check!(sum.await.map_err(text)? == 3, "sum");
    check!(none.await.is_err(), "an unknown method has a result");
    Ok(())
}

async fn served_log(peer: &Peer) -> Result<Vec<String>, String> {
    peer.call("log", ()).await.map_err(text)
}

/// Waits until the server's log has as many lines.
async fn until_logged(peer: &Peer, lines: usize) -> Result<Vec<String>, String> {
    loop {
        let log = served_log(peer).await?;
        if log.len() >= lines {
            return Ok(log);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn notifications(world: World) -> Outcome {
    let peer = alone(&world).await;
    peer.notify("note", ("a", 0)).await.map_err(text)?;
    peer.notify("nothing", ()).await.map_err(text)?;
    let log = until_logged(&peer, 1).await?;
    check!(log == ["a"], "{log:?}");
    Ok(())
}

async fn many(world: World) -> Outcome {
    let peer = alone(&world).await;
    let mut tasks = Vec::new();
    for i in 0..200_i64 {
        let peer = peer.clone();
        tasks.push(tokio::spawn(async move {
            let sum: Result<i64, _> = peer.call("add", (i, 1)).await;
            sum.map(|sum| sum == i + 1)
        }));
    }
    for task in tasks {
        check!(task.await.unwrap().map_err(text)?, "a wrong sum");
    }
    Ok(())
}

async fn large(world: World) -> Outcome {
    let peer = alone(&world).await;
    let long = "x".repeat(500_000);
    let same: Vec<String> = peer.call("echo", [&long]).await.map_err(text)?;
    check!(same == [long], "it changed");
    Ok(())
}

async fn panics(world: World) -> Outcome {
    let peer = alone(&world).await;
    let waits = begin::<u64>(&peer, "slow", (100,));
    let error = peer.call::<Value>("boom", ()).await.unwrap_err();
    check!(
        matches!(&error, CallError::Remote(e) if i64::from(e.code) == -32603),
        "{error:?}"
    );
    check!(!format!("{error:?}").contains(ON_PURPOSE), "{error:?}");
    check!(
        waits.await.unwrap().map_err(text)? == 100,
        "another call was lost"
    );
    Ok(())
}

async fn late(world: World) -> Outcome {
    let peer = alone(&world).await;
    let limit = Duration::from_millis(50);
    let error = peer
        .call::<Value>("stuck", ())
        .timeout(limit)
        .await
        .unwrap_err();
    check!(matches!(error, CallError::Timeout), "{error:?}");
    let sum: i64 = peer.call("add", (1, 2)).await.map_err(text)?;
    check!(sum == 3 && peer.stats().pending == 0, "{sum}");
    Ok(())
}

async fn given_up(world: World) -> Outcome {
    let peer = alone(&world).await;
    let limit = Duration::from_millis(500);
    let call = peer.call::<Value>("stuck", ());
    check!(
        tokio::time::timeout(limit, call.into_future())
            .await
            .is_err(),
        "it has an answer"
    );
    let log = until_logged(&peer, 1).await?;
    check!(log == ["dropped"], "{log:?}");
    Ok(())
}

async fn overload(world: World) -> Outcome {
    let peer = alone(&world).await;
    let mut tasks = Vec::new();
    for _ in 0..12 {
        tasks.push(begin::<u64>(&peer, "slow", (1_000,)));
    }
    let (mut served, mut refused) = (0, 0);
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => served += 1,
            Err(CallError::Remote(error)) if i64::from(error.code) == -32_000 => refused += 1,
            Err(error) => return Err(text(error)),
        }
    }
    check!(
        served >= 4 && refused > 0,
        "{served} served, {refused} refused"
    );
    Ok(())
}

/// Whether these answers are the one to a message that is too large.
fn is_refusal(answers: Vec<Value>) -> Outcome {
    let answers = Value::from(answers);
    let expected = json!([{"id": null, "code": -32600}]);
    check!(essence(&answers) == expected, "{answers}");
    Ok(())
}

fn long_call() -> String {
    let long = "x".repeat(3_000);
    json!({"jsonrpc": "2.0", "id": 1, "method": "echo", "params": [long]}).to_string()
}

async fn too_large(world: World) -> Outcome {
    let answers = world.answers(&long_call()).await;
    is_refusal(answers.unwrap_or_else(|ended| ended.answers))?;
    let peer = alone(&world).await;
    // Where the answer finds no call, the call waits for its own time.
    let limit = match world.kind {
        Kind::Memory | Kind::Stdio | Kind::Tcp | Kind::Unix => 500,
        _ => 30_000,
    };
    let call = peer
        .call::<Value>("echo", ["x".repeat(3_000)])
        .timeout(Duration::from_millis(limit));
    let error = call.await.unwrap_err();
    let is_so = match (&error, world.kind) {
        // The answer has no id, so it finds no call.
        (CallError::Timeout, Kind::Memory | Kind::Stdio | Kind::Tcp | Kind::Unix)
        | (CallError::Closed(_), Kind::WebSocket) => true,
        (CallError::Remote(error), Kind::Post | Kind::Sse | Kind::Polling | Kind::Webhook) => {
            i64::from(error.code) == -32600
        }
        _ => false,
    };
    check!(is_so, "{error:?}");
    Ok(())
}

async fn goes_on(world: World) -> Outcome {
    let answers = world.answers(&long_call()).await;
    is_refusal(answers.map_err(|ended| ended.why)?)?;
    let peer = alone(&world).await;
    let call = peer
        .call::<Value>("echo", ["x".repeat(3_000)])
        .timeout(Duration::from_millis(500));
    check!(call.await.is_err(), "it was served");
    let sum: i64 = peer.call("add", (1, 2)).await.map_err(text)?;
    check!(sum == 3, "{sum}");
    Ok(())
}

async fn starts(world: World) -> Outcome {
    let peer = alone(&world).await;
    let calls: Vec<_> = (0..20_u64)
        .map(|i| {
            peer.call::<()>("start", (i.to_string(), 20 - i))
                .into_future()
        })
        .collect();
    let mut tasks = Vec::new();
    for call in calls {
        let mut call = Box::pin(call);
        // It is written when it is polled first.
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx)));
        let _ = first.await;
        tasks.push(call);
    }
    for task in tasks {
        task.await.map_err(text)?;
    }
    let log = served_log(&peer).await?;
    let expected: Vec<String> = (0..20).map(|i| i.to_string()).collect();
    check!(log == expected, "{log:?}");
    Ok(())
}

async fn order(world: World) -> Outcome {
    let peer = alone(&world).await;
    for i in 0..5 {
        peer.notify("note", (i.to_string(), 10 - i))
            .await
            .map_err(text)?;
    }
    let log = served_log(&peer).await?;
    check!(log == ["0", "1", "2", "3", "4"], "{log:?}");
    Ok(())
}

fn numbers(n: u32) -> Vec<String> {
    (0..n).map(|i| i.to_string()).collect()
}

async fn before(world: World) -> Outcome {
    let log = Log::default();
    let peer = world.connect(answered(&log)).await;
    let n: u32 = peer.call("count", (50,)).await.map_err(text)?;
    check!(n == 50 && log.all() == numbers(50), "{:?}", log.all());
    Ok(())
}

async fn unasked(world: World) -> Outcome {
    let log = Log::default();
    let peer = world.connect(answered(&log)).await;
    peer.call::<()>("later", (20, 50)).await.map_err(text)?;
    for _ in 0..500 {
        if log.all().len() == 20 {
            check!(log.all() == numbers(20), "{:?}", log.all());
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(format!("only {:?} came", log.all()))
}

async fn callbacks(world: World) -> Outcome {
    let peer = world.connect(answered(&Log::default())).await;
    for i in 0..5_i64 {
        let product: i64 = peer.call("ask", (i, 7)).await.map_err(text)?;
        check!(product == i * 7, "{product}");
    }
    Ok(())
}

async fn nested(world: World) -> Outcome {
    let peer = world.connect(answered(&Log::default())).await;
    let depth: u32 = peer.call("nested", (10,)).await.map_err(text)?;
    check!(depth == 10, "{depth}");
    Ok(())
}

async fn leaving(world: World) -> Outcome {
    let Some(server) = world.server.clone() else {
        return Err(ONLY_CLIENT.to_owned());
    };
    let peer = alone(&world).await;
    let call = begin::<Value>(&peer, "stuck", ());
    while server.stats().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    peer.close();
    check!(call.await.unwrap().is_err(), "it has an answer");
    drop(peer);
    let other = alone(&world).await;
    let log = until_logged(&other, 1).await?;
    check!(log == ["dropped"], "{log:?}");
    Ok(())
}

async fn shutdown(world: World) -> Outcome {
    let Some(server) = world.server.clone() else {
        return Err(ONLY_CLIENT.to_owned());
    };
    let peer = alone(&world).await;
    let call = begin::<u64>(&peer, "slow", (300,));
    while server.stats().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.shutdown(Duration::from_secs(20)).await;
    check!(call.await.unwrap().map_err(text)? == 300, "no answer");
    Ok(())
}

async fn end(world: World) -> Outcome {
    let Some(server) = world.server.clone() else {
        return Err(ONLY_CLIENT.to_owned());
    };
    let peer = alone(&world).await;
    peer.call::<i64>("add", (1, 2)).await.map_err(text)?;
    let call = begin::<Value>(&peer, "stuck", ());
    while server.stats().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.shutdown(Duration::ZERO).await;
    let waited = tokio::time::timeout(Duration::from_secs(10), call).await;
    check!(
        waited.is_ok_and(|call| call.unwrap().is_err()),
        "the call waits on"
    );
    let next = peer
        .call::<i64>("add", (1, 2))
        .timeout(Duration::from_secs(5))
        .await;
    check!(next.is_err(), "somebody answers");
    Ok(())
}

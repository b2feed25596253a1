//! caudal and programs that other people wrote: each speaks with the other.
//!
//! `tests/real/install` puts them into `target/real`. One that is not there is
//! named loudly on stderr, and its test does not count.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::error::Error;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::LIMIT;
use crate::support::example;
use crate::support::real::{installed, not_counted, python, root, run, script, soon, text};
use caudal::transport::{Child, ChildOptions, ExitError, Stderr};
use caudal::{
    CallError, CloseReason, Config, Context, Dialect, Direction, Endpoint, Framing, Peer, Router,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

fn speaking(dialect: Dialect) -> Config {
    let mut config = Config::default();
    config.call_timeout = Some(LIMIT);
    config.dialect = dialect;
    config
}

/// What a connection received, as it came.
type Received = Arc<Mutex<Vec<Value>>>;

fn tapped(mut config: Config) -> (Config, Received) {
    let received = Received::default();
    let log = Arc::clone(&received);
    config.tap = Some(Arc::new(move |direction: Direction, message: &[u8]| {
        if direction == Direction::Received {
            log.lock()
                .unwrap()
                .push(serde_json::from_slice(message).unwrap());
        }
    }));
    (config, received)
}

/// Waits until such a message has been received.
async fn seen(received: &Received, what: &str, is_it: impl Fn(&Value) -> bool) {
    let wait = async {
        while !received.lock().unwrap().iter().any(&is_it) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon(what, wait).await;
}

fn exit(reason: &CloseReason) -> &ExitError {
    let exit = reason.source().and_then(|cause| cause.downcast_ref());
    exit.expect("the child's status is the cause")
}

#[tokio::test]
async fn we_drive_a_python_language_server() {
    let Some(pylsp) = installed("pylsp", "venv/bin/pylsp") else {
        return;
    };
    let (sender, mut diagnostics) = mpsc::unbounded_channel();
    let router = Router::new()
        .method("textDocument/publishDiagnostics", move |params: Value| {
            let _ = sender.send(params);
        })
        .fallback(|_: IgnoredAny| Ok(()));
    let endpoint = Endpoint::command(text(&pylsp), [""; 0]).with_framing(Framing::Header);
    let peer = caudal::connect(endpoint.to_string())
        .router(router)
        .config(speaking(Dialect::lsp()))
        .await
        .unwrap();

    let hello = json!({"processId": null, "rootUri": null, "capabilities": {}});
    let answer: Value = peer.call("initialize", hello).await.unwrap();
    assert!(
        answer["capabilities"]["completionProvider"].is_object(),
        "{answer}"
    );
    peer.notify("initialized", json!({})).await.unwrap();

    let uri = "file:///tmp/caudal-real.py";
    let source = "import os\nos.getc";
    let document = json!({"uri": uri, "languageId": "python", "version": 1, "text": source});
    peer.notify("textDocument/didOpen", json!({"textDocument": document}))
        .await
        .unwrap();
    let position = json!({"line": 1, "character": 7});
    let params = json!({"textDocument": {"uri": uri}, "position": position});
    let answer: Value = peer.call("textDocument/completion", params).await.unwrap();
    let items = answer["items"].as_array().unwrap();
    let has_it = |item: &Value| item["label"].as_str().unwrap().starts_with("getcwd");
    assert!(items.iter().any(has_it), "{answer}");
    let published = soon("diagnostics come", diagnostics.recv()).await.unwrap();
    assert_eq!(published["uri"], uri);

    let nothing: Option<Value> = peer.call("shutdown", ()).await.unwrap();
    assert_eq!(nothing, None);
    peer.notify("exit", ()).await.unwrap();
    let reason = soon("it ends", peer.closed()).await;
    assert_eq!(exit(&reason).status.code(), Some(0), "{reason:?}");
    assert!(reason.is_remote());
}

#[test]
fn the_client_of_pygls_drives_our_language_server() {
    let Some(_) = installed("pygls", "stamps/pygls") else {
        return;
    };
    let server = example("lsp_server");
    let arguments = [
        &*script("lsp_client.py"),
        text(server.get_program().as_ref()),
    ];
    let seen = run(&python(), &arguments);
    assert_eq!(seen["server"], "caudal-lsp");
    assert_eq!(
        (&seen["sync"], &seen["hover_provider"]),
        (&json!("Full"), &json!(true))
    );
    assert_eq!(seen["symbol_progress"], true);
    let uri = "file:///words.txt";
    let symbol = |name: &str, place: [u32; 4]| json!([[name, "String", uri, place]]);
    assert_eq!(seen["opened"], symbol("beta", [0, 6, 0, 10]));
    let mut progress = vec!["WorkDoneProgressReport"; 22];
    progress[0] = "WorkDoneProgressBegin";
    progress[21] = "WorkDoneProgressEnd";
    assert_eq!(seen["progress"], json!(progress));
    assert_eq!(seen["changed"], symbol("beta_2", [1, 5, 1, 11]));
    assert_eq!(seen["hover"], json!(["beta_2", null, null]));
    assert_eq!(seen["cancelled"], -32800);
    assert_eq!(seen["closed"], json!([[], null]));
    assert_eq!(
        (&seen["shutdown"], &seen["exit_code"]),
        (&Value::Null, &json!(0))
    );
}

#[test]
fn the_official_mcp_client_drives_our_server() {
    let Some(_) = installed("mcp", "venv/bin/mcp") else {
        return;
    };
    let output = Command::new("timeout")
        .arg(LIMIT.as_secs().to_string())
        .arg(root().join("target/real/venv/bin/python"))
        .arg(root().join("tests/real/mcp_client.py"))
        .arg(example("mcp_server").get_program())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["server"], "caudal-mcp");
    assert_eq!(
        seen["tools"],
        json!(["add", "count", "greet", "roots", "sleep"])
    );
    assert_eq!(seen["sums"], json!(["5", "50", "500", "5000"]));
    assert_eq!(
        (&seen["timeout_raised"], &seen["cancel_raised"]),
        (&json!(true), &json!(true))
    );
    let unknown = json!({"kind": "result", "texts": ["there is no tool `no_such_tool`"]});
    assert_eq!(seen["unknown_tool"], unknown);
}

/// The text that a tool of the other side answers.
async fn tool(peer: &Peer, name: &str, arguments: Value) -> Result<Value, CallError> {
    let params = json!({"name": name, "arguments": arguments});
    let result: Value = peer.call("tools/call", params).await?;
    Ok(result["content"][0]["text"].clone())
}

#[tokio::test]
async fn we_drive_a_server_of_the_official_mcp_sdk() {
    let Some(_) = installed("mcp", "venv/bin/mcp") else {
        return;
    };
    let python = root().join("target/real/venv/bin/python");
    let server = root().join("tests/real/mcp_server.py");
    let (config, received) = tapped(speaking(Dialect::mcp()));
    let peer = caudal::connect(Endpoint::command(text(&python), [text(&server)]))
        .config(config)
        .await
        .unwrap();
    let client = json!({"name": "caudal", "version": "0"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let answer: Value = peer.call("initialize", hello).await.unwrap();
    assert_eq!(answer["serverInfo"]["name"], "real-mcp-server");
    assert_eq!(answer["protocolVersion"], "2025-11-25");
    peer.notify("notifications/initialized", ()).await.unwrap();

    let answer: Value = peer.call("tools/list", ()).await.unwrap();
    let tools = answer["tools"].as_array().unwrap();
    let mut names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["add", "count", "greet", "roots", "sleep"]);
    assert_eq!(
        tool(&peer, "add", json!({"a": 2, "b": 3})).await.unwrap(),
        "5"
    );
    assert_eq!(
        tool(&peer, "greet", json!({"name": "Ada"})).await.unwrap(),
        "Hello, Ada!"
    );

    let slept = |message: &Value| message.to_string().contains("slept");
    let text = tool(&peer, "sleep", json!({"seconds": 0})).await.unwrap();
    assert!(slept(&text));
    received.lock().unwrap().clear();
    let dropped = tool(&peer, "sleep", json!({"seconds": 1}));
    let short = Duration::from_millis(200);
    assert!(timeout(short, dropped).await.is_err());
    let sum = tool(&peer, "add", json!({"a": 20, "b": 30})).await;
    assert_eq!(sum.unwrap(), "50");
    // Had it gone on, it would have answered by then.
    sleep(Duration::from_millis(2500)).await;
    assert!(!received.lock().unwrap().iter().any(slept));
    peer.close();
    assert!(soon("it ends", peer.closed()).await.is_local());
}

#[derive(Deserialize)]
struct Depth {
    depth: u32,
}

#[derive(Deserialize)]
struct Slow {
    ms: u64,
}

/// The other end, made with vscode-jsonrpc; what it reports as progress; and what
/// was received.
fn vscode() -> Option<(Peer, mpsc::UnboundedReceiver<Value>, Received)> {
    installed("vscode-jsonrpc", "node_modules/vscode-jsonrpc/package.json")?;
    if Command::new("node").arg("--version").output().is_err() {
        not_counted("node");
        return None;
    }
    let (sender, progress) = mpsc::unbounded_channel();
    let router = Router::new()
        .method("roundtrip", |cx: Context, Depth { depth }| async move {
            match depth {
                0 => Ok(0),
                _ => {
                    let next = json!({"depth": depth - 1});
                    let below: u32 = cx.peer().call("roundtrip", next).await?;
                    Ok(below + 1)
                }
            }
        })
        .method("slow", |Slow { ms }| async move {
            sleep(Duration::from_millis(ms)).await;
            Ok("done")
        })
        .method("$/progress", move |params: Value| {
            let _ = sender.send(params);
        });
    let mut command = Command::new("node");
    command
        .arg(root().join("tests/real/vscode_peer.js"))
        .env("NODE_PATH", root().join("target/real/node_modules"));
    let (config, received) = tapped(speaking(Dialect::lsp()));
    let options = ChildOptions::default()
        .stderr(Stderr::Capture)
        .framing(Framing::Header);
    let child = Child::spawn(command, options).unwrap();
    Some((Peer::start_with(child, router, config), progress, received))
}

#[tokio::test]
async fn we_and_vscode_jsonrpc_call_each_other() {
    let Some((peer, _, _)) = vscode() else {
        return;
    };
    let sum: i64 = peer.call("add", (1, 2)).await.unwrap();
    assert_eq!(sum, 3);
    let described: Value = peer.call("describe", json!({"name": "Ada"})).await.unwrap();
    assert_eq!(described, json!({"hello": "Ada"}));
    match peer.call::<Value>("fail", ()).await {
        Err(CallError::Remote(error)) => {
            assert_eq!(
                (error.code, &*error.message),
                (1001.into(), "failed on purpose")
            );
            assert_eq!(error.data, Some(json!({"why": "test"})));
        }
        other => panic!("{other:?}"),
    }
    match peer.call::<Value>("no_such_method", ()).await {
        Err(CallError::Remote(error)) => assert_eq!(error.code, -32601),
        other => panic!("{other:?}"),
    }
    let depth: u32 = peer.call("roundtrip", json!({"depth": 20})).await.unwrap();
    assert_eq!(depth, 20);
    for n in 0..500 {
        peer.notify("note", json!({"text": n.to_string()}))
            .await
            .unwrap();
    }
    let notes: Vec<String> = peer.call("notes", ()).await.unwrap();
    assert_eq!(notes, (0..500).map(|n| n.to_string()).collect::<Vec<_>>());
    peer.close();
    assert!(soon("it ends", peer.closed()).await.is_local());
}

#[tokio::test]
async fn vscode_jsonrpc_cancels_our_work_and_we_cancel_its() {
    let Some((peer, _, received)) = vscode() else {
        return;
    };
    let code: i64 = peer.call("call_and_cancel", ()).await.unwrap();
    assert_eq!(code, -32800);
    let slow = peer.call::<Value>("slow", json!({"ms": 600_000}));
    assert!(timeout(Duration::from_millis(100), slow).await.is_err());
    let is_cancelled = |message: &Value| message["error"]["code"] == -32800;
    seen(&received, "it was told", is_cancelled).await;
    let done: String = peer.call("slow", json!({"ms": 1})).await.unwrap();
    assert_eq!(done, "done");
}

#[tokio::test]
async fn progress_of_vscode_jsonrpc_extends_a_deadline() {
    let Some((peer, mut progress, _)) = vscode() else {
        return;
    };
    // So that the time below is not spent on its start.
    let _: i64 = peer.call("add", (1, 2)).await.unwrap();
    let work = |token: &str| json!({"token": token, "steps": 40});
    let patience = Duration::from_millis(700);
    let steps: u32 = peer
        .call("work_with_progress", work("long"))
        .timeout(patience)
        .extend_on_progress("long", LIMIT)
        .await
        .unwrap();
    assert_eq!(steps, 40);
    for value in 0..40 {
        let reported = progress.recv().await.unwrap();
        assert_eq!(reported, json!({"token": "long", "value": value}));
    }
    let late = peer.call::<u32>("work_with_progress", work("other"));
    assert!(matches!(
        late.timeout(patience).await,
        Err(CallError::Timeout)
    ));
    let bounded = peer.call::<u32>("work_with_progress", work("bounded"));
    let bounded = bounded
        .timeout(patience)
        .extend_on_progress("bounded", patience * 2);
    assert!(matches!(bounded.await, Err(CallError::Timeout)));
}

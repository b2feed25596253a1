//! caudal and programs that other people wrote, over HTTP and WebSocket.
//!
//! See `real.rs` for what is installed, and when a test does not count.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::LIMIT;
use crate::support::example;
use crate::support::real::{Running, installed, not_counted, python, run, script, soon};
use caudal::{CallError, Config, Dialect, Peer, Router, Server};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// The methods of `caudal serve`.
async fn demo() -> (Server, String) {
    let router = caudal_cli::demo::router();
    let server = caudal::serve("http://127.0.0.1:0/rpc", router)
        .config(caudal_cli::demo::config())
        .await
        .unwrap();
    let url = server.endpoint().to_string();
    (server, url)
}

/// What a script saw, which speaks with this URL.
async fn seen(program: &Path, arguments: &[&str]) -> Value {
    let program = program.to_owned();
    let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
    let script = tokio::task::spawn_blocking(move || {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        run(&program, &arguments)
    });
    script.await.unwrap()
}

/// Whether Node is there, and this package.
fn node(package: &str) -> bool {
    if installed(package, &format!("node_modules/{package}/package.json")).is_none() {
        return false;
    }
    let there = Command::new("node").arg("--version").output().is_ok();
    if !there {
        not_counted("node");
    }
    there
}

fn three(id: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": 3})
}

#[tokio::test]
async fn the_http_client_of_jayson_calls_our_server() {
    if !node("jayson") {
        return;
    }
    let (_server, url) = demo().await;
    let seen = seen(Path::new("node"), &[&script("jayson_client.js"), &url]).await;
    let error = json!({"code": 1001, "message": "failed on purpose", "data": {"why": "test"}});
    let expected = json!({
        "add": 3,
        "named": 2,
        "error": error,
        "unknown": -32601,
        "notification": null,
        "batch": [3, 7, 1001],
        "long": true,
    });
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn fetch_and_websockets_of_node_speak_with_our_server() {
    if !node("ws") {
        return;
    }
    let (_server, url) = demo().await;
    let seen = seen(Path::new("node"), &[&script("node_client.js"), &url]).await;
    let fetched = json!({
        "add": three(1),
        "notification": [204, ""],
        "started": {"count": 3, "every_ms": 1},
        "ticks": [[1, 1], [2, 2], [3, 3]],
        "deleted": 204,
        "after": 404,
    });
    assert_eq!(seen["fetch"], fetched);
    let messages = json!([
        three(1),
        [{"jsonrpc": "2.0", "id": 2, "result": 7}],
        {"jsonrpc": "2.0", "id": 3, "result": ["ä😀"]},
    ]);
    let socket = json!({"messages": messages, "extensions": "", "pong": "here?", "close": 1000});
    assert_eq!(seen["socket"], socket);
}

#[tokio::test]
async fn the_websocket_client_of_python_speaks_with_our_server() {
    if installed("websockets", "venv/bin/websockets").is_none() {
        return;
    }
    let (_server, url) = demo().await;
    let url = url.replacen("http", "ws", 1);
    let seen = seen(&python(), &[&script("websocket_client.py"), &url]).await;
    let expected = json!({
        "add": three(1),
        "batch": [three(1), {"jsonrpc": "2.0", "id": 2, "result": 7}],
        "bytes": {"jsonrpc": "2.0", "id": "b", "result": 11},
        "garbage": -32700,
        "fragments": true,
        "long": true,
        "ticks": [1, 2, 3],
        "ticked": {"ticks": 3},
        "pong": true,
        "close_code": 1000,
        "foreign": 403,
        "not_utf8": 1007,
    });
    assert_eq!(seen, expected);
}

/// What both official clients see of `examples/mcp_server.rs`.
fn check_mcp(seen: &Value) {
    assert_eq!(seen["server"], "caudal-mcp");
    let tools = json!(["add", "count", "greet", "roots", "sleep"]);
    assert_eq!(seen["tools"], tools);
    assert_eq!(seen["steps"], json!([1, 2, 3, 4, 5]));
    assert_eq!(seen["logged"], "counted to 5");
    assert_eq!(seen["roots"], "file:///one file:///two");
    assert_eq!(seen["asked_at_once"], 20);
}

#[tokio::test]
async fn the_official_mcp_client_drives_our_server_over_http() {
    if installed("mcp", "venv/bin/mcp").is_none() {
        return;
    }
    let program = example("mcp_server");
    let server = Running::start(program.get_program(), &["http://127.0.0.1:0/mcp"], true);
    let seen = seen(&python(), &[&script("mcp_http_client.py"), &server.url]).await;
    check_mcp(&seen);
    assert_eq!(seen["protocol"], "2025-11-25");
    assert_eq!(seen["sums"], json!(["5", "50", "500"]));
    assert_eq!(seen["timeout_raised"], true);
    assert_eq!(seen["cancel_raised"], true);
    let unknown = json!({"kind": "result", "texts": ["there is no tool `no_such_tool`"]});
    assert_eq!(seen["unknown_tool"], unknown);
    assert_eq!(seen["by_itself"], json!(["2", "file:///one file:///two"]));
}

#[tokio::test]
async fn the_official_mcp_client_for_node_drives_our_server_over_http() {
    if !node("@modelcontextprotocol/sdk") {
        return;
    }
    let program = example("mcp_server");
    let server = Running::start(program.get_program(), &["http://127.0.0.1:0/mcp"], true);
    let modules = crate::support::real::root().join("target/real/node_modules");
    let arguments = [
        &script("mcp_http_client.mjs"),
        server.url.as_str(),
        crate::support::real::text(&modules),
    ];
    let seen = seen(Path::new("node"), &arguments).await;
    check_mcp(&seen);
    assert_eq!(seen["session"], "string");
    assert_eq!(seen["count"], "counted to 5");
    assert_eq!(seen["sums"], json!(["5", "50"]));
    assert_eq!(seen["timeout_code"], -32001);
    assert_eq!(seen["aborted"], true);
    assert_eq!(seen["after_delete"], 404);
}

/// The text that a tool of the other side answers.
async fn tool(peer: &Peer, name: &str, arguments: Value) -> Result<Value, CallError> {
    let meta = json!({"progressToken": "p"});
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    let result: Value = peer.call("tools/call", params).await?;
    Ok(result["content"][0]["text"].clone())
}

async fn we_drive(kind: &str) {
    if installed("mcp", "venv/bin/mcp").is_none() {
        return;
    }
    let server = Running::start(python(), &[&script("mcp_server.py"), kind], false);
    let (sender, mut told) = mpsc::unbounded_channel();
    let logged = sender.clone();
    let router = Router::new()
        .method("roots/list", |_: Option<Value>| {
            Ok(json!({"roots": [{"uri": "file:///one"}, {"uri": "file:///two"}]}))
        })
        .method("notifications/progress", move |params: Value| {
            let _ = sender.send(params["progress"].clone());
        })
        .method("notifications/message", move |params: Value| {
            let _ = logged.send(params["data"].clone());
        });
    let mut config = Config::default();
    config.call_timeout = Some(LIMIT);
    config.dialect = Dialect::mcp();
    let peer = caudal::connect(format!("{}#sse", server.url))
        .router(router)
        .config(config)
        .await
        .unwrap();
    let client = json!({"name": "caudal", "version": "0"});
    let capabilities = json!({"roots": {}});
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": client,
    });
    let answer: Value = peer.call("initialize", hello).await.unwrap();
    assert_eq!(answer["serverInfo"]["name"], "real-mcp-server");
    peer.notify("notifications/initialized", ()).await.unwrap();
    let _: Value = peer.call("ping", ()).await.unwrap();
    let sum = tool(&peer, "add", json!({"a": 2, "b": 3})).await.unwrap();
    assert_eq!(sum, "5");

    if kind == "http" {
        let counted = tool(&peer, "count", json!({"to": 3})).await.unwrap();
        assert_eq!(counted, "counted to 3");
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(soon("it is told", told.recv()).await.unwrap());
        }
        let expected = json!([1, 2, 3, "counted to 3"]);
        assert_eq!(Value::from(all), expected);
        let roots = tool(&peer, "roots", json!({})).await.unwrap();
        assert_eq!(roots, "file:///one file:///two");
    }

    // One that sleeps does not hold up another.
    let slow = tool(&peer, "sleep", json!({"seconds": 600}));
    let dropped = tokio::time::timeout(Duration::from_millis(300), slow);
    let sum = tool(&peer, "add", json!({"a": 20, "b": 30}));
    let (dropped, sum) = soon("both end", async { tokio::join!(dropped, sum) }).await;
    assert!(dropped.is_err());
    assert_eq!(sum.unwrap(), "50");
    let greeting = tool(&peer, "greet", json!({"name": "Ada"})).await.unwrap();
    assert_eq!(greeting, "Hello, Ada!");
    peer.close();
    assert!(soon("it ends", peer.closed()).await.is_local());
}

#[tokio::test]
async fn we_drive_a_server_of_the_official_mcp_sdk_over_http() {
    we_drive("http").await;
}

#[tokio::test]
async fn we_drive_a_server_of_the_official_mcp_sdk_that_answers_with_json() {
    we_drive("http-json").await;
}

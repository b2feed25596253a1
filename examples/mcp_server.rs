//! An MCP server with five tools, on stdin and stdout or over HTTP.
//!
//! `cargo build --release --example mcp_server`, and give
//! `target/release/examples/mcp_server` to an MCP client as a command. Or start it
//! with `http://127.0.0.1:4300/mcp`, and give the client that URL.

use std::error::Error;
use std::time::Duration;

use caudal::{Address, CallError, Config, Context, Dialect, Peer, Router};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: String,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default, rename = "_meta")]
    meta: Meta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Meta {
    /// A caller that wants to hear of progress names it.
    progress_token: Option<Value>,
}

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[derive(Deserialize)]
struct Sleep {
    seconds: f64,
}

#[derive(Deserialize)]
struct Count {
    to: u32,
}

#[derive(Deserialize)]
struct Roots {
    roots: Vec<Root>,
}

#[derive(Deserialize)]
struct Root {
    uri: String,
}

fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))
}

/// Reports every step to who asked for it, and the end to the log.
async fn count(peer: &Peer, token: Option<Value>, to: u32) -> Result<String, CallError> {
    for n in 1..=to {
        if let Some(token) = &token {
            let step = json!({ "progressToken": token, "progress": n, "total": to });
            peer.notify("notifications/progress", step).await?;
        }
    }
    let text = format!("counted to {to}");
    let entry = json!({ "level": "info", "logger": "count", "data": text });
    peer.notify("notifications/message", entry).await?;
    Ok(text)
}

/// An error and its causes, in one line: the first alone does not say what to do.
fn told(error: &CallError) -> String {
    let first: &dyn Error = error;
    let causes = std::iter::successors(Some(first), |&error| error.source());
    let causes: Vec<_> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// What a tool says, or why it cannot.
async fn run(peer: &Peer, call: ToolCall) -> Result<String, String> {
    match call.name.as_str() {
        "add" => {
            let Add { a, b } = arguments(call.arguments)?;
            let sum = a.checked_add(b).ok_or("the sum is too large")?;
            Ok(sum.to_string())
        }
        "greet" => {
            let Greet { name } = arguments(call.arguments)?;
            Ok(format!("Hello, {name}!"))
        }
        "sleep" => {
            let Sleep { seconds } = arguments(call.arguments)?;
            let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
            // A call that is cancelled is dropped here, and not answered.
            tokio::time::sleep(time).await;
            Ok(format!("slept {seconds} s"))
        }
        "count" => {
            let Count { to } = arguments(call.arguments)?;
            let counted = count(peer, call.meta.progress_token, to).await;
            counted.map_err(|error| told(&error))
        }
        "roots" => {
            // The client is asked while its own call is still open.
            let asked = peer.call("roots/list", json!({})).await;
            let Roots { roots } = asked.map_err(|error| told(&error))?;
            let uris: Vec<_> = roots.into_iter().map(|root| root.uri).collect();
            Ok(uris.join(" "))
        }
        unknown => Err(format!("there is no tool `{unknown}`")),
    }
}

fn tool(name: &str, description: &str, arguments: &[(&str, &str)]) -> Value {
    let properties: serde_json::Map<_, _> = arguments
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind })))
        .collect();
    let required: Vec<_> = arguments.iter().map(|(name, _)| name).collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn router() -> Router {
    Router::new()
        .method("initialize", |hello: Initialize| {
            Ok(json!({
                "protocolVersion": hello.protocol_version,
                "capabilities": { "logging": {}, "tools": {} },
                "serverInfo": { "name": "caudal-mcp", "version": env!("CARGO_PKG_VERSION") },
            }))
        })
        // Params may be absent, or hold a `_meta` that is of no use here.
        .method("notifications/initialized", |_: IgnoredAny| ())
        .method("ping", |_: IgnoredAny| Ok(json!({})))
        .method("logging/setLevel", |_: IgnoredAny| Ok(json!({})))
        .method("tools/list", |_: IgnoredAny| {
            let number = "integer";
            Ok(json!({ "tools": [
                tool("add", "Add two whole numbers.", &[("a", number), ("b", number)]),
                tool("greet", "Say hello to somebody.", &[("name", "string")]),
                tool("sleep", "Wait.", &[("seconds", "number")]),
                tool("count", "Count, and report each step.", &[("to", number)]),
                tool("roots", "Ask the client for its roots.", &[]),
            ] }))
        })
        .method("tools/call", |cx: Context, call: ToolCall| async move {
            // A failing tool is a result: it is the model that should read why.
            let (is_error, text) = match run(cx.peer(), call).await {
                Ok(text) => (false, text),
                Err(text) => (true, text),
            };
            let content = [json!({ "type": "text", "text": text })];
            Ok(json!({ "content": content, "isError": is_error }))
        })
}

#[tokio::main]
async fn main() -> Result<(), caudal::Error> {
    let config = Config::default().dialect(Dialect::mcp());
    let endpoint = std::env::args().nth(1);
    let endpoint = endpoint.as_deref().unwrap_or("stdio:");
    let server = caudal::serve(endpoint, router()).config(config).await?;
    if !matches!(server.endpoint().address(), Address::Stdio) {
        eprintln!("listening on {}", server.endpoint());
    }
    server.wait().await;
    Ok(())
}

//! An MCP server with three tools, on stdin and stdout.
//!
//! `cargo build --release -p caudal-examples --example mcp_server`, and give
//! `target/release/examples/mcp_server` to an MCP client as a command.

use std::time::Duration;

use caudal::{Config, Dialect, Router};
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

fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))
}

/// What a tool says, or why it cannot.
async fn run(call: ToolCall) -> Result<String, String> {
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
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "caudal-mcp", "version": env!("CARGO_PKG_VERSION") },
            }))
        })
        // Params may be absent, or hold a `_meta` that is of no use here.
        .notification("notifications/initialized", |_: IgnoredAny| ())
        .method("ping", |_: IgnoredAny| Ok(json!({})))
        .method("tools/list", |_: IgnoredAny| {
            let number = "integer";
            Ok(json!({ "tools": [
                tool("add", "Add two whole numbers.", &[("a", number), ("b", number)]),
                tool("greet", "Say hello to somebody.", &[("name", "string")]),
                tool("sleep", "Wait.", &[("seconds", "number")]),
            ] }))
        })
        .method("tools/call", |call: ToolCall| async move {
            // A failing tool is a result: it is the model that should read why.
            let (is_error, text) = match run(call).await {
                Ok(text) => (false, text),
                Err(text) => (true, text),
            };
            let content = [json!({ "type": "text", "text": text })];
            Ok(json!({ "content": content, "isError": is_error }))
        })
}

#[tokio::main]
async fn main() -> Result<(), caudal::Error> {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let server = caudal::serve("stdio:", router()).config(config).await?;
    server.wait().await;
    Ok(())
}

//! A language server in miniature: `Content-Length` headers on stdio, the order
//! of life that LSP prescribes, documents, cancellation and progress.
//!
//! `cargo build --release --example lsp_server`, and let an editor start
//! `target/release/examples/lsp_server`

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use caudal::{Config, Context, Dialect, JsonRpcError, Method, Router, middleware};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Starting,
    Running,
    ShutDown,
}

#[derive(Default)]
struct Workspace {
    phase: Phase,
    /// The text of each open document, by URI.
    documents: HashMap<String, String>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Workspace>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Workspace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Document {
    uri: String,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: Document,
}

#[derive(Deserialize)]
struct Change {
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: Document,
    content_changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Position {
    line: usize,
    character: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hover {
    text_document: Document,
    position: Position,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Search {
    query: String,
    work_done_token: Option<Value>,
}

/// The word at a position, whose character counts UTF-16 units.
fn word_at(text: &str, position: &Position) -> Option<String> {
    let line = text.lines().nth(position.line)?;
    let mut units = 0;
    let (at, _) = line.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > position.character
    })?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (before, after) = line.split_at(at);
    let start = before.trim_end_matches(is_word).len();
    let end = at + after.find(|c| !is_word(c)).unwrap_or(after.len());
    line.get(start..end)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// Searches slowly, as in a large workspace. When the client cancels, it is
/// dropped where it waits, and -32800 is answered.
async fn symbols(shared: Shared, cx: Context, search: Search) -> Result<Vec<Value>, JsonRpcError> {
    const STEPS: u32 = 20;
    let progress = async |value: Value| match &search.work_done_token {
        Some(token) => {
            let params = json!({ "token": token, "value": value });
            cx.peer().notify("$/progress", params).await
        }
        None => Ok(()),
    };
    progress(json!({ "kind": "begin", "title": "Searching", "cancellable": true })).await?;
    for step in 1..=STEPS {
        tokio::time::sleep(Duration::from_millis(50)).await;
        progress(json!({ "kind": "report", "percentage": step * 100 / STEPS })).await?;
    }
    progress(json!({ "kind": "end" })).await?;
    let workspace = shared.lock();
    let lines = workspace.documents.values().flat_map(|text| text.lines());
    let words = lines.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    Ok(words
        .filter(|word| !word.is_empty() && word.contains(&search.query))
        .map(|word| json!({ "name": word }))
        .collect())
}

fn documents(shared: &Shared) -> Router {
    let [opening, changing, hovering, searching] = [(); 4].map(|()| shared.clone());
    Router::new()
        // A notification finishes before the next message starts, so that a
        // request sees the document with all changes that were sent before it.
        .notification("textDocument/didOpen", move |open: DidOpen| {
            let Document { uri, text } = open.text_document;
            opening.lock().documents.insert(uri, text);
        })
        .notification("textDocument/didChange", move |change: DidChange| {
            if let Some(last) = change.content_changes.into_iter().next_back() {
                let uri = change.text_document.uri;
                changing.lock().documents.insert(uri, last.text);
            }
        })
        .method("textDocument/hover", move |hover: Hover| {
            let workspace = hovering.lock();
            let text = workspace.documents.get(&hover.text_document.uri);
            let word = text.and_then(|text| word_at(text, &hover.position));
            Ok(word.map(|word| json!({ "contents": word })))
        })
        .method("workspace/symbol", move |cx: Context, search: Search| {
            symbols(searching.clone(), cx, search)
        })
}

fn router(shared: &Shared) -> Router {
    let [starting, ending, watching] = [(); 3].map(|()| shared.clone());
    let in_order = middleware(move |call, next| {
        let phase = watching.lock().phase;
        async move {
            match (phase, call.method()) {
                (Phase::Starting, "initialize") | (Phase::Running, _) => next.run(call).await,
                (Phase::Starting, _) => Err(JsonRpcError::new(-32_002, "Not initialized")),
                (Phase::ShutDown, _) => Err(JsonRpcError::invalid_request()),
            }
        }
    });
    let initialize = Method::new(move |_: Value| {
        starting.lock().phase = Phase::Running;
        let capabilities = json!({
            "textDocumentSync": 1,
            "hoverProvider": true,
            "workspaceSymbolProvider": { "workDoneProgress": true },
        });
        Ok(json!({ "capabilities": capabilities, "serverInfo": { "name": "caudal-lsp" } }))
    });
    Router::new()
        .method("initialize", initialize.serial())
        .notification("initialized", |_: Value| ())
        .method("shutdown", move || {
            ending.lock().phase = Phase::ShutDown;
            Ok(())
        })
        .merge(documents(shared))
        .layer(in_order)
        // After the layer, and so outside of it: `exit` is heard at any time.
        .notification("exit", |cx: Context| cx.peer().close())
}

#[tokio::main]
async fn main() -> Result<ExitCode, caudal::Error> {
    let shared = Shared::default();
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    let server = caudal::serve("stdio:?framing=header", router(&shared))
        .config(config)
        .await?;
    server.wait().await;
    // LSP: success only if `shutdown` came before `exit`.
    let in_order = shared.lock().phase == Phase::ShutDown;
    Ok(ExitCode::from(u8::from(!in_order)))
}

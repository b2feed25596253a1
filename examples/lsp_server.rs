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
#[serde(rename_all = "camelCase")]
struct DidClose {
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

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word at a position, whose character counts UTF-16 units.
fn word_at(text: &str, position: &Position) -> Option<String> {
    let line = text.lines().nth(position.line)?;
    let mut units = 0;
    let (at, _) = line.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > position.character
    })?;
    let (before, after) = line.split_at(at);
    let start = before.trim_end_matches(is_word).len();
    let end = at + after.find(|c| !is_word(c)).unwrap_or(after.len());
    line.get(start..end)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

/// The words of a document that contain a text, each as a `SymbolInformation`.
fn symbols_of(uri: &str, text: &str, query: &str) -> Vec<Value> {
    /// `SymbolKind.String`
    const STRING: u32 = 15;
    let units = |text: &str| text.encode_utf16().count();
    let mut symbols = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let position = |character: usize| json!({ "line": number, "character": character });
        let mut start = 0;
        for piece in line.split_inclusive(|c| !is_word(c)) {
            let word = piece.trim_end_matches(|c| !is_word(c));
            if !word.is_empty() && word.contains(query) {
                let range = json!({
                    "start": position(start),
                    "end": position(start + units(word)),
                });
                symbols.push(json!({
                    "name": word,
                    "kind": STRING,
                    "location": { "uri": uri, "range": range },
                }));
            }
            start += units(piece);
        }
    }
    symbols
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
    progress(json!({
        "kind": "begin",
        "title": "Searching",
        "cancellable": true,
        "percentage": 0,
    }))
    .await?;
    for step in 1..=STEPS {
        tokio::time::sleep(Duration::from_millis(50)).await;
        progress(json!({ "kind": "report", "percentage": step * 100 / STEPS })).await?;
    }
    progress(json!({ "kind": "end" })).await?;
    let workspace = shared.lock();
    let documents = workspace.documents.iter();
    Ok(documents
        .flat_map(|(uri, text)| symbols_of(uri, text, &search.query))
        .collect())
}

fn documents(shared: &Shared) -> Router {
    let [opening, changing, closing, hovering, searching] = [(); 5].map(|()| shared.clone());
    Router::new()
        // A notification finishes before the next message starts, so that a
        // request sees the document with all changes that were sent before it.
        .method("textDocument/didOpen", move |open: DidOpen| {
            let Document { uri, text } = open.text_document;
            opening.lock().documents.insert(uri, text);
        })
        .method("textDocument/didChange", move |change: DidChange| {
            if let Some(last) = change.content_changes.into_iter().next_back() {
                let uri = change.text_document.uri;
                changing.lock().documents.insert(uri, last.text);
            }
        })
        .method("textDocument/didClose", move |close: DidClose| {
            let uri = close.text_document.uri;
            closing.lock().documents.remove(&uri);
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
    let in_order = middleware::from_fn(move |call, next| {
        let phase = watching.lock().phase;
        async move {
            match (phase, call.method()) {
                (Phase::Starting, "initialize") => next.run(call).await,
                (Phase::Starting, _) => Err(JsonRpcError::new(-32_002, "Not initialized")),
                (Phase::Running, "initialize") | (Phase::ShutDown, _) => {
                    Err(JsonRpcError::invalid_request())
                }
                (Phase::Running, _) => next.run(call).await,
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
        .method("initialized", |_: Value| ())
        .method("shutdown", move || {
            ending.lock().phase = Phase::ShutDown;
            Ok(())
        })
        .merge(documents(shared))
        .layer(in_order)
        // After the layer, and so outside of it: `exit` is heard at any time.
        .method("exit", |cx: Context| cx.peer().close())
}

#[tokio::main]
async fn main() -> Result<ExitCode, caudal::Error> {
    let shared = Shared::default();
    let server = caudal::serve("stdio:?framing=header", router(&shared))
        .config(Config::default().dialect(Dialect::lsp()))
        .await?;
    server.wait().await;
    // LSP: success only if `shutdown` came before `exit`.
    let in_order = shared.lock().phase == Phase::ShutDown;
    Ok(ExitCode::from(u8::from(!in_order)))
}

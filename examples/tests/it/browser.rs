//! A browser as the client: fetch, WebSocket and EventSource, from a page of the
//! same origin, from one that is allowed, and from one that is not.
//!
//! The browser is Debian's chromium. Where it is not and cannot be installed, that
//! is said loudly on stderr, and the test does not count.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::process::Command;
use std::sync::Arc;

use crate::support::real::{not_counted, root, text};
use axum::extract::State;
use axum::response::Html;
use axum::routing::{get, post};
use caudal::Server;
use caudal::http::{Allowed, Http, Options};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Ends a browser that hangs, also when it is loaded with other work.
const SECONDS: &str = "120";

/// What the page has found out.
type Results = Arc<watch::Sender<Option<Value>>>;

fn there_is_a_browser() -> bool {
    let there = || Command::new("chromium").arg("--version").output().is_ok();
    if !there() {
        let install = root().join("tests/real/install");
        let _ = Command::new(install).arg("browser").status();
    }
    if !there() {
        not_counted("chromium");
    }
    there()
}

/// Serves the page, and beside it the demo methods.
async fn page(listener: TcpListener, results: Results) {
    let html = std::fs::read_to_string(root().join("tests/real/page.html")).unwrap();
    let rpc = Http::new(caudal_cli::demo::router());
    let app = axum::Router::new()
        .route("/", get(async || Html(html)))
        .route("/done", get(done))
        .route("/results", post(take))
        .route_service("/rpc", rpc)
        .with_state(results);
    axum::serve(listener, app).await.unwrap();
}

async fn take(State(results): State<Results>, body: String) {
    results.send_replace(Some(serde_json::from_str(&body).unwrap()));
}

/// Answers when there are results: the browser ends when the page has loaded.
async fn done(State(results): State<Results>) {
    let _ = results.subscribe().wait_for(Option::is_some).await;
}

async fn elsewhere(origins: Allowed) -> Server {
    let mut options = Options::default();
    options.origins = origins;
    let router = caudal_cli::demo::router();
    let serve = caudal::serve("http://127.0.0.1:0/rpc", router);
    serve.http(options).await.unwrap()
}

async fn browse(url: &str) {
    let profile = std::env::temp_dir().join(format!("caudal-browser-{}", std::process::id()));
    let mut command = tokio::process::Command::new("timeout");
    command
        .args(["--kill-after=10", SECONDS, "chromium", "--headless"])
        .args(["--no-sandbox", "--disable-gpu", "--disable-quic"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-sync"])
        .args(["--disable-component-update", "--no-proxy-server"])
        .arg(format!("--user-data-dir={}", text(&profile)))
        .args(["--dump-dom", url]);
    let output = command.output().await.unwrap();
    let _ = std::fs::remove_dir_all(&profile);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

/// What the page sees of a server that lets it in.
fn let_in() -> Value {
    let tick = json!({"jsonrpc": "2.0", "method": "tick", "params": [1]});
    json!({
        "fetch": {
            "add": 3,
            "batch": [3, 7],
            "notification": 204,
            "polled": {"cursor": 1, "messages": [tick]},
            "deleted": 204,
        },
        "socket": [[1], [2], [3], {"ticks": 3}, 1000],
        "events": [[1, 1], [2, 2], [3, 3], 200, "again 3"],
        "again": [1, 2, 3, "opened 2"],
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_speaks_with_the_servers_that_let_it() {
    if !there_is_a_browser() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let results = Results::default();
    tokio::spawn(page(listener, Arc::clone(&results)));
    let friend = elsewhere(Allowed::of([&origin])).await;
    let foe = elsewhere(Allowed::default()).await;
    let (friendly, hostile) = (friend.endpoint(), foe.endpoint());
    browse(&format!(
        "{origin}/?own={origin}/rpc&friend={friendly}&foe={hostile}"
    ))
    .await;
    let seen = results.borrow().clone().expect("the page has results");
    assert_eq!(seen.get("failed"), None, "{seen}");
    let refused = json!({
        "fetch": "refused",
        "simple": "opaque",
        "socket": "refused",
        "events": "refused",
    });
    assert_eq!(seen["own"], let_in(), "{seen}");
    assert_eq!(seen["friend"], let_in(), "{seen}");
    assert_eq!(seen["token"], 200);
    assert_eq!(seen["foe"], refused);
    // Not even what the page could not read the answer of has run.
    let stats = foe.stats();
    assert_eq!(
        (stats.requests_served, foe.connections()),
        (0, 0),
        "{stats:?}"
    );
}

//! A router in an axum application, beside its own routes and layers.
//!
//! ```text
//! cargo run --example axum
//! curl localhost:4200/health
//! curl localhost:4200/rpc -H 'content-type: application/json' \
//!     -d '{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}'
//! ```
//!
//! `/rpc` speaks WebSocket and event streams as well. An address to listen on may
//! be given as the first argument.
#![expect(clippy::print_stdout, reason = "it talks to a person")]

use std::error::Error;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::routing::get;
use caudal::http::{Allowed, Http, Options};
use caudal::{Config, Router};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::trace::TraceLayer;

const PAGE: &str = "https://app.example.com";
/// Where the id of a session is, unless `Options::session_header` says otherwise.
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("long", |(n,): (usize,)| Ok("=".repeat(n.min(100_000))));

    // caudal checks Host and Origin itself; the layer answers what a browser asks
    // before, for all routes alike.
    let options = Options::default().origins(Allowed::of([PAGE]));
    let rpc = Http::with(router, Config::default(), options);

    let cors = CorsLayer::new()
        .allow_origin(HeaderValue::from_static(PAGE))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::CONTENT_TYPE,
            header::AUTHORIZATION,
            // What a page says in a session, by itself or as MCP has it.
            SESSION,
            HeaderName::from_static("last-event-id"),
            HeaderName::from_static("mcp-protocol-version"),
            HeaderName::from_static("prefer"),
        ])
        // A page that opens a session must see its id.
        .expose_headers([SESSION]);
    let app = axum::Router::new()
        .route("/health", get(|| async { "well\n" }))
        .route_service("/rpc", rpc.clone())
        .layer(CompressionLayer::new())
        .layer(cors)
        // What it traces shows where a subscriber is installed; none is here.
        .layer(TraceLayer::new_for_http());

    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:4200");
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}/rpc", listener.local_addr()?);
    let served = axum::serve(listener, app).with_graceful_shutdown(async move {
        let _ = tokio::signal::ctrl_c().await;
        // WebSockets and sessions are told; axum waits for what is under way.
        rpc.shutdown(Duration::from_secs(5)).await;
    });
    served.await?;
    Ok(())
}

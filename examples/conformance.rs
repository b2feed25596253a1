//! Serves the methods of the conformance corpus on any endpoint.
//!
//! `cargo run --release --example conformance -- stdio:` (or
//! `tcp://127.0.0.1:9000`, `unix:/tmp/caudal.sock`, each with `?framing=header` if you
//! like). The methods are those of `caudal serve`.

use caudal_cli::demo;

#[tokio::main]
async fn main() -> Result<(), caudal::Error> {
    let endpoint = std::env::args().nth(1).unwrap_or("stdio:".to_owned());
    let server = caudal::serve(endpoint, demo::router())
        .config(demo::config())
        .await?;
    eprintln!("serving on {}", server.endpoint());
    server.wait().await;
    Ok(())
}

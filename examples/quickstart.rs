//! Two peers over TCP: each calls the other, and every message is shown.
//!
//! `cargo run --release --example quickstart`
#![allow(clippy::print_stdout, reason = "it shows the exchange")]

use std::error::Error;
use std::time::Duration;

use caudal::{CallError, Config, Context, Direction, JsonRpcError, Router, connect, serve};

/// What the server does for its clients.
fn server_methods() -> Router {
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("divide", |(a, b): (i64, i64)| {
            a.checked_div(b)
                .ok_or_else(|| JsonRpcError::new(1, "division by zero"))
        })
        .method("count", |cx: Context, (limit,): (u32,)| async move {
            for n in 1..=limit {
                cx.peer().notify("tick", [n]).await?;
                let go_on: bool = cx.peer().call("go_on", [n]).await?;
                if !go_on {
                    return Ok(n);
                }
            }
            Ok(limit)
        })
        .method("sleep", |(seconds,): (u64,)| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok("slept well")
        })
}

/// What the client does for the server.
fn client_methods() -> Router {
    Router::new()
        .method("tick", |(n,): (u32,)| println!("      tick {n}"))
        .method("go_on", |(n,): (u32,)| Ok(n < 2))
}

/// Prints every message as it stands on the wire.
fn show_messages() -> Config {
    Config::default().tap(|direction: Direction, message: &[u8]| {
        println!("  {direction} {}", String::from_utf8_lossy(message));
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Port 0 is any free port; `endpoint` has the one it became.
    let server = serve("tcp://127.0.0.1:0", server_methods()).await?;
    let peer = connect(server.endpoint().clone())
        .router(client_methods())
        .config(show_messages())
        .await?;
    println!("A client and a server, over TCP. The client sends --> and receives <--");

    println!("\nThe client calls a method of the server.");
    let sum: i64 = peer.call("add", (1, 2)).await?;
    println!("  1 + 2 = {sum}");

    println!("\nThe server notifies the client, and calls it, before it answers.");
    println!("Each side numbers its own calls.");
    let reached: u32 = peer.call("count", [9]).await?;
    println!("  it counted to {reached}, where the client did not want more");

    println!("\nThe server answers with an error.");
    match peer.call::<i64>("divide", (1, 0)).await {
        Err(CallError::Remote(error)) => println!("  error {}: {}", error.code, error.message),
        other => println!("  not as expected: {other:?}"),
    }

    println!("\nThe server takes longer than the client will wait.");
    let patience = Duration::from_millis(100);
    match peer.call::<String>("sleep", [60]).timeout(patience).await {
        Err(CallError::Timeout) => println!("  no answer within {patience:?}"),
        other => println!("  not as expected: {other:?}"),
    }

    println!("\nThe connection is as good as before.");
    let sum: i64 = peer.call("add", (20, 22)).await?;
    println!("  20 + 22 = {sum}");

    peer.close();
    server.shutdown(Duration::ZERO).await;
    Ok(())
}

//! A plug-in: a program that serves whoever has started it, on stdin and stdout,
//! one message in each line.
//!
//! `cargo run --release --example child_client` starts it and calls it. By hand:
//!
//! `echo '{"jsonrpc":"2.0","id":1,"method":"greet","params":["Ada"]}' | cargo run --release --example stdio_server`
#![allow(clippy::print_stdout, reason = "it shows that printing does no harm")]

use std::sync::atomic::{AtomicU64, Ordering};

use caudal::{Context, Router, State};

#[derive(Default)]
struct Counters {
    greeted: AtomicU64,
    logged: AtomicU64,
}

fn router() -> Router<Counters> {
    Router::with_state(Counters::default())
        .method("greet", |counters: State<Counters>, (name,): (String,)| {
            counters.greeted.fetch_add(1, Ordering::Relaxed);
            // Stdout belongs to the connection while it is open, and what is
            // printed meanwhile goes to stderr: it cannot end up in a message.
            println!("greeting {name}");
            Ok(format!("Hello, {name}!"))
        })
        .method("log", |counters: State<Counters>, (line,): (String,)| {
            counters.logged.fetch_add(1, Ordering::Relaxed);
            eprintln!("log: {line}");
        })
        .method("counters", |counters: State<Counters>| {
            let Counters { greeted, logged } = &*counters;
            Ok([greeted, logged].map(|counter| counter.load(Ordering::Relaxed)))
        })
        .method("quit", |cx: Context| cx.peer().close())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), caudal::Error> {
    let server = caudal::serve("stdio:", router()).await?;
    // Until stdin ends, or `quit`.
    server.wait().await;
    Ok(())
}

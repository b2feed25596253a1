//! Starts a program and calls it through its stdin and stdout.
//!
//! `cargo run --release --example child_client` starts the `stdio_server` example
//! (`cargo build --release --examples` builds it); `… child_client PROGRAM
//! [ARGUMENT...]` starts another one with the same methods.
#![allow(clippy::print_stdout, reason = "it shows the answers")]

use std::error::Error;

use caudal::transport::ExitError;
use caudal::{CallError, CloseReason, Endpoint};

/// The program to start: the arguments, or the example beside this one.
fn program() -> Result<Endpoint, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    if let Some(program) = arguments.next() {
        return Ok(Endpoint::command(program, arguments));
    }
    let beside = std::env::current_exe()?.with_file_name("stdio_server");
    let program = beside.to_str().ok_or("the path is not Unicode")?;
    Ok(Endpoint::command(program, [""; 0]))
}

/// How the program ended, if it did.
fn exit(reason: &CloseReason) -> Option<&ExitError> {
    reason.source()?.downcast_ref()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let peer = caudal::connect(program()?).await?;

    let greeting: String = peer.call("greet", ["Ada"]).await?;
    println!("greet: {greeting}");

    peer.notify("log", ["a note from the parent"]).await?;
    // Messages are served in order: the note is counted already.
    let [greeted, logged]: [u64; 2] = peer.call("counters", ()).await?;
    println!("counters: {greeted} greeted, {logged} logged");

    match peer.call::<()>("dance", ()).await {
        Err(CallError::Remote(error)) => println!("dance: {error}"),
        other => println!("dance: not as expected: {other:?}"),
    }

    peer.notify("quit", ()).await?;
    let reason = peer.closed().await;
    println!("end: {reason}");
    match exit(&reason) {
        Some(exit) => println!("the program: {}", exit.status),
        None => println!("the program's status is not known"),
    }
    Ok(())
}

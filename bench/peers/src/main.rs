//! `peers CONTESTANT TRANSPORT [FRAMING]`: a server with the methods `add` and `echo`.
//!
//! ```text
//! async-lsp         stdio|tcp header
//! tower-lsp-server  stdio|tcp header
//! lsp-server        stdio|tcp header
//! rmcp              stdio line         MCP, with `add` as a tool
//! rmcp-pipes        stdio line         the same on the pipes that it has beside its default
//! karyon            tcp|ws|http        `Bench.add`; over TCP one value after the other
//! axum              http [one]         by hand, with serde
//! jsonrpsee         http|ws [one]      both on one port; also `spin`, an `add` that takes
//!                                      100 µs of processor time
//! ```
//!
//! Over sockets they listen on a free port of 127.0.0.1, print it, and end with
//! their standard input. And clients, with the arguments of `client`:
//!
//! ```text
//! jsonrpsee-http AMOUNT PORT
//! jsonrpsee-ws AMOUNT PORT
//! ```
//!
//! Each with the smallest handler, and the pipes and the runtime that its own
//! documentation shows.

mod async_lsp;
mod axum;
mod jsonrpsee;
mod karyon;
mod lsp_server;
mod rmcp;
#[allow(unreachable_pub, reason = "shared with caudal-bench")]
#[path = "../../src/spin.rs"]
mod spin;
mod tower_lsp_server;

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;

use tokio::net::{TcpListener, TcpStream};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = match arguments[..] {
        ["async-lsp", "stdio", "header"] => async_lsp::serve(),
        ["async-lsp", "tcp", "header"] => async_lsp::serve_tcp(),
        ["tower-lsp-server", "stdio", "header"] => tower_lsp_server::serve(),
        ["tower-lsp-server", "tcp", "header"] => tower_lsp_server::serve_tcp(),
        ["lsp-server", "stdio", "header"] => lsp_server::serve(),
        ["lsp-server", "tcp", "header"] => lsp_server::serve_tcp(),
        ["rmcp", "stdio", "line"] => rmcp::serve(),
        ["rmcp-pipes", "stdio", "line"] => rmcp::serve_pipes(),
        ["karyon", transport @ ("tcp" | "ws" | "http")] => karyon::serve(transport),
        ["axum", "http"] => axum::serve(false),
        ["axum", "http", "one"] => axum::serve(true),
        ["jsonrpsee", "http" | "ws"] => jsonrpsee::serve(false),
        ["jsonrpsee", "http" | "ws", "one"] => jsonrpsee::serve(true),
        [client @ ("jsonrpsee-http" | "jsonrpsee-ws"), amount, port] => {
            jsonrpsee::call(client, amount, port)
        }
        _ => Err("peers CONTESTANT TRANSPORT [FRAMING], if it can".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("peers: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Listens on a free port of this machine only, and says which.
async fn listen() -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    announce(listener.local_addr()?.port())?;
    Ok(listener)
}

/// The next connection, which sends what is written at once.
async fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Says where this server listens, and ends it with its standard input.
fn announce(port: u16) -> std::io::Result<()> {
    println!("{port}");
    std::io::stdout().flush()?;
    std::thread::spawn(|| {
        let mut ignored = [0; 64];
        while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
        std::process::exit(0);
    });
    Ok(())
}

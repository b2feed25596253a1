//! `peers CONTESTANT stdio FRAMING`: a server with one method, `add`.
//!
//! ```text
//! async-lsp         header framing
//! tower-lsp-server  header framing
//! lsp-server        header framing
//! rmcp              line framing: MCP, with `add` as a tool
//! ```
//!
//! And jsonrpsee over sockets of this machine:
//!
//! ```text
//! jsonrpsee http|ws [one]                      the server; prints its port
//! jsonrpsee-client http|ws AMOUNT SERVER…      calls a server that it starts
//! ```
//!
//! Each with the smallest handler, the pipes and the runtime that its own
//! documentation recommends.

mod async_lsp;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with caudal-bench, which needs more of it"
)]
#[path = "../../src/child.rs"]
mod child;
mod jsonrpsee;
mod lsp_server;
mod rmcp;
mod tower_lsp_server;

use std::process::ExitCode;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let served = match arguments[..] {
        ["async-lsp", "stdio", "header"] => async_lsp::serve(),
        ["tower-lsp-server", "stdio", "header"] => tower_lsp_server::serve(),
        ["lsp-server", "stdio", "header"] => lsp_server::serve(),
        ["rmcp", "stdio", "line"] => rmcp::serve(),
        ["jsonrpsee", "http" | "ws"] => jsonrpsee::serve(false),
        ["jsonrpsee", "http" | "ws", "one"] => jsonrpsee::serve(true),
        ["jsonrpsee-client", transport, amount, ref server @ ..] => {
            jsonrpsee::call(transport, amount, server)
        }
        _ => Err("peers CONTESTANT stdio line|header, if it can".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("peers: {problem}");
            ExitCode::FAILURE
        }
    }
}

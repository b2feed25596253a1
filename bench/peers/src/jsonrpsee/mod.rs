//! jsonrpsee over HTTP and WebSocket, with its defaults.

mod client;
mod server;

pub(super) use client::call;
pub(super) use server::serve;

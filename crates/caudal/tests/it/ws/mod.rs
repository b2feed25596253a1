//! WebSocket through a server and a client, and through bytes made by hand.
#![cfg(feature = "ws")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

mod ends;
mod handshake;
#[cfg(feature = "http2")]
mod http2;
mod in_memory;
mod messages;

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use crate::support::websocket::{HANDSHAKE, RawWebSocket, masked, read_frame};
use crate::support::{Log, eventually, within};
use caudal::http::{Caller, ClientOptions, Http, Options, Parts, StatusCode};
use caudal::{
    Backoff, CallError, Config, Context, Error, Extensions, Peer, Router, Server, connect, serve,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Is told when it is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

fn router(log: &Log) -> Router {
    let (noted, dropped) = (log.clone(), log.clone());
    Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("who", |cx: Context| {
            let caller = cx.peer().extensions().get::<Caller>();
            Ok(caller.map(|caller| caller.name().to_owned()))
        })
        .method("remote", |cx: Context| {
            Ok(cx.peer().remote().map(str::to_owned))
        })
        .method("down", |cx: Context, (n,): (u32,)| async move {
            match n {
                0 => Ok(0),
                n => Ok(cx.peer().call::<u32>("down", (n - 1,)).await? + 1),
            }
        })
        .method("hang", move || {
            let dropped = Dropped(dropped.clone());
            async move {
                dropped.0.add("hangs");
                std::future::pending::<()>().await;
                drop(dropped);
                Ok(())
            }
        })
        .method("much", |(bytes,): (usize,)| Ok("x".repeat(bytes)))
        .method("note", move |(text,): (String,)| noted.add(text))
}

async fn start(url: &str, config: Config, options: Options) -> (Server, Log) {
    let log = Log::default();
    let serving = serve(url, router(&log)).config(config).http(options);
    (within(serving).await.unwrap(), log)
}

async fn plain() -> (Server, Log) {
    let config = Config::default();
    start("ws://127.0.0.1:0/rpc", config, Options::default()).await
}

/// Its URL with this scheme.
fn url(server: &Server, scheme: &str) -> String {
    let endpoint = server.endpoint().to_string();
    let (_, rest) = endpoint.split_once("://").unwrap();
    format!("{scheme}://{rest}")
}

fn address(server: &Server) -> String {
    let endpoint = server.endpoint().to_string();
    let (_, rest) = endpoint.split_once("://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

async fn client(server: &Server) -> Peer {
    within(connect(&*url(server, "ws"))).await.unwrap()
}

/// A connection by hand.
async fn open(server: &Server) -> RawWebSocket {
    RawWebSocket::open(TcpStream::connect(address(server)).await.unwrap()).await
}

/// The same with this head; and the answer to it.
async fn ask(server: &Server, head: &str) -> (RawWebSocket, String) {
    let socket = TcpStream::connect(address(server)).await.unwrap();
    RawWebSocket::ask(socket, head).await
}

fn add(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "add", "params": [id, 1]})
}

/// Serves one connection as an application would.
fn serve_connection<S>(http: &Http, socket: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let http = http.clone();
    let service = hyper::service::service_fn(move |request| {
        let http = http.clone();
        async move { Ok::<_, std::convert::Infallible>(http.answer(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    tokio::spawn(connection);
}

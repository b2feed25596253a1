//! hyper's own connections: what HTTP and serde cost a client, and nothing else.
//!
//! Each task has a connection of its own, which is all that HTTP/1.1 can give 64
//! calls in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use super::{Amount, Called, Clock, Problem, WINDOW};

#[derive(Deserialize)]
struct Reply {
    id: u64,
    result: u64,
}

type Connection = SendRequest<Full<Bytes>>;

#[tokio::main(flavor = "current_thread")]
pub(super) async fn run(port: u16, amount: Amount) -> Result<Called, Problem> {
    let mut connections = Vec::new();
    for _ in 0..WINDOW {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        connections.push(sender);
    }
    if let Amount::Time(time) = amount {
        (_, connections) = call(connections, u64::MAX, time / 8).await?;
    }
    let clock = Clock::start(amount);
    let (calls, _connections) = match amount {
        Amount::Calls(calls) => call(connections, calls, Duration::from_secs(60)).await?,
        Amount::Time(time) => call(connections, u64::MAX, time).await?,
    };
    Ok(clock.stop(calls))
}

/// Calls for `time`, or `most` times; returns how many were answered.
async fn call(
    connections: Vec<Connection>,
    most: u64,
    time: Duration,
) -> Result<(u64, Vec<Connection>), Problem> {
    let late = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::spawn(one(connection, most / WINDOW, Arc::clone(&late))))
        .collect();
    let alarm = tokio::spawn(async move {
        tokio::time::sleep(time).await;
        late.store(true, Ordering::Relaxed);
    });
    let (mut all, mut connections) = (0, Vec::new());
    for task in tasks {
        let (calls, connection) = task.await?.map_err(|e| e.to_string())?;
        all += calls;
        connections.push(connection);
    }
    alarm.abort();
    Ok((all, connections))
}

async fn one(
    mut connection: Connection,
    most: u64,
    late: Arc<AtomicBool>,
) -> Result<(u64, Connection), Box<dyn std::error::Error + Send + Sync>> {
    let mut calls = 0;
    while calls < most && !late.load(Ordering::Relaxed) {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{calls},"method":"add","params":[{calls},7]}}"#);
        let request = Request::post("/")
            .header(HOST, "127.0.0.1")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(text)))?;
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        let reply: Reply = serde_json::from_slice(&body)?;
        assert_eq!(reply.result, reply.id + 7, "a wrong reply");
        calls += 1;
    }
    Ok((calls, connection))
}

//! Refuses a connection beyond the limit: it is answered with 503 and closed.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::drain_body::Lingering;
use super::speaks_http2;
use super::stalled::Streams;
use crate::http::later;

/// Time in which the client says which HTTP it speaks; then it is taken for HTTP/1.1.
const FIRST: Duration = Duration::from_secs(1);
/// Time in which it takes the reply of HTTP/2.
const LAST: Duration = Duration::from_secs(1);
/// Maximum requests of one such connection of HTTP/2 at one time.
const STREAMS: u32 = 16;
/// Bytes that HTTP/2 lets every client send unasked.
const WINDOW: u32 = 65_535;

/// Replies 503 to every request, and closes the connection. The caller limits the time that
/// this takes.
pub(super) async fn refuse(mut socket: TcpStream, reason: String) {
    let text = format!("{reason}; close one, or try again later\n");
    match speaks_http2(&socket, Instant::now() + FIRST).await {
        true => refuse_http2(socket, text).await,
        false => {
            // Nothing of the request has to be known for this.
            let reply = format!(
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Retry-After: 1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
            let _ = socket.write_all(reply.as_bytes()).await;
            let _ = socket.shutdown().await;
            // A socket that is closed while bytes are unread is reset, and the reply lost.
            let mut dropped = [0; 4096];
            while let Ok(1..) = socket.read(&mut dropped).await {}
        }
    }
}

async fn refuse_http2(socket: TcpStream, text: String) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        drop(Lingering::new(&head, body));
        let response = later(text.clone());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http2::Builder::new(Streams { limit: LAST });
    builder
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let mut served = pin!(builder.serve_connection(TokioIo::new(socket), service));
    // What is asked until the client knows of it is answered.
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

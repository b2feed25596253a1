//! Refuses a connection beyond the limit.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::stalled::Streams;
use crate::http::later;
use crate::http::server::drain_body::drain;

/// Maximum time in which the client reads the reply.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum concurrent requests of one such connection.
const STREAMS: u32 = 16;
/// Bytes that every client may send unasked.
const WINDOW: u32 = 65_535;

/// Replies 503 to every request, and closes the connection.
pub(crate) async fn refuse(socket: TcpStream, text: String) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (head, body) = request.into_parts();
        drain(&head.headers, body);
        let response = later(text.clone());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = http2::Builder::new(Streams { limit: TIMEOUT });
    builder
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    let mut served = pin!(builder.serve_connection(TokioIo::new(socket), service));
    // What is asked until the client knows of it is answered.
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

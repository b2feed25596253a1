//! HTTP/2, on the same port as HTTP/1.1.

mod refuse;
pub(super) mod stalled;

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(super) use self::refuse::refuse;
use self::stalled::Streams;
use super::LOOK;
use super::body::Body;
use super::connection::MAX_HEAD;
use crate::http::options::Options;

/// Maximum concurrent requests of one connection.
const STREAMS: u32 = 256;
/// Maximum resets that h2 sends because of a client, over the lifetime of a connection. One
/// more closes the connection, with all its requests.
///
/// A stream beyond [`STREAMS`] is reset for its head and once more for its body, and a
/// client that has not read our SETTINGS knows no limit. Until then flow control lets it
/// send 65,535 bytes of bodies: 2,184 of the shortest calls. Resets that the client does not
/// read stay in memory, so there is a limit.
const RESETS: usize = 4096;
/// Maximum bytes of a response that h2 buffers for one stream. They count for no limit.
const PIECE: usize = 16 << 10;
/// Longest duration that is passed to the timers of hyper and h2.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns true if the connection begins with the preface of HTTP/2 (prior knowledge). The
/// bytes stay in the socket.
pub(super) async fn is_spoken(socket: &TcpStream, by: Instant) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut seen = [0; PREFACE.len()];
    let look = async {
        loop {
            let Ok(count) = socket.peek(&mut seen).await else {
                return false;
            };
            let (begun, _) = seen.split_at(count);
            if count == 0 || !PREFACE.starts_with(begun) {
                return false;
            }
            if count == PREFACE.len() {
                return true;
            }
            // The rest is on its way.
            tokio::time::sleep(LOOK).await;
        }
    };
    // A client that is silent is closed by the timeouts of its connection.
    tokio::time::timeout_at(by, look).await.unwrap_or(false)
}

/// A connection of HTTP/2 over `io`.
pub(super) fn connection<I, S>(
    io: I,
    service: S,
    options: &Options,
) -> http2::Connection<I, S, Streams>
where
    I: Read + Write + Unpin,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    let ping = options.ping_interval.map(|interval| interval.min(LONGEST));
    let limit = options.idle_timeout.max(options.header_timeout);
    let mut builder = http2::Builder::new(Streams { limit });
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_local_error_reset_streams(RESETS)
        .max_send_buf_size(PIECE)
        .max_header_list_size(MAX_HEAD.into())
        .keep_alive_interval(ping)
        .keep_alive_timeout(options.ping_timeout.min(LONGEST));
    #[cfg(feature = "ws")]
    builder.enable_connect_protocol();
    builder.serve_connection(io, service)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};

    use super::super::idle_timeout::{IdleTimeout, RequestActivity};
    use super::*;
    use crate::call::lone::LoneOrigin;

    const LIMIT: Duration = Duration::from_secs(60);
    /// Bytes that the client reads at once.
    const READ: usize = 64 << 10;
    /// Maximum window of flow control.
    const WINDOW: u32 = i32::MAX as u32;

    /// In this time all streams together take more than the limit, and each of them takes
    /// something in a part of it.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_all_the_time_gets_all() {
        const STREAMS: usize = 50;
        const SIZE: usize = 390_000;
        let mut options = Options::default();
        (options.idle_timeout, options.header_timeout) = (LIMIT, LIMIT);
        let (near, client) = duplex(READ);
        let (far, server) = duplex(READ);
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (split(near), split(far));
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        tokio::spawn(async move {
            let mut bytes = vec![0; READ];
            while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
                to_client.write_all(&bytes[..count]).await.unwrap();
                tokio::time::sleep(LIMIT / 60).await;
            }
        });
        let origin = LoneOrigin::new(Arc::default(), None);
        let service = service_fn(move |_: Request<Incoming>| {
            let mut response = Response::new(Body::whole("x".repeat(SIZE)));
            response.body_mut().give_in_pieces(&origin);
            async { Ok(response) }
        });
        let activity = RequestActivity::new(LIMIT, LIMIT);
        activity.begin(http::Version::HTTP_2);
        let server = IdleTimeout::new(server, activity);
        tokio::spawn(connection(TokioIo::new(server), service, &options));

        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let opened = builder.handshake(TokioIo::new(client)).await;
        let (mut sender, connection) = opened.unwrap();
        tokio::spawn(connection);
        let began = Instant::now();
        let replies: Vec<_> = (0..STREAMS)
            .map(|_| {
                let request = Request::get("http://localhost/").body(String::new());
                let response = sender.send_request(request.unwrap());
                tokio::spawn(async { response.await?.into_body().collect().await })
            })
            .collect();
        for reply in replies {
            let reply = reply.await.unwrap().unwrap();
            assert_eq!(reply.to_bytes().len(), SIZE);
        }
        assert!(began.elapsed() > 3 * LIMIT, "it was slow");
    }
}

//! Refuses a connection beyond the limit: it is answered with 503 and closed.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::Socket;

/// Replies 503 to every request, and closes the connection. The caller limits the time that
/// this takes.
pub(super) async fn refuse(socket: Socket, reason: String) {
    let text = format!("{reason}; close one, or try again later\n");
    match socket {
        Socket::Tcp(socket) => {
            #[cfg(feature = "http2")]
            {
                // After this time the client is taken for one of HTTP/1.1.
                let by = tokio::time::Instant::now() + std::time::Duration::from_secs(1);
                if super::http2::is_spoken(&socket, by).await {
                    return super::http2::refuse(socket, text).await;
                }
            }
            refuse_http1(socket, text).await;
        }
        #[cfg(unix)]
        Socket::Unix(socket, _) => refuse_http1(socket, text).await,
        Socket::Other(stream) => refuse_http1(stream, text).await,
    }
}

async fn refuse_http1(mut socket: impl AsyncRead + AsyncWrite + Unpin, text: String) {
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

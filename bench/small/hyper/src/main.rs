//! Both versions of HTTP on one port, and room for a WebSocket: every request gets the
//! same bytes.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:4017").await?;
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(serve(socket));
    }
}

async fn serve(socket: TcpStream) {
    let mut seen = [0; 3];
    let is_http2 = matches!(socket.peek(&mut seen).await, Ok(3)) && &seen == b"PRI";
    let (io, timer) = (TokioIo::new(socket), TokioTimer::new());
    let served = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let builder = builder.timer(timer);
        builder.serve_connection(io, service_fn(answer)).await
    } else {
        let mut builder = http1::Builder::new();
        let builder = builder.timer(timer);
        let served = builder.serve_connection(io, service_fn(answer));
        served.with_upgrades().await
    };
    if let Err(error) = served {
        eprintln!("{error}");
    }
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let reply = br#"{"jsonrpc":"2.0","result":3,"id":1}"#;
    Ok(Response::new(Full::new(Bytes::from_static(reply))))
}

//! HTTP/1.1 on one port, and room for a WebSocket: every request gets the same bytes.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
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
    let mut builder = http1::Builder::new();
    let builder = builder.timer(TokioTimer::new());
    let served = builder.serve_connection(TokioIo::new(socket), service_fn(answer));
    if let Err(error) = served.with_upgrades().await {
        eprintln!("{error}");
    }
}

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let reply = br#"{"jsonrpc":"2.0","result":3,"id":1}"#;
    Ok(Response::new(Full::new(Bytes::from_static(reply))))
}

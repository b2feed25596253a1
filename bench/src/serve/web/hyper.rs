//! hyper alone: reads the body, answers with a fixed one.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::super::{Outcome, announce};

/// The right answer to one of all the calls.
const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":100000,"result":100007}"#;

pub(super) async fn serve() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(answer);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // Whether it came whole is not looked at.
    drop(request.into_body().collect().await);
    let mut response = Response::new(Full::new(Bytes::from_static(BODY)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

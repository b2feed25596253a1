//! JSON-RPC over HTTP: a router as a service.
//!
//! ```text
//! server    connections, limits, timeouts; a POST is a lone exchange
//!   └ access  who may call
//! client    calls by POST
//! ws        WebSocket, on the same path
//! session   many requests that make one connection: events, polling, webhooks
//! tls       certificates
//! ```

pub(crate) mod client;
mod options;
pub(crate) mod server;
#[cfg(feature = "session")]
pub(crate) mod session;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "ws")]
pub(crate) mod ws;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER};

pub use self::client::dial::ClientOptions;
#[cfg(any(feature = "ws", feature = "webhook", all(test, feature = "tls")))]
pub(crate) use self::client::dial::Socket;
pub use self::options::{Allowed, Authorize, Caller, Options, Secret};
pub use self::server::body::Body;
#[cfg(feature = "session")]
pub(crate) use self::server::body::Flow;
#[cfg(feature = "webhook")]
pub(crate) use self::server::body::ReadError;
#[cfg(feature = "session")]
pub(crate) use self::server::quota::{Quota, QuotaLimits, QuotaPermit, network};
pub use self::server::service::Http;
pub use self::server::status::{Reply, StatusPolicy};
pub(crate) use self::server::{SharedState, Site};
#[cfg(feature = "ws")]
pub(crate) use self::server::{UpgradeGuard, bare};
#[cfg(feature = "webhook")]
pub(crate) use self::{
    client::dial::dial_at, server::body::Shares, server::body::read,
    server::content_type::has_json, server::responses::not_json,
};
pub use http::request::Parts;
pub use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The type of what is answered.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response that carries JSON.
pub(crate) fn json(status: StatusCode, text: Bytes) -> Response<Body> {
    with_type(status, JSON, Body::whole(text))
}

/// A response that tells a person what is wrong.
pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    with_type(status, PLAIN, Body::whole(text))
}

/// Refuses what there is no room for now.
#[cfg(any(feature = "http2", feature = "session"))]
pub(crate) fn later(text: impl Into<Bytes>) -> Response<Body> {
    soon(plain(StatusCode::SERVICE_UNAVAILABLE, text))
}

/// Lets the client of a response come again soon.
fn soon(mut response: Response<Body>) -> Response<Body> {
    let soon = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, soon);
    response
}

pub(crate) fn with_type(status: StatusCode, kind: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

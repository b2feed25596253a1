//! JSON-RPC over HTTP: a router as a service.
//!
//! ```text
//! serve   connections, TLS, timeouts, limits
//!   └→ service   which verb does what
//!        ├→ guard     who may speak
//!        ├→ a POST alone: one exchange
//!        └→ WebSocket, sessions: a peer
//! ```

mod answer;
mod body;
pub(crate) mod client;
mod dial;
mod guard;
mod hush;
mod linger;
mod options;
mod seats;
mod secure;
mod serve;
mod served;
mod service;
mod serving;
mod stalled;
mod status;
mod timed;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response};

pub use body::Body;
#[cfg(any(feature = "sse", feature = "polling"))]
pub(crate) use body::Flow;
#[cfg(feature = "session")]
pub(crate) use body::ReadError;
pub use client::fault;
pub use client::refusal::StatusError;
pub use dial::ClientOptions;
#[cfg(any(feature = "ws", feature = "webhook", all(test, feature = "tls")))]
pub(crate) use dial::Socket;
pub(crate) use dial::dial;
pub use http::StatusCode;
pub use http::request::Parts;
pub use options::{Allowed, Authorize, Caller, Options, Secret};
#[cfg(feature = "session")]
pub(crate) use seats::{Most, Seat, Seats, network};
pub(crate) use serve::Listener;
#[cfg(feature = "ws")]
pub(crate) use serve::{Lasting, bare};
pub use service::Http;
pub use status::{Reply, StatusPolicy};
#[cfg(feature = "webhook")]
pub(crate) use {body::read, dial::dial_at, service::is_json};

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
#[cfg(feature = "session")]
pub(crate) fn later(text: &'static str) -> Response<Body> {
    soon(plain(StatusCode::SERVICE_UNAVAILABLE, text))
}

/// The same response, after which the client may soon come again.
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

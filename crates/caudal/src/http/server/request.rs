//! One request of a connection, from its head to the end of its response.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::header::UPGRADE;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;

use super::body::Body;
use super::connection::HttpConnection;
use super::drain_body::drain;
use super::quota::QuotaPermit;
use super::service::has_no_body;
use crate::http::plain;
use crate::router::handler::BoxFuture;

/// Answers a request. It is in progress until its response is sent.
pub(super) fn answer(
    mut request: Request<Incoming>,
    guard: RequestGuard,
) -> BoxFuture<Result<Response<Body>, Infallible>> {
    let connection = Arc::clone(&guard.connection);
    if let Some(upgrade) = UpgradeGuard::of(&request, &connection) {
        request.extensions_mut().insert(Arc::new(upgrade));
    }
    #[cfg(feature = "tls")]
    if let Some(certificate) = &connection.certificate {
        request.extensions_mut().insert(certificate.clone());
    }
    let (mut head, mut body) = request.into_parts();
    Box::pin(async move {
        let http = &connection.http;
        let mut response = match head.uri.path() == &*connection.path {
            true => http.respond(&mut head, Pin::new(&mut body)).await,
            false => plain(StatusCode::NOT_FOUND, "nothing is served at this path\n"),
        };
        drain(&head.headers, body);
        if has_no_body(&head) {
            *response.body_mut() = Body::empty();
        }
        #[cfg(feature = "http2")]
        if head.version == Version::HTTP_2 {
            response.body_mut().give_in_pieces(http.origin());
        }
        response.body_mut().last_with(guard);
        Ok(response)
    })
}

/// A request in progress: while it lasts, its connection is counted, and not idle.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    connection: Arc<HttpConnection>,
}

impl RequestGuard {
    pub(super) fn begin(connection: &Arc<HttpConnection>, version: Version) -> Self {
        connection.activity.begin(version);
        Self {
            connection: Arc::clone(connection),
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.connection.activity.end();
    }
}

/// A request that may be upgraded. It lasts as long as the upgraded connection, which
/// outlives its request.
#[derive(Debug)]
#[cfg_attr(not(feature = "ws"), allow(dead_code, reason = "of WebSockets"))]
pub(crate) struct UpgradeGuard {
    request: RequestGuard,
    /// True for one stream of a connection of HTTP/2, which counts as a further connection.
    is_stream: bool,
    permit: Option<QuotaPermit<IpAddr>>,
}

#[cfg_attr(not(feature = "ws"), allow(dead_code, reason = "of WebSockets"))]
impl UpgradeGuard {
    /// Returns `None` for a request that asks for no upgrade.
    fn of(request: &Request<Incoming>, connection: &Arc<HttpConnection>) -> Option<Self> {
        let is_stream = request.method() == Method::CONNECT;
        if *request.method() == Method::POST
            || !(is_stream || request.headers().contains_key(UPGRADE))
        {
            return None;
        }
        let permit = match is_stream {
            true => connection.permit.another(),
            false => None,
        };
        Some(Self {
            request: RequestGuard::begin(connection, request.version()),
            is_stream,
            permit,
        })
    }

    /// Returns true if there is room for what the request becomes.
    pub(crate) const fn has_room(&self) -> bool {
        !self.is_stream || self.permit.is_some()
    }

    /// Ends the timeouts of HTTP for a connection that was upgraded as a whole.
    pub(crate) fn upgrade(&self) {
        if !self.is_stream {
            self.request.connection.activity.upgrade();
        }
    }
}

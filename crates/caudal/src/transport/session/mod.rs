//! Sessions: many HTTP requests that make one connection.

#[cfg(any(feature = "sse", feature = "polling"))]
pub(crate) mod client;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use super::http::{Body, Http};
use crate::peer::Link;

/// All sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Sessions {}

impl Sessions {
    /// Takes a POST if it belongs to a session, or opens one; `None` if it stands
    /// alone.
    pub(crate) async fn post(
        &self,
        http: &Http,
        link: &Arc<Link>,
        head: &Parts,
        text: &Bytes,
    ) -> Option<Response<Body>> {
        let _ = (http, link, head, text);
        None
    }

    /// Takes GET, DELETE and PUT; `None` if they mean nothing here.
    pub(crate) async fn other<B: http_body::Body>(
        &self,
        http: &Http,
        link: &Arc<Link>,
        head: &Parts,
        body: B,
    ) -> Option<Response<Body>> {
        let _ = (http, link, head, body);
        None
    }
}

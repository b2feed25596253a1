//! Responses that do not depend on the message.

use bytes::Bytes;
use caudal_core::JsonRpcError;
use http::header::{ACCEPT_ENCODING, ALLOW};
use http::{HeaderValue, Response, StatusCode};

use super::body::Body;
use crate::http::plain;

/// True if a built-in feature uses GET.
const GET: bool = cfg!(any(feature = "ws", feature = "sse", feature = "polling"));

/// The verbs that mean something with what is built in.
pub(super) const METHODS: &str = match (GET, cfg!(feature = "session"), cfg!(feature = "webhook")) {
    (true, _, true) => "POST, GET, HEAD, DELETE, PUT, OPTIONS",
    (false, _, true) => "POST, HEAD, DELETE, PUT, OPTIONS",
    (true, true, false) => "POST, GET, HEAD, DELETE, OPTIONS",
    (false, true, false) => "POST, HEAD, DELETE, OPTIONS",
    (true, false, false) => "POST, GET, OPTIONS",
    (false, false, false) => "POST, OPTIONS",
};

pub(crate) fn not_json() -> Response<Body> {
    let text = "send JSON in UTF-8, with one `Content-Type: application/json`\n";
    plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
}

pub(super) fn encoded() -> Response<Body> {
    let text = "send the body as it is, without `Content-Encoding`\n";
    let mut response = plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
    let identity = HeaderValue::from_static("identity");
    response.headers_mut().insert(ACCEPT_ENCODING, identity);
    response
}

pub(super) fn not_allowed() -> Response<Body> {
    let text = "POST a JSON-RPC message here\n";
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    let allow = HeaderValue::from_static(METHODS);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Tells which verbs there are.
pub(super) fn verbs() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let allow = HeaderValue::from_static(METHODS);
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// An error that answers nothing in particular.
pub(super) fn refusal(error: &JsonRpcError) -> Bytes {
    let mut text = bytes::BytesMut::new();
    caudal_core::encode::error(&mut text, caudal_core::Id::NULL, error);
    text.freeze()
}

#[cfg(test)]
mod tests {
    use super::METHODS;

    #[test]
    fn only_verbs_that_mean_something_are_offered() {
        let session = cfg!(feature = "session");
        let get = cfg!(feature = "ws") || cfg!(feature = "sse") || cfg!(feature = "polling");
        for (verb, means_something) in [
            ("POST", true),
            ("GET", get),
            ("HEAD", session),
            ("DELETE", session),
            ("PUT", cfg!(feature = "webhook")),
            ("OPTIONS", true),
        ] {
            let offered = METHODS.split(", ").any(|offered| offered == verb);
            assert_eq!(offered, means_something, "{verb}");
        }
    }
}

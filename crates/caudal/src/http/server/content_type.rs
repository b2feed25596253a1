//! The content type of a request.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};

/// Returns true if there is one type, and it is that of JSON in UTF-8.
pub(crate) fn has_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    types.next().is_some_and(is_json) && types.next().is_none()
}

fn is_json(content_type: &HeaderValue) -> bool {
    const KNOWN: [&[u8]; 3] = [
        b"application/json",
        b"application/json-rpc",
        b"application/jsonrequest",
    ];
    // Most clients send this.
    if content_type == "application/json" {
        return true;
    }
    let mut quoted = false;
    let mut parts = content_type.as_bytes().split(|byte| {
        quoted ^= *byte == b'"';
        *byte == b';' && !quoted
    });
    let kind = parts.next().unwrap_or_default().trim_ascii();
    KNOWN.iter().any(|known| kind.eq_ignore_ascii_case(known)) && !parts.any(is_foreign_charset)
}

/// Returns true for a parameter that names another encoding than UTF-8.
fn is_foreign_charset(parameter: &[u8]) -> bool {
    let mut sides = parameter.splitn(2, |byte| *byte == b'=');
    let name = sides.next().unwrap_or_default().trim_ascii();
    let value = sides.next().unwrap_or_default().trim_ascii();
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|v| v.strip_suffix(b"\""));
    let charset = inner.unwrap_or(value);
    name.eq_ignore_ascii_case(b"charset") && !charset.eq_ignore_ascii_case(b"utf-8")
}

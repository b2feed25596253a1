//! Access checks: `Host`, `Origin`, bearer tokens, and the headers for browsers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_ENCODING,
    HOST, ORIGIN, VARY, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};
use subtle::ConstantTimeEq as _;

use super::body::Body;
use super::responses::METHODS;
use crate::http::options::{Allowed, Options};
use crate::http::plain;

/// The names under which a server on this machine is reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Checks where a request comes from and what it was sent to.
#[derive(Debug)]
pub(super) struct Guard {
    own: Own,
    /// The host that was accepted first. Most requests have the same.
    known: OnceLock<Box<[u8]>>,
}

/// The address of a server, as far as the server knows it.
#[derive(Debug)]
pub(crate) enum Own {
    /// Unknown: the service is mounted in another server.
    Nowhere,
    /// The host that is served, as `Host` writes it.
    At(String),
    /// All addresses of the machine. Any IP address may stand in `Host`: a foreign page reaches
    /// the server under a domain name of its own, not under an IP address.
    Everywhere,
}

/// Headers that every request is checked for. They are collected in one pass, because a
/// lookup for each of them costs more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RelevantHeaders<'h> {
    host: Option<&'h HeaderValue>,
    pub(super) origin: Option<&'h HeaderValue>,
    /// True if there are two `Host` or two `Origin` headers. It is unknown which of the two a
    /// proxy has checked.
    is_ambiguous: bool,
    /// True if the body has a `Content-Encoding` other than `identity`.
    pub(super) is_encoded: bool,
}

impl<'h> RelevantHeaders<'h> {
    pub(super) fn of(headers: &'h HeaderMap) -> Self {
        let mut relevant = Self::default();
        for (name, value) in headers {
            if name == HOST {
                relevant.is_ambiguous |= relevant.host.replace(value).is_some();
            } else if name == ORIGIN {
                relevant.is_ambiguous |= relevant.origin.replace(value).is_some();
            } else if name == CONTENT_ENCODING {
                relevant.is_encoded |= !value.as_bytes().eq_ignore_ascii_case(b"identity");
            }
        }
        relevant
    }
}

impl Guard {
    pub(super) const fn new(own: Own) -> Self {
        Self {
            own,
            known: OnceLock::new(),
        }
    }

    /// Refuses what was not meant for this server, or comes from a foreign page.
    ///
    /// # Errors
    /// The answer, which no page may read.
    pub(super) fn check(
        &self,
        request: &Parts,
        headers: RelevantHeaders<'_>,
        options: &Options,
    ) -> Result<(), Box<Response<Body>>> {
        let refuse = |status, text| Err(Box::new(plain(status, text)));
        let RelevantHeaders {
            host: host_header,
            origin,
            is_ambiguous,
            ..
        } = headers;
        if is_ambiguous {
            let text = "duplicate Host or Origin header\n";
            return refuse(StatusCode::BAD_REQUEST, text);
        }
        let Some(host) = host(request, host_header) else {
            return refuse(StatusCode::BAD_REQUEST, "there is no valid Host header\n");
        };
        if request.version >= Version::HTTP_2
            && host_header.is_some_and(|header| !header.as_bytes().eq_ignore_ascii_case(host))
        {
            let text = "`:authority` and Host name different hosts\n";
            return refuse(StatusCode::BAD_REQUEST, text);
        }
        if self.known.get().is_none_or(|known| **known != *host) {
            if !is_host(host) {
                return refuse(StatusCode::BAD_REQUEST, "there is no valid Host header\n");
            }
            if !self.knows_host(host, &options.hosts) {
                let text = "this Host is not served here; the server's `hosts` list may allow it\n";
                return refuse(StatusCode::FORBIDDEN, text);
            }
            let _ = self.known.set(host.into());
        }
        if let Some(origin) = origin
            && !allows_origin(origin, host, &options.origins, self.is_secure(options))
        {
            let text = "this Origin is not allowed; the server's `origins` list may allow it\n";
            return refuse(StatusCode::FORBIDDEN, text);
        }
        if origin.is_none() && request.method != Method::POST && is_foreign(request) {
            let text = "a page of another site may not do this\n";
            return refuse(StatusCode::FORBIDDEN, text);
        }
        Ok(())
    }

    /// Returns true if the server's own pages certainly use `https`. A mounted service does
    /// not know, and a proxy may add TLS in front of a server without it.
    fn is_secure(&self, options: &Options) -> bool {
        #[cfg(feature = "tls")]
        return !matches!(self.own, Own::Nowhere) && options.tls.is_some();
        #[cfg(not(feature = "tls"))]
        {
            let _ = options;
            false
        }
    }

    fn knows_host(&self, host: &[u8], allowed: &Allowed) -> bool {
        let (name, _) = split_port(host);
        let same = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
        let listed = |known: &String| same(known) || known.as_bytes().eq_ignore_ascii_case(host);
        match allowed {
            Allowed::Any => true,
            Allowed::Listed(list) => {
                let own = match &self.own {
                    Own::Nowhere => false,
                    Own::At(host) => same(host),
                    Own::Everywhere => is_address(name),
                };
                own || LOOPBACK.into_iter().any(same) || list.iter().any(listed)
            }
        }
    }
}

/// Returns true if a browser marks the request as one from another site. A browser sends
/// no `Origin` if the page cannot read the response.
fn is_foreign(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The host that a request was sent to, with its port.
fn host<'r>(request: &'r Parts, header: Option<&'r HeaderValue>) -> Option<&'r [u8]> {
    // HTTP/2 has it in its own place, and so may what comes by a proxy; it wins over the
    // header.
    match request.uri.authority() {
        Some(authority) => Some(authority.as_str().as_bytes()),
        None => header.map(HeaderValue::as_bytes),
    }
}

/// Checks that it can be a host at all, with or without a port.
fn is_host(host: &[u8]) -> bool {
    let (name, port) = split_port(host);
    let odd = |byte: &u8| !byte.is_ascii_graphic() || b"@/\\".contains(byte);
    // Colons are within the brackets of an address only.
    let is_name = !name.contains(&b':') || (name.starts_with(b"[") && name.ends_with(b"]"));
    !name.is_empty() && is_name && !name.iter().any(odd) && port.is_none_or(is_port)
}

/// Checks a port, which may be left out behind its colon.
fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    let number = || str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok());
    digits && (port.is_empty() || number())
}

/// Returns true if the host is an IP address and not a name.
fn is_address(host: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(host) else {
        return false;
    };
    let inner = text.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => text.parse::<Ipv4Addr>().is_ok(),
    }
}

/// The name of a host, and its port if there is a colon for one.
fn split_port(host: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = host.rsplitn(2, |byte| *byte == b':');
    match (parts.next(), parts.next()) {
        // Otherwise the colon is within an address.
        (Some(port), Some(name)) if !port.contains(&b']') => (name, Some(port)),
        _ => (host, None),
    }
}

/// Checks that the list names an origin.
fn lists_origin(origin: &HeaderValue, allowed: &Allowed) -> bool {
    let same = |one: &String| one.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
    match allowed {
        Allowed::Any => false,
        Allowed::Listed(list) => list.iter().any(same),
    }
}

fn allows_origin(origin: &HeaderValue, host: &[u8], allowed: &Allowed, secure: bool) -> bool {
    let Ok(text) = origin.to_str() else {
        return false;
    };
    let own = text.split_once("://").is_some_and(|(scheme, rest)| {
        // A page that came over `http` may have been replaced on its way.
        let own = scheme == "https" || (scheme == "http" && !secure);
        own && rest.as_bytes().eq_ignore_ascii_case(host)
    });
    own || *allowed == Allowed::Any || lists_origin(origin, allowed)
}

/// Returns true if the request has one of the tokens. Every token is compared in constant
/// time, so that the time does not reveal how many bytes were right.
fn has_token(headers: &HeaderMap, options: &Options) -> bool {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some((scheme, token)) = value.and_then(|value| value.split_at_checked(7)) else {
        return false;
    };
    let known = options.tokens.iter();
    let found = known.fold(subtle::Choice::from(0), |found, known| {
        found | known.0.as_bytes().ct_eq(token)
    });
    scheme.eq_ignore_ascii_case(b"bearer ") && found.into()
}

/// Answers preflight requests of browsers, and refuses callers without a token.
///
/// # Errors
/// The answer.
pub(super) fn check_caller(request: &Parts, options: &Options) -> Result<(), Box<Response<Body>>> {
    if request.method == Method::OPTIONS
        && request.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && request.headers.contains_key(ORIGIN)
    {
        return Err(Box::new(preflight(request, options)));
    }
    if !options.tokens.is_empty() && !has_token(&request.headers, options) {
        let text = "a bearer token is needed: `Authorization: Bearer …`\n";
        let mut response = plain(StatusCode::UNAUTHORIZED, text);
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return Err(Box::new(response));
    }
    Ok(())
}

/// Lets the page of an allowed origin send what it asks for: an application may have
/// headers of its own.
fn preflight(request: &Parts, options: &Options) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static(METHODS),
    );
    let asked = request.headers.get(ACCESS_CONTROL_REQUEST_HEADERS);
    if let Some(names) = asked.cloned().or_else(|| own_headers(options)) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    headers.insert(VARY, ACCESS_CONTROL_REQUEST_HEADERS.into());
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Request headers that this server itself uses.
fn own_headers(options: &Options) -> Option<HeaderValue> {
    let names = format!(
        "accept, authorization, content-type, last-event-id, mcp-protocol-version, prefer, {}",
        options.session_header
    );
    HeaderValue::from_str(&names).ok()
}

/// Lets the page of an allowed origin read the answer.
#[cold]
pub(super) fn share(origin: HeaderValue, options: &Options, response: &mut Response<Body>) {
    let headers = response.headers_mut();
    if options.credentials && lists_origin(&origin, &options.origins) {
        let allowed = HeaderValue::from_static("true");
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, allowed);
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        options.session_header.clone().into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_over_http_is_no_page_of_a_server_over_https() {
        let allows = |origin, secure| {
            let origin = HeaderValue::from_static(origin);
            allows_origin(&origin, b"api.example.com", &Allowed::default(), secure)
        };
        for secure in [false, true] {
            assert!(allows("https://api.example.com", secure));
            assert_eq!(allows("http://api.example.com", secure), !secure);
            assert!(!allows("https://example.com", secure));
            assert!(!allows("ftp://api.example.com", secure));
        }
    }
}

//! The server's side of the handshake.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::frames::Role;
use super::key;
use super::socket::WebSocket;
use crate::call::lone::LoneExchange;
use crate::connection::incomplete::Share;
use crate::extensions::Extensions;
use crate::http::options::at_least;
use crate::http::{Body, Http, UpgradeGuard, bare, plain};
use crate::server::group::GroupGuard;

/// Maximum time for the upgrade of the connection, after the request was accepted.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers a request for a WebSocket, and runs the WebSocket in a task of its own. Returns
/// `None` for other requests. `caller` has the extensions that the
/// application has set.
pub(crate) fn accept(
    http: &Http,
    caller: &LoneExchange,
    head: &mut Parts,
) -> Option<Response<Body>> {
    let handshake = match Handshake::of(head)? {
        Ok(handshake) => handshake,
        Err(refused) => return Some(*refused),
    };
    if http.hub().stop.is_cancelled() {
        let text = "the server is shutting down\n";
        return Some(plain(StatusCode::SERVICE_UNAVAILABLE, text));
    }
    let Some(upgrade) = head.extensions.remove::<OnUpgrade>() else {
        let text = "this connection cannot become a WebSocket\n";
        return Some(plain(StatusCode::NOT_IMPLEMENTED, text));
    };
    let options = http.options();
    let guest = Guest {
        counted: head.extensions.remove(),
        remote: http.remote().map(|remote| remote.to_string()),
        pings: (options.ping_interval.map(at_least), options.ping_timeout),
        found: match options.authorize.is_some() {
            true => caller.extensions().clone(),
            false => Extensions::default(),
        },
    };
    tokio::spawn(run(http.hub().hold(), upgrade, guest));
    Some(handshake.agree())
}

/// The client of a new WebSocket.
struct Guest {
    /// Counts the WebSocket, on a connection of this server.
    counted: Option<Arc<UpgradeGuard>>,
    remote: Option<String>,
    pings: (Option<Duration>, Duration),
    /// Extensions that the application has set.
    found: Extensions,
}

async fn run(hub: GroupGuard, upgrade: OnUpgrade, guest: Guest) {
    let upgraded = match tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await {
        Ok(Ok(upgraded)) => upgraded,
        Ok(Err(error)) => {
            tracing::debug!(target: "caudal", %error, "a WebSocket was lost at once");
            return;
        }
        Err(_) => return,
    };
    match bare(upgraded) {
        Ok((socket, read)) => welcome(&hub, socket, &read, guest).await,
        // TLS, a stream of HTTP/2, or a connection of another server that mounts the service.
        Err(upgraded) => welcome(&hub, TokioIo::new(upgraded), &[], guest).await,
    }
}

/// Begins a WebSocket over `io`, from which `read` was read already.
async fn welcome<S>(hub: &GroupGuard, io: S, read: &[u8], guest: Guest)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limit = hub.config.policy.max_message;
    let has_room = match &guest.counted {
        Some(counted) => {
            counted.upgrade();
            counted.has_room()
        }
        None => hub.has_room(),
    };
    let socket = WebSocket::new(io, Role::Server, limit)
        .with_input(read)
        .with_pings(guest.pings.0, guest.pings.1)
        .with_share(Share::of_connection(&hub.incomplete))
        .with_remote(guest.remote)
        .with_upgrade(guest.counted);
    if !has_room {
        tracing::warn!(target: "caudal", "a WebSocket was refused: too many");
        return socket.refuse().await;
    }
    hub.start_with(Box::new(socket), guest.found);
}

/// A valid request for a WebSocket.
enum Handshake {
    /// HTTP/1.1, with the value of `Sec-WebSocket-Accept`.
    Upgrade(HeaderValue),
    /// A stream of HTTP/2 (RFC 8441).
    #[cfg(feature = "http2")]
    Connect,
}

impl Handshake {
    /// Reads the handshake of a request. Returns `None` if it is not for a WebSocket.
    fn of(head: &Parts) -> Option<Result<Self, Box<Response<Body>>>> {
        #[cfg(feature = "http2")]
        if let Some(protocol) = head.extensions.get::<hyper::ext::Protocol>()
            && protocol.as_str() == "websocket"
        {
            let connect = head.method == Method::CONNECT;
            return connect.then(|| check_version(&head.headers).map(|()| Self::Connect));
        }
        let asked = has_token(&head.headers, &UPGRADE, "websocket");
        asked.then(|| Self::upgrade(head))
    }

    fn upgrade(head: &Parts) -> Result<Self, Box<Response<Body>>> {
        let headers = &head.headers;
        let fits = head.method == Method::GET && head.version == Version::HTTP_11;
        if !fits || !has_token(headers, &CONNECTION, "upgrade") {
            return Err(malformed(
                "a WebSocket begins with a GET and `Connection: Upgrade`\n",
            ));
        }
        check_version(headers)?;
        let key = only(headers, &SEC_WEBSOCKET_KEY).filter(|key| is_key(key));
        let proof = key.and_then(|key| HeaderValue::try_from(key::proof(key)).ok());
        let proof = proof.ok_or_else(|| malformed("there is no valid Sec-WebSocket-Key\n"))?;
        Ok(Self::Upgrade(proof))
    }

    /// Returns the response that begins the WebSocket.
    fn agree(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        match self {
            Self::Upgrade(proof) => {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let headers = response.headers_mut();
                headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
            }
            #[cfg(feature = "http2")]
            Self::Connect => {}
        }
        response
    }
}

fn check_version(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    if only(headers, &SEC_WEBSOCKET_VERSION) == Some(b"13") {
        return Ok(());
    }
    let text = "only version 13 of WebSocket is spoken here\n";
    let mut response = plain(StatusCode::UPGRADE_REQUIRED, text);
    let headers = response.headers_mut();
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    Err(Box::new(response))
}

fn malformed(text: &'static str) -> Box<Response<Body>> {
    Box::new(plain(StatusCode::BAD_REQUEST, text))
}

/// Returns the value of a header, unless the header is there twice.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?;
    all.next().is_none().then(|| value.as_bytes().trim_ascii())
}

/// Returns true if a header with a comma-separated list has this token.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let mut all = headers.get_all(name).iter();
    all.any(|value| {
        let mut words = value.as_bytes().split(|byte| *byte == b',');
        words.any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    })
}

/// Returns true if the key is the base64 of 16 bytes.
fn is_key(key: &[u8]) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match key.strip_suffix(b"==") {
        Some(body) => body.len() == 22 && body.iter().all(known),
        None => false,
    }
}

//! The client's side of the handshake.

use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Buf;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Parts;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use super::frames::Role;
use super::key;
use super::socket::WebSocket;
use crate::config::Config;
use crate::endpoint::Target;
use crate::http::client::dial::dial;
use crate::http::client::origin;
use crate::http::client::origin::{NotHttp, add, is_not_http};
use crate::http::client::status::{Advice, status_error};
use crate::http::{Body, ClientOptions, Socket};
use crate::transport::Transport;

/// Maximum bytes of the head of the response.
const HEAD: usize = 64 << 10;
/// Maximum characters of a refusal that an error shows.
const SHOWN: usize = 200;
/// Maximum time to receive the text of a refusal.
const REFUSAL: Duration = Duration::from_secs(2);

/// Opens a WebSocket as a client.
pub(crate) async fn connect(
    target: &Target<'_>,
    options: &ClientOptions,
    config: &Config,
) -> io::Result<Box<dyn Transport>> {
    let key = key::random()?;
    let request = request(target, options, &key)?;
    let socket = TokioIo::new(dial(target, options).await?);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD);
    let (mut sender, connection) = builder.handshake(socket).await.map_err(io::Error::other)?;
    let offered = request.headers().clone();
    let driven = tokio::spawn(connection.with_upgrades());
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => {
            drop(sender);
            return Err(unanswered(error, driven).await);
        }
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response).await);
    }
    check(response.headers(), &offered, &key)?;
    let upgraded = hyper::upgrade::on(response).await;
    let below = upgraded.map_err(io::Error::other)?.downcast();
    let below: Parts<TokioIo<Socket>> = below.expect("it was made of this socket");
    let socket = below.io.into_inner();
    let socket = WebSocket::new(socket, Role::Client, config.policy.max_message)
        .with_input(&below.read_buf)
        .with_remote(Some(target.authority.to_owned()));
    Ok(Box::new(socket))
}

fn request(target: &Target<'_>, options: &ClientOptions, key: &str) -> io::Result<Request<Body>> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(invalid);
    let mut headers = HeaderMap::new();
    headers.insert(HOST, value(target.authority)?);
    if let Some(token) = &options.token {
        let mut bearer = value(&format!("Bearer {}", token.0))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    add(&mut headers, &options.headers);
    // The application must not replace the headers of the handshake.
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    headers.remove(SEC_WEBSOCKET_ACCEPT);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, value(key)?);
    // The query may follow the host without a path.
    let path = match target.path.starts_with('/') {
        true => target.path.to_owned(),
        false => format!("/{}", target.path),
    };
    let mut request = Request::get(path).body(Body::empty()).map_err(invalid)?;
    *request.headers_mut() = headers;
    Ok(request)
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Checks that the response accepts the WebSocket, and selects no extension or protocol that
/// was not offered.
fn check(headers: &HeaderMap, offered: &HeaderMap, key: &str) -> io::Result<()> {
    let proof = key::proof(key.as_bytes());
    let is = |name, text: &str| {
        let value = headers.get(name).map(HeaderValue::as_bytes);
        value.is_some_and(|value| value.eq_ignore_ascii_case(text.as_bytes()))
    };
    let proven = headers
        .get(SEC_WEBSOCKET_ACCEPT)
        .is_some_and(|value| value == proof.as_str());
    let asked_for = !headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) && is_offered(headers, offered);
    if is(UPGRADE, "websocket") && proven && asked_for {
        return Ok(());
    }
    let text = "the server's answer does not begin a WebSocket";
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Returns true if the server has selected no protocol, or one that was offered.
fn is_offered(headers: &HeaderMap, offered: &HeaderMap) -> bool {
    let mut chosen = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let (Some(protocol), None) = (chosen.next(), chosen.next()) else {
        return !headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
    };
    let lists = offered.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let mut names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    names.any(|name| name.trim_ascii() == protocol.as_bytes())
}

/// Returns the reason why no response came. The connection may know a better one.
async fn unanswered(error: hyper::Error, driven: JoinHandle<hyper::Result<()>>) -> io::Error {
    let end = tokio::time::timeout(REFUSAL, driven).await;
    let strange = matches!(end, Ok(Ok(Err(end))) if is_not_http(&end));
    match strange || is_not_http(&error) {
        true => NotHttp.into(),
        false => origin::unanswered(error),
    }
}

/// Converts a refusal of the server into an error.
async fn refused(response: Response<Incoming>) -> io::Error {
    let status = response.status();
    let advice = Advice::of(status, response.headers());
    let mut text = Vec::new();
    // The part that was received in time is shown.
    let _ = tokio::time::timeout(REFUSAL, read(response.into_body(), &mut text)).await;
    status_error(status, &text, advice).into()
}

/// Reads as much of the body as an error shows.
async fn read(body: Incoming, text: &mut Vec<u8>) {
    let mut body = pin!(body);
    // A character has four bytes at most.
    while text.len() < SHOWN * 4 {
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let Some(Ok(frame)) = next.await else {
            return;
        };
        if let Ok(data) = frame.into_data() {
            let (shown, _) = data.split_at(data.remaining().min(SHOWN * 4));
            text.extend_from_slice(shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
    const TARGET: Target<'_> = Target {
        secure: false,
        host: "a",
        port: 80,
        authority: "a",
        path: "/",
    };

    fn answer(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let proof = key::proof(KEY.as_bytes());
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, proof.parse().unwrap());
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_protocol_must_have_been_offered() {
        let mut offered = HeaderMap::new();
        assert!(check(&answer(&[]), &offered, KEY).is_ok());
        assert!(check(&answer(&["graphql"]), &offered, KEY).is_err());
        let list = HeaderValue::from_static("rpc, graphql");
        offered.insert(SEC_WEBSOCKET_PROTOCOL, list);
        assert!(check(&answer(&[]), &offered, KEY).is_ok());
        assert!(check(&answer(&["graphql"]), &offered, KEY).is_ok());
        for bad in [&["other"][..], &["rpc, graphql"], &["rpc", "graphql"]] {
            assert!(check(&answer(bad), &offered, KEY).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn headers_of_the_application_count_except_those_of_the_handshake() {
        let mut options = ClientOptions {
            token: Some("s3cret".into()),
            ..ClientOptions::default()
        };
        let made = request(&TARGET, &options, KEY).unwrap();
        assert_eq!(made.headers()[AUTHORIZATION], "Bearer s3cret");
        assert_eq!(made.headers()[HOST], "a");
        for (name, value) in [
            (AUTHORIZATION, "Basic eA=="),
            (HOST, "b"),
            (SEC_WEBSOCKET_PROTOCOL, "rpc"),
            (SEC_WEBSOCKET_KEY, "x"),
            (SEC_WEBSOCKET_VERSION, "8"),
            (SEC_WEBSOCKET_EXTENSIONS, "permessage-deflate"),
            (SEC_WEBSOCKET_ACCEPT, "x"),
        ] {
            options.headers.insert(name, value.parse().unwrap());
        }
        let made = request(&TARGET, &options, KEY).unwrap();
        let headers = made.headers();
        assert_eq!(headers[AUTHORIZATION], "Basic eA==");
        assert_eq!(headers[HOST], "b");
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], "rpc");
        assert_eq!(headers[SEC_WEBSOCKET_KEY], KEY);
        assert_eq!(headers[SEC_WEBSOCKET_VERSION], "13");
        assert!(!headers.contains_key(SEC_WEBSOCKET_EXTENSIONS));
        assert!(!headers.contains_key(SEC_WEBSOCKET_ACCEPT));
    }
}

//! A server: its address, and the headers of every request to it.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::dial::dial;
use crate::endpoint::Target;
use crate::http::{Body, ClientOptions};

/// Sends requests over one connection, one after the other.
pub(crate) type Sender = http1::SendRequest<Body>;

/// A server: its address, and the headers of every request to it.
pub(crate) struct Origin {
    secure: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
    uri: Uri,
    options: ClientOptions,
    /// Headers of requests without a body.
    #[cfg(feature = "session")]
    all: HeaderMap,
    /// Headers of a POST.
    post: HeaderMap,
    /// True if the last connection ended by something that is not HTTP.
    not_http: AtomicBool,
}

impl Origin {
    pub(crate) fn new(target: &Target<'_>, options: &ClientOptions) -> io::Result<Self> {
        let invalid = |error: http::Error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let path = match target.path.starts_with('/') {
            true => target.path.to_owned(),
            false => format!("/{}", target.path),
        };
        let host =
            HeaderValue::from_str(target.authority).map_err(|error| invalid(error.into()))?;
        let mut all = HeaderMap::new();
        all.insert(HOST, host);
        if let Some(token) = &options.token {
            let token = HeaderValue::from_str(&format!("Bearer {}", token.0));
            let mut token = token.map_err(|error| invalid(error.into()))?;
            token.set_sensitive(true);
            all.insert(AUTHORIZATION, token);
        }
        let mut post = all.clone();
        post.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accepted = HeaderValue::from_static("application/json, text/event-stream");
        post.insert(ACCEPT, accepted);
        add(&mut all, &options.headers);
        add(&mut post, &options.headers);
        Ok(Self {
            secure: target.secure,
            host: target.host.to_owned(),
            port: target.port,
            authority: target.authority.to_owned(),
            uri: path
                .parse()
                .map_err(|error: http::uri::InvalidUri| invalid(error.into()))?,
            path,
            options: options.clone(),
            #[cfg(feature = "session")]
            all,
            post,
            not_http: AtomicBool::new(false),
        })
    }

    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// Makes a connection, which a task of its own drives.
    pub(crate) async fn dial(self: Arc<Self>) -> io::Result<Sender> {
        let target = Target {
            secure: self.secure,
            host: &self.host,
            port: self.port,
            authority: &self.authority,
            path: &self.path,
        };
        let socket = dial(&target, &self.options).await?;
        let made = http1::handshake(TokioIo::new(socket)).await;
        let (sender, connection) = made.map_err(io::Error::other)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                self.not_http.store(is_not_http(&error), Relaxed);
                tracing::debug!(target: "caudal", %error, "a connection ended");
            }
        });
        Ok(sender)
    }

    /// The server has answered, and so it speaks HTTP.
    pub(crate) fn answered(&self) {
        self.not_http.store(false, Relaxed);
    }

    /// Explains why a request has no response: [`NotHttp`], or the failure of hyper.
    pub(crate) fn explain(&self, error: hyper::Error) -> io::Error {
        // A server that speaks before it is asked ends the connection, and not the request.
        let said_before = error.is_canceled() && self.not_http.load(Relaxed);
        match said_before || is_not_http(&error) {
            true => NotHttp.into(),
            false => unanswered(error),
        }
    }

    /// A POST of one message.
    pub(crate) fn post(&self, text: Bytes) -> Request<Body> {
        let mut request = Request::new(Body::whole(text));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.post.clone();
        request
    }

    /// A request without a body, with more in its query if there is more.
    #[cfg(feature = "session")]
    pub(crate) fn request(&self, method: Method, query: Option<&str>) -> Request<Body> {
        let uri = query.and_then(|query| {
            let mark = if self.path.contains('?') { '&' } else { '?' };
            format!("{}{mark}{query}", self.path).parse().ok()
        });
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri.unwrap_or_else(|| self.uri.clone());
        *request.headers_mut() = self.all.clone();
        request
    }
}

/// The other side is no HTTP server.
#[derive(Debug, thiserror::Error)]
#[error("what the server says is not HTTP")]
pub(crate) struct NotHttp;

impl From<NotHttp> for io::Error {
    fn from(error: NotHttp) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

/// The server went away. hyper has no words for it that a person understands.
#[derive(Debug, thiserror::Error)]
#[error("the server closed the connection before it answered")]
struct WentAway;

/// Explains why a server that speaks HTTP has not answered a request.
pub(crate) fn unanswered(error: hyper::Error) -> io::Error {
    match error.is_incomplete_message() {
        true => io::Error::new(io::ErrorKind::ConnectionReset, WentAway),
        false => io::Error::other(error),
    }
}

/// Returns true if a connection failed because the input is not HTTP.
pub(crate) fn is_not_http(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_strange = |error: &hyper::Error| error.is_parse() || is_unasked(error);
        if error.downcast_ref().is_some_and(is_strange) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns true if the server spoke before it was asked: hyper has a name for all other
/// errors without a cause.
fn is_unasked(error: &hyper::Error) -> bool {
    let named = error.is_canceled()
        || error.is_closed()
        || error.is_incomplete_message()
        || error.is_user()
        || error.is_timeout()
        || error.is_shutdown()
        || error.is_body_write_aborted();
    error.source().is_none() && !named
}

/// Adds headers of the application, which replace ours of the same name.
pub(crate) fn add(headers: &mut HeaderMap, more: &HeaderMap) {
    for name in more.keys() {
        headers.remove(name);
        for value in more.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

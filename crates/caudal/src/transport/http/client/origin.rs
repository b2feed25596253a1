//! A server: how it is reached, and what every request to it says.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::super::{Body, ClientOptions, dial};
use crate::endpoint::Target;

/// Sends requests over one connection, one after the other.
pub(crate) type Sender = http1::SendRequest<Body>;

/// A server: how it is reached, and what every request to it says.
pub(crate) struct Origin {
    secure: bool,
    host: String,
    port: u16,
    authority: String,
    path: String,
    uri: Uri,
    options: ClientOptions,
    /// What every request has.
    #[cfg(feature = "session")]
    all: HeaderMap,
    /// What a POST has.
    post: HeaderMap,
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
                tracing::debug!(target: "caudal", %error, "a connection ended");
            }
        });
        Ok(sender)
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

/// Adds what the application wants said, in the place of what we say.
fn add(headers: &mut HeaderMap, more: &HeaderMap) {
    for name in more.keys() {
        headers.remove(name);
        for value in more.get_all(name) {
            headers.append(name, value.clone());
        }
    }
}

//! What a client mounts into its own web server, for the messages of its servers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::mailbox::{Letter, Mailbox, Refusal, lock};
use super::register::random_name;
use super::sign::Key;
use super::target::{HookUrl, UrlError};
use crate::config::Config;
use crate::http::{Body, plain};
use crate::router::handler::BoxFuture;

/// Says in the query for which connection a delivery is.
const QUERY: &str = "hook";

/// Where servers deliver their messages to: a service to be mounted into the
/// application's own web server.
///
/// It is a [`Service`](crate::layer::Service), as [`Http`](crate::http::Http) is, and
/// serves any number of connections. A connection that uses it gets everything its
/// server says in order and exactly once, and nothing that anybody else says.
///
/// ```
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use caudal::webhook::Receiver;
///
/// // As it is seen from the server.
/// let receiver = Receiver::new("https://app.example.com/hook")?;
/// // axum::Router::new().route_service("/hook", receiver.clone())
/// let connect = caudal::connect("https://rpc.example.com/rpc").webhook(&receiver);
/// # let _ = connect; Ok(()) }
/// # example().unwrap();
/// ```
///
/// | status | when |
/// |---|---|
/// | 204 | accepted, now or before |
/// | 400 | the id is not one of caudal's; the body broke off |
/// | 401 | the signature is wrong, or the time more than 5 minutes off |
/// | 404 | no connection waits for it |
/// | 405 | it is no POST |
/// | 408 | the body took longer than [`Config::message_timeout`] |
/// | 409 | a message before it is missing |
/// | 415 | it does not say that it is JSON |
/// | 503 | more than [`Limits::queue`](crate::Limits::queue) bytes wait to be handled |
///
/// When the last clone of it is gone, its connections end.
#[derive(Clone)]
pub struct Receiver {
    shared: Arc<Shared>,
}

struct Shared {
    url: HookUrl,
    boxes: Mutex<HashMap<String, Arc<Mailbox>>>,
}

impl Receiver {
    /// A receiver that servers reach at this URL.
    ///
    /// # Errors
    /// The URL is not one that a server would call.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        let url = HookUrl::parse(url)?;
        let boxes = Mutex::default();
        let shared = Arc::new(Shared { url, boxes });
        Ok(Self { shared })
    }

    /// The URL at which servers reach it.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.url.as_str()
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
    {
        self.answer_at(request, crate::http::session::webhook::now())
            .await
    }

    pub(super) async fn answer_at<B>(&self, request: Request<B>, now: u64) -> Response<Body>
    where
        B: http_body::Body + Send + 'static,
    {
        let (head, body) = request.into_parts();
        if head.method != Method::POST {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "webhooks are POSTs\n");
            let allow = HeaderValue::from_static("POST");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        let Some(mailbox) = self.find(&head) else {
            return Refusal::Unknown.into();
        };
        match mailbox.take(&head.headers, body, now).await {
            Ok(()) => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }
            Err(refusal) => {
                tracing::debug!(target: "caudal", ?refusal, "a webhook was refused");
                refusal.into()
            }
        }
    }

    fn find(&self, head: &Parts) -> Option<Arc<Mailbox>> {
        let pairs = head.uri.query()?.split('&');
        let mut named = pairs.filter_map(|pair| pair.split_once('='));
        // The last one is ours: the application's URL may have its own before it.
        let (_, name) = named.rfind(|(key, _)| *key == QUERY)?;
        lock(&self.shared.boxes).get(name).cloned()
    }

    /// Prepares for the messages of one session.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn open(&self, config: &Config) -> io::Result<Hook> {
        let name = random_name().map_err(io::Error::other)?;
        let mailbox = Arc::new(Mailbox::new(config));
        let url = self.url();
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}{QUERY}={name}");
        lock(&self.shared.boxes).insert(name.clone(), Arc::clone(&mailbox));
        Ok(Hook {
            receiver: Arc::downgrade(&self.shared),
            name,
            url,
            mailbox,
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for mailbox in lock(&self.boxes).values() {
            mailbox.end();
        }
    }
}

impl<B> tower_service::Service<Request<B>> for Receiver
where
    B: http_body::Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let receiver = self.clone();
        Box::pin(async move { Ok(receiver.answer(request).await) })
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("url", &self.shared.url)
            .field("connections", &lock(&self.shared.boxes).len())
            .finish()
    }
}

/// The server's messages of one session, as they come in.
pub(crate) struct Hook {
    receiver: Weak<Shared>,
    name: String,
    url: String,
    mailbox: Arc<Mailbox>,
}

impl Hook {
    /// The body of the `PUT`.
    pub(crate) fn ask(&self) -> Bytes {
        serde_json::json!({ "url": self.url }).to_string().into()
    }

    /// Reads the answer to the `PUT`. What comes before that waits. Returns how soon
    /// the server wants to hear of the client; zero if it does not care.
    ///
    /// # Errors
    /// It is not the answer to a `PUT`.
    pub(crate) fn begin(&self, answer: &[u8]) -> io::Result<Duration> {
        #[derive(serde::Deserialize)]
        struct Answer {
            secret: String,
            #[serde(default)]
            cursor: u64,
            #[serde(default)]
            timeout: f64,
        }
        let Answer {
            secret,
            cursor,
            timeout,
        } = serde_json::from_slice(answer)?;
        let key = Key::parse(&secret);
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "the secret cannot be read");
        self.mailbox.begin(key.ok_or_else(bad)?, cursor);
        Ok(Duration::try_from_secs_f64(timeout).unwrap_or_default())
    }

    /// The next message; `None` when the receiver is gone.
    pub(super) fn poll_letter(&mut self, cx: &mut Context<'_>) -> Poll<Option<Letter>> {
        self.mailbox.poll_letter(cx)
    }

    /// The same as text.
    #[cfg(test)]
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let letter = self.poll_letter(cx);
        letter.map(|letter| letter.map(|letter| letter.text))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.mailbox.end();
        if let Some(shared) = self.receiver.upgrade() {
            lock(&shared.boxes).remove(&self.name);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").finish_non_exhaustive()
    }
}

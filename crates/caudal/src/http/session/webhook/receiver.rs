//! Service that a client mounts into its own web server, for the messages of its servers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::sync::mpsc;

use super::mailbox::{DeliveredMessage, Mailbox, Secret, UNKNOWN_SESSION};
use super::sign::Key;
use super::target::{HookUrl, UrlError};
use crate::config::Config;
use crate::http::session::{no_content, random_name};
use crate::http::{Body, plain};
use crate::router::handler::BoxFuture;
use crate::sync::lock;

/// Name in the query that identifies the connection of a delivery.
const QUERY: &str = "hook";

/// Service to which servers deliver their messages, mounted into the application's own web
/// server.
///
/// It is a [`Service`](crate::middleware::Service), as [`Http`](crate::http::Http) is, and
/// serves any number of connections. A connection that uses it gets the messages of
/// its server in order and exactly once, and no messages of others.
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
/// | 503 | more than [`Config::queue`](crate::Config::queue) bytes wait to be handled |
///
/// When the last clone of it is gone, its connections end.
#[derive(Clone)]
pub struct Receiver {
    shared: Arc<ReceiverState>,
}

struct ReceiverState {
    url: HookUrl,
    mailboxes: Mutex<HashMap<String, Arc<Mailbox>>>,
}

impl ReceiverState {
    fn mailboxes(&self) -> MutexGuard<'_, HashMap<String, Arc<Mailbox>>> {
        lock(&self.mailboxes)
    }
}

impl Receiver {
    /// Makes a receiver that servers reach at this URL.
    ///
    /// # Errors
    /// The URL is not one that a server would call.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        let url = HookUrl::parse(url)?;
        let mailboxes = Mutex::default();
        let shared = Arc::new(ReceiverState { url, mailboxes });
        Ok(Self { shared })
    }

    /// Returns the URL at which servers reach it.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.url.as_str()
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
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
        let taken = match self.find(&head) {
            Some(mailbox) => mailbox.take(&head.headers, body, super::now()).await,
            None => Err(UNKNOWN_SESSION),
        };
        match taken {
            Ok(()) => no_content(),
            Err((status, text)) => {
                tracing::debug!(target: "caudal", text, "a webhook was refused");
                plain(status, text)
            }
        }
    }

    fn find(&self, head: &Parts) -> Option<Arc<Mailbox>> {
        let pairs = head.uri.query()?.split('&');
        let mut named = pairs.filter_map(|pair| pair.split_once('='));
        // The last one is ours: the application's URL may have its own before it.
        let (_, name) = named.rfind(|(key, _)| *key == QUERY)?;
        self.shared.mailboxes().get(name).cloned()
    }

    /// Prepares for the messages of one session.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn subscribe(&self, config: &Config) -> io::Result<Subscription> {
        let name = random_name().map_err(io::Error::other)?;
        let secret = Secret::default();
        let (mailbox, messages) = Mailbox::new(config, &secret);
        let url = self.url();
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}{QUERY}={name}");
        let mut mailboxes = self.shared.mailboxes();
        mailboxes.insert(name.clone(), Arc::new(mailbox));
        Ok(Subscription {
            receiver: Arc::downgrade(&self.shared),
            name,
            url,
            secret,
            messages,
        })
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
            .field("connections", &self.shared.mailboxes().len())
            .finish()
    }
}

/// Messages of the server of one session, as they are delivered.
pub(crate) struct Subscription {
    receiver: Weak<ReceiverState>,
    name: String,
    url: String,
    secret: Secret,
    messages: mpsc::UnboundedReceiver<DeliveredMessage>,
}

impl Subscription {
    /// Returns the body of the `PUT`.
    pub(crate) fn request(&self) -> Bytes {
        serde_json::json!({ "url": self.url }).to_string().into()
    }

    /// Reads the response to the `PUT`, for which deliveries wait. Returns the time after
    /// which the session expires, if it does.
    ///
    /// # Errors
    /// It is not the response to a `PUT`.
    pub(crate) fn begin(&self, response: &[u8]) -> io::Result<Option<Duration>> {
        #[derive(serde::Deserialize)]
        struct RegistrationResponse {
            secret: String,
            #[serde(default)]
            cursor: u64,
            #[serde(default)]
            timeout: f64,
        }
        let response: RegistrationResponse = serde_json::from_slice(response)?;
        let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "the secret cannot be read");
        let key = Key::parse(&response.secret).ok_or_else(unreadable)?;
        // There is one response.
        let _ = self.secret.set((key, response.cursor));
        let timeout = Duration::try_from_secs_f64(response.timeout).ok();
        Ok(timeout.filter(|timeout| !timeout.is_zero()))
    }

    /// Waits for the next message; `None` when the receiver is gone.
    pub(super) async fn next(&mut self) -> Option<DeliveredMessage> {
        self.messages.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(shared) = self.receiver.upgrade() {
            shared.mailboxes().remove(&self.name);
        }
    }
}

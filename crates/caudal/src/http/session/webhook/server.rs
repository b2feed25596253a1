//! PUT: the client names the URL to which the server's messages go.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::deliver::{GivenUp, WebhookClient};
use super::register::{Registration, register};
use crate::call::Caller;
use crate::call::lone::LoneExchange;
use crate::connection::deadline::after;
use crate::http::session::reader::Reader;
use crate::http::session::session::Session;
use crate::http::session::transport::VISIT_TIME;
use crate::http::session::{Sessions, not_found, request, with_session_id};
use crate::http::{Body, Http, ReadError, has_json, json, not_json, plain};
use crate::peer::Peer;
use crate::server::group::ConnectionGroup;

/// Maximum body of a `PUT`, in bytes.
const MAX_BODY: usize = 4 << 10;
/// Time for the last delivery of a session that has ended.
const LAST_DELIVERY: Duration = Duration::from_secs(2);

impl Sessions {
    /// Answers a PUT, and delivers the server's messages from now on.
    pub(in crate::http::session) async fn put<B: http_body::Body>(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        body: B,
    ) -> Response<Body> {
        if !has_json(&head.headers) {
            return not_json();
        }
        let body = match http.read(head, body, MAX_BODY).await {
            Ok(body) => body,
            Err(error) => return unreadable(http, &error),
        };
        let options = http.options();
        // A caller that may not use the session learns nothing about the URL either.
        let session = match request::session_id(head, options).is_some() {
            true => match self.find(http, caller, head) {
                Some(session) => Some(session),
                None => return not_found(),
            },
            false => None,
        };
        let registration = match register(&body, options, &self.lookup).await {
            Ok(registration) => registration,
            Err((status, text)) => return plain(status, text),
        };
        let session = match session.map_or_else(|| self.table.open(http, caller, head), Ok) {
            Ok(session) => session,
            Err(refused) => return *refused,
        };
        let (mut reader, cursor) = session.outbox().attach_unacknowledged();
        let response = json(StatusCode::CREATED, registration.answer(cursor, options));
        let response = with_session_id(response, &session.id, options);
        let table = Arc::clone(&self.table);
        // Not a handle: the session of a client that is only called is to expire.
        let session = Arc::clone(session.session());
        // The end of the server waits for the last delivery.
        let held = http.hub().hold();
        tokio::spawn(async move {
            let replaced = reader.replaced();
            let delivered = tokio::select! {
                biased;
                () = replaced => return,
                delivered = deliver(&held, &session, &mut reader, &registration) => delivered,
            };
            if delivered.is_err() && !reader.is_replaced() && table.remove(&session.id) {
                tracing::debug!(target: "caudal", "a session ends with its webhook");
                session.end();
            }
        });
        response
    }
}

fn unreadable(http: &Http, error: &ReadError) -> Response<Body> {
    let (status, text) = match error {
        ReadError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n"),
        ReadError::Slow => (StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
        ReadError::Broken => (StatusCode::BAD_REQUEST, "the body could not be read\n"),
        ReadError::NoRoom => return http.overloaded(),
    };
    plain(status, text)
}

/// Delivers the messages of a session, and an empty one at its end.
async fn deliver(
    hub: &ConnectionGroup,
    session: &Session,
    reader: &mut Reader,
    to: &Registration,
) -> Result<(), GivenUp> {
    let outbox = session.outbox();
    let mut delivery = pin!(async {
        let mut client = WebhookClient::new(to);
        while let Some(message) = client.idle(reader.part(u64::MAX, usize::MAX)).await {
            client.deliver(message.number, &message.text).await?;
            outbox.acknowledge(message.number);
            session.touch();
        }
        match reader.is_last() {
            true => client.deliver(outbox.last() + 1, &Bytes::new()).await,
            false => Ok(()),
        }
    });
    let peer = Peer::of(Caller::Connection(Arc::clone(&session.connection)));
    tokio::select! {
        delivered = &mut delivery => delivered,
        // The session has waited for all deliveries but the last.
        _ = peer.closed() => timeout_at(last_by(hub), delivery).await.unwrap_or(Ok(())),
    }
}

/// Time by which the last delivery is given up.
fn last_by(hub: &ConnectionGroup) -> Instant {
    let by = after(Instant::now(), LAST_DELIVERY);
    match hub.stop.is_cancelled() {
        true => by.min(after(hub.deadline(), VISIT_TIME)),
        false => by,
    }
}

//! The server's messages: a PUT that says where they go.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use tokio::time::Instant;

use super::channel::COME;
use super::table::Session;
use super::webhook;
use super::webhook::{Ended, Outbox, Pace};
use super::{Reader, Sessions, head, named, not_found};
use crate::call::Caller;
use crate::call::lone::LoneExchange;
use crate::connection::deadline::after;
use crate::http::{Body, Http, ReadError, has_json, json, not_json, plain};
use crate::peer::Peer;
use crate::server::group::ConnectionGroup;

/// So many bytes of a body are read: more than may be in one.
const BODY: usize = 8 << 10;
/// So long a receiver has to take the last delivery of a session that has ended.
const LAST: Duration = Duration::from_secs(2);

impl Sessions {
    /// Takes a PUT: from now on the server's messages go to a URL.
    pub(super) async fn put<B: http_body::Body>(
        &self,
        http: &Http,
        caller: &LoneExchange,
        head: &Parts,
        body: B,
    ) -> Response<Body> {
        if !has_json(&head.headers) {
            return not_json();
        }
        let body = match http.read(head, body, BODY).await {
            Ok(body) => body,
            Err(ReadError::TooLarge) => {
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
            }
            Err(ReadError::Slow) => {
                return plain(StatusCode::REQUEST_TIMEOUT, "the body took too long\n");
            }
            Err(ReadError::NoRoom) => return http.overloaded(),
            Err(ReadError::Broken) => {
                return plain(StatusCode::BAD_REQUEST, "the body could not be read\n");
            }
        };
        let options = http.options();
        // Who may not use a session is told nothing about the URL either.
        let visit = match head::session(head, options).is_some() {
            true => match self.find(http, caller, head) {
                Some(visit) => Some(visit),
                None => return not_found(),
            },
            false => None,
        };
        let registration = match webhook::register(&body, options, &self.lookup).await {
            Ok(registration) => registration,
            Err(error) => return plain(error.status(), format!("{error}\n")),
        };
        let visit = match visit.map_or_else(|| self.open(http, caller, head), Ok) {
            Ok(visit) => visit,
            Err(refused) => return *refused,
        };
        let (reader, cursor) = visit.outbox().attach_owed();
        let answer = json(StatusCode::CREATED, registration.answer(cursor, options));
        let answer = named(answer, &visit.id, options);
        let table = Arc::clone(&self.table);
        // Not a visit: who is only called may be gone, and is to expire.
        let session = Arc::clone(visit.session());
        // The end of the server waits for the last delivery.
        let held = http.hub().hold();
        tokio::spawn(async move {
            let turn = reader.turn();
            let ended = tokio::select! {
                biased;
                () = poll_fn(|cx| turn.poll_over(cx)) => return,
                ended = deliver(&held, &session, reader, &registration) => ended,
            };
            // What has failed may not be the client's way any more.
            if let Ended::Failed(error) = ended
                && !turn.is_over()
                && table.remove(&session.id)
            {
                tracing::debug!(target: "caudal", %error, "a session ends with its webhook");
                session.end();
            }
        });
        answer
    }
}

/// Delivers what a session has to say, until it ends or has another way.
async fn deliver(
    hub: &ConnectionGroup,
    session: &Session,
    reader: Reader,
    to: &webhook::Registration,
) -> Ended {
    let mut outbox = Mail {
        session,
        reader: Some(reader),
    };
    let pace = Pace::default();
    let mut delivery = std::pin::pin!(webhook::deliver(to, &mut outbox, &pace));
    let peer = Peer::of(Caller::Connection(Arc::clone(&session.connection)));
    tokio::select! {
        ended = &mut delivery => ended,
        // Until then the session has waited for all that the receiver is owed.
        _ = peer.closed() => match tokio::time::timeout_at(last_by(hub), delivery).await {
            Ok(ended) => ended,
            Err(_) => Ended::Empty,
        },
    }
}

/// By when the last delivery is given up.
fn last_by(hub: &ConnectionGroup) -> Instant {
    let by = after(Instant::now(), LAST);
    match hub.stop.is_cancelled() {
        true => by.min(after(hub.deadline(), COME)),
        false => by,
    }
}

/// The messages of a session, and an empty one when it ends.
struct Mail<'a> {
    session: &'a Session,
    /// Gone at the end.
    reader: Option<Reader>,
}

impl Outbox for Mail<'_> {
    async fn next(&mut self) -> Option<(u64, Bytes)> {
        let reader = self.reader.as_mut()?;
        if let Some(message) = poll_fn(|cx| reader.poll_next(cx)).await {
            return Some(message);
        }
        let last = reader.is_last();
        self.reader = None;
        last.then(|| (self.session.outbox().last() + 1, Bytes::new()))
    }

    fn acknowledge(&mut self, number: u64) {
        self.session.outbox().acknowledge(number);
        self.session.touch();
    }
}

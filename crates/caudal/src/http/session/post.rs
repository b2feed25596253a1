//! POST: the client's messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Invalid, Message, RawJson, decode};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::byte_limit::hold;
use super::inbox::PushError;
use super::pending_posts::{ExpectedReply, PendingPost};
use super::refusal::refusal;
use super::session::{Session, SessionHandle};
use super::{collect, no_content, not_found, request, sse};
use crate::call::Caller;
use crate::call::replies::{Refusal, Replies};
use crate::dialect::member;
use crate::http::{Body, Http, json, later, plain};
use crate::observe::tap::Direction;

/// Time to wait for a reply as JSON. After it the response is an event stream, whose head is
/// sent before the reply.
const AT_ONCE: Duration = Duration::from_millis(50);

/// Takes the message of a POST, and answers it.
pub(super) async fn answer(
    http: &Http,
    session: SessionHandle,
    head: &Parts,
    text: Bytes,
) -> Response<Body> {
    let (expected, cancelled, is_answer) = match decode(&text, &http.hub().config.policy) {
        Message::Invalid(invalid) => return answer_invalid(http, &session, &text, &invalid),
        message => (
            ExpectedReply::to(&message, &progress_tokens(&session, head, &message)),
            cancelled_ids(&session, &message),
            is_answer(&message),
        ),
    };
    let is_async = expected.is_some() && request::prefers_async(&head.headers);
    // The POST must be known before its reply can be there.
    let pending = match expected.filter(|_| !is_async) {
        Some(expected) => match PendingPost::begin(&session.queues, expected) {
            None => return overloaded(http, &session, &text),
            pending => pending,
        },
        None => None,
    };
    if is_async {
        session.outbox().promise();
    }
    match session.queues.inbox.push(&text, is_answer).await {
        Ok(()) => {}
        Err(PushError::Closed) => return ended(http),
        Err(PushError::Full) => return later("too much of this session waits already\n"),
    }
    // The reply may take long.
    drop(text);
    for id in cancelled {
        session.queues.posts.cancel(&id);
    }
    match pending {
        Some(pending) => reply(http, session, head, pending).await,
        None => accepted(is_async),
    }
}

/// Answers a message that is not valid; the session goes on.
fn answer_invalid(
    http: &Http,
    session: &Session,
    text: &[u8],
    invalid: &Invalid<'_>,
) -> Response<Body> {
    let caller = Caller::Connection(Arc::clone(&session.connection));
    caller.show(Direction::Received, text);
    let mut out = BytesMut::new();
    Replies::bare(&caller, &mut out).invalid(invalid);
    match out.is_empty() {
        // It was meant as a response, which is never answered.
        true => accepted(false),
        false => replied(http, out.freeze()),
    }
}

/// Refuses the requests of a POST because too many wait. Its other messages do not run
/// either.
fn overloaded(http: &Http, session: &Session, text: &[u8]) -> Response<Body> {
    let caller = Caller::Connection(Arc::clone(&session.connection));
    let refuse = |out: &mut BytesMut, id: Id<'_>| {
        Replies::bare(&caller, out).refuse(id, Refusal::Overloaded);
    };
    let Some(reply) = refusal(text, &caller.config().policy, refuse) else {
        return accepted(false);
    };
    match session.queues.posts.replies.try_reserve(reply.len()) {
        Some(reservation) => {
            caller.show(Direction::Received, text);
            replied(http, hold(reply, [reservation]))
        }
        None => later("too much that was sent to this session is not read\n"),
    }
}

fn replied(http: &Http, text: Bytes) -> Response<Body> {
    let status = match http.status(Some(&text), StatusCode::OK) {
        // In a session these statuses mean that the session is gone.
        StatusCode::NOT_FOUND | StatusCode::GONE => StatusCode::OK,
        status => status,
    };
    json(status, text)
}

/// Returns true if a message has only responses to calls of the server.
fn is_answer(message: &Message<'_>) -> bool {
    match message {
        Message::Batch(entries) => entries.iter().all(is_answer),
        single => matches!(single, Message::Response(_)),
    }
}

/// Ids of requests that a message cancels, if these will have no reply.
fn cancelled_ids(session: &Session, message: &Message<'_>) -> Vec<String> {
    let cancel = session.connection.config.dialect.cancel.as_ref();
    let Some(cancel) = cancel.filter(|cancel| cancel.answer.is_none()) else {
        return Vec::new();
    };
    collect(message, |message| match message {
        Message::Notification(notification) if notification.method == cancel.method => {
            member(notification.params, &cancel.member)
        }
        _ => None,
    })
}

/// Tokens under which the client wants progress where it waits for the reply. They are in
/// `_meta`, as in MCP.
fn progress_tokens(session: &Session, head: &Parts, message: &Message<'_>) -> Vec<String> {
    let progress = session.connection.config.dialect.progress.as_ref();
    let Some(progress) = progress.filter(|_| takes_events(head)) else {
        return Vec::new();
    };
    collect(message, |message| match message {
        Message::Request(request) => {
            let meta = member(request.params, "_meta")?;
            member(RawJson::parse(&meta).ok(), &progress.member)
        }
        _ => None,
    })
}

/// Returns true if the reply may come as an event.
fn takes_events(head: &Parts) -> bool {
    cfg!(feature = "sse") && request::accepts(&head.headers, request::EVENTS)
}

fn accepted(is_async: bool) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    if is_async {
        let name = HeaderName::from_static("preference-applied");
        let value = HeaderValue::from_static("respond-async");
        response.headers_mut().insert(name, value);
    }
    response
}

/// Returns the response for a session that has ended.
fn ended(http: &Http) -> Response<Body> {
    match http.hub().stop.is_cancelled() {
        true => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down\n",
        ),
        false => not_found(),
    }
}

/// Waits for the reply, as JSON or as the end of an event stream.
async fn reply(
    http: &Http,
    session: SessionHandle,
    head: &Parts,
    mut pending: PendingPost,
) -> Response<Body> {
    if takes_events(head) && !is_there_at_once(&session, &mut pending).await {
        return sse::reply(session, pending, http.options());
    }
    pending.wait().await;
    match pending.take() {
        Some(reply) => replied(http, hold(reply.text, reply.reservation)),
        None if session.queues.inbox.is_closed() => ended(http),
        // The client has cancelled it.
        None => no_content(),
    }
}

/// Returns true if the reply comes soon, and nothing else that has no other way.
async fn is_there_at_once(session: &Session, pending: &mut PendingPost) -> bool {
    let outbox = session.outbox();
    let at_once = async {
        loop {
            let (_, unread) = outbox.notified();
            // In this order: messages before the reply are there when it is.
            let found = pending.peek().map(|message| message.is_reply);
            if outbox.has_unread() {
                return false;
            }
            if let Some(is_reply) = found {
                return is_reply;
            }
            if pending.is_over() {
                return true;
            }
            tokio::select! {
                () = pending.wait() => {}
                () = unread => {}
            }
        }
    };
    tokio::time::timeout(AT_ONCE, at_once)
        .await
        .unwrap_or(false)
}

//! The client's messages: a POST in a session.

use std::sync::Arc;

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Invalid, Message, decode};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::head;
use super::inbox::Refused;
use super::outbox::Verb;
use super::refusal::refusal;
use super::table::{Session, Visit};
use super::waits::{Asked, Wait};
use crate::call::Caller;
use crate::call::replies::{Refusal, Replies};
use crate::dialect::member;
use crate::http::{Body, Http, json, later, plain};
use crate::observe::tap::Direction;

/// An answer that takes longer does not keep the head of its response waiting.
#[cfg(feature = "sse")]
const AT_ONCE: std::time::Duration = std::time::Duration::from_millis(50);

/// Takes what a POST brings, and answers it.
pub(super) async fn take(http: &Http, visit: Visit, head: &Parts, text: Bytes) -> Response<Body> {
    let (asked, tokens, cancelled, is_answer) = match decode(&text, &http.hub().config.policy) {
        Message::Invalid(invalid) => return judge(http, &visit, &text, &invalid),
        message => (
            Asked::of(&message),
            tokens(&visit, head, &message),
            cancelled(&visit, &message),
            is_answer(&message),
        ),
    };
    let is_async = asked.is_some() && head::prefers_async(&head.headers);
    // It must be known before the answer can be there.
    let wait = match asked.filter(|_| !is_async) {
        Some(asked) => match Wait::begin(&visit.pipe, asked.with_tokens(&tokens)) {
            None => return turned_away(http, &visit, &text),
            wait => wait,
        },
        None => None,
    };
    if is_async {
        visit.pipe.outbox.promise();
    }
    match visit.pipe.inbox.push(&text, is_answer).await {
        Ok(()) => {}
        Err(Refused::Ended) => return ended(http),
        Err(Refused::Full) => return later("too much of this session waits already\n"),
    }
    // The answer may take long.
    drop(text);
    for id in cancelled {
        visit.pipe.waits.give_up(&id);
    }
    match wait {
        Some(wait) => answer(http, visit, head, wait).await,
        None => accepted(is_async),
    }
}

/// Answers what is no message; the session goes on.
fn judge(http: &Http, session: &Session, text: &[u8], invalid: &Invalid<'_>) -> Response<Body> {
    let caller = Caller::Connection(Arc::clone(&session.connection));
    caller.show(Direction::Received, text);
    let mut out = BytesMut::new();
    Replies::bare(&caller, &mut out).invalid(invalid);
    match out.is_empty() {
        // It was meant as an answer.
        true => accepted(false),
        false => answered(http, out.freeze()),
    }
}

/// Answers requests when too many wait already. Nothing that came with them begins.
fn turned_away(http: &Http, session: &Session, text: &[u8]) -> Response<Body> {
    let outbox = &session.pipe.outbox;
    if outbox.has_much_on_its_way(Verb::Post) {
        return later("too much that was sent to this session is not read\n");
    }
    let caller = Caller::Connection(Arc::clone(&session.connection));
    caller.show(Direction::Received, text);
    let refuse = |out: &mut BytesMut, id: Id<'_>| {
        Replies::bare(&caller, out).refuse(id, Refusal::Overloaded);
    };
    match refusal(text, &caller.config().policy, refuse) {
        Some(answer) => answered(http, outbox.on_its_way(Verb::Post, answer)),
        None => accepted(false),
    }
}

fn answered(http: &Http, text: Bytes) -> Response<Body> {
    let status = match http.status(Some(&text), StatusCode::OK) {
        // In a session they say that there is none any more.
        StatusCode::NOT_FOUND | StatusCode::GONE => StatusCode::OK,
        status => status,
    };
    json(status, text)
}

/// Whether a message answers calls of ours, and does nothing else.
fn is_answer(message: &Message<'_>) -> bool {
    match message {
        Message::Batch(entries) => entries.iter().all(is_answer),
        single => matches!(single, Message::Response(_)),
    }
}

/// The ids of requests that a message cancels, if these will have no answer.
fn cancelled(session: &Session, message: &Message<'_>) -> Vec<String> {
    let cancel = session.connection.config.dialect.cancel.as_ref();
    let Some(cancel) = cancel.filter(|cancel| cancel.answer.is_none()) else {
        return Vec::new();
    };
    let id = |message: &Message<'_>| match message {
        Message::Notification(told) if told.method == cancel.method => {
            member(told.params, &cancel.member)
        }
        _ => None,
    };
    match message {
        Message::Batch(entries) => entries.iter().filter_map(id).collect(),
        single => id(single).into_iter().collect(),
    }
}

/// Under which the client wants to hear of progress where it waits for the answer:
/// `_meta` has them, as in MCP.
#[cfg(feature = "sse")]
fn tokens(session: &Session, head: &Parts, message: &Message<'_>) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: std::collections::HashMap<String, Box<serde_json::value::RawValue>>,
    }
    let progress = session.connection.config.dialect.progress.as_ref();
    let Some(progress) = progress.filter(|_| head::accepts(&head.headers, head::EVENTS)) else {
        return Vec::new();
    };
    let token = |message: &Message<'_>| match message {
        Message::Request(request) => {
            let mut params: Params = request.params?.read().ok()?;
            let token = params.meta.remove(&*progress.member)?;
            Some(token.get().to_owned())
        }
        _ => None,
    };
    match message {
        Message::Batch(entries) => entries.iter().filter_map(token).collect(),
        single => token(single).into_iter().collect(),
    }
}

#[cfg(not(feature = "sse"))]
fn tokens(_: &Session, _: &Parts, _: &Message<'_>) -> Vec<String> {
    Vec::new()
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

/// There is no session any more.
fn ended(http: &Http) -> Response<Body> {
    match http.hub().stop.is_cancelled() {
        true => plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is shutting down\n",
        ),
        false => crate::http::session::not_found(),
    }
}

/// Waits for the answer, as JSON or as the end of an event stream.
async fn answer(http: &Http, visit: Visit, head: &Parts, wait: Wait) -> Response<Body> {
    #[cfg(feature = "sse")]
    if head::accepts(&head.headers, head::EVENTS) && !is_there_at_once(&wait).await {
        return crate::http::session::sse::answer(visit, wait, http.options());
    }
    #[cfg(not(feature = "sse"))]
    let _ = head;
    poll_fn(|cx| wait.poll_ready(cx)).await;
    match wait.take() {
        Some(text) => answered(http, visit.pipe.outbox.on_its_way(Verb::Post, text)),
        None if visit.pipe.inbox.is_closed() => ended(http),
        // The client has cancelled it.
        None => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
    }
}

/// Whether the answer comes soon, and nothing else that has no other way.
#[cfg(feature = "sse")]
async fn is_there_at_once(wait: &Wait) -> bool {
    use std::task::Poll;
    let there = poll_fn(|cx| {
        // In this order: what was said before the answer is there when it is.
        let ready = wait.poll_ready(cx);
        if wait.poll_unread(cx).is_ready() {
            return Poll::Ready(false);
        }
        ready.map(|_| true)
    });
    tokio::time::timeout(AT_ONCE, there).await.unwrap_or(false)
}

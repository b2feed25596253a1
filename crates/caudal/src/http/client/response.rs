//! Responses, and the calls that wait for them.
//!
//! A call whose request was answered with anything but JSON-RPC must end too: it fails
//! with an error that says what came instead.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
#[cfg(feature = "session")]
use caudal_core::CloseReason;
use caudal_core::{CallError, Id, InvalidKind, Message, Policy, RequestId, decode};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde_json::value::RawValue;

use super::error::RequestError;
use super::status::{Advice, status_error};
use crate::transport::ReceiveError;

/// Event of a request or a session, for the connection's task.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message of the server.
    Message(Bytes),
    /// A call that failed without a message.
    Failed { id: RequestId, error: CallError },
    /// A message that was too large and answers no call.
    #[cfg(feature = "session")]
    Dropped,
    /// The end of the session.
    #[cfg(feature = "session")]
    End(CloseReason),
}

impl Received {
    /// Returns it as a transport does. A message stays in `frame`.
    pub(crate) fn lend(self, frame: &mut Bytes) -> Result<Option<&[u8]>, ReceiveError> {
        match self {
            Self::Message(text) => {
                *frame = text;
                Ok(Some(frame))
            }
            Self::Failed { id, error } => Err(ReceiveError::CallFailed { id, error }),
            #[cfg(feature = "session")]
            Self::Dropped => Err(ReceiveError::Dropped),
            #[cfg(feature = "session")]
            Self::End(reason) => Err(ReceiveError::Closed(reason)),
        }
    }
}

/// The calls of one message that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    first: Option<RequestId>,
    /// Calls of a batch.
    rest: Vec<RequestId>,
    /// Failure of the message, if there was no call to fail.
    rejection: Option<Box<RequestError>>,
    /// Headers of the response that say what to do instead.
    advice: Advice,
}

impl Calls {
    /// The calls in a message of ours.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut policy = Policy::default();
        policy.max_message = usize::MAX;
        policy.max_batch = usize::MAX;
        policy.max_depth = usize::MAX;
        let mut calls = Self::default();
        match decode(text, &policy) {
            Message::Request(request) => calls.first = owned(request.id),
            Message::Batch(entries) => {
                let ids = entries.iter().filter_map(|entry| match entry {
                    Message::Request(request) => owned(request.id),
                    _ => None,
                });
                calls.rest = ids.collect();
            }
            _ => {}
        }
        calls
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    /// The only call, if it is not a batch.
    pub(crate) fn only(&self) -> Option<&RequestId> {
        self.first.as_ref()
    }

    /// The response has begun with this head.
    pub(crate) fn begun(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.advice = Advice::of(status, headers);
    }

    /// Drops the calls that are in a set, and takes them out of it.
    pub(crate) fn forget_gone(&mut self, gone: &mut HashSet<RequestId>) {
        if !gone.is_empty() {
            self.first.take_if(|id| gone.remove(id));
            self.rest.retain(|id| !gone.remove(id));
        }
    }

    /// Ids of all calls.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &RequestId> {
        self.first.iter().chain(&self.rest)
    }

    fn answered(&mut self, id: Id<'_>, policy: &Policy) {
        let is_own = |own: &RequestId| id.answers(own, policy.old_responses);
        if self.first.as_ref().is_some_and(is_own) {
            self.first = None;
        } else {
            let place = self.rest.iter().position(is_own);
            place.map(|place| self.rest.swap_remove(place));
        }
    }

    fn drain(&mut self) -> impl Iterator<Item = RequestId> {
        self.first.take().into_iter().chain(self.rest.drain(..))
    }

    /// Fails all calls with the same error.
    pub(crate) fn fail(&mut self, error: &RequestError, frames: &mut VecDeque<Received>) {
        if self.is_empty() {
            self.reject(error.clone());
        }
        for id in self.drain() {
            let error = error.call_error();
            frames.push_back(Received::Failed { id, error });
        }
    }

    /// Fails the calls that are left, if any is.
    pub(crate) fn fail_unanswered(
        &mut self,
        error: &RequestError,
        frames: &mut VecDeque<Received>,
    ) {
        if !self.is_empty() {
            self.fail(error, frames);
        }
    }

    /// Keeps the failure of a message that no call waits for.
    fn reject(&mut self, error: RequestError) {
        tracing::warn!(target: "caudal", ?error, "a message was not accepted");
        self.rejection = Some(Box::new(error));
    }

    /// Takes the failure of a message that no call waits for.
    pub(crate) fn take_rejection(&mut self) -> Option<Box<RequestError>> {
        self.rejection.take()
    }

    /// Passes a message of the server on; returns false if it is none.
    pub(crate) fn take(
        &mut self,
        text: &Bytes,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) -> bool {
        match decode(text, policy) {
            Message::Response(response) if response.id.is_null() => {
                // It says what was wrong with the request, but not with which.
                let Err(error) = &response.outcome else {
                    return false;
                };
                self.fail(&RequestError::Remote(error.clone().into()), frames);
                return true;
            }
            Message::Response(response) => self.answered(response.id, policy),
            Message::Batch(entries) => {
                if !entries.iter().all(is_message) {
                    return self.take_good(text, &entries, policy, frames);
                }
                self.take_entries(&entries, policy);
            }
            Message::Invalid(invalid) => {
                if invalid.kind != InvalidKind::Response || invalid.id.is_null() {
                    return false;
                }
                self.answered(invalid.id, policy);
            }
            _ => {}
        }
        frames.push_back(Received::Message(text.clone()));
        true
    }

    fn take_entries(&mut self, entries: &[Message<'_>], policy: &Policy) {
        for entry in entries {
            match entry {
                Message::Response(response) => self.answered(response.id, policy),
                Message::Invalid(invalid) => self.answered(invalid.id, policy),
                _ => {}
            }
        }
    }

    /// Passes on the entries of a batch that are messages, each on its own; returns false
    /// if none is.
    fn take_good(
        &mut self,
        text: &Bytes,
        entries: &[Message<'_>],
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) -> bool {
        let texts: Vec<&RawValue> = serde_json::from_slice(text).unwrap_or_default();
        let mut good = false;
        for (entry, entry_text) in entries.iter().zip(texts) {
            if !is_message(entry) {
                tracing::warn!(target: "caudal", "an entry of a batch that is no message");
                continue;
            }
            good = true;
            self.take_entries(std::slice::from_ref(entry), policy);
            frames.push_back(Received::Message(
                text.slice_ref(entry_text.get().as_bytes()),
            ));
        }
        good
    }

    /// Passes on what a whole response says, and ends what it does not answer.
    pub(crate) fn settle(
        &mut self,
        status: StatusCode,
        text: &Bytes,
        policy: &Policy,
        frames: &mut VecDeque<Received>,
    ) {
        let refused = matches!(status.as_u16(), 401 | 403 | 407);
        let is_notification = self.is_empty();
        // Whatever the status, a JSON-RPC answer says more.
        let taken = !refused && !text.is_empty() && self.take(text, policy, frames);
        let silent = text.is_empty() && status.is_success() && self.is_empty();
        let advice = std::mem::take(&mut self.advice);
        if is_notification && taken && is_failure(status) && self.rejection.is_none() {
            // No call hears what it says.
            let error = match decode(text, policy) {
                Message::Response(response) => response.outcome.err(),
                _ => None,
            };
            self.reject(match error {
                Some(error) => RequestError::Remote(error.into()),
                None => RequestError::Status(status_error(status, text, advice)),
            });
        } else if !self.is_empty() || !(taken || silent) {
            let mut error = status_error(status, text, advice);
            // Any other status says it.
            error.reason = status.is_success().then(|| no_answer(text, policy));
            self.fail(&RequestError::Status(error), frames);
        }
    }
}

/// Describes why a body does not answer the call that it came for.
fn no_answer(text: &[u8], policy: &Policy) -> String {
    if text.is_empty() {
        return "the body is empty".to_owned();
    }
    match decode(text, policy) {
        Message::Invalid(invalid) => invalid.cause.to_string(),
        Message::Response(response) => {
            format!("it answers a call with the id {}", response.id.as_str())
        }
        Message::Batch(_) => "it does not answer every call".to_owned(),
        _ => "it is no response".to_owned(),
    }
}

fn is_failure(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn owned(id: Id<'_>) -> Option<RequestId> {
    id.to_request_id().ok().flatten()
}

/// Returns true if an entry of a batch can be passed on. An answer that cannot be read can
/// be: it ends its call.
fn is_message(entry: &Message<'_>) -> bool {
    !matches!(entry, Message::Invalid(invalid) if invalid.kind != InvalidKind::Response)
}

/// Returns true if a response is a stream of events.
pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], |kind| kind.as_bytes());
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use caudal_core::{JsonRpcError, OldResponses};
    use serde_json::json;

    use super::*;

    fn settle(sent: &str, status: u16, text: &'static str) -> Vec<String> {
        settle_by(&Policy::default(), sent, status, text)
    }

    fn settle_by(policy: &Policy, sent: &str, status: u16, text: &'static str) -> Vec<String> {
        let mut calls = Calls::of(sent.as_bytes());
        let mut frames = VecDeque::new();
        let status = StatusCode::from_u16(status).unwrap();
        let text = Bytes::from_static(text.as_bytes());
        calls.settle(status, &text, policy, &mut frames);
        assert!(calls.is_empty());
        frames.into_iter().map(shown).collect()
    }

    /// A message as it is, or a failed call with its error.
    fn shown(received: Received) -> String {
        match received {
            Received::Message(text) => String::from_utf8(text.to_vec()).unwrap(),
            Received::Failed { id, error } => format!("{id}: {error:?}"),
            #[cfg(feature = "session")]
            other => panic!("{other:?}"),
        }
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#;
    const TELL: &str = r#"{"jsonrpc":"2.0","method":"a"}"#;
    const BATCH: &str = r#"[{"jsonrpc":"2.0","id":7,"method":"a"},{"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":"x","method":"c"}]"#;

    #[test]
    fn an_answer_is_passed_on_whatever_its_status() {
        let answer = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
        assert_eq!(settle(CALL, 200, answer), [answer]);
        let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#;
        assert_eq!(settle(CALL, 400, error), [error]);
    }

    #[test]
    fn an_error_without_an_id_ends_the_call_that_it_answers() {
        let error =
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"m","data":[1]},"id":null}"#;
        let told = CallError::Remote(JsonRpcError::with_data(-32600, "m", json!([1])));
        assert_eq!(settle(CALL, 413, error), [format!("7: {told:?}")]);
        assert_eq!(settle(BATCH, 200, error).len(), 2);
        assert_eq!(settle(TELL, 200, error).len(), 0);
    }

    #[test]
    fn whatever_is_not_answered_fails() {
        for text in [
            "",
            "<html>",
            "[]",
            "7",
            r#"{"jsonrpc":"2.0","id":null,"result":1}"#,
        ] {
            let frames = settle(CALL, 200, text);
            assert_eq!(frames.len(), 1, "{text}");
            assert!(frames[0].starts_with("7: UnexpectedResponse"), "{frames:?}");
        }
        let other = settle(CALL, 200, r#"{"jsonrpc":"2.0","id":8,"result":1}"#);
        assert_eq!(other.len(), 2);
        let half = settle(BATCH, 200, r#"[{"jsonrpc":"2.0","id":7,"result":1}]"#);
        assert_eq!(half.len(), 2);
        assert!(half[1].starts_with("\"x\": "), "{half:?}");
    }

    #[test]
    fn the_good_answers_of_a_batch_are_passed_on_without_the_bad_entries() {
        let good = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
        for text in [
            r#"[{"jsonrpc":"2.0","id":7,"result":1},5]"#,
            r#"[5, {"jsonrpc":"2.0","id":7,"result":1} ,[[]]]"#,
        ] {
            assert_eq!(settle(CALL, 200, text), [good]);
            let both = settle(BATCH, 200, text);
            assert_eq!(both.len(), 2, "{both:?}");
            assert_eq!(both[0], good);
            assert!(both[1].starts_with("\"x\": UnexpectedResponse"), "{both:?}");
        }
        assert_eq!(settle(BATCH, 200, "[5,6]").len(), 2);
    }

    #[test]
    fn nothing_is_made_up_for_a_notification() {
        for (status, text) in [(204, ""), (202, ""), (200, ""), (500, "x"), (401, "")] {
            assert_eq!(settle(TELL, status, text).len(), 0, "{status}");
        }
    }

    /// The cause within the reason that a rejected notification is for the end.
    fn cause(error: RequestError) -> io::Error {
        let reason = error.close_reason();
        let cause: &io::Error = reason.source().unwrap().downcast_ref().unwrap();
        match cause
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<JsonRpcError>())
        {
            Some(error) => io::Error::new(cause.kind(), error.clone()),
            None => cause.kind().into(),
        }
    }

    #[test]
    fn why_a_notification_was_not_accepted_is_kept() {
        let null = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#;
        let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}"#;
        let result = r#"{"jsonrpc":"2.0","id":7,"result":1}"#;
        for (sent, status, text, kept) in [
            (TELL, 204, "", None),
            (TELL, 401, "", Some(io::ErrorKind::PermissionDenied)),
            (TELL, 404, "no", Some(io::ErrorKind::InvalidData)),
            (TELL, 200, "<html>", Some(io::ErrorKind::InvalidData)),
            (TELL, 400, null, Some(io::ErrorKind::InvalidData)),
            (TELL, 400, error, Some(io::ErrorKind::InvalidData)),
            (TELL, 500, result, Some(io::ErrorKind::InvalidData)),
            (TELL, 200, error, None),
            (CALL, 400, error, None),
            (CALL, 401, "", None),
        ] {
            let mut calls = Calls::of(sent.as_bytes());
            let status = StatusCode::from_u16(status).unwrap();
            let text = Bytes::from_static(text.as_bytes());
            calls.settle(status, &text, &Policy::default(), &mut VecDeque::new());
            let kind = calls.take_rejection().map(|error| cause(*error).kind());
            assert_eq!(kind, kept, "{status} {text:?}");
        }
    }

    #[test]
    fn the_error_that_answers_a_notification_is_kept_whole() {
        let text =
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m","data":[1]}}"#;
        let mut calls = Calls::of(TELL.as_bytes());
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let text = Bytes::from_static(text.as_bytes());
        calls.settle(status, &text, &Policy::default(), &mut VecDeque::new());
        let cause = cause(*calls.take_rejection().unwrap());
        let error = cause.get_ref().unwrap().downcast_ref::<JsonRpcError>();
        let told = JsonRpcError::with_data(-32600, "m", json!([1]));
        assert_eq!(error, Some(&told));
    }

    #[test]
    fn an_old_answer_is_one_by_policy_only() {
        let mut old = Policy::default();
        old.old_responses = OldResponses::Accept;
        for answer in [
            r#"{"jsonrpc":"2.0","id":"7","result":1}"#,
            r#"{"jsonrpc":"2.0","id":"7","result":1,"error":null}"#,
            r#"[{"jsonrpc":"2.0","id":"7","result":null,"error":{"code":1,"message":"no"}}]"#,
        ] {
            assert_eq!(settle_by(&old, CALL, 200, answer), [answer]);
            let strict = settle(CALL, 200, answer);
            assert_eq!(strict.len(), 2, "{strict:?}");
            assert!(strict[1].contains("UnexpectedResponse"), "{strict:?}");
        }
        // It says what was wrong with the request, and has no id to say with which.
        let error =
            r#"{"jsonrpc":"2.0","id":null,"result":null,"error":{"code":1,"message":"no"}}"#;
        let own = settle_by(&old, CALL, 500, error);
        let told = CallError::Remote(JsonRpcError::new(1, "no"));
        assert_eq!(own, [format!("7: {told:?}")]);
        let strict = settle(CALL, 500, error);
        assert!(strict[0].contains("UnexpectedResponse"), "{strict:?}");
    }

    #[test]
    fn who_is_not_let_in_can_tell() {
        let frames = settle(CALL, 401, r#"{"jsonrpc":"2.0","id":7,"result":1}"#);
        assert!(frames[0].starts_with("7: Refused"), "{frames:?}");
    }
}

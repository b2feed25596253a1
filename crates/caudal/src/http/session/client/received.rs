//! Messages of the server, passed on if they are valid.

use std::collections::VecDeque;

use bytes::Bytes;
use caudal_core::decode::truncated_responses;
use caudal_core::{CallError, Message, RequestId, decode};

use super::{ClientSession, Frame, FrameSender};

/// Size of a message's beginning that tells its id, in bytes: an id may have 1 KiB.
pub(crate) const HEAD: usize = 2 << 10;

/// Ends the calls that a message was to answer, of which only the beginning is known. A
/// message that is no answer is counted.
pub(crate) async fn pass_over(session: &ClientSession, frames: &FrameSender, message: &[u8]) {
    let limit = session.policy.max_message;
    let mut found = VecDeque::new();
    let head = message.get(..HEAD).unwrap_or(message);
    let answers = truncated_responses(head, &session.policy, |id| {
        let number = id.as_i64().map(RequestId::Number);
        if let Some(id) = number.or_else(|| id.to_request_id().ok().flatten()) {
            found.push_back(Frame::Failed(id, CallError::TooLarge { limit }));
        }
    });
    if !answers {
        tracing::warn!(target: "caudal", limit, "a message that is too large was dropped");
        found.push_back(Frame::Dropped);
    }
    for frame in found {
        let _ = frames.send(frame).await;
    }
}

/// Passes on a message of the server, unless it is not valid.
pub(crate) async fn pass_on(session: &ClientSession, frames: &FrameSender, message: Bytes) {
    if message.len() > session.policy.max_message {
        return pass_over(session, frames, &message).await;
    }
    if let Message::Invalid(invalid) = decode(&message, &session.policy)
        && invalid.wants_answer()
    {
        tracing::warn!(target: "caudal", cause = %invalid.cause, "an invalid message was dropped");
        return;
    }
    let _ = frames.send(Frame::Message(message)).await;
}

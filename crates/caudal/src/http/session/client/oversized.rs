//! Messages of the server that are larger than this side reads.

use std::collections::VecDeque;

use caudal_core::decode::truncated_responses;
use caudal_core::{CallError, RequestId};

use super::{Frame, Frames, Session};

/// So much of a message tells whose answer it is: an id may have 1 KiB.
pub(crate) const HEAD: usize = 2 << 10;

/// Ends the calls that a message was to answer of which only the beginning is at hand.
/// One that is no answer is counted.
pub(crate) async fn pass_over(session: &Session, frames: &Frames, message: &[u8]) {
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

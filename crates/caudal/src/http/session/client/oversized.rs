//! Messages of the server that are larger than this side reads.

use std::collections::VecDeque;

use caudal_core::decode::truncated_responses;

use super::{Frame, Frames, Session};
use crate::http::client::fault::Fault;

/// So much of a message tells whose answer it is: an id may have 1 KiB.
pub(crate) const HEAD: usize = 2 << 10;

/// Ends the calls that a message was to answer of which only the beginning is at hand.
/// One that is no answer is counted.
pub(crate) async fn pass_over(session: &Session, frames: &Frames, message: &[u8]) {
    let limit = session.policy.max_message;
    let (fault, mut found) = (Fault::too_large(limit), VecDeque::new());
    let head = message.get(..HEAD).unwrap_or(message);
    let answers = truncated_responses(head, &session.policy, |id| {
        found.push_back(Frame::Message(fault.answer(id)));
    });
    if !answers {
        tracing::warn!(target: "caudal", limit, "a message that is too large was dropped");
        found.push_back(Frame::Dropped);
    }
    for frame in found {
        let _ = frames.send(frame).await;
    }
}

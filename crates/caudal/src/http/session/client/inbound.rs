//! Messages of the server, on their way to the connection's task.

use std::sync::Arc;

use bytes::Bytes;
use caudal_core::decode::truncated_responses;
use caudal_core::{CallError, Message, RequestId, decode};
use tokio::sync::mpsc;

use super::ClientSession;
use crate::http::client::response::Received;

/// Size of a message's beginning that contains its id, in bytes: an id may have 1 KiB.
pub(crate) const MESSAGE_HEAD: usize = 2 << 10;

/// Queue of received messages of a session.
#[derive(Clone)]
pub(crate) struct Inbound {
    pub(crate) session: Arc<ClientSession>,
    pub(super) queue: mpsc::Sender<Received>,
}

impl Inbound {
    pub(super) async fn push(&self, received: Received) {
        // It fails only when the connection's task has ended.
        let _ = self.queue.send(received).await;
    }

    /// Passes on a message of the server, unless it is not valid.
    pub(crate) async fn message(&self, message: Bytes) {
        let policy = &self.session.policy;
        if message.len() > policy.max_message {
            return self.too_large(&message).await;
        }
        if let Message::Invalid(invalid) = decode(&message, policy)
            && invalid.wants_answer()
        {
            tracing::warn!(target: "caudal", cause = %invalid.cause, "an invalid message was dropped");
            return;
        }
        self.push(Received::Message(message)).await;
    }

    /// Drops a message that is too large, of which `head` is the beginning. The calls that
    /// it answers fail; one that answers none is counted.
    pub(crate) async fn too_large(&self, head: &[u8]) {
        let policy = &self.session.policy;
        let (limit, mut answered) = (policy.max_message, Vec::new());
        let head = head.get(..MESSAGE_HEAD).unwrap_or(head);
        let is_response = truncated_responses(head, policy, |id| {
            let number = id.as_i64().map(RequestId::Number);
            answered.extend(number.or_else(|| id.to_request_id().ok().flatten()));
        });
        for id in answered {
            let error = CallError::TooLarge { limit };
            self.push(Received::Failed { id, error }).await;
        }
        if !is_response {
            tracing::warn!(target: "caudal", limit, "a message that is too large was dropped");
            self.push(Received::Dropped).await;
        }
    }
}

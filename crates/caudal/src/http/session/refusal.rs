//! Replies to requests that do not begin.

use bytes::{Bytes, BytesMut};
use caudal_core::{Id, Message, Policy, decode};

use super::collect;

/// Returns the reply to a message whose requests are refused, each by `refuse`; `None` if
/// it wants none.
pub(super) fn refusal(
    text: &[u8],
    policy: &Policy,
    mut refuse: impl FnMut(&mut BytesMut, Id<'_>),
) -> Option<Bytes> {
    let message = decode(text, policy);
    let is_batch = matches!(message, Message::Batch(_));
    let mut out = BytesMut::new();
    for id in collect(&message, replied_id) {
        if is_batch {
            out.extend_from_slice(if out.is_empty() { b"[" } else { b"," });
        }
        refuse(&mut out, id);
    }
    if is_batch && !out.is_empty() {
        out.extend_from_slice(b"]");
    }
    (!out.is_empty()).then(|| out.freeze())
}

/// Returns the id of an entry that wants a reply.
fn replied_id<'a>(entry: &Message<'a>) -> Option<Id<'a>> {
    match entry {
        Message::Request(request) => Some(request.id),
        Message::Invalid(invalid) if invalid.wants_answer() => Some(invalid.id),
        _ => None,
    }
}

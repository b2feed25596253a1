//! What HTTP was given for a client, which may be slow to take it.

use std::sync::Arc;

use bytes::Bytes;

use super::Outbox;

/// So little is not worth counting: a connection has only so many streams.
const LITTLE: usize = 1 << 10;

impl Outbox {
    /// The same text, which counts among what all sessions hold until HTTP has sent it
    /// or has given it up. No message for an event stream or a poll waits for that: its
    /// client may take what it was sent in any order.
    pub(crate) fn on_its_way(self: &Arc<Self>, text: Bytes) -> Bytes {
        if text.len() <= LITTLE {
            return text;
        }
        self.change(|state, _| state.on_its_way += text.len());
        Bytes::from_owner(OnItsWay {
            text,
            outbox: Arc::clone(self),
        })
    }

    /// Whether there is so much of it that the client, which may have any number of
    /// requests open at once, gets no further answer until it has taken some.
    pub(crate) fn has_much_on_its_way(&self) -> bool {
        let state = self.lock();
        // What is sent again is asked for by nobody but the client, as often as it likes.
        let is_more_than_its_share = state.on_its_way > self.bounds.share;
        state.has_much_on_its_way(self.bounds.output)
            || (is_more_than_its_share && self.account.is_full())
    }
}

struct OnItsWay {
    text: Bytes,
    outbox: Arc<Outbox>,
}

impl AsRef<[u8]> for OnItsWay {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        let size = self.text.len();
        self.outbox.change(|state, _| state.on_its_way -= size);
    }
}

//! What HTTP was given for a client, which may be slow to take it.

use std::sync::Arc;

use bytes::Bytes;

use super::Outbox;

/// So little is not worth counting: a connection has only so many streams.
const LITTLE: usize = 1 << 10;
/// So much may be given for `GET`s in any case: some pieces, of which each may be in a
/// connection that is cut.
const PIECES: usize = 256 << 10;

/// What a client asks with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

impl Outbox {
    /// The same text, which counts among what all sessions hold until HTTP has sent it
    /// or has given it up. No message for an event stream or a poll waits for that: its
    /// client may take what it was sent in any order.
    pub(crate) fn on_its_way(self: &Arc<Self>, verb: Verb, text: Bytes) -> Bytes {
        if text.len() <= LITTLE {
            return text;
        }
        self.change(|state, _| *state.on_its_way.of(verb) += text.len());
        Bytes::from_owner(OnItsWay {
            verb,
            text,
            outbox: Arc::clone(self),
        })
    }

    /// Whether there is so much of it that the client, which may have any number of
    /// requests open at once, gets no further answer until it has taken some. Answers that
    /// it does not take keep nobody from listening: they may be in a connection that is cut.
    pub(crate) fn has_much_on_its_way(&self, verb: Verb) -> bool {
        let bytes = self.lock().on_its_way.before(verb);
        // What is sent again is asked for by nobody but the client, as often as it likes.
        let is_more_than_its_share = bytes > self.bounds.share;
        let output = self.bounds.output;
        let (limit, is_full) = match verb {
            Verb::Get => (output.max(PIECES), self.account.has_given_much()),
            Verb::Post => (output, self.account.is_full()),
        };
        is_much(bytes, limit) || (is_more_than_its_share && is_full)
    }
}

/// Bytes that HTTP was given and has not sent.
#[derive(Debug, Default)]
pub(super) struct Given {
    get: usize,
    post: usize,
}

impl Given {
    pub(super) const fn all(&self) -> usize {
        self.get + self.post
    }

    /// What a request with this verb finds before it.
    pub(super) const fn before(&self, verb: Verb) -> usize {
        match verb {
            Verb::Get => self.get,
            Verb::Post => self.all(),
        }
    }

    const fn of(&mut self, verb: Verb) -> &mut usize {
        match verb {
            Verb::Get => &mut self.get,
            Verb::Post => &mut self.post,
        }
    }
}

/// Whether so many bytes are too many to add to, but not if there are none.
pub(super) const fn is_much(bytes: usize, limit: usize) -> bool {
    bytes > 0 && bytes >= limit
}

struct OnItsWay {
    verb: Verb,
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
        let (verb, size) = (self.verb, self.text.len());
        self.outbox
            .change(|state, _| *state.on_its_way.of(verb) -= size);
    }
}

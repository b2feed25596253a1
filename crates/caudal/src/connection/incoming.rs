//! Calls of the other side that run outside the driver, and the conventions that
//! cancel them and move our deadlines.

use std::sync::atomic::Ordering::*;

use caudal_core::{CallError, RawJson};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::deadline::after;
use super::id_key::SameId;
use super::link::{Link, Shared};

/// So many messages in a row that are no JSON are answered.
const GARBAGE: usize = 1000;

/// A call of the other side that runs outside the driver.
pub(super) struct RunningCall {
    is_request: bool,
    /// Where it can be cancelled by it.
    id: Option<SameId>,
    token: CancellationToken,
}

impl Link {
    /// Whether a method belongs to the conventions of the connection.
    #[inline]
    pub(crate) fn knows(&self, method: &str) -> bool {
        let dialect = &self.config.dialect;
        dialect
            .cancel
            .as_ref()
            .is_some_and(|cancel| cancel.method == method)
            || dialect
                .progress
                .as_ref()
                .is_some_and(|progress| progress.method == method)
    }

    /// Which request a notification cancels, if it names one; `None` if it is there for
    /// something else.
    pub(crate) fn cancelled_by(
        &self,
        method: &str,
        params: Option<RawJson<'_>>,
    ) -> Option<Option<SameId>> {
        let cancel = self.config.dialect.cancel.as_ref();
        let cancel = cancel.filter(|cancel| cancel.method == method)?;
        let id = member(params, &cancel.member);
        Some(id.and_then(|id| SameId::parse(&id)))
    }

    /// Acts on a notification of the conventions; `true` if that was all.
    pub(crate) fn convention(&self, method: &str, params: Option<RawJson<'_>>) -> bool {
        if let Some(id) = self.cancelled_by(method, params) {
            id.iter().for_each(|id| self.cancel(id));
            return true;
        }
        if let Some(progress) = &self.config.dialect.progress
            && progress.method == method
            && let Some(token) = member(params, &progress.member)
            && let Some(token) = SameId::parse(&token)
        {
            self.progress(&token);
        }
        // An application may listen to it as well.
        false
    }

    /// Cancels what the other side has called under this id.
    pub(crate) fn cancel(&self, id: &SameId) {
        let shared = self.lock();
        let same = shared.by_id.of(id);
        let tokens: Vec<_> = same
            .filter_map(|key| shared.running.get(key))
            .map(|call| call.token.clone())
            .collect();
        drop(shared);
        tokens.iter().for_each(CancellationToken::cancel);
    }

    /// Moves the deadline of the call that reports progress under this token.
    fn progress(&self, token: &SameId) {
        let mut guard = self.lock();
        let shared = &mut *guard;
        let now = Instant::now();
        for key in shared.by_token.of(token) {
            if let Some(waiting) = shared.calls.get(key)
                && let Some(extend) = &waiting.extend
            {
                let deadline = after(now, extend.by).min(extend.ceiling);
                shared
                    .pending
                    .set_deadline(waiting.id, Some(deadline.into_std()));
            }
        }
        self.call_driver(shared);
    }

    /// Whether a message that is no JSON is answered. Where nothing else comes, the other
    /// side may not understand the answers either, and answer them in the same way for ever.
    #[cold]
    pub(crate) fn answers_garbage(&self) -> bool {
        let run = self.stats.run();
        if self.run_before.swap(run, Relaxed) != run {
            self.understands();
        }
        let before = self.garbage.fetch_add(1, Relaxed);
        if before == GARBAGE {
            tracing::warn!(
                target: "caudal",
                "{GARBAGE} messages in a row are no JSON, and further ones are not answered: \
                 does the other side use another framing?",
            );
        }
        before < GARBAGE
    }

    /// Notes that something came which is JSON.
    pub(crate) fn understands(&self) {
        self.garbage.store(0, Relaxed);
    }

    /// Whether no further request may start beside `more` that are about to.
    #[inline]
    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.in_flight.load(Relaxed) + more >= self.config.limits.in_flight
    }

    pub(crate) fn count_in_flight(&self, request: bool) {
        self.in_flight.fetch_add(usize::from(request), Relaxed);
    }

    pub(crate) fn uncount_in_flight(&self, request: bool) {
        self.in_flight.fetch_sub(usize::from(request), Release);
    }

    /// Whether a call must finish before the next message starts.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.barriers.load(Acquire) > 0
    }

    /// Whether calls of the other side run outside the driver.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_held() || self.in_flight.load(Acquire) > 0
    }

    /// Whether calls of ours wait for an answer.
    pub(crate) fn has_pending(&self) -> bool {
        !self.lock().pending.is_empty()
    }

    /// Notes a call that runs outside the driver.
    pub(crate) fn enter(
        &self,
        id: Option<&str>,
        token: CancellationToken,
        holds: bool,
    ) -> (usize, u64) {
        self.count_in_flight(id.is_some());
        if holds {
            self.hold();
        }
        let call = RunningCall {
            is_request: id.is_some(),
            id: match self.config.dialect.cancel {
                Some(_) => id.and_then(SameId::parse),
                None => None,
            },
            token,
        };
        let id = call.id.clone();
        let mut shared = self.lock();
        let key = shared.running.insert(call);
        if let Some(id) = id {
            shared.by_id.insert(id, key);
        }
        (key, shared.session)
    }

    /// Lets no further message start until [`let_go`](Self::let_go).
    pub(crate) fn hold(&self) {
        self.barriers.fetch_add(1, AcqRel);
    }

    pub(crate) fn let_go(&self) {
        let mut shared = self.lock();
        self.barriers.fetch_sub(1, AcqRel);
        self.call_driver(&mut shared);
    }

    /// A token that fires when the session ends, if nothing fires it before.
    pub(crate) fn token(&self) -> CancellationToken {
        self.session_token().child_token()
    }

    pub(crate) fn session_token(&self) -> CancellationToken {
        self.lock().token.clone()
    }

    /// Counts an answer that waits for room.
    pub(crate) fn count_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_add(bytes, AcqRel);
    }

    pub(crate) fn uncount_undelivered(&self, bytes: usize) {
        self.undelivered.fetch_sub(bytes, AcqRel);
    }

    /// Counts an answer that waits for the rest of its batch, or on a stream of its own.
    pub(crate) fn count_owed(&self, bytes: usize) {
        self.owed.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn uncount_owed(&self, bytes: usize) {
        self.owed.fetch_sub(bytes, Relaxed);
    }

    /// Whether such answers, `more` among them, hold so much that no further request may
    /// start that would add to them.
    pub(crate) fn owes_too_much(&self, more: usize) -> bool {
        let owed = self.owed.load(Relaxed) + more;
        owed > 0 && owed >= self.config.limits.output
    }

    /// Whether so much waits to be sent that nothing new should begin.
    #[inline]
    pub(crate) fn is_output_full(&self, out: usize) -> bool {
        let waits = out + self.undelivered.load(Relaxed);
        waits > 0 && waits >= self.output.load(Relaxed)
    }

    /// Notes that work has ended that went on without its call.
    pub(crate) fn leave_late(&self, held: bool) {
        let mut shared = self.lock();
        self.uncount_in_flight(true);
        if held {
            self.barriers.fetch_sub(1, AcqRel);
        }
        self.call_driver(&mut shared);
    }

    /// Appends the answer of a call, which was counted as undelivered, when there is room
    /// for it; to the session that asked alone. With it the call has ended: who has the
    /// answer may ask again at once.
    ///
    /// # Cancel safety
    /// If it is dropped, nothing was appended.
    pub(crate) async fn answer(
        &self,
        session: u64,
        frame: &[u8],
        key: usize,
        holds: bool,
    ) -> Result<(), CallError> {
        while !self.try_answer(session, frame, key, holds)? {
            self.wait_for_room(false).await;
        }
        Ok(())
    }

    fn try_answer(
        &self,
        session: u64,
        frame: &[u8],
        key: usize,
        holds: bool,
    ) -> Result<bool, CallError> {
        let mut shared = self.lock();
        let appended = self.try_append(&mut shared, Some(session), frame)?;
        if appended {
            // In this order: who sees no call run must see that there is something to send.
            self.uncount_undelivered(frame.len());
            self.remove_running(&mut shared, key, holds);
        }
        Ok(appended)
    }

    /// Notes that it has ended.
    pub(crate) fn leave(&self, key: usize, holds: bool) {
        self.remove_running(&mut self.lock(), key, holds);
    }

    fn remove_running(&self, shared: &mut Shared, key: usize, holds: bool) {
        let call = shared.running.remove(key);
        if let Some(id) = call.id {
            shared.by_id.remove(id, key);
        }
        self.uncount_in_flight(call.is_request);
        if holds {
            self.barriers.fetch_sub(1, AcqRel);
        }
        self.call_driver(shared);
    }
}

/// The JSON text of one member of params by name.
pub(crate) fn member(params: Option<RawJson<'_>>, name: &str) -> Option<String> {
    let mut members: std::collections::HashMap<String, Box<serde_json::value::RawValue>> =
        params?.read().ok()?;
    members.remove(name).map(|value| value.get().to_owned())
}

#[cfg(test)]
mod tests {
    use caudal_core::Framing;
    use tokio_util::sync::CancellationToken;

    use super::{Link, Relaxed};
    use crate::peer::State;

    #[tokio::test]
    async fn a_call_has_ended_when_its_answer_can_be_sent() {
        let (config, none) = Default::default();
        let link = Link::new(config, Framing::Line, State::Connected, false, none);
        let (key, session) = link.enter(Some("1"), CancellationToken::new(), true);
        link.look();
        link.count_undelivered(3);
        assert!(link.is_busy() && !link.is_called());
        let answered = link.answer(session, b"{}\n", key, true).await;
        assert!(answered.is_ok() && !link.is_busy() && link.is_called());
        assert_eq!(link.undelivered.load(Relaxed), 0);
    }
}

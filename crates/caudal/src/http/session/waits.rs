//! POSTs that wait for the answer to what they have brought.

mod index;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use caudal_core::{Message, Policy, decode};

use self::index::Index;
use super::channel::Pipe;
use super::outbox::Bounds;
#[cfg(feature = "sse")]
use super::outbox::Reader;
use crate::connection::IdKey;

pub(super) use self::index::{Asked, Subject};

/// Bytes of progress that wait for one POST; what is more goes with the server's
/// other messages.
const ROOM: usize = 64 << 10;

/// Reads a message of ours, which knows no bounds.
pub(super) fn read_own(text: &[u8]) -> Message<'_> {
    let mut policy = Policy::default();
    policy.max_message = usize::MAX;
    policy.max_depth = usize::MAX;
    policy.max_batch = usize::MAX;
    policy.max_id = usize::MAX;
    decode(text, &policy)
}

/// All POSTs of a session that wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Waits {
    /// What they may hold of what they have asked.
    bounds: Bounds,
    /// What those of all sessions hold.
    all: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waits: BTreeMap<u64, Waiting>,
    /// Those that are open.
    index: Index,
    /// Bytes of what they have asked.
    size: usize,
    count: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    /// Reports of progress that its client has still to get, each with the last of the
    /// server's messages before it,
    reports: VecDeque<(Bytes, u64)>,
    /// and their bytes.
    reported: usize,
    /// Whether one has gone with the server's other messages: those after it follow it.
    overflown: bool,
    outcome: Outcome,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Outcome {
    Open(Asked),
    /// The answer, and the last of the server's messages before it.
    Answered(Bytes, u64),
    /// None will come.
    Ended,
}

/// The POST that a message is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taker {
    key: u64,
    is_answer: bool,
}

impl Waits {
    /// `all` counts what the POSTs of all sessions have asked.
    pub(super) fn new(bounds: Bounds, all: &Arc<AtomicUsize>) -> Self {
        Self {
            bounds,
            all: Arc::clone(all),
            state: Mutex::default(),
        }
    }

    /// How often anybody was looked for.
    #[cfg(test)]
    pub(super) fn looks(&self) -> usize {
        self.lock().index.looks.get()
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().waits.is_empty()
    }

    /// The first that waits for a message about this, if it has room for it.
    pub(super) fn find(&self, subject: &Subject<'_>, size: usize) -> Option<Taker> {
        let mut state = self.lock();
        let taker = Taker {
            key: state.index.find(subject)?,
            is_answer: matches!(subject, Subject::Answer(..)),
        };
        let takes = state.takes(taker, size);
        if let Some(waiting) = state.waits.get_mut(&taker.key) {
            waiting.overflown |= !takes;
        }
        takes.then_some(taker)
    }

    /// Whether it still waits, and has room.
    pub(super) fn want(&self, taker: Taker, size: usize) -> bool {
        self.lock().takes(taker, size)
    }

    /// Gives a message to the one that waits for it, with the number of the `last` one
    /// before it; `false` if it does not wait any more. Reports of progress come so before
    /// the answer.
    pub(super) fn give(&self, taker: Taker, text: &[u8], last: u64) -> bool {
        let mut state = self.lock();
        if !state.takes(taker, text.len()) {
            return false;
        }
        let text = Bytes::copy_from_slice(text);
        let waker = match taker.is_answer {
            true => self.settle(&mut state, taker.key, Outcome::Answered(text, last)),
            false => state.waits.get_mut(&taker.key).and_then(|waiting| {
                waiting.reported += text.len();
                waiting.reports.push_back((text, last));
                waiting.waker.take()
            }),
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Waits no longer for the answer to requests with this id, a JSON text: it may never
    /// come. Who waits for no other is ended.
    pub(super) fn give_up(&self, id: &str) {
        let id = Arc::new(IdKey::of_json(id));
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut wakers = Vec::new();
        for key in state.index.find_open(&id) {
            let waiting = state.waits.get_mut(&key);
            let Some(Outcome::Open(asked)) = waiting.map(|waiting| &mut waiting.outcome) else {
                continue;
            };
            state.index.give_up(key, asked, &id);
            if asked.is_given_up() {
                wakers.extend(self.settle(state, key, Outcome::Ended));
            }
        }
        drop(guard);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// No answer comes any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let keys: Vec<_> = state.waits.keys().copied().collect();
        let settle = |key| self.settle(&mut state, key, Outcome::Ended);
        let wakers: Vec<_> = keys.into_iter().filter_map(settle).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Lets a POST wait; `None` if so much is asked already that it would be too much.
    fn begin(&self, asked: Asked) -> Option<u64> {
        let mut state = self.lock();
        state.count += 1;
        let key = state.count;
        let outcome = match state.closed {
            true => Outcome::Ended,
            false => {
                let size = asked.size();
                if !self.admits(&state, size) {
                    return None;
                }
                state.size += size;
                self.all.fetch_add(size, Relaxed);
                state.index.insert(key, &asked);
                Outcome::Open(asked)
            }
        };
        let waiting = Waiting {
            reports: VecDeque::new(),
            reported: 0,
            overflown: false,
            outcome,
            waker: None,
        };
        state.waits.insert(key, waiting);
        Some(key)
    }

    /// Whether there is room for so much more. Nothing is too large where nobody waits.
    fn admits(&self, state: &State, size: usize) -> bool {
        let own = state.size.saturating_add(size);
        // What others ask at this moment may pass the limit by a little.
        let all = self.all.load(Relaxed).saturating_add(size);
        let fits = all <= self.bounds.all || own <= self.bounds.share;
        state.size == 0 || (own <= self.bounds.output && fits)
    }

    /// Ends an open wait. Its ids are forgotten: a later answer is not for it.
    fn settle(&self, state: &mut State, key: u64, outcome: Outcome) -> Option<Waker> {
        let waiting = state.waits.get_mut(&key)?;
        let Outcome::Open(_) = waiting.outcome else {
            return None;
        };
        let waker = waiting.waker.take();
        let before = std::mem::replace(&mut waiting.outcome, outcome);
        self.forget(state, key, &before);
        waker
    }

    fn end(&self, key: u64) -> Option<Waiting> {
        let mut state = self.lock();
        let ended = state.waits.remove(&key)?;
        self.forget(&mut state, key, &ended.outcome);
        Some(ended)
    }

    fn forget(&self, state: &mut State, key: u64, outcome: &Outcome) {
        if let Outcome::Open(asked) = outcome {
            let size = asked.size();
            state.size -= size;
            self.all.fetch_sub(size, Relaxed);
            state.index.remove(key, asked);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    /// Whether it waits, and has room for so many bytes.
    fn takes(&self, taker: Taker, size: usize) -> bool {
        self.waits.get(&taker.key).is_some_and(|waiting| {
            let fits = waiting.reported.saturating_add(size) <= ROOM;
            let has_room = fits && !waiting.overflown;
            matches!(waiting.outcome, Outcome::Open(_)) && (taker.is_answer || has_room)
        })
    }
}

impl Waiting {
    /// Bytes that are set aside for it.
    fn held(&self) -> usize {
        let answer = match &self.outcome {
            Outcome::Answered(text, _) => text.len(),
            _ => 0,
        };
        self.reported + answer
    }

    fn answer(self) -> Option<Bytes> {
        match self.outcome {
            Outcome::Answered(text, _) => Some(text),
            _ => None,
        }
    }
}

/// One that waits. If it is dropped, its answer goes with the server's messages.
#[derive(Debug)]
pub(crate) struct Wait {
    pipe: Arc<Pipe>,
    key: u64,
}

impl Wait {
    /// `None` if too much waits already.
    pub(super) fn begin(pipe: &Arc<Pipe>, asked: Asked) -> Option<Self> {
        let key = pipe.waits.begin(asked)?;
        let pipe = Arc::clone(pipe);
        Some(Self { pipe, key })
    }

    /// Ready when there is an answer, with the last message before it; or `None` if
    /// there will be none.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let mut state = self.pipe.waits.lock();
        let Some(waiting) = state.waits.get_mut(&self.key) else {
            return Poll::Ready(None);
        };
        match &waiting.outcome {
            Outcome::Open(_) => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Outcome::Answered(_, last) => Poll::Ready(Some(*last)),
            Outcome::Ended => Poll::Ready(None),
        }
    }

    /// The answer, if it is there; then the wait is over.
    pub(crate) fn take(&self) -> Option<Bytes> {
        self.end()?.answer()
    }

    fn end(&self) -> Option<Waiting> {
        let ended = self.pipe.waits.end(self.key)?;
        self.pipe.outbox.release(ended.held());
        Some(ended)
    }
}

#[cfg(feature = "sse")]
impl Wait {
    /// Reads the server's other messages, while nobody else does; see
    /// [`Outbox::lend`](super::outbox::Outbox::lend).
    pub(crate) fn lend(&self, cx: &mut Context<'_>) -> Option<Reader> {
        self.pipe.outbox.lend(cx, self.key)
    }

    /// Ready when there is something to read so, or a report. The task of `cx` must
    /// have polled for the answer before.
    pub(super) fn poll_unread(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.pipe.waits.lock();
        let waiting = state.waits.get(&self.key);
        if waiting.is_some_and(|waiting| !waiting.reports.is_empty()) {
            return Poll::Ready(());
        }
        drop(state);
        self.pipe.outbox.poll_unread(cx, self.key)
    }

    /// The number of the last of the server's messages.
    pub(crate) fn last(&self) -> u64 {
        self.pipe.outbox.last()
    }

    /// The number of the last one before the next report of progress, if there is one.
    pub(crate) fn before_report(&self) -> Option<u64> {
        let state = self.pipe.waits.lock();
        let waiting = state.waits.get(&self.key)?;
        waiting.reports.front().map(|(_, last)| *last)
    }

    /// The next report of progress, if there is one.
    pub(crate) fn next_report(&self) -> Option<Bytes> {
        let mut state = self.pipe.waits.lock();
        let waiting = state.waits.get_mut(&self.key)?;
        let (report, _) = waiting.reports.pop_front()?;
        waiting.reported -= report.len();
        drop(state);
        self.pipe.outbox.release(report.len());
        Some(report)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.pipe.outbox.leave(self.key);
        let Some(mut waiting) = self.end() else {
            return;
        };
        let reports = std::mem::take(&mut waiting.reports).into_iter();
        let reports = reports.map(|(report, _)| report);
        for text in reports.chain(waiting.answer()) {
            self.pipe.outbox.push_back(text);
        }
    }
}

#[cfg(test)]
mod tests;

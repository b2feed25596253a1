//! POSTs that wait for the answer to what they have brought.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use caudal_core::{InvalidKind, Message, Policy, decode};

use super::channel::Pipe;
#[cfg(feature = "sse")]
use super::outbox::Reader;
use crate::peer::same_id;

/// Bytes of progress that wait for one POST; what is more goes with the server's
/// other messages.
const ROOM: usize = 64 << 10;

/// The ids in a message that want answers, or that are answered: as they are
/// written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ids {
    is_batch: bool,
    ids: Vec<Box<str>>,
}

impl Ids {
    /// Those of requests, if there are any.
    pub(super) fn asked(message: &Message<'_>) -> Option<Self> {
        Self::of(message, |message| match message {
            Message::Request(request) => Some(request.id.as_str()),
            Message::Invalid(invalid) if invalid.kind == InvalidKind::Request => {
                Some(invalid.id.as_str())
            }
            _ => None,
        })
    }

    /// Those that a message of ours answers, if it is an answer.
    pub(super) fn answered(message: &Message<'_>) -> Option<Self> {
        Self::of(message, |message| match message {
            Message::Response(response) => Some(response.id.as_str()),
            _ => None,
        })
    }

    fn of<'a>(
        message: &'a Message<'_>,
        id: impl Fn(&'a Message<'_>) -> Option<&'a str>,
    ) -> Option<Self> {
        let (is_batch, ids): (_, Vec<Box<str>>) = match message {
            Message::Batch(entries) => {
                let ids = entries.iter().filter_map(id);
                (true, ids.map(Into::into).collect())
            }
            single => (false, id(single).map(Into::into).into_iter().collect()),
        };
        (!ids.is_empty()).then_some(Self { is_batch, ids })
    }

    /// Whether an answer with these ids answers what was asked with `self`. Null
    /// says little, so it counts only where there is nothing else.
    fn match_answer(&self, answer: &Self) -> bool {
        let mut named = answer.ids.iter().filter(|id| &***id != "null").peekable();
        self.is_batch == answer.is_batch
            && match named.peek() {
                Some(_) => named.any(|id| self.ids.contains(id)),
                None => self.ids.iter().all(|id| &**id == "null"),
            }
    }
}

/// What a message of ours is to a POST that waits.
#[derive(Debug)]
pub(super) enum Subject {
    /// The answer to requests with these ids.
    Answer(Ids),
    /// A report of progress under this token, a JSON text.
    Report(String),
}

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
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waits: BTreeMap<u64, Waiting>,
    count: u64,
    closed: bool,
}

#[derive(Debug)]
struct Waiting {
    ids: Ids,
    /// Under which progress of what was asked is reported: JSON texts.
    tokens: Vec<String>,
    /// Such reports that its client has still to get.
    reports: VecDeque<Bytes>,
    outcome: Outcome,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Outcome {
    Open,
    /// The answer, and the last of the server's messages before it.
    Answered(Bytes, u64),
    /// None will come.
    Ended,
}

impl Waits {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().waits.is_empty()
    }

    /// Whether somebody waits for a message about this, and has room for it.
    pub(super) fn want(&self, subject: &Subject, size: usize) -> bool {
        let state = self.lock();
        state.waits.values().any(|one| one.wants(subject, size))
    }

    /// Gives a message to the first that waits for it; `false` if there is none. Reports
    /// of progress come so before the answer, whose `last` message before it this is.
    pub(super) fn give(&self, subject: &Subject, text: &[u8], last: u64) -> bool {
        self.change(
            |waiting| waiting.wants(subject, text.len()),
            |waiting| {
                let text = Bytes::copy_from_slice(text);
                match subject {
                    Subject::Answer(_) => waiting.outcome = Outcome::Answered(text, last),
                    Subject::Report(_) => waiting.reports.push_back(text),
                }
            },
        )
    }

    /// Ends the wait for an answer that may never come.
    pub(super) fn give_up(&self, id: &str) {
        self.change(
            |waiting| waiting.is_open() && waiting.ids.ids.iter().all(|one| same_id(one, id)),
            |waiting| waiting.outcome = Outcome::Ended,
        );
    }

    /// Changes the first that is meant, and wakes it; `false` if there is none.
    fn change(&self, is: impl Fn(&Waiting) -> bool, change: impl FnOnce(&mut Waiting)) -> bool {
        let mut state = self.lock();
        let Some(waiting) = state.waits.values_mut().find(|waiting| is(waiting)) else {
            return false;
        };
        change(waiting);
        let waker = waiting.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// No answer comes any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let mut wakers = Vec::new();
        for waiting in state.waits.values_mut() {
            if let Outcome::Open = waiting.outcome {
                waiting.outcome = Outcome::Ended;
                wakers.extend(waiting.waker.take());
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiting {
    fn is_open(&self) -> bool {
        matches!(self.outcome, Outcome::Open)
    }

    fn wants(&self, subject: &Subject, size: usize) -> bool {
        self.is_open()
            && match subject {
                Subject::Answer(answer) => self.ids.match_answer(answer),
                Subject::Report(token) => {
                    self.tokens.iter().any(|one| same_id(one, token))
                        && self.reported().saturating_add(size) <= ROOM
                }
            }
    }

    /// Bytes of reports.
    fn reported(&self) -> usize {
        self.reports.iter().map(Bytes::len).sum()
    }

    /// Bytes that are set aside for it.
    fn held(&self) -> usize {
        let answer = match &self.outcome {
            Outcome::Answered(text, _) => text.len(),
            _ => 0,
        };
        self.reported() + answer
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
    pub(super) fn begin(pipe: &Arc<Pipe>, ids: Ids, tokens: Vec<String>) -> Self {
        let mut state = pipe.waits.lock();
        state.count += 1;
        let key = state.count;
        let outcome = match state.closed {
            true => Outcome::Ended,
            false => Outcome::Open,
        };
        let waiting = Waiting {
            ids,
            tokens,
            reports: VecDeque::new(),
            outcome,
            waker: None,
        };
        state.waits.insert(key, waiting);
        drop(state);
        let pipe = Arc::clone(pipe);
        Self { pipe, key }
    }

    /// Ready when there is an answer, with the last message before it; or `None` if
    /// there will be none.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        let mut state = self.pipe.waits.lock();
        let Some(waiting) = state.waits.get_mut(&self.key) else {
            return Poll::Ready(None);
        };
        match &waiting.outcome {
            Outcome::Open => {
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
        let ended = self.pipe.waits.lock().waits.remove(&self.key)?;
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

    /// The next report of progress, if there is one.
    pub(crate) fn next_report(&self) -> Option<Bytes> {
        let mut state = self.pipe.waits.lock();
        let report = state.waits.get_mut(&self.key)?.reports.pop_front()?;
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
        let reports = std::mem::take(&mut waiting.reports);
        for text in reports.into_iter().chain(waiting.answer()) {
            self.pipe.outbox.push_back(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Ids {
        Ids::asked(&decode(text.as_bytes(), &Policy::default())).unwrap()
    }

    fn answered(text: &str) -> Ids {
        Ids::answered(&decode(text.as_bytes(), &Policy::default())).unwrap()
    }

    #[test]
    fn an_answer_is_known_by_its_ids() {
        let one = asked(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#);
        let null = asked(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#);
        let batch = asked(r#"[{"jsonrpc":"2.0","id":1,"method":"a"},7]"#);
        let wrong = asked("[7]");
        let to_one = answered(r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
        let to_null = answered(r#"{"jsonrpc":"2.0","id":null,"result":1}"#);
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#;
        let to_batch = answered(&format!(
            r#"[{{"jsonrpc":"2.0","id":1,"result":1}},{error}]"#
        ));
        let to_wrong = answered(&format!("[{error}]"));
        let all = [&one, &null, &batch, &wrong];
        for (i, answer) in [to_one, to_null, to_batch, to_wrong].iter().enumerate() {
            let matches = all.map(|asked| asked.match_answer(answer));
            let mut expected = [false; 4];
            expected[i] = true;
            assert_eq!(matches, expected, "{answer:?}");
        }
    }

    #[test]
    fn calls_and_notifications_of_ours_answer_nothing() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","method":"a"}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#,
        ] {
            let message = decode(text.as_bytes(), &Policy::default());
            assert_eq!(Ids::answered(&message), None, "{text}");
        }
    }

    #[test]
    fn reports_have_bounds() {
        let waits = Waits::default();
        let waiting = Waiting {
            ids: Ids {
                is_batch: false,
                ids: vec!["1".into()],
            },
            tokens: vec!["7".to_owned()],
            reports: VecDeque::new(),
            outcome: Outcome::Open,
            waker: None,
        };
        waits.lock().waits.insert(1, waiting);
        let report = |token: &str, text: &[u8]| {
            let subject = Subject::Report(token.to_owned());
            let wanted = waits.want(&subject, text.len());
            assert_eq!(waits.give(&subject, text, 0), wanted);
            wanted
        };
        let text = vec![b' '; ROOM - 1];
        assert!(!report("\"7\"", b"{}"));
        assert!(report("7", &text));
        assert!(report("7", b"1"));
        assert!(!report("7", b"1"));
        waits.give_up("1");
        waits.lock().waits.get_mut(&1).unwrap().reports.clear();
        assert!(!report("7", b"1"));
    }
}

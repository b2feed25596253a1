//! Messages of the server beside the answer, as they stand on the wire.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use caudal::{Direction, Id, JsonRpcError, OldResponses, Policy, RequestId, Tap};
use caudal_core::{InvalidKind, Message, Response, decode};
use std::io::Write as _;
use tokio::sync::mpsc;

use crate::layout::visible;

/// Something that takes the place of the answer.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The server could not read who asks, but there is only one call.
    Refused(JsonRpcError),
    /// Our own call has come back, and so has our own answer to it.
    Echo,
    /// The answer, in a form that only `--lenient` accepts.
    Old(String),
    /// It is not JSON-RPC, or answers what nobody asked.
    Garbage(Garbage),
}

/// A message that is of no use, with the reason.
#[derive(Debug)]
pub(crate) struct Garbage {
    pub(crate) kind: GarbageKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GarbageKind {
    /// Anything: a program may print it before it serves.
    Print,
    /// An answer, to what nobody asked.
    Answer,
    /// It can only be another framing,
    Framing,
    /// and this one has `Content-Length` headers.
    Headers,
    /// It begins as HTTP does,
    Http,
    /// or as a refusal of TLS.
    Tls,
}

impl GarbageKind {
    /// Returns the other protocol that a text belongs to, by its beginning.
    fn known(text: &str) -> Option<Self> {
        // That of TLS is an alert, of any version.
        let known = [("HTTP/1.", Self::Http), ("\u{15}\u{3}", Self::Tls)];
        let mut known = known.into_iter();
        let (_, kind) = known.find(|(begin, _)| text.starts_with(begin))?;
        Some(kind)
    }
}

/// Messages of a program that are passed over.
pub(crate) const PASSED_OVER: usize = 1000;

/// Watches a connection with one call.
pub(crate) struct Findings {
    /// True if notifications are shown.
    verbose: AtomicBool,
    policy: Policy,
    sent: Mutex<Sent>,
    /// True if any message was received.
    heard: AtomicBool,
    /// Set when a valid message was received.
    understood: AtomicBool,
    /// Has room for all that may be passed over: one of them may explain more.
    found: mpsc::Sender<Finding>,
}

/// Messages that this side has sent.
#[derive(Default)]
struct Sent {
    /// The id of the call, when it has been sent,
    asked: Option<RequestId>,
    /// and the whole of it.
    call: Vec<u8>,
    /// The answer to a request that is the call to the letter. A server may well send
    /// such a one; but hardly its answer, too.
    answer: Option<Vec<u8>>,
    /// True if such a request has come.
    echoed: bool,
    /// Number of messages found already that are refused with an answer without an id.
    blamed: usize,
}

impl Findings {
    pub(crate) fn new(verbose: bool, policy: Policy) -> (Self, mpsc::Receiver<Finding>) {
        let (found, findings) = mpsc::channel(PASSED_OVER);
        let watch = Self {
            verbose: AtomicBool::new(verbose),
            policy,
            sent: Mutex::default(),
            heard: AtomicBool::new(false),
            understood: AtomicBool::new(false),
            found,
        };
        (watch, findings)
    }

    /// Shows no more notifications, now that the answer is there.
    pub(crate) fn stop_showing(&self) {
        self.verbose.store(false, Relaxed);
    }

    /// Returns true if any message was received, be it valid or not.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Returns whether a valid message was received.
    pub(crate) fn has_understood(&self) -> bool {
        self.understood.load(Relaxed)
    }

    fn received(&self, message: &Message<'_>, frame: &[u8]) {
        match message {
            Message::Batch(entries) => {
                for entry in entries {
                    self.received(entry, frame);
                }
            }
            Message::Response(response) if self.is_asked(response.id) => {}
            Message::Response(response) => match &response.outcome {
                Err(error) if response.id.is_null() => {
                    self.find(Finding::Refused(error.clone().into()));
                }
                _ => {
                    let id = response.id.as_str();
                    let why = format!("it answers a call with the id {id}");
                    self.garbage(GarbageKind::Answer, &why, frame);
                }
            },
            // An answer to our call that is not valid: the call itself fails of it.
            Message::Invalid(invalid)
                if invalid.kind == InvalidKind::Response && self.is_asked(invalid.id) => {}
            Message::Invalid(invalid) if invalid.kind != InvalidKind::Notification => {
                if invalid.id.is_null() && invalid.wants_answer() {
                    self.sent().blamed += 1;
                }
                let kind = match invalid.kind {
                    InvalidKind::Response => GarbageKind::Answer,
                    _ => GarbageKind::Print,
                };
                self.garbage(kind, &invalid.cause.to_string(), frame);
            }
            _ => {}
        }
    }

    fn garbage(&self, kind: GarbageKind, why: &str, frame: &[u8]) {
        let shown = shown(frame);
        let (kind, text) = match is_length(frame) {
            true => (GarbageKind::Headers, format!("`{}`", shown.trim_end())),
            false => (
                GarbageKind::known(&shown).unwrap_or(kind),
                format!("`{shown}` ({why})"),
            ),
        };
        self.find(Finding::Garbage(Garbage { kind, text }));
    }

    fn find(&self, finding: Finding) {
        // If there is no room, those before it explain enough.
        let _ = self.found.try_send(finding);
    }

    fn is_asked(&self, id: Id<'_>) -> bool {
        self.is_answered_by(id, self.policy.old_responses)
    }

    fn is_answered_by(&self, id: Id<'_>, old: OldResponses) -> bool {
        let sent = self.sent();
        sent.asked.as_ref().is_some_and(|own| id.answers(own, old))
    }

    /// Returns whether a frame has an answer that only `--lenient` accepts.
    fn is_old_answer(&self, message: &Message<'_>, frame: &[u8]) -> bool {
        let answers = |message: &Message<'_>, old| match message {
            Message::Response(response) => {
                is_refusal(response) || self.is_answered_by(response.id, old)
            }
            _ => false,
        };
        let has_answer = |message: &Message<'_>, old| match message {
            Message::Batch(entries) => entries.iter().any(|entry| answers(entry, old)),
            single => answers(single, old),
        };
        let lenient = lenient(self.policy);
        !has_answer(message, self.policy.old_responses)
            && has_answer(&decode(frame, &lenient), lenient.old_responses)
    }

    /// Looks for what this side has said itself.
    fn look_for_echo(&self, message: &Message<'_>, frame: &[u8]) {
        let mut sent = self.sent();
        match message {
            Message::Request(_) => sent.echoed |= sent.call == frame,
            Message::Response(_) if sent.answer.as_deref() == Some(frame) => {
                self.find(Finding::Echo);
            }
            _ => {}
        }
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        // Nothing that can panic runs under it.
        self.sent
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Tap for Findings {
    fn message(&self, direction: Direction, bytes: &[u8]) {
        let message = decode(bytes, &self.policy);
        match (direction, &message) {
            (Direction::Received, message) => {
                self.heard.store(true, Relaxed);
                if self.verbose.load(Relaxed) && has_notification(message) {
                    let text = String::from_utf8_lossy(bytes);
                    // Whoever reads no more misses this, and nothing else; whoever reads
                    // slowly is waited for, while there is time.
                    let _ = writeln!(std::io::stderr(), "{direction} {}", visible(&text));
                }
                if !matches!(message, Message::Invalid(_)) {
                    self.understood.store(true, Relaxed);
                }
                self.look_for_echo(message, bytes);
                match self.is_old_answer(message, bytes) {
                    true => self.find(Finding::Old(format!("`{}`", shown(bytes)))),
                    false => self.received(message, bytes),
                }
            }
            (_, Message::Request(request)) => {
                let mut sent = self.sent();
                // Ours are integers.
                sent.asked = request.id.to_request_id().ok().flatten();
                sent.call = bytes.to_vec();
            }
            (_, Message::Response(response)) => {
                let mut sent = self.sent();
                if let Err(error) = &response.outcome
                    && response.id.is_null()
                {
                    match sent.blamed.checked_sub(1) {
                        Some(left) => sent.blamed = left,
                        // What cannot be cut into messages is seen by nobody else.
                        None => self.find(unframed(&error.message)),
                    }
                }
                if sent.echoed {
                    sent.answer = Some(bytes.to_vec());
                }
            }
            _ => {}
        }
    }
}

/// Beginning of a frame, for a person.
fn shown(frame: &[u8]) -> String {
    const SHOWN: usize = 200;
    match frame.get(..SHOWN) {
        Some(start) => format!("{}…", String::from_utf8_lossy(start)),
        None => String::from_utf8_lossy(frame).into_owned(),
    }
}

/// The policy of `--lenient`.
pub(crate) const fn lenient(mut policy: Policy) -> Policy {
    policy.old_responses = OldResponses::Accept;
    policy
}

/// Returns whether a response says that the server could not read who asks.
fn is_refusal(response: &Response<'_>) -> bool {
    response.id.is_null() && response.outcome.is_err()
}

/// Returns whether a text is the error of a server that could not read who asks, in a form
/// that only `--lenient` accepts.
pub(crate) fn is_old_refusal(text: &str) -> bool {
    let read = |policy: &Policy| match decode(text.as_bytes(), policy) {
        Message::Response(response) => is_refusal(&response),
        _ => false,
    };
    let policy = Policy::default();
    !read(&policy) && read(&lenient(policy))
}

/// Returns true if a frame is the header with the length of a message.
fn is_length(frame: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length:";
    let Some((name, value)) = frame.split_at_checked(NAME.len()) else {
        return false;
    };
    let value = value.trim_ascii();
    name.eq_ignore_ascii_case(NAME) && !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

/// Bytes that cannot be cut into messages; this is what their sender is told.
fn unframed(told: &str) -> Finding {
    let why = told.trim_start_matches("Parse error: ");
    let text = format!("no message can be found in what it sends ({why})");
    let stray = why.strip_prefix("not a header: \"").unwrap_or_default();
    let kind = match GarbageKind::known(&stray.replace(r"\u{15}\u{3}", "\u{15}\u{3}")) {
        Some(known) => known,
        // A message stands where a header should.
        None if stray.contains(r#"\"jsonrpc\""#) => GarbageKind::Framing,
        None => GarbageKind::Print,
    };
    Finding::Garbage(Garbage { kind, text })
}

fn has_notification(message: &Message<'_>) -> bool {
    match message {
        Message::Notification(_) => true,
        Message::Batch(entries) => entries.iter().any(has_notification),
        _ => false,
    }
}

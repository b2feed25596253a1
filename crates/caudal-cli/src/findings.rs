//! Messages of the server other than the response, as they were received.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use caudal::{Direction, Id, JsonRpcError, OldResponses, Policy, RequestId, Tap};
use caudal_core::{InvalidKind, Message, Response, decode};
use std::io::Write as _;
use tokio::sync::mpsc;

use crate::layout::visible;

/// A message that ends the call without a response.
#[derive(Debug)]
pub(crate) enum Finding {
    /// An error without an id. It answers the call, since there is only one.
    Refused(JsonRpcError),
    /// The server has sent back the call, and then this side's reply to that.
    Echo,
    /// The response, in a form that only `--lenient` accepts.
    Old(String),
    /// Not JSON-RPC, or a response to no call.
    Garbage(Garbage),
}

/// A message that cannot be used, with the reason.
#[derive(Debug)]
pub(crate) struct Garbage {
    pub(crate) kind: GarbageKind,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GarbageKind {
    /// Any text: a program may print before it serves.
    Print,
    /// A response that is invalid or belongs to no call.
    Answer,
    /// Text of another framing.
    Framing,
    /// Text of the framing by `Content-Length` headers.
    Headers,
    /// The beginning of an HTTP response.
    Http,
    /// A TLS alert.
    Tls,
}

impl GarbageKind {
    /// Returns the protocol that the text begins like, if it is HTTP or TLS.
    fn known(text: &str) -> Option<Self> {
        // TLS begins with an alert, of any version.
        let known = [("HTTP/1.", Self::Http), ("\u{15}\u{3}", Self::Tls)];
        let mut known = known.into_iter();
        let (_, kind) = known.find(|(begin, _)| text.starts_with(begin))?;
        Some(kind)
    }
}

/// Maximum unusable messages of a program that are skipped.
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
    /// Has room for all messages that may be skipped: each may explain the failure.
    found: mpsc::Sender<Finding>,
}

/// Messages that this side has sent.
#[derive(Default)]
struct Sent {
    /// Id of the call, once it was sent.
    asked: Option<RequestId>,
    /// Text of the call, once it was sent.
    call: Vec<u8>,
    /// This side's reply to a request that equals the call. A server may send such a
    /// request; if it also sends this reply, it is an echo.
    answer: Option<Vec<u8>>,
    /// True if a request that equals the call was received.
    echoed: bool,
    /// Number of invalid messages found that this side answers with an error without an id.
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

    /// Stops showing notifications, because the response was received.
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
            // An invalid response to the call. The call fails with it.
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
        // If the channel is full, the earlier findings explain enough.
        let _ = self.found.try_send(finding);
    }

    fn is_asked(&self, id: Id<'_>) -> bool {
        self.is_answered_by(id, self.policy.old_responses)
    }

    fn is_answered_by(&self, id: Id<'_>, old: OldResponses) -> bool {
        let sent = self.sent();
        sent.asked.as_ref().is_some_and(|own| id.answers(own, old))
    }

    /// Returns true if a frame has a response that only `--lenient` accepts.
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

    /// Detects messages that this side has sent itself.
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
                    // If stderr is closed, only this is lost. If its reader is slow, the write
                    // waits, within the time limit of the command.
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
                // The ids of this side are integers.
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
                        // Input without a frame is reported here only.
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

/// Returns true if a response is an error without an id.
fn is_refusal(response: &Response<'_>) -> bool {
    response.id.is_null() && response.outcome.is_err()
}

/// Returns true if a text is an error without an id, in a form that only `--lenient`
/// accepts.
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

/// Finding for input in which no frame was found. `told` is the error that its sender gets.
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

//! Invariants for arbitrary bytes: the bodies of the fuzz targets, which the ordinary
//! tests run over the corpus and over generated input.

use std::time::{Duration, Instant};

use caudal_core::decode::Entries;
use caudal_core::{
    CallError, Decoder, ErrorDetail, ExtraMembers, FrameError, FrameReader, Framing, Id, IdFormat,
    JsonRpcError, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Message, NullId,
    OldResponses, Pending, Policy, ScalarParams, decode, encode,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::oracle::{self, Verdict};

/// The policies under which every input is judged.
pub fn policies() -> [Policy; 4] {
    let lenient = Policy::default();
    let mut strict = Policy::default();
    strict.null_id = NullId::Reject;
    strict.extra_members = ExtraMembers::Reject;
    strict.scalar_params = ScalarParams::InvalidRequest;
    let mut tight = Policy::default();
    tight.max_message = 200;
    tight.max_depth = 3;
    tight.max_batch = 2;
    tight.max_id = 4;
    tight.scalar_params = ScalarParams::Accept;
    let mut old = Policy::default();
    old.old_responses = OldResponses::Accept;
    old.extra_members = ExtraMembers::Reject;
    [lenient, strict, tight, old]
}

/// The decoder and the oracle say the same; reading params ahead changes
/// nothing; what was decoded can be written and decoded again.
pub fn decoding(bytes: &[u8]) {
    let nested = bytes.iter().filter(|b| matches!(b, b'[' | b'{')).count();
    if nested > 1_000 {
        // The oracle recurses; the decoder does not.
        let _ = decode(bytes, &Policy::default());
        return;
    }
    for policy in &policies() {
        let message = decode(bytes, policy);
        let verdict = oracle::judge(bytes, policy);
        assert!(
            agrees(&message, &verdict),
            "{message:?}\n is not \n{verdict:?}\n under {policy:?}\n for {}",
            String::from_utf8_lossy(bytes),
        );
        reads_ahead::<IgnoredAny>(bytes, policy, &message);
        reads_ahead::<Value>(bytes, policy, &message);
        reads_ahead::<(i64, i64)>(bytes, policy, &message);
        survives(&message, policy);
        pauses_between_entries(bytes, policy, &message);
    }
}

/// A batch that is read one entry at a time, each by a reader of its own, is the same.
fn pauses_between_entries(bytes: &[u8], policy: &Policy, message: &Message<'_>) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (mut read, mut position) = (Vec::new(), 0);
    loop {
        let mut entries = Entries::at(text, position, policy);
        let Some(entry) = entries.next() else { break };
        read.push(entry);
        position = entries.position();
    }
    if let Message::Batch(entries) = message {
        assert_eq!(&read, entries, "{text}");
    }
}

fn agrees(message: &Message<'_>, verdict: &Verdict) -> bool {
    let node = |text: &str| oracle::parse(text).expect("decoded text is JSON");
    let params = |raw: Option<caudal_core::RawJson<'_>>| raw.map(|raw| node(raw.as_str()));
    match (message, verdict) {
        (Message::Request(m), Verdict::Request(id, method, p)) => {
            m.id.as_str() == *id && m.method == *method && params(m.params) == *p
        }
        (Message::Notification(m), Verdict::Notification(method, p)) => {
            m.method == *method && params(m.params) == *p
        }
        (Message::Response(m), Verdict::Success(id, result)) => {
            let outcome = m.outcome.as_ref().ok().map(|raw| node(raw.as_str()));
            m.id.as_str() == *id && outcome.as_ref() == Some(result)
        }
        (Message::Response(m), Verdict::Failure(id, code, message, data)) => {
            let Err(error) = &m.outcome else { return false };
            m.id.as_str() == *id
                && error.code == *code
                && error.message == *message
                && params(error.data) == *data
        }
        (Message::Batch(entries), Verdict::Batch(judged)) => {
            entries.len() == judged.len()
                && entries
                    .iter()
                    .zip(judged)
                    .all(|(entry, judged)| agrees(entry, judged))
        }
        (
            Message::Invalid(m),
            Verdict::Invalid {
                code,
                id,
                wants_answer,
                field,
            },
        ) => {
            m.code == *code
                && m.id.as_str() == *id
                && m.wants_answer() == *wants_answer
                && m.cause.member().map(caudal_core::Member::name) == *field
        }
        _ => false,
    }
}

fn reads_ahead<'a, T: Deserialize<'a>>(bytes: &'a [u8], policy: &Policy, expected: &Message<'a>) {
    let mut decoder = Decoder::new(bytes, policy);
    let method = decoder.method_before_params();
    let params = decoder.read_params::<T>();
    assert!(method.is_none() || params.is_some());
    let message = decoder.finish();
    assert_eq!(
        message, *expected,
        "reading params ahead changed the verdict"
    );
    let text = match &message {
        Message::Request(request) => request.params,
        Message::Notification(notification) => notification.params,
        _ => return,
    };
    if let (Some(params), Some(text)) = (params, text) {
        assert_eq!(params.is_ok(), text.read::<T>().is_ok());
    }
}

/// A valid message can be written again, and means the same.
fn survives(message: &Message<'_>, policy: &Policy) {
    let mut out = Vec::new();
    match message {
        Message::Request(request) => {
            let raw = request.params.unwrap_or(caudal_core::RawJson::NULL);
            match encode::call_raw(&mut out, request.id, &request.method, raw) {
                Ok(()) => reads_as(&out, message, policy),
                Err(_) => assert_eq!(policy.scalar_params, ScalarParams::Accept),
            }
            if let Ok(owned) = JsonRpcRequest::try_from(request.clone()) {
                round_trips(&owned);
            }
        }
        Message::Notification(notification) => {
            let raw = notification.params.unwrap_or(caudal_core::RawJson::NULL);
            match encode::notification_raw(&mut out, &notification.method, raw) {
                Ok(()) => reads_as(&out, message, policy),
                Err(_) => assert_eq!(policy.scalar_params, ScalarParams::Accept),
            }
            if let Ok(owned) = JsonRpcNotification::try_from(notification.clone()) {
                round_trips(&owned);
            }
        }
        Message::Response(response) => {
            if let Ok(owned) = JsonRpcResponse::try_from(response.clone()) {
                round_trips(&owned);
            }
            match &response.outcome {
                Ok(result) => encode::reply_raw(&mut out, response.id, *result),
                Err(error) => encode::error_raw(&mut out, response.id, error),
            }
            reads_as(&out, message, policy);
        }
        Message::Batch(entries) => {
            for entry in entries {
                assert!(!matches!(entry, Message::Batch(_)), "a batch in a batch");
                survives(entry, policy);
            }
        }
        Message::Invalid(invalid) => {
            let error = invalid.to_wire(ErrorDetail::Full);
            encode::error(&mut out, invalid.id, &error);
            let answer = decode(&out, &Policy::default());
            assert!(matches!(answer, Message::Response(_)), "{answer:?}");
        }
        _ => {}
    }
}

fn reads_as(written: &[u8], message: &Message<'_>, policy: &Policy) {
    let mut roomy = *policy;
    roomy.max_message = usize::MAX;
    roomy.max_depth = usize::MAX;
    assert_eq!(decode(written, &roomy), *message);
}

fn round_trips<T>(owned: &T)
where
    T: serde::Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(owned).expect("a valid message serialises");
    let again: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, *owned);
}

/// The frames and faults of a stream do not depend on how it was cut, no frame
/// is larger than the limit, and nothing is held beyond it; what the frames are
/// is said once more, naively, where it can be.
pub fn framing(framing: Framing, bytes: &[u8]) {
    const LIMIT: usize = 64;
    let whole = read_all(framing, LIMIT, bytes, bytes.len().max(1));
    for size in [1, 2, 7] {
        let pieces = read_all(framing, LIMIT, bytes, size);
        assert_eq!(pieces, whole, "{framing:?} in pieces of {size}: {bytes:?}");
    }
    for frame in whole.iter().flatten() {
        assert!(!frame.is_empty() && frame.len() <= LIMIT);
    }
    let expected = match framing {
        Framing::Line => Some(lines(bytes, LIMIT)),
        Framing::Concatenated => values(bytes, LIMIT),
        _ => None,
    };
    if let Some(expected) = expected {
        assert_eq!(whole, expected, "{framing:?}: {bytes:?}");
    }
    if framing == Framing::Header {
        finds_the_next_length(bytes);
    }
}

/// What follows headers without a length is reported once, and the next frame is found,
/// wherever on a line it begins.
fn finds_the_next_length(bytes: &[u8]) {
    const LENGTH: &[u8] = b"content-length";
    let mut names = bytes.windows(LENGTH.len());
    // What has a length of its own is another frame, or a fault.
    if names.any(|name| name.eq_ignore_ascii_case(LENGTH)) {
        return;
    }
    let between = if bytes.ends_with(b"-") { "\n" } else { "" };
    let next = format!("{between}Content-Length: 2\r\n\r\n{{}}");
    let stream = [b"X-Other: 1\r\n\r\n", bytes, next.as_bytes()].concat();
    let expected = [Err(FrameError::MissingLength), Ok(b"{}".to_vec())];
    for size in [1, 7, stream.len()] {
        let read = read_all(Framing::Header, 64, &stream, size);
        assert_eq!(read, expected, "in pieces of {size}: {bytes:?}");
    }
}

/// The lines of a stream that are not blank.
fn lines(bytes: &[u8], limit: usize) -> Vec<Result<Vec<u8>, FrameError>> {
    bytes
        .split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| line.len() > limit || !line.iter().all(|b| b" \t\r".contains(b)))
        .map(|line| match line.len() <= limit {
            true => Ok(line.to_vec()),
            false => Err(FrameError::TooLarge { limit }),
        })
        .collect()
}

/// The values of a stream that is nothing but objects and arrays.
fn values(bytes: &[u8], limit: usize) -> Option<Vec<Result<Vec<u8>, FrameError>>> {
    let mut stream = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    let (mut frames, mut start) = (Vec::new(), 0);
    while let Some(value) = stream.next() {
        value.ok()?;
        let value = bytes[start..stream.byte_offset()].trim_ascii_start();
        start = stream.byte_offset();
        if !value.starts_with(b"{") && !value.starts_with(b"[") {
            return None;
        }
        frames.push(match value.len() <= limit {
            true => Ok(value.to_vec()),
            false => Err(FrameError::TooLarge { limit }),
        });
    }
    Some(frames)
}

/// Feeds `bytes` in pieces and collects frames and faults.
pub fn read_all(
    framing: Framing,
    limit: usize,
    bytes: &[u8],
    size: usize,
) -> Vec<Result<Vec<u8>, FrameError>> {
    let mut reader = FrameReader::new(framing, limit);
    let mut all = Vec::new();
    let mut drain = |reader: &mut FrameReader, ended: bool| {
        loop {
            let next = if ended {
                reader.finish()
            } else {
                reader.next_frame()
            };
            match next {
                Ok(Some(frame)) => all.push(Ok(frame.to_vec())),
                Ok(None) => return true,
                Err(error) => {
                    let fatal = error.is_fatal();
                    all.push(Err(error));
                    if fatal {
                        return false;
                    }
                }
            }
        }
    };
    for piece in bytes.chunks(size) {
        reader.push(piece);
        if !drain(&mut reader, false) {
            return all;
        }
        let held = reader.buffer_mut().len();
        // A header line has a limit of its own.
        assert!(held <= limit + 1 || framing == Framing::Header && held <= 8 * 1024 + 1);
    }
    drain(&mut reader, true);
    all
}

/// Every call settles once, and only by its own response, whatever arrives.
pub fn answers(bytes: &[u8]) {
    for old in [OldResponses::Reject, OldResponses::Accept] {
        answers_in(bytes, IdFormat::Integer, old);
        answers_in(bytes, IdFormat::Uuid, old);
    }
}

fn answers_in(bytes: &[u8], format: IdFormat, old: OldResponses) {
    let mut policy = Policy::default();
    policy.old_responses = old;
    let start = Instant::now();
    let mut calls = Calls {
        pending: Pending::new(4, format).with_old_responses(old),
        ids: Vec::new(),
        settled: [0; 4],
        format,
        old,
    };
    for call in 0..4_usize {
        let deadline = start + Duration::from_millis(call as u64);
        let id = calls.pending.insert(call, Some(deadline));
        calls.ids.push(id.expect("there is room").to_string());
    }
    for (count, line) in bytes.split(|b| *b == b'\n').enumerate() {
        let message = decode(line, &policy);
        let entries = match &message {
            Message::Batch(entries) => entries.as_slice(),
            single => std::slice::from_ref(single),
        };
        for entry in entries {
            calls.settle(entry);
        }
        if count == 1 {
            for (_, call) in calls.pending.expire(start + Duration::from_millis(1)) {
                calls.settled[call] += 1;
            }
        }
    }
    for (call, error) in calls.pending.close(caudal_core::CloseReason::remote()) {
        assert!(error.is_fatal());
        calls.settled[call] += 1;
    }
    assert_eq!(calls.settled, [1; 4]);
    assert!(calls.pending.is_empty());
}

/// Four calls, and how often each has settled.
struct Calls {
    pending: Pending<usize>,
    ids: Vec<String>,
    settled: [i32; 4],
    format: IdFormat,
    old: OldResponses,
}

impl Calls {
    fn settle(&mut self, message: &Message<'_>) {
        let Message::Response(response) = message else {
            return;
        };
        if let Err(error) = &response.outcome {
            let wire = JsonRpcError::from(error.clone());
            assert_eq!(wire.code, error.code);
            assert!(!CallError::from(wire).is_fatal());
        }
        let id = response.id.as_str();
        let open = |call: &usize| self.settled[*call] == 0;
        let is_own = |call: &usize| oracle::answers(&self.ids[*call], id, self.format, self.old);
        let expected = (0..4).filter(open).find(is_own);
        let taken = self.pending.take(response.id);
        assert_eq!(taken, expected, "{id} for {:?}", self.ids);
        if let Some(call) = taken {
            self.settled[call] += 1;
            assert_eq!(
                self.pending.take(response.id),
                None,
                "an answer counts once"
            );
            assert_eq!(self.pending.take(Id::NULL), None);
        }
    }
}

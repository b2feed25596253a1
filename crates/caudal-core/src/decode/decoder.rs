//! The decoder: one pass over a frame, with a stop before `params`.

use std::borrow::Cow;

use serde::Deserialize;

use super::batch::{batch, not_an_object};
use super::envelope::{Envelope, Next, after_value};
use super::error::DecodeError;
use super::invalid::Invalid;
use super::message::Message;
use crate::policy::Policy;
use crate::scan::{NotJson, Scanner, SyntaxError};

/// Decodes one frame, with a stop before `params`.
///
/// When `method` stands before `params`, as nearly every sender writes it, the
/// caller can read the params with its own type in the same pass. The message
/// counts only once [`finish`](Self::finish) has said so: until then nothing
/// is known about what follows the params.
///
/// ```
/// use caudal_core::{Decoder, Message, Policy};
///
/// let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;
/// let policy = Policy::default();
/// let mut decoder = Decoder::new(bytes, &policy);
/// assert_eq!(decoder.method_before_params().as_deref(), Some("add"));
/// let params = decoder.read_params::<(i64, i64)>();
/// match decoder.finish() {
///     Message::Request(request) => {
///         let (a, b) = params.expect("the decoder stands before params")?;
///         assert_eq!((request.id.as_str(), a + b), ("1", 3));
///     }
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder<'a, 'p> {
    policy: &'p Policy,
    scan: Scanner<'a>,
    envelope: Envelope<'a>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Nothing has been read.
    Start,
    /// The cursor stands before the value of `params`.
    Params,
    /// The cursor stands behind the message's object.
    End,
    /// The message is not valid, whatever follows.
    Failed(Box<DecodeError>),
    /// What the bytes are has been said.
    Spent,
}

impl Stage {
    #[cold]
    fn failed(cause: DecodeError) -> Self {
        Self::Failed(Box::new(cause))
    }
}

impl<'a, 'p> Decoder<'a, 'p> {
    /// Begins to decode `bytes`. Size and encoding are checked at once.
    ///
    /// ```
    /// use caudal_core::{Decoder, Message, Policy};
    ///
    /// let policy = Policy::default();
    /// assert!(matches!(Decoder::new(b"\xff", &policy).finish(), Message::Invalid(_)));
    /// ```
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8], policy: &'p Policy) -> Self {
        let (text, stage) = if bytes.len() > policy.max_message {
            let limit = policy.max_message;
            ("", Stage::failed(DecodeError::TooLarge { limit }))
        } else {
            match std::str::from_utf8(bytes) {
                Ok(text) => (text, Stage::Start),
                Err(error) => {
                    let offset = error.valid_up_to();
                    ("", Stage::failed(DecodeError::Utf8 { offset }))
                }
            }
        };
        Self {
            policy,
            scan: Scanner::new(text),
            envelope: Envelope::default(),
            stage,
        }
    }

    /// Reads up to `params`, if `method` comes before it, and returns the
    /// method.
    ///
    /// `None` means that there is nothing to read ahead: a batch, a response,
    /// a message without params or with params first, or bytes that are no
    /// message. [`finish`](Self::finish) tells which.
    ///
    /// ```
    /// use caudal_core::{Decoder, Policy};
    ///
    /// let policy = Policy::default();
    /// let bytes = br#"{"jsonrpc":"2.0","params":[],"method":"late"}"#;
    /// assert_eq!(Decoder::new(bytes, &policy).method_before_params(), None);
    /// ```
    #[inline]
    pub fn method_before_params(&mut self) -> Option<Cow<'a, str>> {
        if !matches!(self.stage, Stage::Start) || self.scan.next_token() != Some(b'{') {
            return None;
        }
        self.stage = match self.envelope.read(&mut self.scan, true) {
            Ok(Next::Params) => Stage::Params,
            Ok(_) => Stage::End,
            Err(NotJson) => Stage::failed(self.scan.fault()),
        };
        match self.stage {
            Stage::Params => self.envelope.method_name(),
            _ => None,
        }
    }

    /// Reads the params as `T` without scanning them first.
    ///
    /// `None` means that the decoder does not stand before params: call
    /// [`method_before_params`](Self::method_before_params) first, and this at
    /// most once after it. If the params are not valid JSON, or nest too deep,
    /// what this returns does not matter: [`finish`](Self::finish) then says
    /// that the message is invalid.
    ///
    /// ```
    /// use caudal_core::{Decoder, Policy};
    ///
    /// let policy = Policy::default();
    /// let bytes = br#"{"jsonrpc":"2.0","method":"greet","params":["Ada"]}"#;
    /// let mut decoder = Decoder::new(bytes, &policy);
    /// decoder.method_before_params();
    /// let (name,): (&str,) = decoder.read_params().unwrap()?;
    /// assert_eq!(name, "Ada");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[inline]
    pub fn read_params<T: Deserialize<'a>>(&mut self) -> Option<Result<T, serde_json::Error>> {
        if !matches!(self.stage, Stage::Params) {
            return None;
        }
        self.scan.next_token();
        let rest = self.scan.rest();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<T>();
        // A stream may end; a value that is missing is an error.
        let params = stream.next().unwrap_or_else(|| serde_json::from_str(""));
        let end = stream.byte_offset();
        let read = match &params {
            Ok(_) => rest.get(..end).filter(|text| self.is_plain(text)),
            Err(_) => None,
        };
        if let Some(text) = read {
            self.scan.pos += end;
            self.after_params(text);
        }
        Some(params)
    }

    /// Whether a value that `serde_json` has read would pass the scanner too,
    /// told without scanning it: `serde_json` skips what a type ignores
    /// without looking at surrogates or depth.
    #[inline]
    fn is_plain(&self, text: &str) -> bool {
        // So many levels may open before the limit, and each takes two bytes.
        let room = self.policy.max_depth.saturating_sub(self.scan.depth);
        let shallow = text.len() / 2 <= room || brackets(text.as_bytes()) <= room;
        // A type may also have read nothing at all.
        !text.is_empty() && shallow && !has_backslash(text.as_bytes())
    }

    /// Goes on behind the value of `params`.
    fn after_params(&mut self, text: &'a str) {
        self.envelope.set_params(text);
        let next = match after_value(&mut self.scan) {
            Ok(Next::Member) => self.envelope.read_members(&mut self.scan, false),
            other => other,
        };
        self.stage = match next {
            Ok(_) => Stage::End,
            Err(NotJson) => Stage::failed(self.scan.fault()),
        };
    }

    /// Reads to the end and says what the bytes are. A second call finds nothing left.
    ///
    /// ```
    /// use caudal_core::{Decoder, Message, Policy};
    ///
    /// let policy = Policy::default();
    /// let bytes = br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]} x"#;
    /// let mut decoder = Decoder::new(bytes, &policy);
    /// decoder.method_before_params();
    /// assert!(decoder.read_params::<(i64, i64)>().unwrap().is_ok());
    /// assert!(matches!(decoder.finish(), Message::Invalid(_))); // the `x`
    /// ```
    #[must_use]
    #[inline]
    pub fn finish(&mut self) -> Message<'a> {
        if matches!(self.stage, Stage::Params) {
            match self.scan.value() {
                Ok(text) => self.after_params(text),
                Err(NotJson) => self.stage = Stage::failed(self.scan.fault()),
            }
        }
        let message = match std::mem::replace(&mut self.stage, Stage::Spent) {
            Stage::Failed(cause) => return Message::Invalid(Invalid::unidentified(*cause)),
            Stage::Spent => self.scan.fail(SyntaxError::UnexpectedEnd),
            Stage::End => Ok(self.envelope.classify(self.policy, self.scan.deepest)),
            Stage::Start | Stage::Params => match self.scan.next_token() {
                Some(b'{') => {
                    let read = self.envelope.read(&mut self.scan, false);
                    read.map(|_| self.envelope.classify(self.policy, self.scan.deepest))
                }
                Some(b'[') => batch(&mut self.scan, self.policy),
                _ => not_an_object(&mut self.scan),
            },
        };
        match message.and_then(|message| self.scan.end().map(|()| message)) {
            Ok(message) => message,
            Err(NotJson) => Message::Invalid(Invalid::unidentified(self.scan.fault())),
        }
    }
}

/// Whether there is an escape.
fn has_backslash(bytes: &[u8]) -> bool {
    /// Of fewer it takes longer to look at many at once.
    const FEW: usize = 16;
    match bytes.len() {
        ..=FEW => bytes.contains(&b'\\'),
        _ => memchr::memchr(b'\\', bytes).is_some(),
    }
}

/// How many opening brackets and braces there are, in strings or not.
fn brackets(bytes: &[u8]) -> usize {
    // `[` and `{` differ in one bit. A small counter for a short block lets the
    // compiler count many bytes at once.
    bytes
        .chunks(128)
        .map(|block| {
            let count = block
                .iter()
                .fold(0_u8, |count, b| count + u8::from(b | 0x20 == b'{'));
            usize::from(count)
        })
        .sum()
}

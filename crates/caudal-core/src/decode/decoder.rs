//! Decoder of one frame, with a stop before `params`.

use std::borrow::Cow;

use serde::Deserialize;

use super::batch::{batch, not_an_object};
use super::envelope::{Envelope, Next, after_value};
use super::error::DecodeError;
use super::invalid::Invalid;
use super::message::Message;
use crate::policy::Policy;
use crate::scan::{NotJson, Scanner, SyntaxError};

/// Decoder of one frame, with a stop before `params`.
///
/// When `method` comes before `params`, as nearly every sender writes it, the
/// caller can read the params with its own type in the same pass. Only
/// [`finish`](Self::finish) tells if the message is valid: the text after the params
/// has not been read before.
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
///         let (a, b) = params.expect("the decoder is before params")?;
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
    position: Position,
}

#[derive(Debug)]
enum Position {
    /// Nothing has been read.
    Start,
    /// The cursor is before the value of `params`.
    Params,
    /// The cursor is behind the object of the message.
    End,
    /// The message is invalid.
    Failed(Box<DecodeError>),
    /// The message has been returned.
    Finished,
}

impl Position {
    #[cold]
    fn failed(cause: DecodeError) -> Self {
        Self::Failed(Box::new(cause))
    }
}

impl<'a, 'p> Decoder<'a, 'p> {
    /// Creates a decoder of `bytes`, and checks their size and encoding.
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
        let (text, position) = if bytes.len() > policy.max_message {
            let limit = policy.max_message;
            ("", Position::failed(DecodeError::TooLarge { limit }))
        } else {
            match std::str::from_utf8(bytes) {
                Ok(text) => (text, Position::Start),
                Err(error) => {
                    let offset = error.valid_up_to();
                    ("", Position::failed(DecodeError::Utf8 { offset }))
                }
            }
        };
        Self {
            policy,
            scan: Scanner::new(text),
            envelope: Envelope::default(),
            position,
        }
    }

    /// Reads up to `params` if `method` comes before it, and returns the method.
    ///
    /// Returns `None` for a batch, a response, a message without params or with params
    /// before the method, and for bytes that are not a message.
    /// [`finish`](Self::finish) tells which.
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
        if !matches!(self.position, Position::Start) || self.scan.next_token() != Some(b'{') {
            return None;
        }
        self.position = match self.envelope.read(&mut self.scan, true) {
            Ok(Next::Params) => Position::Params,
            Ok(_) => Position::End,
            Err(NotJson) => Position::failed(self.scan.fault()),
        };
        match self.position {
            Position::Params => self.envelope.method_name(),
            _ => None,
        }
    }

    /// Reads the params as `T` without scanning them first.
    ///
    /// Returns `None` if the decoder is not before params: call
    /// [`method_before_params`](Self::method_before_params) first, and this method at
    /// most once. If the params are not valid JSON, or nest too deep, ignore the
    /// result: [`finish`](Self::finish) then returns [`Message::Invalid`].
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
        if !matches!(self.position, Position::Params) {
            return None;
        }
        self.scan.next_token();
        let rest = self.scan.rest();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<T>();
        // A missing value ends the stream; here it is an error.
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

    /// Returns true if the scanner would surely accept a value that `serde_json` has
    /// read. `serde_json` checks neither surrogates nor depth in values that a type
    /// ignores; without backslashes and many brackets both are in order.
    #[inline]
    fn is_plain(&self, text: &str) -> bool {
        // Each level takes at least two bytes.
        let room = self.policy.max_depth.saturating_sub(self.scan.depth);
        let shallow = text.len() / 2 <= room || brackets(text.as_bytes()) <= room;
        // Some types read nothing at all.
        !text.is_empty() && shallow && !has_backslash(text.as_bytes())
    }

    /// Reads the members after `params`.
    fn after_params(&mut self, text: &'a str) {
        self.envelope.set_params(text);
        let next = match after_value(&mut self.scan) {
            Ok(Next::Member) => self.envelope.read_members(&mut self.scan, false),
            other => other,
        };
        self.position = match next {
            Ok(_) => Position::End,
            Err(NotJson) => Position::failed(self.scan.fault()),
        };
    }

    /// Reads to the end and returns the message. A second call returns
    /// [`Message::Invalid`].
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
        if matches!(self.position, Position::Params) {
            match self.scan.value() {
                Ok(text) => self.after_params(text),
                Err(NotJson) => self.position = Position::failed(self.scan.fault()),
            }
        }
        let message = match std::mem::replace(&mut self.position, Position::Finished) {
            Position::Failed(cause) => return Message::Invalid(Invalid::unidentified(*cause)),
            Position::Finished => self.scan.fail(SyntaxError::UnexpectedEnd),
            Position::End => Ok(self.envelope.classify(self.policy, self.scan.deepest)),
            Position::Start | Position::Params => match self.scan.next_token() {
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

/// Returns true if there is an escape.
fn has_backslash(bytes: &[u8]) -> bool {
    /// Length up to which a simple loop is faster than `memchr`.
    const FEW: usize = 16;
    match bytes.len() {
        ..=FEW => bytes.contains(&b'\\'),
        _ => memchr::memchr(b'\\', bytes).is_some(),
    }
}

/// Counts the opening brackets and braces, also those within strings.
fn brackets(bytes: &[u8]) -> usize {
    // `[` and `{` differ in one bit. With a counter of one byte for a short block the
    // compiler counts many bytes at once.
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

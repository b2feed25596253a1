//! Batches: all entries at once, or one by one.

use super::envelope::Envelope;
use super::error::{DecodeError, Found};
use super::invalid::Invalid;
use super::message::Message;
use crate::policy::Policy;
use crate::scan::{NotJson, Scanner, SyntaxError};

pub(super) fn batch<'a>(scan: &mut Scanner<'a>, policy: &Policy) -> Result<Message<'a>, NotJson> {
    /// Length of the shortest valid entry. It bounds the allocation by the bytes received.
    const SHORTEST: usize = r#"{"jsonrpc":"2.0","method":"a"},"#.len();
    let limit = policy.max_batch;
    let mut entries = Vec::with_capacity((scan.rest().len() / SHORTEST).min(limit));
    let mut too_long = false;
    scan.enter();
    if scan.next_token() == Some(b']') {
        scan.leave();
        return Ok(Message::Invalid(Invalid::unidentified(
            DecodeError::EmptyBatch,
        )));
    }
    loop {
        scan.deepest = scan.depth;
        too_long |= entries.len() == limit;
        match scan.next_token() {
            // The rest must still be JSON, else the whole text is a parse error.
            _ if too_long => scan.value().map(drop)?,
            token => entries.push(entry(scan, token, policy)?),
        }
        match scan.next_token() {
            Some(b',') => scan.pos += 1,
            Some(b']') => break,
            _ => return scan.unexpected(SyntaxError::ExpectedCommaOrBracket),
        }
    }
    scan.leave();
    if too_long {
        let cause = DecodeError::BatchTooLong { limit };
        return Ok(Message::Invalid(Invalid::unidentified(cause)));
    }
    Ok(Message::Batch(entries))
}

/// Reads an entry of a batch; the cursor is on `token`.
#[inline]
fn entry<'a>(
    scan: &mut Scanner<'a>,
    token: Option<u8>,
    policy: &Policy,
) -> Result<Message<'a>, NotJson> {
    if token != Some(b'{') {
        return not_an_object(scan);
    }
    let mut envelope = Envelope::default();
    envelope.read(scan, false)?;
    Ok(envelope.classify(policy, scan.deepest))
}

#[cold]
pub(super) fn not_an_object<'a>(scan: &mut Scanner<'a>) -> Result<Message<'a>, NotJson> {
    if scan.rest().starts_with('\u{feff}') {
        return scan.fail(SyntaxError::ByteOrderMark);
    }
    let found = Found::raw(scan.value()?);
    let cause = DecodeError::NotAnObject { found };
    Ok(Message::Invalid(Invalid::unidentified(cause)))
}

/// Iterator over the entries of a batch that [`decode`](super::decode) has accepted.
///
/// It can be dropped after any entry and created again [at](Self::at) its
/// [position](Self::position), so that the text is not borrowed in between. It yields
/// the entries of [`Message::Batch`].
///
/// ```
/// use caudal_core::{Message, Policy, decode::Entries};
///
/// let policy = Policy::default();
/// let batch = r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
/// let mut entries = Entries::at(batch, 0, &policy);
/// assert!(matches!(entries.next(), Some(Message::Notification(a)) if a.method == "a"));
///
/// let position = entries.position();
/// let mut entries = Entries::at(batch, position, &policy);
/// assert!(matches!(entries.next(), Some(Message::Notification(b)) if b.method == "b"));
/// assert!(entries.next().is_none());
/// ```
#[derive(Debug)]
pub struct Entries<'a, 'p> {
    scan: Scanner<'a>,
    policy: &'p Policy,
}

impl<'a, 'p> Entries<'a, 'p> {
    /// Continues with the entry at `position`; 0 is the start.
    #[must_use]
    pub fn at(batch: &'a str, position: usize, policy: &'p Policy) -> Self {
        let mut scan = Scanner::new(batch);
        scan.pos = position;
        scan.depth = 1;
        Self { scan, policy }
    }

    /// Returns the byte offset of the end of the entries that were read.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.scan.pos
    }
}

impl<'a> Iterator for Entries<'a, '_> {
    type Item = Message<'a>;

    /// Returns `None` after the last entry, and if the text is not a valid batch.
    fn next(&mut self) -> Option<Message<'a>> {
        // The opening bracket of the batch, or the comma after an entry.
        if !matches!(self.scan.next_token(), Some(b'[' | b',')) {
            return None;
        }
        self.scan.pos += 1;
        self.scan.deepest = self.scan.depth;
        let token = self.scan.next_token();
        entry(&mut self.scan, token, self.policy).ok()
    }
}

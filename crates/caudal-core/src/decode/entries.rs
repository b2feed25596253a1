//! The entries of a batch one after the other, for a reader that pauses between them.

use super::entry;
use super::message::Message;
use crate::policy::Policy;
use crate::scan::Scanner;

/// Iterator over the entries of a batch that [`decode`](super::decode) has accepted.
///
/// It can be dropped after any entry and made again [at](Self::at) its
/// [position](Self::position), so that nothing borrows the text meanwhile. The entries
/// are those of [`Message::Batch`].
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
    /// Continues with the entry at `position`; 0 is the beginning.
    #[must_use]
    pub fn at(batch: &'a str, position: usize, policy: &'p Policy) -> Self {
        let mut scan = Scanner::new(batch);
        scan.pos = position;
        scan.depth = 1;
        Self { scan, policy }
    }

    /// Byte offset in the text where the entries that were read end.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.scan.pos
    }
}

impl<'a> Iterator for Entries<'a, '_> {
    type Item = Message<'a>;

    /// Returns `None` after the last entry, and where the text is no valid batch.
    fn next(&mut self) -> Option<Message<'a>> {
        // The bracket that opens the batch, or the comma behind the last entry.
        if !matches!(self.scan.next_token(), Some(b'[' | b',')) {
            return None;
        }
        self.scan.pos += 1;
        self.scan.deepest = self.scan.depth;
        let token = self.scan.next_token();
        entry(&mut self.scan, token, self.policy).ok()
    }
}

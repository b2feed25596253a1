//! First bytes of a message that is too large to be read.

use super::classify::id_of;
use super::envelope::{Next, after_value};
use super::id::Id;
use super::member::Member;
use crate::policy::Policy;
use crate::scan::{NotJson, Scanner};

/// Finds the responses in the first bytes of a message.
///
/// Calls `found` with the id of each response, unless the id is null or behind the cut.
/// Returns true for a response, and for a batch of which only responses can be seen:
/// these are not answered. A response is known by `result` or `error` without a
/// `method` before the cut.
///
/// Allocates at most the length of `head`, and does not recurse.
///
/// ```
/// use caudal_core::{Policy, decode::truncated_responses};
///
/// let policy = Policy::default();
/// let mut ids = Vec::new();
/// let head = br#"{"jsonrpc":"2.0","id":7,"result":"a very long te"#;
/// assert!(truncated_responses(head, &policy, |id| ids.push(id.to_string())));
/// assert_eq!(ids, ["7"]);
///
/// let head = br#"{"jsonrpc":"2.0","id":7,"method":"echo","params":["#;
/// assert!(!truncated_responses(head, &policy, |_| unreachable!()));
/// ```
pub fn truncated_responses(head: &[u8], policy: &Policy, mut found: impl FnMut(Id<'_>)) -> bool {
    let mut scan = Scanner::new(text_of(head));
    let mut read = |scan: &mut Scanner<'_>| {
        let mut entry = Entry::default();
        let whole = entry.read(scan).is_ok();
        let is_response = entry.is_response(whole);
        if let (Some(true), Some(id)) = (is_response, entry.id(policy)) {
            found(id);
        }
        (is_response, whole)
    };
    match scan.next_token() {
        Some(b'{') => read(&mut scan).0 == Some(true),
        Some(b'[') => {
            scan.enter();
            let (mut responses, mut others) = (false, false);
            while let Some(token) = scan.next_token() {
                let (is_response, whole) = match token {
                    b'{' => read(&mut scan),
                    _ => (Some(false), false),
                };
                responses |= is_response == Some(true);
                others |= is_response == Some(false);
                if !whole || scan.next_token() != Some(b',') {
                    break;
                }
                scan.pos += 1;
            }
            responses && !others
        }
        _ => false,
    }
}

/// Returns the bytes that are UTF-8: the last character may be cut.
fn text_of(head: &[u8]) -> &str {
    match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => {
            let valid = head.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
    }
}

/// Members of one message that come before the cut.
#[derive(Default)]
struct Entry<'a> {
    id: Option<&'a str>,
    id_twice: bool,
    has_method: bool,
    has_outcome: bool,
}

impl<'a> Entry<'a> {
    /// Reads the members up to the cut; the cursor is on `{`.
    fn read(&mut self, scan: &mut Scanner<'a>) -> Result<(), NotJson> {
        scan.enter();
        if scan.next_token() == Some(b'}') {
            scan.leave();
            return Ok(());
        }
        loop {
            let member = Member::of_envelope(scan.name()?.value().as_bytes());
            // Recorded before the value is read, which may be cut.
            match member {
                Some(Member::Method) => self.has_method = true,
                Some(Member::Result | Member::Error) => self.has_outcome = true,
                _ => {}
            }
            let value = scan.value()?;
            // A number at the cut may have more digits, so an id counts only here.
            let next = after_value(scan)?;
            if member == Some(Member::Id) {
                self.id_twice |= self.id.replace(value).is_some();
            }
            if next == Next::End {
                return Ok(());
            }
        }
    }

    /// Returns true for a response; `None` if the cut comes too early to tell.
    const fn is_response(&self, whole: bool) -> Option<bool> {
        match (self.has_method, self.has_outcome) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) if whole => Some(false),
            (false, false) => None,
        }
    }

    fn id(&self, policy: &Policy) -> Option<Id<'a>> {
        let raw = self.id.filter(|_| !self.id_twice)?;
        id_of(raw, policy).filter(|id| !id.is_null())
    }
}

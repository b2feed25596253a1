//! The first bytes of a message that is too large to be read.

use super::classify::id_of;
use super::envelope::{Next, after_value};
use super::id::Id;
use super::member::Member;
use crate::policy::Policy;
use crate::scan::{NotJson, Scanner};

/// Finds out which calls a message answers of which only the first bytes are
/// at hand, and whether it is an answer at all.
///
/// `found` gets the id of each response in them, unless it is null or not to be
/// seen. The result is `true` for a response, and for a batch in which nothing
/// but responses is to be seen: nobody is owed an answer to those. A response is
/// known by `result` or `error` without a `method` before the cut.
///
/// It allocates nothing that is larger than `head`, and does not recurse.
///
/// ```
/// use caudal_core::{Policy, decode::answers_in};
///
/// let policy = Policy::default();
/// let mut ids = Vec::new();
/// let head = br#"{"jsonrpc":"2.0","id":7,"result":"a very long te"#;
/// assert!(answers_in(head, &policy, |id| ids.push(id.to_string())));
/// assert_eq!(ids, ["7"]);
///
/// let head = br#"{"jsonrpc":"2.0","id":7,"method":"echo","params":["#;
/// assert!(!answers_in(head, &policy, |_| unreachable!()));
/// ```
pub fn answers_in(head: &[u8], policy: &Policy, mut found: impl FnMut(Id<'_>)) -> bool {
    let mut scan = Scanner::new(text_of(head));
    let mut look = |scan: &mut Scanner<'_>| {
        let mut entry = Entry::default();
        let whole = entry.read(scan).is_ok();
        let kind = entry.kind(whole);
        if let (Some(true), Some(id)) = (kind, entry.id(policy)) {
            found(id);
        }
        (kind, whole)
    };
    match scan.next_token() {
        Some(b'{') => look(&mut scan).0 == Some(true),
        Some(b'[') => {
            scan.enter();
            let (mut answers, mut others) = (false, false);
            while let Some(token) = scan.next_token() {
                let (kind, whole) = match token {
                    b'{' => look(&mut scan),
                    _ => (Some(false), false),
                };
                answers |= kind == Some(true);
                others |= kind == Some(false);
                if !whole || scan.next_token() != Some(b',') {
                    break;
                }
                scan.pos += 1;
            }
            answers && !others
        }
        _ => false,
    }
}

/// As much of it as is text: the last character may be cut.
fn text_of(head: &[u8]) -> &str {
    match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => {
            let valid = head.get(..error.valid_up_to()).unwrap_or_default();
            std::str::from_utf8(valid).unwrap_or_default()
        }
    }
}

/// What is to be seen of one message.
#[derive(Default)]
struct Entry<'a> {
    id: Option<&'a str>,
    id_twice: bool,
    has_method: bool,
    has_outcome: bool,
}

impl<'a> Entry<'a> {
    /// Reads the members up to the cut; the cursor stands on `{`.
    fn read(&mut self, scan: &mut Scanner<'a>) -> Result<(), NotJson> {
        scan.enter();
        if scan.next_token() == Some(b'}') {
            scan.leave();
            return Ok(());
        }
        loop {
            let member = Member::of_envelope(scan.name()?.value().as_bytes());
            // What is long is the value: its name alone says what it is.
            match member {
                Some(Member::Method) => self.has_method = true,
                Some(Member::Result | Member::Error) => self.has_outcome = true,
                _ => {}
            }
            let value = scan.value()?;
            // Behind a number that is cut there may be more digits.
            let next = after_value(scan)?;
            if member == Some(Member::Id) {
                self.id_twice |= self.id.replace(value).is_some();
            }
            if next == Next::End {
                return Ok(());
            }
        }
    }

    /// Whether it is a response; `None` if it is cut before that can be told.
    const fn kind(&self, whole: bool) -> Option<bool> {
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

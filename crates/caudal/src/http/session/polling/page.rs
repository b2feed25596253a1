//! Response to a poll, whole or cut.

use serde_json::value::RawValue;

/// Messages, and the number of the last one.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Page<'a> {
    pub(super) cursor: u64,
    #[serde(borrow)]
    pub(super) messages: Vec<&'a RawValue>,
}

/// The beginning of a page that was too large to be read to its end.
#[derive(Debug)]
pub(super) struct Cut<'a> {
    /// Messages that are whole. A server of ours adds none to one so large, so the cursor
    /// is the number of the message that is cut.
    pub(super) page: Page<'a>,
    /// Beginning of the message that is cut.
    pub(super) last: &'a [u8],
}

impl<'a> Cut<'a> {
    /// Reads a page as a server of ours writes it.
    pub(super) fn of(text: &'a [u8]) -> Option<Self> {
        let text = text.strip_prefix(br#"{"cursor":"#)?;
        let (cursor, text) = text.split_at(text.iter().position(|byte| *byte == b',')?);
        let cursor = std::str::from_utf8(cursor).ok()?.parse().ok()?;
        let mut last = text.strip_prefix(br#","messages":["#)?;
        let mut messages = Vec::new();
        loop {
            let mut values = serde_json::Deserializer::from_slice(last).into_iter();
            let Some(Ok(message)) = values.next() else {
                break;
            };
            let rest = last.get(values.byte_offset()..)?;
            last = rest.strip_prefix(b",")?;
            messages.push(message);
        }
        let page = Page { cursor, messages };
        Some(Self { page, last })
    }
}

#[cfg(test)]
mod tests {
    use super::Cut;

    #[test]
    fn a_page_is_understood_wherever_it_is_cut() {
        let text = r#"{"cursor":12,"messages":[{"a":[1]},{"b":"]}"},{"c":"é"}]}"#;
        let places = [r#"{"a":"#, r#"{"b":"#, r#"{"c":"#].map(|begin| text.find(begin).unwrap());
        for end in 0..text.len() {
            let cut = Cut::of(&text.as_bytes()[..end]);
            let whole = places.iter().filter(|place| **place <= end).count();
            let Some(cut) = cut else {
                // Nothing has begun, or what is whole may have been the last.
                let ended = matches!(text.as_bytes()[end - end.min(1)], b'}' | b']');
                assert!(whole == 0 || ended, "{end}");
                continue;
            };
            assert_eq!((cut.page.cursor, cut.page.messages.len()), (12, whole - 1));
            assert_eq!(cut.last, &text.as_bytes()[places[whole - 1]..end]);
        }
    }

    #[test]
    fn what_is_no_page_is_not_understood() {
        for text in [
            "",
            "{",
            "[",
            "<html>",
            r#"{"cursor":-1,"messages":[{"#,
            r#"{"messages":[{"#,
        ] {
            assert!(Cut::of(text.as_bytes()).is_none(), "{text}");
        }
    }
}

//! Server-sent events, cut out of bytes that come in pieces.
//!
//! As the HTML standard has it, within limits: neither a line nor an event is ever
//! longer than a message may be.

use bytes::{Buf, Bytes};

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// What it is called; empty for an ordinary message.
    pub(crate) name: String,
    /// Its own id, if it has one.
    pub(crate) id: Option<String>,
    /// Empty if it only sets the id.
    pub(crate) data: Bytes,
}

/// An event, or one of its lines, is longer than a message may be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub(crate) struct TooLong {
    pub(crate) limit: usize,
}

/// Cuts events out of bytes.
#[derive(Debug)]
pub(crate) struct Parser {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    name: String,
    id: Option<String>,
    retry: Option<u64>,
    /// Whether the last line ended with CR, so that LF may belong to it.
    after_cr: bool,
    begun: bool,
}

/// The longest name of a field with what delimits it: `retry: `.
const FIELD: usize = 7;
/// Names and ids that are longer are passed over.
const NAME: usize = 256;
const BOM: &[u8] = b"\xef\xbb\xbf";

impl Parser {
    /// For events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: String::new(),
            id: None,
            retry: None,
            after_cr: false,
            begun: false,
        }
    }

    /// How many milliseconds the server wants a client to wait before it comes
    /// back.
    #[cfg_attr(
        not(any(feature = "sse", test)),
        expect(dead_code, reason = "nobody comes back")
    )]
    pub(crate) fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// The next event, taken from the front of `bytes`; `None` when they are used
    /// up.
    pub(crate) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Event>, TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n') {
                bytes.advance(1);
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.add(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())?;
            let Some(end) = end else {
                bytes.clear();
                break;
            };
            self.after_cr = bytes.get(end) == Some(&b'\r');
            bytes.advance(end + 1);
            if let Some(event) = self.end_line()? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Adds to the line.
    fn add(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        // Of a comment nothing is kept but that it is one.
        if self.line.first() == Some(&b':') {
            return Ok(());
        }
        if self.line.is_empty() && piece.first() == Some(&b':') {
            self.line.push(b':');
            return Ok(());
        }
        if self.line.len().saturating_add(piece.len()) > self.limit.saturating_add(FIELD) {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLong> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        let event = match line.is_empty() {
            true => self.end_event(),
            false => {
                self.field(&line)?;
                None
            }
        };
        line.clear();
        self.line = line;
        Ok(event)
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        let id = self.id.take();
        if !std::mem::take(&mut self.has_data) && id.is_none() {
            return None;
        }
        let data = Bytes::from(std::mem::take(&mut self.data));
        Some(Event { name, id, data })
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => return self.add_data(value),
            b"event" => self.name = short(value).unwrap_or_default(),
            b"id" if !value.contains(&0) => self.id = short(value).or(self.id.take()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let value = short(value).and_then(|value| value.parse().ok());
                self.retry = value.or(self.retry);
            }
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &[u8]) -> Result<(), TooLong> {
        let more = std::mem::replace(&mut self.has_data, true);
        let length = self.data.len() + value.len() + usize::from(more);
        if length > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        if more {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }
}

fn short(value: &[u8]) -> Option<String> {
    let value = Some(value).filter(|value| value.len() <= NAME)?;
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a text that comes in pieces of `size` bytes.
    fn events(text: &[u8], size: usize, limit: usize) -> Result<Vec<Event>, TooLong> {
        let mut parser = Parser::new(limit);
        let mut events = Vec::new();
        for piece in text.chunks(size) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(event) = parser.next(&mut piece)? {
                events.push(event);
            }
            assert!(piece.is_empty());
        }
        Ok(events)
    }

    fn event(name: &str, id: Option<&str>, data: &'static str) -> Event {
        Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: Bytes::from_static(data.as_bytes()),
        }
    }

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}retry: 10\n\n: a comment\nid: 7\ndata: {\"a\":1}\n\n\
                    event: gap\r\ndata:{\r\ndata:  }\r\n\r\nid: 8\r\rdata\rdata:\r\r\
                    unknown: x\nid: a\0b\ndata: last\n\ndata: never ended\n";
        let expected = vec![
            event("", Some("7"), "{\"a\":1}"),
            event("gap", None, "{\n }"),
            event("", Some("8"), ""),
            event("", None, "\n"),
            event("", None, "last"),
        ];
        for size in 1..=text.len() {
            assert_eq!(
                events(text.as_bytes(), size, 100).unwrap(),
                expected,
                "{size}"
            );
        }
    }

    #[test]
    fn the_server_says_when_to_come_back() {
        let mut parser = Parser::new(100);
        for (line, retry) in [
            ("retry: 10\n", Some(10)),
            ("retry: 1x\n", Some(10)),
            ("retry: -1\n", Some(10)),
            ("retry: 99999999999999999999999999\n", Some(10)),
            ("retry:\n", Some(10)),
            ("retry:0\n", Some(0)),
        ] {
            parser
                .next(&mut Bytes::from_static(line.as_bytes()))
                .unwrap();
            assert_eq!(parser.retry(), retry, "{line}");
        }
    }

    #[test]
    fn an_event_at_the_limit_passes_and_one_past_it_does_not() {
        let text = |length: usize| format!("data: {}\n\n", "x".repeat(length));
        let two = |length: usize| format!("data: 1234\n{}", text(length));
        for size in [1, 3, 1000] {
            let passed = events(text(64).as_bytes(), size, 64).unwrap();
            assert_eq!(passed.first().unwrap().data.len(), 64);
            assert!(events(text(65).as_bytes(), size, 64).is_err());
            assert!(events(two(59).as_bytes(), size, 64).is_ok());
            assert!(events(two(60).as_bytes(), size, 64).is_err());
        }
    }

    #[test]
    fn a_line_that_never_ends_is_refused_and_a_comment_costs_nothing() {
        let mut parser = Parser::new(64);
        let piece = || Bytes::from_static(&[b'x'; 32]);
        assert_eq!(parser.next(&mut piece()), Ok(None));
        assert_eq!(parser.next(&mut piece()), Ok(None));
        assert_eq!(parser.next(&mut piece()), Err(TooLong { limit: 64 }));

        let mut parser = Parser::new(64);
        assert_eq!(parser.next(&mut Bytes::from_static(b": ")), Ok(None));
        for _ in 0..1000 {
            assert_eq!(parser.next(&mut piece()), Ok(None));
        }
        assert!(parser.line.capacity() <= 64);
        let mut rest = Bytes::from_static(b"\ndata: 1\n\n");
        assert_eq!(parser.next(&mut rest), Ok(Some(event("", None, "1"))));
    }

    #[test]
    fn names_and_ids_that_are_too_long_or_no_text_are_passed_over() {
        let long = "x".repeat(NAME + 1);
        let text = format!("id: {long}\nevent: {long}\ndata: 1\n\n");
        assert_eq!(
            events(text.as_bytes(), 9, 1000).unwrap(),
            [event("", None, "1")]
        );
        let text = b"id: \xff\nevent: \xff\ndata: 1\n\n";
        assert_eq!(events(text, 9, 1000).unwrap(), [event("", None, "1")]);
    }

    #[test]
    fn any_bytes_are_survived() {
        const BYTES: &[u8] = b"\r\n\r\n\n\n: dataevntirory\0\xef\xbb\xbf\xff1";
        // A small generator is enough: all that counts is that nothing panics.
        let mut state = 7_u32;
        for _ in 0..2000 {
            let text: Vec<u8> = (0..40)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    BYTES[(state >> 16) as usize % BYTES.len()]
                })
                .collect();
            let whole = events(&text, 40, 16);
            assert_eq!(events(&text, 1, 16).is_ok(), whole.is_ok(), "{text:?}");
            if let Ok(whole) = whole {
                assert_eq!(events(&text, 1, 16).unwrap(), whole, "{text:?}");
            }
        }
    }
}

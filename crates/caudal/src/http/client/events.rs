//! Server-sent events, cut out of bytes that come in pieces.
//!
//! As the HTML standard has it, within limits: neither a line nor an event is ever
//! longer than a message may be.

use bytes::{Buf, Bytes};

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name of the event; empty for an ordinary message.
    pub(crate) name: String,
    /// Id of the event, if it has one.
    #[cfg_attr(
        not(feature = "sse"),
        allow(dead_code, reason = "no stream is resumed")
    )]
    pub(crate) id: Option<String>,
    /// Empty if it only sets the id.
    pub(crate) data: Bytes,
    /// True if the event, or one of its lines, is longer than a message may be. Then `data`
    /// has only its first bytes, and its id comes in an event of its own.
    pub(crate) is_cut: bool,
}

/// Cuts events out of bytes.
#[derive(Debug)]
pub(crate) struct Parser {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// True if the event was cut, so that the rest of its data is passed over.
    skipping: bool,
    name: String,
    id: Option<String>,
    retry: Option<u64>,
    /// True if the last line ended with CR, so that LF may belong to it.
    after_cr: bool,
    begun: bool,
}

/// Length of the longest name of a field with its delimiter: `retry: `.
const FIELD: usize = 7;
/// Maximum length of names and ids; longer ones are passed over.
const NAME: usize = 256;
/// Bytes that are kept of an event that is too long: the id of a message may have 1 KiB.
const HEAD: usize = 2 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

impl Parser {
    /// Creates a parser for events of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            skipping: false,
            name: String::new(),
            id: None,
            retry: None,
            after_cr: false,
            begun: false,
        }
    }

    /// Milliseconds that the server wants a client to wait before it comes back.
    #[cfg_attr(
        not(any(feature = "sse", test)),
        expect(dead_code, reason = "nobody comes back")
    )]
    pub(crate) fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// The next event, taken from the front of `bytes`; `None` when they are used
    /// up.
    pub(crate) fn next(&mut self, bytes: &mut Bytes) -> Option<Event> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n') {
                bytes.advance(1);
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let size = end.unwrap_or(bytes.len());
            if let Some(cut) = self.add(bytes.get(..size).unwrap_or_default()) {
                bytes.advance(size);
                return Some(cut);
            }
            let Some(end) = end else {
                bytes.clear();
                break;
            };
            self.after_cr = bytes.get(end) == Some(&b'\r');
            bytes.advance(end + 1);
            if let Some(event) = self.end_line() {
                return Some(event);
            }
        }
        None
    }

    /// Adds to the line; returns the event if this makes it too long.
    fn add(&mut self, piece: &[u8]) -> Option<Event> {
        // Of a comment nothing is kept but that it is one.
        if self.line.first() == Some(&b':') {
            return None;
        }
        if self.line.is_empty() && piece.first() == Some(&b':') {
            self.line.push(b':');
            return None;
        }
        let size = self.line.len().saturating_add(piece.len());
        let is_too_long = !self.skipping && size > self.limit.saturating_add(FIELD);
        if !self.skipping && !is_too_long {
            self.line.extend_from_slice(piece);
            return None;
        }
        let room = HEAD.saturating_sub(self.line.len());
        self.line
            .extend_from_slice(piece.get(..room).unwrap_or(piece));
        is_too_long.then(|| {
            let mut line = std::mem::take(&mut self.line);
            let event = self.cut(&line);
            line.truncate(HEAD);
            line.shrink_to_fit();
            self.line = line;
            event
        })
    }

    /// Cuts the event, which has become too long with this line.
    #[cold]
    fn cut(&mut self, line: &[u8]) -> Event {
        let line = match self.begun {
            true => line,
            false => line.strip_prefix(BOM).unwrap_or(line),
        };
        let mut data = std::mem::take(&mut self.data);
        if let (b"data", value) = split(line) {
            if std::mem::take(&mut self.has_data) {
                data.push(b'\n');
            }
            data.extend_from_slice(value.get(..HEAD).unwrap_or(value));
        }
        data.truncate(HEAD);
        (self.skipping, self.has_data) = (true, false);
        Event {
            name: self.name.clone(),
            id: None,
            data: data.into(),
            is_cut: true,
        }
    }

    fn end_line(&mut self) -> Option<Event> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        let event = match line.is_empty() {
            true => self.end_event(),
            false => self.field(&line),
        };
        line.clear();
        self.line = line;
        event
    }

    fn end_event(&mut self) -> Option<Event> {
        self.skipping = false;
        let event = Event {
            name: std::mem::take(&mut self.name),
            id: self.id.take(),
            data: std::mem::take(&mut self.data).into(),
            is_cut: false,
        };
        (std::mem::take(&mut self.has_data) || event.id.is_some()).then_some(event)
    }

    /// Takes a field; returns the event if this makes it too long.
    fn field(&mut self, line: &[u8]) -> Option<Event> {
        let (field, value) = split(line);
        match field {
            b"data" if self.skipping => {}
            b"data" => {
                let size = self.data.len() + value.len() + usize::from(self.has_data);
                if size > self.limit {
                    return Some(self.cut(line));
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = short(value).unwrap_or_default(),
            b"id" if !value.contains(&0) => self.id = short(value).or(self.id.take()),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let value = short(value).and_then(|value| value.parse().ok());
                self.retry = value.or(self.retry);
            }
            _ => {}
        }
        None
    }
}

/// The name and the value of a field.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':');
    let (field, value) = line.split_at(colon.unwrap_or(line.len()));
    let value = value.strip_prefix(b":").unwrap_or(value);
    (field, value.strip_prefix(b" ").unwrap_or(value))
}

fn short(value: &[u8]) -> Option<String> {
    let value = Some(value).filter(|value| value.len() <= NAME)?;
    String::from_utf8(value.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All events of a text that comes in pieces of `size` bytes.
    fn events(text: &[u8], size: usize, limit: usize) -> Vec<Event> {
        let mut parser = Parser::new(limit);
        let mut events = Vec::new();
        for piece in text.chunks(size) {
            let mut piece = Bytes::copy_from_slice(piece);
            events.extend(std::iter::from_fn(|| parser.next(&mut piece)));
            assert!(piece.is_empty());
        }
        events
    }

    fn event(name: &str, id: Option<&str>, data: &'static str) -> Event {
        Event {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            data: Bytes::from_static(data.as_bytes()),
            is_cut: false,
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
            assert_eq!(events(text.as_bytes(), size, 100), expected, "{size}");
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
            parser.next(&mut Bytes::from_static(line.as_bytes()));
            assert_eq!(parser.retry(), retry, "{line}");
        }
    }

    #[test]
    fn an_event_at_the_limit_passes_and_one_past_it_does_not() {
        let text = |length: usize| format!("data: {}\n\n", "x".repeat(length));
        let two = |length: usize| format!("data: 1234\n{}", text(length));
        for size in [1, 3, 1000] {
            let only = |text: String| events(text.as_bytes(), size, 64).remove(0);
            assert_eq!(only(text(64)).data.len(), 64);
            assert!(!only(text(64)).is_cut && only(text(65)).is_cut);
            assert!(!only(two(59)).is_cut && only(two(60)).is_cut);
        }
    }

    #[test]
    fn a_line_that_never_ends_is_cut_and_a_comment_costs_nothing() {
        let mut parser = Parser::new(64);
        let piece = || Bytes::from_static(&[b'x'; 32]);
        assert_eq!(parser.next(&mut piece()), None);
        assert_eq!(parser.next(&mut piece()), None);
        let cut = parser.next(&mut piece()).unwrap();
        assert!(cut.is_cut && cut.data.is_empty());
        for _ in 0..1000 {
            assert_eq!(parser.next(&mut piece()), None);
        }
        assert!(parser.line.capacity() <= 2 * HEAD);

        let mut parser = Parser::new(64);
        assert_eq!(parser.next(&mut Bytes::from_static(b": ")), None);
        for _ in 0..1000 {
            assert_eq!(parser.next(&mut piece()), None);
        }
        assert!(parser.line.capacity() <= 64);
        let mut rest = Bytes::from_static(b"\ndata: 1\n\n");
        assert_eq!(parser.next(&mut rest), Some(event("", None, "1")));
    }

    #[test]
    fn of_an_event_that_is_too_long_the_beginning_and_the_id_are_kept() {
        let long = "x".repeat(5000);
        for (before, after) in [("id: 7\n", ""), ("", "id: 7\n")] {
            let text = format!(
                "\u{feff}data: 1\n\n{before}data: {{\"id\":1\ndata: ,{long}\n{after}data: {long}\n\n\
                 data: 2\n\ndata: {long}\r\n\r\ndata: 3\n\n"
            );
            for size in [1, 2, 3, 7, 64, 1000, 4999, 100_000] {
                let mut events = events(text.as_bytes(), size, 4000);
                let cut: Vec<_> = events.extract_if(.., |event| event.is_cut).collect();
                let passed = [
                    event("", None, "1"),
                    event("", Some("7"), ""),
                    event("", None, "2"),
                    event("", None, "3"),
                ];
                assert_eq!(events, passed, "{size}");
                assert_eq!(cut.len(), 2, "{size}");
                assert!(cut[0].data.starts_with(b"{\"id\":1\n,xxx"));
                assert!(cut[1].data.starts_with(b"xxx"));
                for cut in cut {
                    let kept = HEAD - 16..=HEAD;
                    assert!(cut.id.is_none() && kept.contains(&cut.data.len()), "{size}");
                }
            }
        }
    }

    #[test]
    fn names_and_ids_that_are_too_long_or_no_text_are_passed_over() {
        let long = "x".repeat(NAME + 1);
        let text = format!("id: {long}\nevent: {long}\ndata: 1\n\n");
        assert_eq!(events(text.as_bytes(), 9, 1000), [event("", None, "1")]);
        let text = b"id: \xff\nevent: \xff\ndata: 1\n\n";
        assert_eq!(events(text, 9, 1000), [event("", None, "1")]);
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
            // Only the beginning that is kept of a cut event depends on the pieces.
            let whole = |size| {
                let mut events = events(&text, size, 16);
                for cut in events.iter_mut().filter(|event| event.is_cut) {
                    cut.data.clear();
                }
                events
            };
            assert_eq!(whole(1), whole(40), "{text:?}");
        }
    }
}

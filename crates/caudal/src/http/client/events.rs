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
    pub(crate) id: Option<String>,
    /// Empty if it only sets the id.
    pub(crate) data: Bytes,
}

/// An event, or one of its lines, is longer than a message may be. A reader that goes on
/// gets the next event, and of this one only its id, if it has one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub(crate) struct TooLong {
    pub(crate) limit: usize,
    /// Name of the event, if that came before.
    #[cfg_attr(not(feature = "sse"), allow(dead_code, reason = "nobody goes on"))]
    pub(crate) name: String,
    /// First bytes of its data.
    #[cfg_attr(not(feature = "sse"), allow(dead_code, reason = "nobody goes on"))]
    pub(crate) head: Vec<u8>,
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
    /// True if the last line ended with CR, so that LF may belong to it.
    after_cr: bool,
    begun: bool,
    /// True if the event is too long, so that its data is passed over.
    skipping: bool,
}

/// Length of the longest name of a field with its delimiter: `retry: `.
const FIELD: usize = 7;
/// Maximum length of names and ids; longer ones are passed over.
const NAME: usize = 256;
/// Bytes that are kept of an event that is too long: an id within may have 1 KiB.
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
            name: String::new(),
            id: None,
            retry: None,
            after_cr: false,
            begun: false,
            skipping: false,
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
    pub(crate) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Event>, TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes.first() == Some(&b'\n') {
                bytes.advance(1);
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let size = end.unwrap_or(bytes.len());
            if let Err(error) = self.add(bytes.get(..size).unwrap_or_default()) {
                bytes.advance(size);
                return Err(error);
            }
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
        if self.skipping {
            self.add_head(piece);
            return Ok(());
        }
        if self.line.len().saturating_add(piece.len()) > self.limit.saturating_add(FIELD) {
            self.add_head(piece);
            let line = std::mem::take(&mut self.line);
            let error = self.skip(&line);
            self.line = line;
            return Err(error);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// Adds to a line of which no more is kept than its first bytes.
    #[cold]
    fn add_head(&mut self, piece: &[u8]) {
        self.line.truncate(HEAD);
        let room = HEAD - self.line.len();
        let kept = piece.get(..room).unwrap_or(piece);
        self.line.extend_from_slice(kept);
    }

    /// Passes over the data of an event that has become too long with this line.
    #[cold]
    fn skip(&mut self, line: &[u8]) -> TooLong {
        let line = match self.begun {
            true => line,
            false => line.strip_prefix(BOM).unwrap_or(line),
        };
        let mut head = std::mem::take(&mut self.data);
        head.truncate(HEAD);
        if let (b"data", value) = split(line) {
            if !head.is_empty() {
                head.push(b'\n');
            }
            let room = HEAD.saturating_sub(head.len());
            head.extend_from_slice(value.get(..room).unwrap_or(value));
        }
        head.shrink_to_fit();
        (self.skipping, self.has_data) = (true, false);
        TooLong {
            limit: self.limit,
            name: self.name.clone(),
            head,
        }
    }

    fn end_line(&mut self) -> Result<Option<Event>, TooLong> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(BOM) {
            line.drain(..BOM.len());
        }
        let event = match line.is_empty() {
            true => Ok(self.end_event()),
            false => self.field(&line).map(|()| None),
        };
        line.clear();
        self.line = line;
        event
    }

    fn end_event(&mut self) -> Option<Event> {
        self.skipping = false;
        let name = std::mem::take(&mut self.name);
        let id = self.id.take();
        if !std::mem::take(&mut self.has_data) && id.is_none() {
            return None;
        }
        let data = Bytes::from(std::mem::take(&mut self.data));
        Some(Event { name, id, data })
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let (field, value) = split(line);
        match field {
            b"data" if self.skipping => {}
            b"data" if !self.has_room(value) => return Err(self.skip(line)),
            b"data" => self.add_data(value),
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

    fn has_room(&self, value: &[u8]) -> bool {
        self.data.len() + value.len() + usize::from(self.has_data) <= self.limit
    }

    fn add_data(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
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
        let error = parser.next(&mut piece()).unwrap_err();
        assert_eq!((error.limit, error.head.len()), (64, 0));
        for _ in 0..1000 {
            assert_eq!(parser.next(&mut piece()), Ok(None));
        }
        assert!(parser.line.capacity() <= 2 * HEAD);

        let mut parser = Parser::new(64);
        assert_eq!(parser.next(&mut Bytes::from_static(b": ")), Ok(None));
        for _ in 0..1000 {
            assert_eq!(parser.next(&mut piece()), Ok(None));
        }
        assert!(parser.line.capacity() <= 64);
        let mut rest = Bytes::from_static(b"\ndata: 1\n\n");
        assert_eq!(parser.next(&mut rest), Ok(Some(event("", None, "1"))));
    }

    /// All events of a text, and what was too long, each with its first bytes.
    fn heads(text: &[u8], size: usize, limit: usize) -> (Vec<Event>, Vec<String>) {
        let mut parser = Parser::new(limit);
        let (mut events, mut heads) = (Vec::new(), Vec::new());
        for piece in text.chunks(size) {
            let mut piece = Bytes::copy_from_slice(piece);
            loop {
                match parser.next(&mut piece) {
                    Ok(Some(event)) => events.push(event),
                    Ok(None) => break,
                    Err(error) => heads.push(String::from_utf8(error.head).unwrap()),
                }
            }
            assert!(piece.is_empty());
        }
        (events, heads)
    }

    #[test]
    fn who_goes_on_gets_the_id_of_what_was_too_long_and_what_follows() {
        let long = "x".repeat(100);
        for (before, after) in [("id: 7\n", ""), ("", "id: 7\n")] {
            let text = format!(
                "\u{feff}data: 1\n\n{before}data: {{\"id\":1\ndata: ,{long}\n{after}data: {long}\n\n\
                 data: 2\n\ndata: {long}\r\n\r\ndata: 3\n\n"
            );
            for size in 1..=text.len() {
                let (events, heads) = heads(text.as_bytes(), size, 64);
                let expected = [
                    event("", None, "1"),
                    event("", Some("7"), ""),
                    event("", None, "2"),
                    event("", None, "3"),
                ];
                assert_eq!(events, expected, "{size}");
                assert_eq!(heads.len(), 2, "{size}");
                assert!(heads[0].starts_with("{\"id\":1\n,xxx"), "{heads:?}");
                assert!(heads[1].starts_with("xxx"), "{heads:?}");
            }
        }
    }

    #[test]
    fn no_more_of_what_is_too_long_is_kept_than_its_first_bytes() {
        let long = "x".repeat(100_000);
        for text in [
            format!("data: {long}\n\n"),
            format!("\u{feff}data: 1\ndata: {long}\n\n"),
        ] {
            for size in [1, 1000, 50_000, 200_000] {
                let (events, heads) = heads(text.as_bytes(), size, 10_000);
                assert!(events.is_empty());
                assert_eq!(heads.len(), 1, "{size}");
                assert!((HEAD - 16..=HEAD).contains(&heads[0].len()), "{size}");
            }
        }
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
            let names = |(events, heads): (Vec<Event>, Vec<String>)| (events, heads.len());
            if text.is_ascii() {
                let whole = names(heads(&text, 40, 16));
                assert_eq!(names(heads(&text, 1, 16)), whole, "{text:?}");
            }
            let whole = events(&text, 40, 16);
            assert_eq!(events(&text, 1, 16).is_ok(), whole.is_ok(), "{text:?}");
            if let Ok(whole) = whole {
                assert_eq!(events(&text, 1, 16).unwrap(), whole, "{text:?}");
            }
        }
    }
}

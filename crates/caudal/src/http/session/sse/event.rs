//! Server-sent events as text.

use std::fmt;

use bytes::BytesMut;

/// First line of a stream: the time after which a client comes back.
pub(crate) const RETRY: &[u8] = b"retry: 1000\n\n";
/// Comment that keeps the connection in use.
pub(crate) const COMMENT: &[u8] = b":\n\n";

/// Id of an event: the number of its message, after the session if the client does not name
/// that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId<'a> {
    pub(crate) session: Option<&'a str>,
    pub(crate) number: u64,
}

impl<'a> EventId<'a> {
    /// Reads `N` or `SESSION.N`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (session, number) = match text.rsplit_once('.') {
            Some((session, number)) => (Some(session), number),
            None => (None, text),
        };
        let number = number.parse().ok()?;
        Some(Self { session, number })
    }
}

impl fmt::Display for EventId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session {
            Some(session) => write!(f, "{session}.{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

/// Writes an event: its id and its name, if it has them, and its data.
pub(crate) fn write(
    out: &mut BytesMut,
    id: Option<EventId<'_>>,
    name: Option<&str>,
    message: &[u8],
) {
    begin(out, id, name);
    data(out, message);
    end(out);
}

/// Begins an event, whose data follow.
pub(crate) fn begin(out: &mut BytesMut, id: Option<EventId<'_>>, name: Option<&str>) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(b"data: ");
}

/// Writes data of an event, all or a part of them.
pub(crate) fn data(out: &mut BytesMut, part: &[u8]) {
    // A line break within JSON is only space, but it would end the event.
    for (place, line) in part.split(|byte| matches!(byte, b'\r' | b'\n')).enumerate() {
        if place > 0 {
            out.extend_from_slice(b"\ndata: ");
        }
        out.extend_from_slice(line);
    }
}

/// Ends an event.
pub(crate) fn end(out: &mut BytesMut) {
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(id: Option<EventId<'_>>, name: Option<&str>, data: &str) -> String {
        let mut out = BytesMut::new();
        write(&mut out, id, name, data.as_bytes());
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_event_has_what_it_needs_and_nothing_else() {
        let id = EventId::parse("7");
        assert_eq!(written(id, None, "{}"), "id: 7\ndata: {}\n\n");
        let gap = written(None, Some("gap"), r#"{"missed":2}"#);
        assert_eq!(gap, "event: gap\ndata: {\"missed\":2}\n\n");
    }

    #[test]
    fn an_id_is_a_number_and_perhaps_a_session() {
        for (text, session, number) in [("7", None, 7), ("a.b.0", Some("a.b"), 0)] {
            let id = EventId { session, number };
            assert_eq!(EventId::parse(text), Some(id));
            assert_eq!(id.to_string(), text);
        }
        for wrong in ["", "x", "-1", "a.", "a.x", "7.a", "99999999999999999999"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_line_break_ends_an_event_early() {
        let text = written(None, None, "[1,\r2,\n3]");
        assert_eq!(text, "data: [1,\ndata: 2,\ndata: 3]\n\n");
    }
}

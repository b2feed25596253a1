//! Server-sent events as text.

use bytes::BytesMut;

/// What a stream of a session begins with: how long its client waits before it
/// comes back.
pub(crate) const RETRY: &[u8] = b"retry: 1000\n\n";
/// Says nothing, but keeps the connection in use.
pub(crate) const COMMENT: &[u8] = b":\n\n";

/// Writes an event: its number and its name, if it has them, and its data.
pub(crate) fn write(out: &mut BytesMut, number: Option<u64>, name: Option<&str>, data: &[u8]) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\n");
    }
    if let Some(number) = number {
        out.extend_from_slice(format!("id: {number}\n").as_bytes());
    }
    // A line break within JSON is only space, but it would end the event.
    for line in data.split(|byte| matches!(byte, b'\r' | b'\n')) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.extend_from_slice(b"\n");
    }
    out.extend_from_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: Option<u64>, name: Option<&str>, data: &str) -> String {
        let mut out = BytesMut::new();
        write(&mut out, number, name, data.as_bytes());
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn an_event_has_what_it_needs_and_nothing_else() {
        assert_eq!(written(Some(7), None, "{}"), "id: 7\ndata: {}\n\n");
        let gap = written(None, Some("gap"), r#"{"missed":2}"#);
        assert_eq!(gap, "event: gap\ndata: {\"missed\":2}\n\n");
    }

    #[test]
    fn no_line_break_ends_an_event_early() {
        let text = written(None, None, "[1,\r2,\n3]");
        assert_eq!(text, "data: [1,\ndata: 2,\ndata: 3]\n\n");
    }
}

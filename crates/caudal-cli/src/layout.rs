//! JSON laid out anew, with every number and string as it came.

use std::borrow::Cow;

/// Layout of JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// In one line, for programs.
    Compact,
    /// A member a line, for people at a terminal.
    Pretty,
}

impl Style {
    /// Returns the style for a stream: pretty for a terminal, compact for others.
    pub(crate) fn of(stream: &impl std::io::IsTerminal) -> Self {
        match stream.is_terminal() {
            true => Self::Pretty,
            false => Self::Compact,
        }
    }
}

/// Lays out `json`, which must be valid.
///
/// Only white space changes. For a terminal, control characters in strings (DEL and
/// C1, which JSON allows) are escaped as well, so that no server moves the cursor.
pub(crate) fn layout(json: &str, style: Style) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => string(&mut out, &mut chars, style),
            '{' | '[' => {
                out.push(c);
                depth += 1;
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if !matches!(chars.peek(), Some('}' | ']')) {
                    new_line(&mut out, depth, style);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !out.ends_with(['{', '[']) {
                    new_line(&mut out, depth, style);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth, style);
            }
            ':' if style == Style::Pretty => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out
}

/// Copies a string whose first quote has been read.
fn string(out: &mut String, chars: &mut impl Iterator<Item = char>, style: Style) {
    out.push('"');
    while let Some(c) = chars.next() {
        match c {
            c if c.is_control() && style == Style::Pretty => escape(out, c),
            _ => out.push(c),
        }
        match c {
            '"' => return,
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

fn new_line(out: &mut String, depth: usize, style: Style) {
    if style == Style::Pretty {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

/// Text that is shown as it is, but for control characters.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n';
    if !text.contains(hidden) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => escape(&mut out, c),
            false => out.push(c),
        }
    }
    out.into()
}

fn escape(out: &mut String, c: char) {
    out.push_str(&format!("\\u{:04x}", u32::from(c)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_changes() {
        let json = "{ \"a\" : [ 1.50, 123456789012345678901234567890, 1e400 ],\n\"b\":{ },\t\"c\":[\r\n], \"d\\\" { [\":\"x , y : \\\\\",\"d\":null}";
        let compact = r#"{"a":[1.50,123456789012345678901234567890,1e400],"b":{},"c":[],"d\" { [":"x , y : \\","d":null}"#;
        assert_eq!(layout(json, Style::Compact), compact);
        let pretty = layout(json, Style::Pretty);
        assert_eq!(
            pretty,
            "{\n  \"a\": [\n    1.50,\n    123456789012345678901234567890,\n    1e400\n  ],\n  \
             \"b\": {},\n  \"c\": [],\n  \"d\\\" { [\": \"x , y : \\\\\",\n  \"d\": null\n}",
        );
        assert_eq!(layout(&pretty, Style::Compact), compact);
    }

    #[test]
    fn a_scalar_stays_as_it_is() {
        for json in ["1", "-0.0", "\"\"", "null", "[]", "{}"] {
            assert_eq!(layout(json, Style::Compact), json);
            assert_eq!(layout(json, Style::Pretty), json);
        }
    }

    #[test]
    fn a_terminal_sees_no_control_characters() {
        let json = "[\"\u{9b}2J\u{7f}é\"]";
        assert_eq!(layout(json, Style::Compact), json);
        assert_eq!(layout(json, Style::Pretty), "[\n  \"\\u009b2J\\u007fé\"\n]");
        assert_eq!(visible("a\u{1b}[2J\nb"), "a\\u001b[2J\nb");
    }
}

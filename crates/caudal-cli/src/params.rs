//! Params from the command line: one JSON text, an array or an object.

use std::io;

use caudal::RawValue;
use caudal_core::{Kind, RawJson};

use crate::exit::Failure;
use crate::layout::{Style, layout};
use crate::signals::aside;

/// Reads what was typed for PARAMS; `-` is standard input.
pub(crate) async fn read(typed: &str) -> Result<Box<RawValue>, Failure> {
    if typed != "-" {
        return parse(typed, Source::Typed);
    }
    let text = aside(|| io::read_to_string(io::stdin())).await;
    let text =
        text.map_err(|error| Failure::usage(format!("cannot read PARAMS from stdin: {error}")))?;
    if text.starts_with('\u{feff}') {
        return Err(Failure::usage(
            "PARAMS from stdin begins with a byte order mark, which JSON has not; save it as UTF-8 \
             without one",
        ));
    }
    parse(&text, Source::Stdin)
}

/// Source of params: only a shell needs quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Typed,
    Stdin,
}

fn parse(text: &str, source: Source) -> Result<Box<RawValue>, Failure> {
    let what = match source {
        Source::Typed => "PARAMS",
        Source::Stdin => "PARAMS from stdin",
    };
    let json = RawJson::parse(text).map_err(|error| {
        let hint = match (text.trim(), source) {
            ("", _) => "leave it out if there are none".to_owned(),
            (_, Source::Stdin) => "it is one array or object, as [1,2] or {\"name\":1}".to_owned(),
            (word, _) if is_word(word) => format!("try {}", array([word])),
            _ => "write it as '[1,2]' or '{\"name\":1}', in single quotes".to_owned(),
        };
        Failure::usage(format!("{what} is {error}; {hint}"))
    })?;
    if !matches!(json.kind(), Kind::Array | Kind::Object) {
        let hint = match source {
            Source::Typed => array([json.as_str()]),
            Source::Stdin => format!("[{}]", layout(json.as_str(), Style::Compact)),
        };
        return Err(Failure::usage(format!(
            "{what} must be an array or an object; try {hint}"
        )));
    }
    // A newline in it would end the message where messages are lines.
    let text = layout(json.as_str(), Style::Compact);
    RawValue::from_string(text)
        .map_err(|error| Failure::usage(format!("{what} cannot be sent: {error}")))
}

/// Returns true if the text does not look like JSON.
fn is_word(text: &str) -> bool {
    text.len() <= 128 && !text.contains(['[', ']', '{', '}', '"', '\'', ':', ','])
}

/// Writes words as a JSON array, quoted for a shell.
pub(crate) fn array<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let entry = |word: &str| match RawJson::parse(word) {
        Ok(json) => layout(json.as_str(), Style::Compact),
        Err(_) => serde_json::Value::from(word).to_string(),
    };
    let entries: Vec<_> = words.into_iter().map(entry).collect();
    quote(&format!("[{}]", entries.join(",")))
}

/// A word as a shell takes it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_an_array() {
        assert_eq!(array(["1", "two", "[3, 4]"]), "'[1,\"two\",[3,4]]'");
        assert_eq!(array(["it's"]), r#"'["it'\''s"]'"#);
    }

    #[test]
    fn a_word_is_quoted_if_a_shell_would_change_it() {
        assert_eq!(quote("http://127.0.0.1:1/rpc"), "http://127.0.0.1:1/rpc");
        assert_eq!(quote("http://a/rpc#sse"), "'http://a/rpc#sse'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn newlines_of_params_are_not_sent() {
        let params = parse("[1,\n 2]\n", Source::Typed).unwrap();
        assert_eq!(params.get(), "[1,2]");
    }
}

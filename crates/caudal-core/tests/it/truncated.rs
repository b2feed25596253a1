//! Responses in the first bytes of an oversized message.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use caudal_core::decode::truncated_responses;
use caudal_core::{FrameError, FrameReader, Framing, Message, Policy, decode};
use proptest::prelude::*;

const ALL: [Framing; 3] = [Framing::Line, Framing::Header, Framing::Concatenated];
/// Bytes that are kept of a skipped frame.
const HEAD: usize = 2 * 1024;

/// Returns true if only responses can be seen, and their ids.
fn read(head: &[u8]) -> (bool, Vec<String>) {
    let mut ids = Vec::new();
    let answers = truncated_responses(head, &Policy::default(), |id| ids.push(id.to_string()));
    (answers, ids)
}

fn answers(head: &str, ids: &[&str]) {
    let ids = ids.iter().map(ToString::to_string).collect();
    assert_eq!(read(head.as_bytes()), (true, ids), "{head}");
}

fn is_none(head: &str) {
    assert!(!read(head.as_bytes()).0, "{head}");
}

#[test]
fn a_response_is_known_by_its_beginning() {
    answers(r#"{"jsonrpc":"2.0","id":7,"result":"xxx"#, &["7"]);
    answers(r#"{"jsonrpc":"2.0","id":7,"result":"#, &["7"]);
    answers(
        r#"{"jsonrpc":"2.0","id":7,"result":[1,{"id":8,"method":"#,
        &["7"],
    );
    answers(
        r#"{"id":"a","jsonrpc":"2.0","error":{"code":1,"#,
        &["\"a\""],
    );
    answers(r#" { "result" : 1 , "id" : 7 , "x" : "y"#, &["7"]);
    answers(r#"{"\u0069d":7,"r\u0065sult":"xxx"#, &["7"]);
    answers(r#"{"jsonrpc":"2.0","id":7,"result":1}"#, &["7"]);
}

#[test]
fn an_id_that_is_not_to_be_seen_is_not_made_up() {
    answers(r#"{"jsonrpc":"2.0","result":"xxx"#, &[]);
    answers(r#"{"jsonrpc":"2.0","result":1,"id":12"#, &[]);
    answers(r#"{"jsonrpc":"2.0","result":1,"id":"ab"#, &[]);
    answers(r#"{"id":null,"error":{"#, &[]);
    answers(r#"{"id":[7],"result":{"#, &[]);
    answers(r#"{"id":7,"id":8,"result":{"#, &[]);
    answers(r#"{"result":{"id":7,"#, &[]);
    let long = format!(r#"{{"id":"{}","result":"#, "x".repeat(1023));
    answers(&long, &[]);
}

#[test]
fn what_is_no_response_is_not_taken_for_one() {
    is_none(r#"{"jsonrpc":"2.0","id":7,"method":"m","params":["#);
    is_none(r#"{"jsonrpc":"2.0","id":7,"params":["xxx"#);
    is_none(r#"{"jsonrpc":"2.0","id":7,"params":{"result":1,"#);
    is_none(r#"{"jsonrpc":"2.0","method":"m","result":["#);
    is_none(r#"{"jsonrpc":"2.0","id":7,"resul"#);
    is_none(r#"{"jsonrpc":"2.0","id":7,"result""#);
    is_none(r#"{"jsonrpc":"2.0","id":7}"#);
    for head in [
        "",
        " ",
        "{",
        "{}",
        "[",
        "[]",
        "[1,",
        "7",
        "\"result\":",
        "{\"a\":}",
        "\u{feff}{",
    ] {
        is_none(head);
    }
}

#[test]
fn a_batch_answers_every_call_that_is_to_be_seen() {
    answers(
        r#"[{"id":1,"result":2},{"id":2,"error":{}}, {"id":3,"result":"x"#,
        &["1", "2", "3"],
    );
    answers(r#"[{"id":1,"result":2},{"jsonrpc":"2.0","i"#, &["1"]);
    answers(r#"[{"id":1,"result":2},"#, &["1"]);
    // Somebody is owed an answer.
    for head in [
        r#"[{"id":1,"result":2},{"id":3,"method":"m","params":["#,
        r#"[{"id":3,"method":"m"},{"id":1,"result":2"#,
        r#"[7,{"id":1,"result":2"#,
        r#"[{"id":1,"result":2},7"#,
        r#"[{"id":1,"result":2},{}"#,
    ] {
        is_none(head);
    }
    let mixed = read(br#"[{"id":1,"result":2},{"id":3,"method":"m","params":["#);
    assert_eq!(mixed.1, ["1"]);
}

#[test]
fn a_character_that_is_cut_is_no_matter() {
    let text = r#"{"id":"ü","result":"ü"#;
    let cut = &text.as_bytes()[..text.len() - 1];
    assert_eq!(read(cut), (true, vec!["\"ü\"".to_owned()]));
}

/// One frame of so many bytes and a short one behind it.
fn stream(framing: Framing, head: &str, size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let long = format!("{head}{}\"}}", "x".repeat(size - head.len() - 2));
    for body in [&long, "[1]"] {
        let written: Result<(), ()> = framing.write(&mut out, |out| {
            out.extend_from_slice(body.as_bytes());
            Ok(())
        });
        written.unwrap();
    }
    out
}

#[test]
fn the_head_of_a_frame_that_is_too_large_can_be_looked_at() {
    let head = r#"{"jsonrpc":"2.0","id":7,"result":""#;
    for (framing, limit) in ALL.into_iter().flat_map(|f| [(f, 10_000), (f, 64)]) {
        let bytes = stream(framing, head, 12_000);
        for size in [1, 7, 100, 4_000, bytes.len()] {
            let mut reader = FrameReader::new(framing, limit);
            let (mut faults, mut read) = (0, 0);
            for piece in bytes.chunks(size) {
                reader.push(piece);
                assert!(reader.skipped().is_empty());
                loop {
                    match reader.next_frame() {
                        Ok(None) => break,
                        Ok(Some(frame)) => {
                            assert_eq!(frame, b"[1]");
                            assert!(reader.skipped().is_empty());
                            read += 1;
                        }
                        Err(error) => {
                            assert_eq!(error, FrameError::TooLarge { limit });
                            let skipped = reader.skipped();
                            assert!(skipped.starts_with(head.as_bytes()));
                            assert!((HEAD.min(limit)..=HEAD).contains(&skipped.len()));
                            assert!(reader.frame().is_empty());
                            faults += 1;
                        }
                    }
                }
                assert!(reader.skipped().is_empty());
            }
            assert_eq!((faults, read), (1, 1), "{framing:?} {limit} {size}");
            assert!(reader.is_empty());
        }
    }
}

#[test]
fn the_head_is_told_though_the_stream_ends() {
    let head = r#"{"jsonrpc":"2.0","id":7,"result":"#;
    let mut reader = FrameReader::new(Framing::Header, 64);
    reader.push(b"Content-Length: 100\r\n\r\n");
    reader.push(head.as_bytes());
    assert_eq!(reader.next_frame(), Ok(None));
    assert_eq!(reader.finish(), Err(FrameError::TooLarge { limit: 64 }));
    assert_eq!(reader.skipped(), head.as_bytes());
    assert_eq!(reader.finish(), Err(FrameError::Truncated));
    assert!(reader.skipped().is_empty());
}

#[test]
fn other_faults_have_no_head() {
    let mut reader = FrameReader::new(Framing::Header, 64);
    reader.push(b"a stray line\nContent-Length: 0\r\n\r\n");
    for _ in 0..2 {
        assert!(reader.next_frame().is_err());
        assert!(reader.skipped().is_empty());
    }
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read(&bytes);
    }

    #[test]
    fn no_tokens_are_too_strange(
        tokens in proptest::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"id\"", "\"result\"", "\"error\"", "\"method\"",
                "\"params\"", "7", "-", "null", "\"", "\\", "\\u00", "é", " ", "\n", "\u{feff}",
            ]),
            0..40,
        ),
    ) {
        read(tokens.concat().as_bytes());
    }

    /// Wherever a message is cut, what is said of it is true.
    #[test]
    fn a_cut_says_nothing_that_the_whole_does_not(
        id in "[0-9]{1,4}|\"[a-zé\\\\n]{0,4}\"",
        first in any::<bool>(),
        kind in 0..3_usize,
        cut in 0..200_usize,
    ) {
        let id = serde_json::from_str::<serde_json::Value>(&id).unwrap_or(7.into());
        let content = ["\"result\":[\"a\",{\"id\":9}]", "\"error\":{\"code\":1,\"message\":\"m\"}",
            "\"method\":\"m\",\"params\":{\"result\":1}"][kind];
        let text = match first {
            true => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{content}}}"),
            false => format!("{{\"jsonrpc\":\"2.0\",{content},\"id\":{id}}}"),
        };
        let policy = Policy::default();
        let head = &text.as_bytes()[..cut.min(text.len())];
        let (is_answer, ids) = read(head);
        match decode(text.as_bytes(), &policy) {
            Message::Response(response) => {
                prop_assert!(ids.iter().all(|id| *id == response.id.to_string()));
                prop_assert!(cut < text.len() || is_answer && ids.len() == 1);
            }
            _ => prop_assert!(!is_answer && ids.is_empty()),
        }
    }
}

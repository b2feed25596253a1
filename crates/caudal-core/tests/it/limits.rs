//! Messages that are too large, too deep, too long or not text.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use crate::support::{invalid, read, request};
use caudal_core::{DecodeError, ErrorCode, Id, Member, Message, Policy, decode};

/// Proves: J12, J20
#[test]
fn a_batch_that_is_empty_or_too_long_is_one_error() {
    let empty = invalid("[ ]");
    assert_eq!((empty.cause, empty.id), (DecodeError::EmptyBatch, Id::NULL));
    let entry = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let full = format!("[{}]", vec![entry; 1_000].join(","));
    assert!(matches!(read(&full), Message::Batch(entries) if entries.len() == 1_000));
    let over = format!("[{}]", vec![entry; 1_001].join(","));
    assert_eq!(
        invalid(&over).cause,
        DecodeError::BatchTooLong { limit: 1_000 }
    );
    // Not JSON comes before too long.
    let broken = format!("[{}", vec![entry; 1_001].join(","));
    assert_eq!(invalid(&broken).code, ErrorCode::PARSE_ERROR);
}

/// Proves: A99
#[test]
fn a_bad_byte_is_refused_at_every_position() {
    let good = "{\"jsonrpc\":\"2.0\",\"id\":\"é😀\",\"method\":\"m\",\"params\":[\"a\\u00e9b\"]}";
    for at in 0..=good.len() {
        for bad in [
            &b"\xff"[..],
            b"\xc3",
            b"\xed\xa0\x80",
            b"\xc0\x80",
            b"\xf4\x90\x80\x80",
        ] {
            let mut bytes = good.as_bytes().to_vec();
            bytes.splice(at..at, bad.iter().copied());
            let Message::Invalid(invalid) = decode(&bytes, &Policy::default()) else {
                panic!("{bytes:?} is not UTF-8");
            };
            assert!(matches!(invalid.cause, DecodeError::Utf8 { offset } if offset <= at + 3));
            assert_eq!(invalid.code, ErrorCode::PARSE_ERROR);
        }
        let mut bytes = good.as_bytes().to_vec();
        bytes.insert(at, 0);
        assert!(matches!(
            decode(&bytes, &Policy::default()),
            Message::Invalid(_)
        ));
    }
}

/// Proves: A96
#[test]
fn a_message_cut_at_any_byte_is_a_parse_error() {
    let good = r#"{"jsonrpc":"2.0","id":1,"method":"m\n","params":[{"a":[1.5e3,true,null]}]}"#;
    for end in 0..good.len() {
        assert_eq!(invalid(&good[..end]).code, ErrorCode::PARSE_ERROR, "{end}");
    }
}

fn nested(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels), "]".repeat(levels));
    format!(r#"{{"jsonrpc":"2.0","method":"m","params":{open}{close},"id":9}}"#)
}

/// Proves: A98
#[test]
fn depth_is_limited_exactly_and_the_id_survives() {
    // The message's own object is the first level.
    request(&nested(127));
    let over = nested(128);
    let refused = invalid(&over);
    assert_eq!(refused.cause, DecodeError::TooDeep { limit: 128 });
    assert_eq!(refused.id.as_str(), "9");
    let objects = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"m","params":{}1{}}}"#,
        r#"{"a":"#.repeat(128),
        "}".repeat(128)
    );
    assert_eq!(invalid(&objects).cause, DecodeError::TooDeep { limit: 128 });

    // One entry that is too deep leaves the others alone.
    let batch = format!("[{},{}]", nested(127), nested(2));
    let Message::Batch(entries) = read(&batch) else {
        panic!("a batch")
    };
    assert!(matches!(&entries[0], Message::Invalid(i) if i.id.as_str() == "9"));
    assert!(matches!(&entries[1], Message::Request(_)));
}

/// Proves: A98
#[test]
fn bombs_are_refused_without_recursion() {
    for levels in [1_000, 100_000, 500_000] {
        assert!(matches!(
            invalid(&nested(levels)).cause,
            DecodeError::TooDeep { .. }
        ));
        assert_eq!(invalid(&"[".repeat(levels)).code, ErrorCode::PARSE_ERROR);
        let open = r#"[{"":"#.repeat(levels / 10);
        assert_eq!(invalid(&open).code, ErrorCode::PARSE_ERROR);
        let closed = "[".repeat(levels) + &"]".repeat(levels);
        let Message::Batch(entries) = read(&closed) else {
            panic!("a batch of one")
        };
        assert!(matches!(&entries[..], [Message::Invalid(_)]));
        let id = format!(r#"{{"jsonrpc":"2.0","method":"m","id":{closed}}}"#);
        if id.len() <= 1024 * 1024 {
            assert_eq!(invalid(&id).cause.member(), Some(Member::Id));
        }
    }
    let notification = nested(1_000).replace(r#","id":9"#, "");
    assert!(!invalid(&notification).wants_answer());
}

/// Proves: A98
#[test]
fn an_id_may_have_a_kibibyte() {
    let with = |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#);
    let longest = format!("\"{}\"", "i".repeat(1022));
    assert_eq!(request(&with(&longest)).id.as_str(), longest);
    let over = with(&format!("\"{}\"", "i".repeat(1023)));
    let refused = invalid(&over);
    assert_eq!(
        refused.cause,
        DecodeError::IdTooLong {
            length: 1025,
            limit: 1024
        }
    );
    assert_eq!((refused.id, refused.wants_answer()), (Id::NULL, true));
    request(&with(&"9".repeat(1024)));
    let digits = with(&"9".repeat(1025));
    assert!(matches!(
        invalid(&digits).cause,
        DecodeError::IdTooLong { .. }
    ));
    let huge = with(&format!("\"{}\"", "i".repeat(1024 * 1024 - 100)));
    assert!(matches!(
        invalid(&huge).cause,
        DecodeError::IdTooLong { .. }
    ));
}

/// Proves: A92, A93, A94, J28
#[test]
fn a_message_may_have_a_mebibyte_or_what_the_policy_says() {
    let sized = |bytes: usize| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[""]}"#;
        frame.replace("\"\"", &format!("\"{}\"", "p".repeat(bytes - frame.len())))
    };
    let largest = sized(1024 * 1024);
    assert_eq!(largest.len(), 1024 * 1024);
    request(&largest);
    let over = sized(1024 * 1024 + 1);
    let refused = invalid(&over);
    assert_eq!(refused.cause, DecodeError::TooLarge { limit: 1024 * 1024 });
    assert_eq!(
        (refused.code, refused.id),
        (ErrorCode::INVALID_REQUEST, Id::NULL)
    );

    let mut roomy = Policy::default();
    roomy.max_message = over.len();
    assert!(matches!(
        decode(over.as_bytes(), &roomy),
        Message::Request(_)
    ));
}

//! Params read by their own type in the same pass.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use caudal_core::{DecodeError, Decoder, Message, Policy, SyntaxError, decode};

/// Proves: A2
#[test]
fn params_are_read_in_the_same_pass_when_method_comes_first() {
    let policy = Policy::default();
    let text = br#"{"jsonrpc":"2.0","method":"m","params":{"name":"Ada","x":[1]} , "id":7}"#;
    #[derive(serde::Deserialize)]
    struct Named<'a> {
        name: &'a str,
    }
    let mut decoder = Decoder::new(text, &policy);
    assert_eq!(decoder.method_before_params().as_deref(), Some("m"));
    let named: Named<'_> = decoder.read_params().unwrap().unwrap();
    assert_eq!(named.name, "Ada");
    assert!(decoder.read_params::<Named<'_>>().is_none(), "once only");
    let Message::Request(request) = decoder.finish() else {
        panic!("a request")
    };
    assert_eq!(
        request.params.unwrap().as_str(),
        r#"{"name":"Ada","x":[1]}"#
    );
    assert_eq!(request.id.as_str(), "7");

    // A type that does not fit changes nothing for the message.
    let mut decoder = Decoder::new(text, &policy);
    decoder.method_before_params();
    assert!(decoder.read_params::<(i64,)>().unwrap().is_err());
    assert!(matches!(decoder.finish(), Message::Request(_)));

    for other in [
        &br#"{"jsonrpc":"2.0","params":[],"method":"m"}"#[..],
        br#"{"jsonrpc":"2.0","method":"m"}"#,
        br#"[{"jsonrpc":"2.0","method":"m","params":[]}]"#,
        br#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        br#"{"jsonrpc":"2.0","method":7,"params":[]}"#,
        b"{]",
        b"\xff",
    ] {
        let mut decoder = Decoder::new(other, &policy);
        assert_eq!(decoder.method_before_params(), None);
        assert_eq!(decoder.finish(), decode(other, &policy));
    }
}

/// A type that reads nothing of what it is given.
struct Nothing;

impl<'de> serde::Deserialize<'de> for Nothing {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Self)
    }
}

#[test]
fn reading_nothing_ahead_changes_nothing() {
    let policy = Policy::default();
    let text = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}"#;
    let mut decoder = Decoder::new(text, &policy);
    decoder.method_before_params();
    assert!(decoder.read_params::<Nothing>().unwrap().is_ok());
    assert_eq!(decoder.finish(), decode(text, &policy));
}

/// Values that a type ignores are still checked.
///
/// Proves: A98
#[test]
fn reading_ahead_overlooks_neither_depth_nor_surrogates() {
    let policy = Policy::default();
    for params in [
        format!("{}{}", "[".repeat(128), "]".repeat(128)),
        r#"["\ud800"]"#.to_owned(),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
        let mut decoder = Decoder::new(text.as_bytes(), &policy);
        decoder.method_before_params();
        assert!(
            decoder
                .read_params::<serde::de::IgnoredAny>()
                .unwrap()
                .is_ok()
        );
        assert!(matches!(decoder.finish(), Message::Invalid(_)), "{params}");
    }
}

#[test]
fn what_is_said_once_is_spent() {
    let policy = Policy::default();
    for bytes in [
        &br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#[..],
        br#"{"jsonrpc":"2.0","id":1,"method":"add"} x {}"#,
        br#"[{"jsonrpc":"2.0","method":"tick"}]"#,
        b"\xff",
    ] {
        let mut decoder = Decoder::new(bytes, &policy);
        assert_eq!(decoder.finish(), decode(bytes, &policy));
        assert_eq!(decoder.method_before_params(), None);
        assert!(decoder.read_params::<(i64, i64)>().is_none());
        let Message::Invalid(invalid) = decoder.finish() else {
            panic!("said twice");
        };
        assert!(
            matches!(
                invalid.cause,
                DecodeError::Syntax {
                    error: SyntaxError::UnexpectedEnd,
                    ..
                }
            ),
            "{invalid:?}"
        );
    }
}

//! The decoder against the oracle, over generated and mangled messages.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use crate::support::checks;
use proptest::prelude::*;

/// JSON text of any shape, numbers of any size, strings with escapes.
fn json() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(|f| format!("{f:e}")),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?",
        string(),
    ];
    scalar.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec((string(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(k, v)| format!("{k}:{v}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z0-9 é😀\u{7f}]{0,12}",
        1 => "\\\\[\"\\\\/bfnrt]",
        1 => "\\\\u[0-9a-fA-F]{4}",
        1 => Just("\\ud83d\\ude00".to_owned()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// An object with members that a message could have, in any order, some of
/// them wrong, some of them twice.
fn object() -> impl Strategy<Value = String> {
    let good = prop_oneof![
        4 => Just((r#""jsonrpc""#.to_owned(), r#""2.0""#.to_owned())),
        2 => prop_oneof![Just("1"), Just("\"a\""), Just("null"), Just("1.5e3"), Just("\"\\u0061bc\"")]
            .prop_map(|id| (r#""id""#.to_owned(), id.to_owned())),
        3 => prop_oneof![Just("\"m\""), Just("\" \""), Just("\"\\u006d\"")]
            .prop_map(|name| (r#""method""#.to_owned(), name.to_owned())),
        2 => json().prop_map(|value| (r#""params""#.to_owned(), value)),
        1 => prop_oneof![3 => json(), 1 => Just("null".to_owned())]
            .prop_map(|value| (r#""result""#.to_owned(), value)),
        1 => prop_oneof![
                Just(r#"{"code":-32601,"message":"no"}"#.to_owned()),
                Just(r#"{"code":1,"message":"no","data":null}"#.to_owned()),
                Just(r#"{"code":1.0,"message":"no"}"#.to_owned()),
                Just(r#"{"code":1,"code":1,"message":"no"}"#.to_owned()),
                Just("null".to_owned()),
                json(),
            ].prop_map(|value| (r#""error""#.to_owned(), value)),
        1 => (string(), json()),
        1 => json().prop_map(|value| (r#""i\u0064""#.to_owned(), value)),
    ];
    // As most libraries write it, as Python does, and in an unusual form.
    let spelling = prop_oneof![Just((":", ",")), Just((": ", ", ")), Just((" :", ",\n"))];
    (prop::collection::vec(good, 0..7), spelling).prop_map(|(members, (colon, comma))| {
        let members: Vec<_> = members
            .iter()
            .map(|(k, v)| format!("{k}{colon}{v}"))
            .collect();
        format!("{{{}}}", members.join(comma))
    })
}

/// A response with both outcomes, one of them null as a rule.
fn two_outcomes() -> impl Strategy<Value = String> {
    let error = || Just(r#"{"code":-32601,"message":"no"}"#.to_owned());
    let null = || Just("null".to_owned());
    let result = prop_oneof![null(), json()];
    let error = prop_oneof![3 => null(), 3 => error(), 1 => json()];
    (result, error, any::<bool>()).prop_map(|(result, error, swapped)| {
        let outcomes = [
            format!(r#""result":{result}"#),
            format!(r#""error":{error}"#),
        ];
        let [first, last] = outcomes;
        match swapped {
            false => format!(r#"{{"jsonrpc":"2.0","id":1,{first},{last}}}"#),
            true => format!(r#"{{{last}, {first},"id":"1","jsonrpc":"2.0"}}"#),
        }
    })
}

fn message() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => object(),
        1 => two_outcomes(),
        1 => prop::collection::vec(prop_oneof![4 => object(), 1 => two_outcomes(), 1 => json()], 0..5)
            .prop_map(|entries| format!(" [{}] ", entries.join(","))),
        1 => json(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves: A97, A98, C63
    #[test]
    fn the_decoder_and_the_oracle_agree_on_messages(text in message()) {
        checks::decoding(text.as_bytes());
    }

    /// Proves: A12, A99
    #[test]
    fn the_decoder_and_the_oracle_agree_on_mangled_messages(
        text in message(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        kind in 0..4,
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        match kind {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            2 => drop(bytes.remove(at)),
            _ => bytes.truncate(at),
        }
        checks::decoding(&bytes);
    }

    #[test]
    fn the_decoder_and_the_oracle_agree_on_noise(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        checks::decoding(&bytes);
    }

    #[test]
    fn the_decoder_and_the_oracle_agree_on_json_alphabet(text in "[\\[\\]{}:,\"\\\\u0-9eE.+\\-a-fnrtls \n]{0,40}") {
        checks::decoding(text.as_bytes());
    }
}

//! The schema and the decoder, held against each other.
//!
//! The deliberate differences, all of them because a schema sees a value and
//! not its text, are the ones that [`beyond_a_schema`] lists.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use caudal_core::{DecodeError, Message, Policy, SCHEMA, decode};
use jsonschema::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

fn validator() -> Validator {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::draft202012::meta::validate(&schema).expect("the schema is a schema");
    jsonschema::draft202012::new(&schema).expect("the schema compiles")
}

/// Returns true if a decoded message and all its entries are valid.
fn is_valid(message: &Message<'_>) -> bool {
    match message {
        Message::Invalid(_) => false,
        Message::Batch(entries) => entries.iter().all(is_valid),
        _ => true,
    }
}

/// Faults that only the text shows, and limits that a schema cannot state.
fn beyond_a_schema(message: &Message<'_>) -> bool {
    match message {
        Message::Invalid(invalid) => match &invalid.cause {
            // JSON Schema holds 1.0 to be an integer; an error code must be
            // written as one.
            DecodeError::WrongType {
                member, expected, ..
            } => *member == caudal_core::Member::Code && *expected == "an integer that fits i64",
            DecodeError::Duplicate { .. }
            | DecodeError::TooDeep { .. }
            | DecodeError::IdTooLong { .. }
            | DecodeError::TooLarge { .. } => true,
            _ => false,
        },
        Message::Batch(entries) => entries.iter().any(beyond_a_schema),
        _ => false,
    }
}

fn agree(validator: &Validator, text: &str) {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let message = decode(text.as_bytes(), &Policy::default());
    let (accepted, valid) = (validator.is_valid(&value), is_valid(&message));
    if accepted != valid {
        assert!(
            accepted && beyond_a_schema(&message),
            "{text}: schema {accepted}, {message:?}"
        );
    }
}

/// Proves: C39
#[test]
fn the_schema_accepts_what_the_decoder_accepts() {
    let validator = validator();
    let (mut accepted, mut refused) = (0, 0);
    for text in include_str!("messages.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        agree(&validator, text);
        if let Ok(value) = serde_json::from_str(text) {
            *(if validator.is_valid(&value) {
                &mut accepted
            } else {
                &mut refused
            }) += 1;
        }
    }
    assert!(
        accepted >= 40 && refused >= 60,
        "{accepted} accepted, {refused} refused"
    );
}

/// Proves: C39
#[test]
fn each_part_of_the_schema_can_be_used_alone() {
    for (part, good, bad) in [
        (
            "request",
            json!({"jsonrpc": "2.0", "id": 1, "method": "m"}),
            json!({"jsonrpc": "2.0", "method": "m"}),
        ),
        (
            "notification",
            json!({"jsonrpc": "2.0", "method": "m"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "m"}),
        ),
        (
            "response",
            json!({"jsonrpc": "2.0", "id": 1, "result": null}),
            json!({"jsonrpc": "2.0", "id": 1}),
        ),
        (
            "error",
            json!({"code": 1, "message": ""}),
            json!({"code": "1", "message": ""}),
        ),
        (
            "batch",
            json!([{"jsonrpc": "2.0", "method": "m"}]),
            json!([]),
        ),
        ("id", json!(1), json!(null)),
    ] {
        let mut schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let root = schema.as_object_mut().unwrap();
        root.remove("anyOf");
        root.insert("$ref".to_owned(), json!(format!("#/$defs/{part}")));
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        assert!(validator.is_valid(&good), "{part}");
        assert!(!validator.is_valid(&bad), "{part}");
    }
}

fn member() -> impl Strategy<Value = (&'static str, Value)> {
    let id = prop_oneof![
        Just(json!(1)),
        Just(json!("a")),
        Just(json!(null)),
        Just(json!(1.5)),
        Just(json!(true)),
        Just(json!([])),
    ];
    let error = prop_oneof![
        Just(json!({"code": 1, "message": "m"})),
        Just(json!({"code": 1, "message": "m", "data": null, "more": 1})),
        Just(json!({"code": "1", "message": "m"})),
        Just(json!({"code": 1.5, "message": "m"})),
        Just(json!({"code": 1, "message": 1})),
        Just(json!({"code": 1})),
        Just(json!({"message": "m"})),
        Just(json!(null)),
        Just(json!("m")),
    ];
    let params = prop_oneof![
        Just(json!([])),
        Just(json!({})),
        Just(json!(null)),
        Just(json!(0)),
        Just(json!("")),
        Just(json!([1, {"a": 2}])),
    ];
    let method = prop_oneof![
        4 => Just(json!("m")), 1 => Just(json!("")), 1 => Just(json!(" \t")), 1 => Just(json!(1)), 1 => Just(json!("\u{a0}")),
        1 => prop::char::any().prop_map(|c| json!(c.to_string())),
        1 => prop::sample::select(vec!['\u{85}', '\u{feff}', '\u{1680}', '\u{180e}', '\u{200b}', '\u{2028}', '\u{3000}', '\u{1c}'])
            .prop_map(|c| json!(c.to_string())),
        1 => Just(json!("é")), 1 => Just(json!(null)),
    ];
    let version =
        prop_oneof![6 => Just(json!("2.0")), 1 => Just(json!("2")), 1 => Just(json!(2.0))];
    prop_oneof![
        4 => version.prop_map(|v| ("jsonrpc", v)),
        3 => id.prop_map(|v| ("id", v)),
        3 => method.prop_map(|v| ("method", v)),
        2 => params.clone().prop_map(|v| ("params", v)),
        2 => params.prop_map(|v| ("result", v)),
        2 => error.prop_map(|v| ("error", v)),
        1 => Just(("extra", json!(1))),
    ]
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec(member(), 0..7).prop_map(|members| {
        Value::Object(
            members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
        )
    })
}

#[test]
fn the_schema_and_the_decoder_agree_on_generated_messages() {
    let validator = validator();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let message = prop_oneof![
        4 => object(),
        1 => prop::collection::vec(object(), 0..4).prop_map(Value::from),
    ];
    runner
        .run(&message, |value| {
            agree(&validator, &value.to_string());
            Ok(())
        })
        .unwrap();
}

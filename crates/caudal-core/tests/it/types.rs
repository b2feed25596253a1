//! The owned messages: built in one line, written to the letter, read back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use caudal_core::{
    CodeClass, ErrorCode, JsonRpcError, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse,
    RequestId, Version,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn text(message: &impl serde::Serialize) -> String {
    serde_json::to_string(message).unwrap()
}

/// Proves: C1, C2, C19, C33, C34
#[test]
fn a_request_is_written_as_the_specification_has_it() {
    let request = JsonRpcRequest::new(1, "subtract", json!([42, 23]));
    assert_eq!(
        text(&request),
        r#"{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}"#
    );
    let named = JsonRpcRequest::new("x", "subtract", json!({"minuend": 42, "subtrahend": 23}));
    assert_eq!(
        text(&named),
        r#"{"jsonrpc":"2.0","id":"x","method":"subtract","params":{"minuend":42,"subtrahend":23}}"#
    );
}

/// Proves: C7, C8, C21, C33, C34, C47
#[test]
fn a_notification_has_no_id() {
    let update = JsonRpcNotification::new("update", json!([1, 2, 3, 4, 5]));
    assert_eq!(
        text(&update),
        r#"{"jsonrpc":"2.0","method":"update","params":[1,2,3,4,5]}"#
    );
    assert_eq!(
        text(&JsonRpcNotification::new("foobar", None)),
        r#"{"jsonrpc":"2.0","method":"foobar"}"#
    );
    let with_id = r#"{"jsonrpc":"2.0","id":null,"method":"update"}"#;
    assert!(serde_json::from_str::<JsonRpcNotification>(with_id).is_err());
}

/// Proves: C12, C14, C25, C34, C50, A5, A6, A7, A8
#[test]
fn a_success_is_written_as_the_specification_has_it() {
    assert_eq!(
        text(&JsonRpcResponse::success(1, 19)),
        r#"{"jsonrpc":"2.0","id":1,"result":19}"#
    );
    assert_eq!(
        text(&JsonRpcResponse::success("a", Value::Null)),
        r#"{"jsonrpc":"2.0","id":"a","result":null}"#
    );
}

/// Proves: C13, C14, C26, C30, C34, C51, A5, A15
#[test]
fn an_error_is_written_as_the_specification_has_it() {
    let response = JsonRpcResponse::error(Some("1".into()), JsonRpcError::method_not_found());
    assert_eq!(
        text(&response),
        r#"{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"Method not found"}}"#
    );
    let unidentified = JsonRpcResponse::error(None, JsonRpcError::parse_error());
    assert_eq!(
        text(&unidentified),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#
    );
    let read: JsonRpcResponse = serde_json::from_str(&text(&unidentified)).unwrap();
    assert_eq!(read, unidentified);
}

/// Proves: C4, C5, C6, C20, J6, J7
#[test]
fn a_response_is_told_by_its_members() {
    let success: JsonRpcResponse =
        serde_json::from_str(r#"{"jsonrpc":"2.0","result":{"ok":true},"id":7}"#).unwrap();
    assert!(success.is_success());
    assert_eq!(success.id(), Some(&RequestId::Number(7)));
    assert_eq!(success.result(), Some(&json!({"ok": true})));
    assert_eq!(success.as_error(), None);
    assert_eq!(success.into_result(), Ok(json!({"ok": true})));

    let failure: JsonRpcResponse = serde_json::from_str(
        r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"no","data":null},"id":"7"}"#,
    )
    .unwrap();
    assert!(!failure.is_success());
    assert_eq!(failure.id(), Some(&RequestId::String("7".to_owned())));
    assert_eq!(failure.result(), None);
    let error = failure.as_error().unwrap();
    assert_eq!((error.code.get(), error.message.as_str()), (-1, "no"));
    assert_eq!(error.data, Some(Value::Null));
    assert_eq!(failure.into_result().unwrap_err().code, -1);
}

/// Proves: C3, C23, C28, C44
#[test]
fn an_id_keeps_its_type_and_its_look() {
    for (id, json) in [
        (RequestId::from(7), "7"),
        (RequestId::from("7"), r#""7""#),
        (RequestId::from(""), r#""""#),
        (RequestId::from(i64::MIN), "-9223372036854775808"),
        (RequestId::from("a\"b\\c\u{1}"), r#""a\"b\\c\u0001""#),
    ] {
        assert_eq!(text(&id), json);
        assert_eq!(id.to_string(), json);
        assert_eq!(serde_json::from_str::<RequestId>(json).unwrap(), id);
    }
    assert_ne!(RequestId::from(7), RequestId::from("7"));
    for wrong in [
        "null",
        "1.5",
        "true",
        "[]",
        "{}",
        "9223372036854775808",
        "1.0",
    ] {
        assert!(serde_json::from_str::<RequestId>(wrong).is_err(), "{wrong}");
    }
}

/// Proves: C23
#[test]
fn every_natural_type_becomes_an_id() {
    let numbers: [RequestId; 7] = [
        1_i8.into(),
        1_i16.into(),
        1_i32.into(),
        1_i64.into(),
        1_u8.into(),
        1_u16.into(),
        1_u32.into(),
    ];
    assert!(
        numbers
            .iter()
            .all(|id| id.as_i64() == Some(1) && id.as_str().is_none())
    );
    let owned = String::from("a");
    let strings: [RequestId; 3] = ["a".into(), (&owned).into(), owned.clone().into()];
    assert!(
        strings
            .iter()
            .all(|id| id.as_str() == Some("a") && id.as_i64().is_none())
    );
    assert_eq!(RequestId::from(&strings[0]), strings[0]);
    assert_eq!(RequestId::try_from(1_u64).unwrap(), 1.into());
    assert_eq!(RequestId::try_from(1_usize).unwrap(), 1.into());
    assert!(RequestId::try_from(u64::MAX).is_err());
    assert!(RequestId::try_from(usize::MAX).is_err());
}

/// Proves: C17, C55
#[test]
fn a_null_id_is_an_id_and_a_missing_one_is_not() {
    let null: JsonRpcRequest =
        serde_json::from_str(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#).unwrap();
    assert_eq!(null.id(), None);
    assert_eq!(text(&null), r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#);
    let missing = r#"{"jsonrpc":"2.0","method":"m"}"#;
    assert!(serde_json::from_str::<JsonRpcRequest>(missing).is_err());
    assert!(serde_json::from_str::<JsonRpcNotification>(missing).is_ok());
}

/// Proves: C18, C27, C58, A2
#[test]
fn null_params_are_no_params_and_empty_ones_are_some() {
    let read = |params: &str| {
        let json = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#);
        serde_json::from_str::<JsonRpcRequest>(&json)
            .unwrap()
            .params
    };
    assert_eq!(read(""), None);
    assert_eq!(read(r#","params":null"#), None);
    assert_eq!(read(r#","params":{}"#), Some(json!({})));
    assert_eq!(read(r#","params":[]"#), Some(json!([])));
    assert_eq!(JsonRpcRequest::new(1, "m", Value::Null).params, None);

    let mut request = JsonRpcRequest::new(1, "m", None);
    request.params = Some(Value::Null);
    assert_eq!(text(&request), r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
}

/// Proves: C9, C11, C22, C27, C48, C58, C61, A79
#[test]
fn an_error_has_data_only_if_it_was_given() {
    assert_eq!(
        text(&JsonRpcError::new(7, "m")),
        r#"{"code":7,"message":"m"}"#
    );
    assert_eq!(
        text(&JsonRpcError::with_data(7, "m", json!({"a": 1}))),
        r#"{"code":7,"message":"m","data":{"a":1}}"#
    );
    let null = JsonRpcError::new(7, "m").and_data(Value::Null);
    assert_eq!(text(&null), r#"{"code":7,"message":"m","data":null}"#);
    assert_eq!(
        serde_json::from_str::<JsonRpcError>(&text(&null)).unwrap(),
        null
    );
}

/// Proves: C10, C60, J14, A76, A77
#[test]
fn the_standard_errors_have_their_codes_and_texts() {
    let standard = [
        (
            JsonRpcError::parse_error(),
            ErrorCode::PARSE_ERROR,
            -32700,
            "Parse error",
        ),
        (
            JsonRpcError::invalid_request(),
            ErrorCode::INVALID_REQUEST,
            -32600,
            "Invalid Request",
        ),
        (
            JsonRpcError::method_not_found(),
            ErrorCode::METHOD_NOT_FOUND,
            -32601,
            "Method not found",
        ),
        (
            JsonRpcError::invalid_params(),
            ErrorCode::INVALID_PARAMS,
            -32602,
            "Invalid params",
        ),
        (
            JsonRpcError::internal_error(),
            ErrorCode::INTERNAL_ERROR,
            -32603,
            "Internal error",
        ),
    ];
    for (error, code, number, message) in standard {
        assert_eq!((error.code, error.code.get()), (code, number));
        assert_eq!(error.message, message);
        assert_eq!(code.message(), Some(message));
        assert_eq!(code.class(), CodeClass::Standard);
    }
}

/// Proves: C49, A78
#[test]
fn every_integer_is_a_code_of_some_class() {
    use CodeClass::{Application, Reserved, Server, Standard};
    for (code, class) in [
        (-32768, Reserved),
        (-32769, Application),
        (-32700, Standard),
        (-32701, Reserved),
        (-32603, Standard),
        (-32604, Reserved),
        (-32100, Reserved),
        (-32099, Server),
        (-32000, Server),
        (-31999, Application),
        (0, Application),
        (i64::MIN, Application),
        (i64::MAX, Application),
    ] {
        let code = ErrorCode::from(code);
        assert_eq!(code.class(), class, "{code}");
        assert_eq!(
            serde_json::from_str::<ErrorCode>(&text(&code)).unwrap(),
            code
        );
    }
    assert_eq!(i64::from(ErrorCode::from(5)), 5);
    assert_eq!(ErrorCode::from(5), 5);
    for wrong in ["1.5", "1.0", "-0", "\"1\"", "null", "9223372036854775808"] {
        assert!(serde_json::from_str::<ErrorCode>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn codes_beyond_the_specification_have_names_and_belong_to_no_other_protocol() {
    let codes = [
        (ErrorCode::SERVER_OVERLOADED, -32000),
        (ErrorCode::REQUEST_TIMEOUT, -32001),
        (ErrorCode::SHUTTING_DOWN, -32010),
        (ErrorCode::REQUEST_CANCELLED, -32800),
    ];
    for (code, number) in codes {
        assert_eq!(code, number);
        assert_ne!(code.class(), CodeClass::Standard);
        // The Model Context Protocol has given these a meaning.
        let is_taken = number == -32002 || (-32099..=-32020).contains(&number);
        assert!(!is_taken, "{code}");
    }
}

/// Proves: C16, C24, C45, C56, A3, J1
#[test]
fn only_the_exact_version_is_read() {
    assert_eq!(
        serde_json::from_str::<Version>(r#""2.0""#).unwrap(),
        Version
    );
    assert_eq!(
        serde_json::from_str::<Version>(r#""\u0032.0""#).unwrap(),
        Version
    );
    for wrong in [
        r#""2""#,
        r#""2.00""#,
        r#"" 2.0""#,
        r#""1.0""#,
        "2.0",
        "2",
        "null",
        "[]",
    ] {
        assert!(serde_json::from_str::<Version>(wrong).is_err(), "{wrong}");
    }
}

/// Proves: C46, J2
#[test]
fn a_blank_method_is_neither_read_nor_written() {
    for blank in ["", " ", "\t\n", "\u{a0}\u{2003}"] {
        let json = json!({"jsonrpc": "2.0", "id": 1, "method": blank});
        assert!(serde_json::from_value::<JsonRpcRequest>(json).is_err());
        let json = json!({"jsonrpc": "2.0", "method": blank});
        assert!(serde_json::from_value::<JsonRpcNotification>(json).is_err());
        let request = JsonRpcRequest::new(1, blank, None);
        let error = serde_json::to_string(&request).unwrap_err();
        assert_eq!(error.to_string(), "`method` must not be blank");
        assert!(serde_json::to_string(&JsonRpcNotification::new(blank, None)).is_err());
    }
}

/// Proves: A22, A79
#[test]
fn an_unknown_method_is_named_and_cut() {
    let long = "é".repeat(200);
    let error = JsonRpcError::unknown_method(&long);
    assert_eq!(
        error.message,
        format!("Method not found: {}…", "é".repeat(128))
    );
    assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
    assert_eq!(
        JsonRpcError::unknown_method("a").data,
        Some(json!({"method": "a"}))
    );
}

/// The seven worked examples of the data model.
///
/// Proves: C54, C38
#[test]
fn the_worked_examples_survive_a_round_trip() {
    fn survives<T>(example: &Value)
    where
        T: serde::Serialize + for<'de> serde::Deserialize<'de>,
    {
        let read: T = serde_json::from_value(example.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), *example);
    }
    survives::<RequestId>(&json!("abc-123"));
    survives::<RequestId>(&json!(42));
    survives::<JsonRpcRequest>(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "cauce.subscribe",
        "params": {"topics": ["signal.email.*"]}
    }));
    survives::<JsonRpcNotification>(&json!({
        "jsonrpc": "2.0", "method": "cauce.signal",
        "params": {"topic": "signal.email.received", "signal": {}}
    }));
    survives::<JsonRpcError>(&json!({
        "code": -32601, "message": "Method not found", "data": {"method": "unknown.method"}
    }));
    survives::<JsonRpcResponse>(&json!({
        "jsonrpc": "2.0", "id": 1,
        "result": {"subscription_id": "sub_abc123", "status": "active"}
    }));
    survives::<JsonRpcResponse>(&json!({
        "jsonrpc": "2.0", "id": 1, "error": {
            "code": -32602, "message": "Invalid params",
            "data": {"field": "topics", "reason": "must be non-empty array"}
        }
    }));
    survives::<JsonRpcResponse>(&json!({
        "jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "Parse error"}
    }));
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(".*", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        ".*".prop_map(RequestId::from)
    ]
}

proptest! {
    /// Proves: C31, C42
    #[test]
    fn requests_and_notifications_survive_a_round_trip(
        id in any_id(), method in "\\PC*[a-z]", params in prop::option::of(any_value())
    ) {
        let request = JsonRpcRequest::new(id, method.clone(), params.clone());
        let again: JsonRpcRequest = serde_json::from_str(&text(&request)).unwrap();
        prop_assert_eq!(again, request);
        let notification = JsonRpcNotification::new(method, params);
        let again: JsonRpcNotification = serde_json::from_str(&text(&notification)).unwrap();
        prop_assert_eq!(again, notification);
    }

    /// Proves: C31, C42, C52
    #[test]
    fn responses_survive_a_round_trip(
        id in prop::option::of(any_id()), value in any_value(), code in any::<i64>(),
        message in ".*", with_data in any::<bool>()
    ) {
        let success = JsonRpcResponse::Success { jsonrpc: Version, id: id.clone(), result: value.clone() };
        let again: JsonRpcResponse = serde_json::from_str(&text(&success)).unwrap();
        prop_assert_eq!(again, success);
        let mut error = JsonRpcError::new(code, message);
        error.data = with_data.then_some(value);
        let failure = JsonRpcResponse::error(id, error);
        let again: JsonRpcResponse = serde_json::from_str(&text(&failure)).unwrap();
        prop_assert_eq!(again, failure);
    }
}

/// Proves: C62
#[test]
fn the_crate_stands_on_five_others() {
    let manifest = include_str!("../../Cargo.toml");
    let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
    let (table, _) = rest.split_once("\n[").unwrap();
    let names: Vec<_> = table
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(
        names,
        ["bytes", "memchr", "serde", "serde_json", "thiserror"]
    );
}

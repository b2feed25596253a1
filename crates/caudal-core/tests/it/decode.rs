//! The borrowed path: what bytes mean, rule by rule.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use crate::support::{invalid, read, request};
use caudal_core::{
    CallError, DecodeError, ErrorCode, ExtraMembers, Id, InvalidKind, JsonRpcError,
    JsonRpcResponse, Kind, Member, Message, NullId, OldResponses, Policy, RawJson, RequestId,
    ScalarParams, SyntaxError, decode,
};

/// Proves: A1, A2, C2, C19
#[test]
fn a_request_is_its_id_method_and_params() {
    let whole = request(r#" {"jsonrpc": "2.0", "id" : 1 , "method":"add","params":[1, 2]}  "#);
    assert_eq!(whole.id.as_str(), "1");
    assert_eq!(whole.method, "add");
    assert_eq!(whole.params.unwrap().as_str(), "[1, 2]");
    for params in ["", r#","params":null"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#);
        assert_eq!(request(&text).params, None);
    }
    let named = request(r#"{"params":{"a":1},"method":"m","id":1,"jsonrpc":"2.0"}"#);
    assert_eq!(named.params.unwrap().kind(), Kind::Object);
}

/// Proves: A4, A6, C3
#[test]
fn an_id_is_kept_to_the_letter() {
    for id in [
        "1",
        "-1",
        "0",
        "-0",
        "1.0",
        "1.5",
        "1e2",
        "1E+2",
        "18446744073709551616",
        "1e400",
        "null",
        "1234567890123456789012345678901234567890",
        r#""""#,
        r#""a""#,
        r#""\u0061\n\/""#,
        "\"é😀\"",
        r#""null""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        assert_eq!(request(&text).id.as_str(), id);
    }
}

/// Proves: J4, J19, A15, A17
#[test]
fn an_id_of_another_type_is_refused_with_null() {
    for id in ["true", "false", "[]", "{}", "[1]", r#"{"a":1}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let invalid = invalid(&text);
        assert_eq!(
            (invalid.code, invalid.id),
            (ErrorCode::INVALID_REQUEST, Id::NULL)
        );
        assert!(invalid.wants_answer());
        assert_eq!(invalid.cause.member(), Some(Member::Id));
    }
}

/// Proves: J17, J18, A9, A10, C17, C47
#[test]
fn a_message_without_id_is_a_notification_and_null_is_an_id() {
    let Message::Notification(tick) = read(r#"{"jsonrpc":"2.0","method":"tick","params":[1]}"#)
    else {
        panic!("a notification");
    };
    assert_eq!(
        (tick.method.as_ref(), tick.params.unwrap().as_str()),
        ("tick", "[1]")
    );
    let null = request(r#"{"jsonrpc":"2.0","method":"tick","id":null}"#);
    assert!(null.id.is_null());
    assert_eq!(null.id.to_request_id(), Ok(None));

    let mut policy = Policy::default();
    policy.null_id = NullId::Reject;
    let text = br#"{"jsonrpc":"2.0","method":"tick","id":null}"#;
    let Message::Invalid(refused) = decode(text, &policy) else {
        panic!("null is refused");
    };
    assert_eq!(
        (refused.cause.clone(), refused.wants_answer()),
        (DecodeError::NullId, true)
    );
    let response = br#"{"jsonrpc":"2.0","result":1,"id":null}"#;
    assert!(matches!(decode(response, &policy), Message::Response(_)));
}

/// Proves: J1, A3, A18, C16, C24, C45
#[test]
fn the_version_is_checked_with_the_id_kept() {
    for version in [
        r#""1.0""#,
        r#""2""#,
        r#"" 2.0""#,
        "2.0",
        "2",
        "null",
        "true",
        "{}",
    ] {
        let text = format!(r#"{{"jsonrpc":{version},"id":5,"method":"m"}}"#);
        let invalid = invalid(&text);
        assert_eq!(
            (invalid.code, invalid.id.as_str()),
            (ErrorCode::INVALID_REQUEST, "5")
        );
        assert_eq!(invalid.cause.member(), Some(Member::Version));
    }
    let missing = invalid(r#"{"id":5,"method":"m"}"#);
    assert_eq!(
        missing.cause,
        DecodeError::Missing {
            member: Member::Version
        }
    );
    request(r#"{"jsonrp\u0063":"\u0032.0","id":5,"method":"m"}"#);
}

/// Proves: J2, A16, A17, A96, C46
#[test]
fn a_method_must_be_a_name() {
    for method in [
        "1",
        "null",
        "true",
        "[]",
        "{}",
        r#""""#,
        r#"" ""#,
        r#""\u00a0\t""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":5,"method":{method}}}"#);
        let invalid = invalid(&text);
        assert_eq!(
            (invalid.code, invalid.id.as_str()),
            (ErrorCode::INVALID_REQUEST, "5")
        );
        assert_eq!(invalid.cause.member(), Some(Member::Method), "{method}");
    }
    // No id and no valid method: not a notification, so it is answered.
    let answered = invalid(r#"{"jsonrpc":"2.0","method":1,"params":"bar"}"#);
    assert_eq!((answered.id, answered.wants_answer()), (Id::NULL, true));
    assert_eq!(
        invalid(r#"{"foo":"boo"}"#).cause.member(),
        Some(Member::Version)
    );
    assert_eq!(
        request(r#"{"jsonrpc":"2.0","id":1,"method":"\u0073um"}"#).method,
        "sum"
    );
    assert_eq!(
        request(r#"{"jsonrpc":"2.0","id":1,"method":"\ud83d\ude00"}"#).method,
        "😀"
    );
}

/// Proves: J3, A17, A11
#[test]
fn scalar_params_are_answered_by_policy_and_never_for_a_notification() {
    for params in ["0", "false", r#""bar""#, "1.5"] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"m","params":{params}}}"#);
        let tick = format!(r#"{{"jsonrpc":"2.0","method":"m","params":{params}}}"#);
        let refused = invalid(&call);
        assert_eq!(
            (refused.code, refused.id.as_str()),
            (ErrorCode::INVALID_PARAMS, "5")
        );
        assert!(refused.wants_answer());
        assert!(!invalid(&tick).wants_answer());

        let mut policy = Policy::default();
        policy.scalar_params = ScalarParams::InvalidRequest;
        let Message::Invalid(refused) = decode(call.as_bytes(), &policy) else {
            panic!("refused");
        };
        assert_eq!(refused.code, ErrorCode::INVALID_REQUEST);
        policy.scalar_params = ScalarParams::Accept;
        let Message::Request(accepted) = decode(call.as_bytes(), &policy) else {
            panic!("accepted");
        };
        assert_eq!(accepted.params.unwrap().as_str(), params);
    }
}

/// Proves: C4, C5, C6, C20, C50, C51
#[test]
fn a_response_is_a_result_or_an_error() {
    let Message::Response(success) = read(r#"{"jsonrpc":"2.0","id":"a","result":null}"#) else {
        panic!("a response");
    };
    assert_eq!(success.id.as_string().unwrap(), "a");
    assert_eq!(success.outcome, Ok(RawJson::NULL));

    let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"\u0050","data":null,"x":1}}"#;
    let Message::Response(failure) = read(text) else {
        panic!("a response");
    };
    let error = failure.outcome.unwrap_err();
    assert!(failure.id.is_null());
    assert_eq!(
        (error.code, error.message.as_ref()),
        (ErrorCode::PARSE_ERROR, "P")
    );
    assert_eq!(error.data, Some(RawJson::NULL));
}

/// Proves: C15, C29, C52, C51
#[test]
fn a_malformed_response_is_refused_and_never_answered() {
    let both = DecodeError::TwoOutcomes;
    for (text, cause) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"x"}}"#,
            both,
        ),
        (
            r#"{"jsonrpc":"2.0","result":1}"#,
            DecodeError::Missing { member: Member::Id },
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}"#,
            DecodeError::Missing {
                member: Member::Code,
            },
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            DecodeError::Missing {
                member: Member::Message,
            },
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x","data":1,"data":2}}"#,
            DecodeError::Duplicate {
                member: Member::Data,
            },
        ),
    ] {
        let invalid = invalid(text);
        assert_eq!(invalid.cause, cause);
        assert!(!invalid.wants_answer(), "{text}");
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":[1],"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.0,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":2}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":1}"#,
    ] {
        assert!(!invalid(text).wants_answer(), "{text}");
    }
}

/// Decodes `text` for a client that accepts old responses.
fn read_as_old(text: &str) -> Message<'_> {
    let mut policy = Policy::default();
    policy.old_responses = OldResponses::Accept;
    decode(text.as_bytes(), &policy)
}

#[test]
fn a_null_beside_the_other_outcome_is_accepted_by_policy_only() {
    let error = r#"{"code":1,"message":"x"}"#;
    for (members, result) in [
        (r#""result":3,"error":null"#.to_owned(), Some("3")),
        (r#""error" : null , "result" : [3]"#.to_owned(), Some("[3]")),
        (
            r#""result":null,"\u0065rror":null"#.to_owned(),
            Some("null"),
        ),
        (format!(r#""result":null,"error":{error}"#), None),
        (format!(r#""error":{error},"result":null"#), None),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,{members}}}"#);
        assert_eq!(invalid(&text).cause, DecodeError::TwoOutcomes, "{text}");
        let batch = format!("[{text},{text}]");
        let Message::Batch(mut entries) = read_as_old(&batch) else {
            panic!("{batch}");
        };
        entries.push(read_as_old(&text));
        for entry in entries {
            let Message::Response(response) = entry else {
                panic!("{text} is read as {entry:?}");
            };
            assert_eq!(response.id.as_str(), "7");
            match (response.outcome, result) {
                (Ok(found), Some(result)) => assert_eq!(found.as_str(), result),
                (Err(found), None) => assert_eq!((found.code.into(), &*found.message), (1, "x")),
                (outcome, _) => panic!("{text} has {outcome:?}"),
            }
        }
        // The owned type knows no policy.
        serde_json::from_str::<JsonRpcResponse>(&text).unwrap_err();
    }
}

#[test]
fn what_no_server_means_is_refused_whatever_the_policy() {
    for (members, cause) in [
        (
            r#""id":7,"result":3,"error":{"code":1,"message":"x"}"#,
            Some(DecodeError::TwoOutcomes),
        ),
        (
            r#""id":7,"result":false,"error":false"#,
            Some(DecodeError::TwoOutcomes),
        ),
        (r#""id":7,"result":null,"error":"x""#, None),
        (r#""id":7,"result":null,"error":{"code":1}"#, None),
        (r#""id":7,"error":null"#, None),
        (
            r#""id":7,"result":3,"error":null,"error":null"#,
            Some(DecodeError::Duplicate {
                member: Member::Error,
            }),
        ),
        (
            r#""result":3,"error":null"#,
            Some(DecodeError::Missing { member: Member::Id }),
        ),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
        invalid(&text);
        let Message::Invalid(refused) = read_as_old(&text) else {
            panic!("{text} is refused");
        };
        assert!(!refused.wants_answer(), "{text}");
        match cause {
            Some(cause) => assert_eq!(refused.cause, cause, "{text}"),
            None => assert_ne!(refused.cause, DecodeError::TwoOutcomes, "{text}"),
        }
    }
    let old = r#"{"id":7,"result":3,"error":null}"#;
    assert!(matches!(read_as_old(old), Message::Invalid(_)));
}

/// Proves: C32
#[test]
fn a_member_that_stands_twice_is_refused_however_it_is_spelled() {
    for (text, member, id) in [
        (
            r#"{"jsonrpc":"2.0","method":"m","method":"m","id":1}"#,
            Member::Method,
            "1",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","m\u0065thod":"n","id":1}"#,
            Member::Method,
            "1",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","id":1,"id":1}"#,
            Member::Id,
            "null",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","params":null,"params":[],"id":1}"#,
            Member::Params,
            "1",
        ),
        (
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"m","id":1}"#,
            Member::Version,
            "1",
        ),
    ] {
        let invalid = invalid(text);
        assert_eq!(invalid.cause, DecodeError::Duplicate { member });
        assert_eq!(invalid.id.as_str(), id);
    }
    let inside = request(r#"{"jsonrpc":"2.0","method":"m","id":1,"params":{"a":1,"a":2}}"#);
    assert_eq!(inside.params.unwrap().as_str(), r#"{"a":1,"a":2}"#);
}

#[test]
fn extra_members_are_passed_over_unless_the_policy_says_otherwise() {
    let mut strict = Policy::default();
    strict.extra_members = ExtraMembers::Reject;
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","{}":1}}"#,
        "n".repeat(60)
    );
    for (text, name) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","meta":{"a":[1]}}"#,
            "meta".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":5}"#,
            "result".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","error":5}"#,
            "error".to_owned(),
        ),
        (long.as_str(), format!("{}…", "n".repeat(40))),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"params":[]}"#,
            "params".to_owned(),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"\u0078":[]}"#,
            "x".to_owned(),
        ),
    ] {
        assert!(!matches!(read(text), Message::Invalid(_)), "{text}");
        let Message::Invalid(refused) = decode(text.as_bytes(), &strict) else {
            panic!("{text} is refused");
        };
        assert_eq!(
            refused.cause,
            DecodeError::UnknownMember { name: name.into() }
        );
        assert_eq!(refused.id.as_str(), "1");
    }
    let plain = br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    assert!(matches!(decode(plain, &strict), Message::Request(_)));
}

/// Proves: J11, J20, J21
#[test]
fn a_batch_keeps_the_order_of_its_entries() {
    let Message::Batch(entries) = read(
        r#" [ {"jsonrpc":"2.0","id":1,"method":"a"}, 7, {"jsonrpc":"2.0","method":"b"}, [], {},
             {"jsonrpc":"2.0","id":2,"result":0} ] "#,
    ) else {
        panic!("a batch");
    };
    let kinds: Vec<_> = entries
        .iter()
        .map(|entry| match entry {
            Message::Request(request) => request.method.to_string(),
            Message::Notification(notification) => notification.method.to_string(),
            Message::Response(response) => response.id.to_string(),
            Message::Invalid(invalid) => invalid.code.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["a", "-32600", "b", "-32600", "-32600", "2"]);
}

/// Proves: J8, J16, J29, A12, A13, A15
#[test]
fn what_is_not_json_is_a_parse_error_with_null() {
    for text in [
        "",
        " ",
        "\n\n \n",
        "{",
        "[",
        "\"",
        "{\"jsonrpc\"",
        "{\"jsonrpc\":\"2.0\",",
        "nope",
        "'a'",
        "[1,]",
        "{\"a\":1,}",
        "[,]",
        "{,}",
        "{\"a\"}",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "- 1",
        "NaN",
        "Infinity",
        "tru",
        "\"\\",
        "\"\\u12",
        "\"\\u12g4\"",
        "\"\t\"",
        "{} ,",
        "[]]",
        "{}}",
        "/**/{}",
        "[1}",
        "{\"a\":1]",
        "\u{a0}{}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"} x",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"},",
        "\"\\ud800\\u1\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\n\"",
    ] {
        let invalid = invalid(text);
        assert_eq!(
            (invalid.code, invalid.id),
            (ErrorCode::PARSE_ERROR, Id::NULL),
            "{text}"
        );
        assert!(invalid.wants_answer());
    }
}

#[test]
fn syntax_comes_before_shape_and_shape_before_params() {
    // Everything is wrong with it, but first of all it is not JSON.
    assert_eq!(
        invalid(r#"{"jsonrpc":"1.0","method":1,"id":[],"params":7"#).code,
        ErrorCode::PARSE_ERROR
    );
    let shape = invalid(r#"{"jsonrpc":"2.0","method":1,"id":1,"params":7}"#);
    assert_eq!(shape.cause.member(), Some(Member::Method));
    let params = invalid(r#"{"jsonrpc":"2.0","method":"m","id":1,"params":7}"#);
    assert_eq!(params.code, ErrorCode::INVALID_PARAMS);
}

#[test]
fn params_and_results_are_read_with_the_error_to_answer_or_to_return() {
    let with = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m"{params}}}"#);
    let read = |params: &str| {
        let text = with(params);
        request(&text).read_params::<(i64, i64)>()
    };
    assert_eq!(read(r#","params":[1,2]"#), Ok((1, 2)));
    for (params, data) in [
        ("", "`params` is missing"),
        (r#","params":[1]"#, "expected 2 params, found 1"),
    ] {
        let error = read(params).unwrap_err();
        assert_eq!(error, JsonRpcError::invalid_params().and_data(data));
    }
    assert_eq!(request(&with("")).read_params::<Option<(i64,)>>(), Ok(None));

    let response = |text: &str| match read_response(text) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(response(r#"{"jsonrpc":"2.0","id":1,"result":7}"#), "7");
    assert_eq!(
        response(r#"{"jsonrpc":"2.0","id":1,"result":"x"}"#),
        "the result does not have the expected shape"
    );
    assert_eq!(
        response(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#),
        "the call failed: no (code 1)"
    );
}

fn read_response(text: &str) -> Result<i64, CallError> {
    match read(text) {
        Message::Response(response) => response.read(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_invalid_message_says_what_it_would_be() {
    let kind = |text: &str| invalid(text).kind;
    assert_eq!(
        kind(r#"{"jsonrpc":"2.0","id":1,"method":7}"#),
        InvalidKind::Request
    );
    assert_eq!(kind("nonsense"), InvalidKind::Request);
    assert_eq!(
        kind(r#"{"jsonrpc":"2.0","method":"m","params":7}"#),
        InvalidKind::Notification
    );
    let response = r#"{"jsonrpc":"2.0","id":1,"error":7}"#;
    assert_eq!(kind(response), InvalidKind::Response);
    assert_eq!(invalid(response).id.as_str(), "1");
}

#[test]
fn an_id_can_be_kept_as_text() {
    for id in ["1.0", "null", r#""a\u0062""#, "1e400"] {
        assert_eq!(Id::parse(id).unwrap().as_str(), id);
    }
    assert!(matches!(Id::parse("1 2"), Err(DecodeError::Syntax { .. })));
    for wrong in ["true", "[]", "{}"] {
        assert_eq!(Id::parse(wrong).unwrap_err().member(), Some(Member::Id));
    }
}

#[test]
fn raw_json_is_one_value_and_nothing_else() {
    assert_eq!(
        RawJson::parse("\t{\"a\": 1e999}\n").unwrap().as_str(),
        "{\"a\": 1e999}"
    );
    let trailing = DecodeError::Syntax {
        offset: 2,
        error: SyntaxError::TrailingText,
    };
    assert_eq!(RawJson::parse("1 2"), Err(trailing));
    assert!(RawJson::parse("").is_err());
    for (text, kind) in [
        ("null", Kind::Null),
        ("true", Kind::Bool),
        ("false", Kind::Bool),
        ("-1", Kind::Number),
        ("\"\"", Kind::String),
        ("[]", Kind::Array),
        ("{}", Kind::Object),
    ] {
        let raw = RawJson::parse(text).unwrap();
        assert_eq!((raw.kind(), raw.to_string().as_str()), (kind, text));
    }
}

/// Proves: C28, C63
#[test]
fn an_id_can_be_owned_if_it_is_a_string_or_fits_an_i64() {
    let with = |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"m","id":{id}}}"#);
    for (id, owned) in [
        ("7", RequestId::Number(7)),
        ("-9223372036854775808", RequestId::Number(i64::MIN)),
        (r#""7""#, RequestId::from("7")),
        (r#""\u0037\n""#, RequestId::from("7\n")),
    ] {
        assert_eq!(request(&with(id)).id.to_request_id(), Ok(Some(owned)));
    }
    for id in ["1.5", "1.0", "9223372036854775808", "1e400", "-0"] {
        let text = with(id);
        let error = request(&text).id.to_request_id().unwrap_err();
        let expected = format!("`id` must be an integer that fits i64, found the number {id}");
        assert_eq!(error.to_string(), expected);
    }
    for (id, integer) in [
        ("7", Some(7)),
        ("7.0", Some(7)),
        ("-7.00", Some(-7)),
        ("7.5", None),
        ("70e-1", None),
        ("7.00000000000000000000001", None),
        ("9223372036854775808", None),
        ("\"7\"", None),
        ("null", None),
    ] {
        assert_eq!(request(&with(id)).id.as_i64(), integer, "{id}");
    }
}

//! Messages that are refused, and the texts of the errors.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use caudal_core::{
    ErrorDetail, JsonRpcError, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Message,
    Policy, decode,
};

fn refusal<T: for<'de> serde::Deserialize<'de> + std::fmt::Debug>(json: &str) -> String {
    let from_text = serde_json::from_str::<T>(json).unwrap_err().to_string();
    // From text the position follows.
    let (message, _) = from_text.split_once(" at line").unwrap_or((&from_text, ""));
    // A `Value` has already lost what stood twice.
    if !message.contains("more than once") {
        let value = serde_json::from_str(json).expect("the table is valid JSON");
        let from_value = serde_json::from_value::<T>(value).unwrap_err();
        assert_eq!(message, from_value.to_string());
    }
    message.to_owned()
}

/// Proves: C15, C16, C29, C32, C52, C55, C59, A96, A97
#[test]
fn every_refusal_names_the_fault() {
    let requests = [
        ("{}", "`jsonrpc` is missing"),
        (r#"{"id":1,"method":"m"}"#, "`jsonrpc` is missing"),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            r#"`jsonrpc` must be the string "2.0", found the string "1.0""#,
        ),
        (
            r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
            r#"`jsonrpc` must be the string "2.0", found the number 2.0"#,
        ),
        (
            r#"{"jsonrpc":null,"id":1,"method":"m"}"#,
            r#"`jsonrpc` must be the string "2.0", found null"#,
        ),
        (
            r#"{"jsonrpc":["2.0"],"id":1,"method":"m"}"#,
            r#"`jsonrpc` must be the string "2.0", found an array"#,
        ),
        (r#"{"jsonrpc":"2.0","method":"m"}"#, "`id` is missing"),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
            "`id` must be a string or an integer, found true",
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#,
            "`id` must be a string or an integer, found an object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#,
            "`id` must be a string or an integer, found an array",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#,
            "`id` must be an integer that fits i64, found the number 1.5",
        ),
        (
            r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"m"}"#,
            "`id` must be an integer that fits i64, found the number 18446744073709551615",
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, "`method` is missing"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            "`method` must be a string, found null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
            "`method` must be a string, found the number 1",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":false}"#,
            "`method` must be a string, found false",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":["m"]}"#,
            "`method` must be a string, found an array",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":{"m":1}}"#,
            "`method` must be a string, found an object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":""}"#,
            "`method` must not be blank",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":" \t"}"#,
            "`method` must not be blank",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            "`id` appears more than once",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","m\u0065thod":"n"}"#,
            "`method` appears more than once",
        ),
        (
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"m"}"#,
            "`jsonrpc` appears more than once",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[],"params":[]}"#,
            "`params` appears more than once",
        ),
        ("1", "invalid type: integer `1`, expected a message object"),
        ("null", "invalid type: null, expected a message object"),
        ("[]", "invalid type: sequence, expected a message object"),
        (
            r#""m""#,
            r#"invalid type: string "m", expected a message object"#,
        ),
    ];
    for (json, message) in requests {
        assert_eq!(refusal::<JsonRpcRequest>(json), message, "{json}");
    }
    let notifications = [
        (r#"{"method":"m"}"#, "`jsonrpc` is missing"),
        (r#"{"jsonrpc":"2.0"}"#, "`method` is missing"),
        (
            r#"{"jsonrpc":"2.0","method":""}"#,
            "`method` must not be blank",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#,
            "a notification must not have `id`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#,
            "a notification must not have `id`",
        ),
    ];
    for (json, message) in notifications {
        assert_eq!(refusal::<JsonRpcNotification>(json), message, "{json}");
    }
    let responses = [
        (r#"{"id":1,"result":1}"#, "`jsonrpc` is missing"),
        (
            r#"{"jsonrpc":"2.1","id":1,"result":1}"#,
            r#"`jsonrpc` must be the string "2.0", found the string "2.1""#,
        ),
        (r#"{"jsonrpc":"2.0","result":1}"#, "`id` is missing"),
        (
            r#"{"jsonrpc":"2.0","id":false,"result":1}"#,
            "`id` must be a string or an integer, found false",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1}"#,
            "a response must have `result` or `error`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            "a response must not have both `result` and `error`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":null,"error":null}"#,
            "a response must not have both `result` and `error`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
            "a response must not have `method`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
            "`error` must be an object, found null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            r#"`error` must be an object, found the string "no""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
            "`error.code` is missing",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
            "`error.message` is missing",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#,
            "`error.code` must be an integer that fits i64, found the number 1.5",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
            r#"`error.code` must be an integer that fits i64, found the string "1""#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}"#,
            "`error.message` must be a string, found null",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            "`result` appears more than once",
        ),
    ];
    for (json, message) in responses {
        assert_eq!(refusal::<JsonRpcResponse>(json), message, "{json}");
    }
    let errors = [
        ("7", "invalid type: integer `7`, expected an error object"),
        (r#"{"message":"m"}"#, "`error.code` is missing"),
        (
            r#"{"code":1,"message":2}"#,
            "`error.message` must be a string, found the number 2",
        ),
        (
            r#"{"code":1,"code":1,"message":""}"#,
            "`error.code` appears more than once",
        ),
    ];
    for (json, message) in errors {
        assert_eq!(refusal::<JsonRpcError>(json), message, "{json}");
    }
    assert!(requests.len() + notifications.len() + responses.len() + errors.len() >= 40);
}

/// Code, message and data of the answer to each kind of bad input.
///
/// Proves: C32, A13, A14, A16, A17, A18, A19, J8, J28, A94
#[test]
fn every_answer_says_what_was_wrong_and_where() {
    let mut small = Policy::default();
    small.max_message = 120;
    small.max_depth = 3;
    small.max_batch = 2;
    small.max_id = 8;
    let too_large = format!("[{}]", " ".repeat(119));
    let answers = [
        (
            "",
            r#"{"code":-32700,"message":"Parse error: the text ends too early at byte 0","data":{"offset":0,"reason":"the text ends too early"}}"#,
        ),
        (
            "{",
            r#"{"code":-32700,"message":"Parse error: the text ends too early at byte 1","data":{"offset":1,"reason":"the text ends too early"}}"#,
        ),
        (
            r#"{"a" 1}"#,
            r#"{"code":-32700,"message":"Parse error: expected `:` at byte 5","data":{"offset":5,"reason":"expected `:`"}}"#,
        ),
        (
            r#"{"a":1 "b":2}"#,
            r#"{"code":-32700,"message":"Parse error: expected `,` or `}` at byte 7","data":{"offset":7,"reason":"expected `,` or `}`"}}"#,
        ),
        (
            "[1 2]",
            r#"{"code":-32700,"message":"Parse error: expected `,` or `]` at byte 3","data":{"offset":3,"reason":"expected `,` or `]`"}}"#,
        ),
        (
            "[01]",
            r#"{"code":-32700,"message":"Parse error: expected `,` or `]` at byte 2","data":{"offset":2,"reason":"expected `,` or `]`"}}"#,
        ),
        (
            "[-]",
            r#"{"code":-32700,"message":"Parse error: malformed number at byte 2","data":{"offset":2,"reason":"malformed number"}}"#,
        ),
        (
            "{a:1}",
            r#"{"code":-32700,"message":"Parse error: expected a member name in double quotes at byte 1","data":{"offset":1,"reason":"expected a member name in double quotes"}}"#,
        ),
        (
            r#"["\x"]"#,
            r#"{"code":-32700,"message":"Parse error: unknown escape in a string at byte 2","data":{"offset":2,"reason":"unknown escape in a string"}}"#,
        ),
        (
            r#"["\ud800"]"#,
            r#"{"code":-32700,"message":"Parse error: half a surrogate pair in a string at byte 2","data":{"offset":2,"reason":"half a surrogate pair in a string"}}"#,
        ),
        (
            "[\"\u{0}\"]",
            r#"{"code":-32700,"message":"Parse error: unescaped control character in a string at byte 2","data":{"offset":2,"reason":"unescaped control character in a string"}}"#,
        ),
        (
            "\u{feff}{}",
            r#"{"code":-32700,"message":"Parse error: a byte order mark at byte 0","data":{"offset":0,"reason":"a byte order mark"}}"#,
        ),
        (
            "{} {}",
            r#"{"code":-32700,"message":"Parse error: more text after the message at byte 3","data":{"offset":3,"reason":"more text after the message"}}"#,
        ),
        (
            "nul",
            r#"{"code":-32700,"message":"Parse error: expected a value at byte 0","data":{"offset":0,"reason":"expected a value"}}"#,
        ),
        (
            "7",
            r#"{"code":-32600,"message":"Invalid Request: a message must be an object, found the number 7"}"#,
        ),
        (
            "[]",
            r#"{"code":-32600,"message":"Invalid Request: the batch is empty"}"#,
        ),
        (
            "[1,1,1]",
            r#"{"code":-32600,"message":"Invalid Request: the batch has more than 2 entries"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":123456789,"method":"m"}"#,
            r#"{"code":-32600,"message":"Invalid Request: `id` is 9 bytes long, the limit is 8","data":{"field":"id"}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
            r#"{"code":-32600,"message":"Invalid Request: `id` must be a string, a number or null, found true","data":{"field":"id"}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[[[]]]}"#,
            r#"{"code":-32600,"message":"Invalid Request: nested deeper than 3 levels"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":7}"#,
            r#"{"code":-32602,"message":"Invalid params: `params` must be an array or an object, found the number 7","data":{"field":"params"}}"#,
        ),
        (
            too_large.as_str(),
            r#"{"code":-32600,"message":"Request payload too large","data":{"limit":120}}"#,
        ),
    ];
    for (bytes, answer) in answers {
        let Message::Invalid(invalid) = decode(bytes.as_bytes(), &small) else {
            panic!("{bytes} is invalid");
        };
        let error = invalid.to_wire(ErrorDetail::Full);
        assert_eq!(serde_json::to_string(&error).unwrap(), answer, "{bytes}");
        assert!(invalid.wants_answer());

        let minimal = invalid.to_wire(ErrorDetail::Minimal);
        assert_eq!((minimal.code, &minimal.data), (error.code, &None));
        if bytes != too_large {
            assert_eq!(minimal.message, error.code.message().unwrap());
        }
    }
}

//! The two families of errors: what travelled, and what happened here.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::error::Error;
use std::io;

use caudal_core::{
    CallError, CloseReason, DecodeError, EncodeError, ErrorCode, FrameError, Incident,
    JsonRpcError, StatusError, encode,
};

/// A failure with a failure behind it.
#[derive(Debug, thiserror::Error)]
#[error("the order could not be stored")]
struct StoreError(#[source] io::Error);

fn chain(error: &dyn Error) -> Vec<String> {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts
}

/// Proves: A82, A83, J30
#[test]
fn an_incident_keeps_the_cause_here_and_sends_its_number() {
    let incident = Incident::new(StoreError(io::Error::other("disk 7 is gone")));
    let number = incident.correlation().to_string();
    assert!(
        format!("{incident:?}").contains(&number),
        "any log can be searched for it"
    );
    assert_eq!(
        chain(&incident),
        [
            format!("internal error {number}"),
            "the order could not be stored".to_owned(),
            "disk 7 is gone".to_owned(),
        ]
    );
    let sent = serde_json::to_string(&incident.to_wire()).unwrap();
    assert_eq!(
        sent,
        format!(
            r#"{{"code":-32603,"message":"Internal error","data":{{"correlation":"{number}"}}}}"#
        )
    );
    assert_ne!(
        Incident::new("a").correlation(),
        Incident::new("a").correlation()
    );
}

/// Proves: A80
#[test]
fn errors_cross_threads_with_all_they_hold() {
    fn crosses<E: Error + Send + Sync + 'static>(error: E) -> Vec<String> {
        std::thread::spawn(move || chain(&error)).join().unwrap()
    }
    assert_eq!(
        crosses(Incident::new(StoreError(io::Error::other("gone")))).len(),
        3
    );
    assert_eq!(
        crosses(JsonRpcError::parse_error()),
        ["Parse error (code -32700)"]
    );
    let closed = CallError::Closed(CloseReason::failed(io::Error::other("reset")));
    assert_eq!(
        crosses(closed),
        ["the connection is closed", "the connection failed", "reset"]
    );
}

/// Proves: A83, C59
#[test]
fn every_local_error_says_its_own_level_and_keeps_the_rest() {
    let remote = CallError::from(JsonRpcError::new(1001, "out of stock"));
    assert_eq!(
        chain(&remote),
        ["the call failed: out of stock (code 1001)"]
    );
    let blank = encode::notification(&mut Vec::new(), "", &()).unwrap_err();
    assert_eq!(
        chain(&CallError::from(blank)),
        [
            "the call could not be written",
            "`method` must not be blank"
        ]
    );
    let bad = CallError::from(DecodeError::TwoOutcomes);
    assert_eq!(
        chain(&bad)[1],
        "a response must not have both `result` and `error`"
    );
    let shape = CallError::Result(serde_json::from_str::<i64>("[]").unwrap_err());
    assert_eq!(
        chain(&shape)[0],
        "the result does not have the expected shape"
    );
    assert_eq!(chain(&shape).len(), 2);
    for (error, text) in [
        (CallError::Timeout, "no answer came in time"),
        (CallError::Cancelled, "the call was cancelled"),
        (
            CallError::TooLarge { limit: 9 },
            "the answer is larger than 9 bytes",
        ),
    ] {
        assert_eq!(chain(&error), [text]);
    }
    let mut response = StatusError::new(503, "Service Unavailable", b"busy");
    response.retry_after = Some("5".to_owned());
    let shown = "HTTP 503 Service Unavailable (the server asks to wait 5 s): busy";
    for (error, text) in [
        (
            CallError::UnexpectedResponse(Box::new(response.clone())),
            "the response is not a JSON-RPC answer",
        ),
        (CallError::Refused(Box::new(response)), "access was refused"),
    ] {
        assert_eq!(chain(&error), [text, shown]);
    }
    for (reason, text, local, remote) in [
        (CloseReason::local(), "closed by this side", true, false),
        (
            CloseReason::remote(),
            "closed by the other side",
            false,
            true,
        ),
        (
            CloseReason::failed(FrameError::Truncated),
            "the connection failed",
            false,
            false,
        ),
    ] {
        assert_eq!(reason.to_string(), text);
        assert_eq!((reason.is_local(), reason.is_remote()), (local, remote));
        assert_eq!(reason.source().is_some(), !local && !remote);
    }
}

#[test]
fn recoverable_and_fatal_are_told_apart() {
    let call = |error: CallError| (error.is_fatal(), error.may_have_run());
    assert_eq!(call(CallError::Timeout), (false, true));
    assert_eq!(call(CallError::Cancelled), (false, true));
    assert_eq!(call(CallError::TooLarge { limit: 1 }), (false, true));
    assert_eq!(call(JsonRpcError::internal_error().into()), (false, true));
    assert_eq!(call(JsonRpcError::invalid_params().into()), (false, true));
    assert_eq!(call(JsonRpcError::new(-32_000, "no").into()), (false, true));
    for never in [
        JsonRpcError::parse_error(),
        JsonRpcError::invalid_request(),
        JsonRpcError::method_not_found(),
    ] {
        assert_eq!(call(never.into()), (false, false));
    }
    assert_eq!(call(CallError::TooManyPending { limit: 1 }), (false, false));
    assert_eq!(call(CallError::OutputFull { limit: 1 }), (false, false));
    assert_eq!(call(EncodeError::BlankMethod.into()), (false, false));
    assert_eq!(call(CallError::Closed(CloseReason::remote())), (true, true));
    assert_eq!(
        call(CallError::AlreadyClosed(CloseReason::remote())),
        (true, false)
    );
    // The next call has another connection.
    let temporary = || CloseReason::remote().temporary();
    assert_eq!(call(CallError::Closed(temporary())), (false, true));
    assert_eq!(call(CallError::AlreadyClosed(temporary())), (false, false));
    let status = |status| Box::new(StatusError::new(status, "", b""));
    for code in [401, 403, 407] {
        assert!(status(code).is_refusal());
        assert_eq!(call(CallError::Refused(status(code))), (false, false));
    }
    for (code, may_have_run) in [
        (200, true),
        (204, true),
        (302, false),
        (404, false),
        (413, false),
        (429, false),
        (500, true),
        (502, true),
        (503, true),
    ] {
        let error = CallError::UnexpectedResponse(status(code));
        assert_eq!(call(error), (false, may_have_run), "{code}");
    }

    let value = || "x".into();
    for (error, fatal) in [
        (FrameError::TooLarge { limit: 1 }, false),
        (FrameError::StrayLine { line: value() }, false),
        (FrameError::EmptyBody, false),
        (FrameError::WrongCharset { value: value() }, false),
        (FrameError::MissingLength, false),
        (FrameError::BadLength { value: value() }, true),
        (FrameError::TwoLengths, true),
        (FrameError::HeaderTooLarge { limit: 1 }, true),
        (FrameError::Truncated, true),
    ] {
        assert_eq!(error.is_fatal(), fatal, "{error}");
        assert!(!error.to_string().ends_with('.'));
    }
}

/// Proves: A76, A78
#[test]
fn a_wire_error_is_an_error_with_a_code() {
    fn handler(stock: u32) -> Result<u32, JsonRpcError> {
        stock
            .checked_sub(1)
            .ok_or_else(|| JsonRpcError::new(1001, "out of stock"))
    }
    fn caller() -> Result<u32, Box<dyn Error>> {
        Ok(handler(0)?)
    }
    assert_eq!(handler(3), Ok(2));
    assert_eq!(
        caller().unwrap_err().to_string(),
        "out of stock (code 1001)"
    );
    assert_eq!(
        JsonRpcError::invalid_params().code,
        ErrorCode::INVALID_PARAMS
    );
}

/// A failed call of a handler is answered without internal details.
#[test]
fn a_failed_call_becomes_an_answer() {
    let remote = JsonRpcError::with_data(7, "no", 1);
    assert_eq!(
        JsonRpcError::from(CallError::Remote(remote.clone())),
        remote
    );
    let closed = CallError::Closed(CloseReason::failed(io::Error::other("secret")));
    let unknown = CallError::Remote(JsonRpcError::unknown_method("name"));
    let full = CallError::Remote(JsonRpcError::new(-32_000, "Server overloaded"));
    let nowhere = CallError::AlreadyClosed(CloseReason::nowhere());
    let secret = || Box::new(StatusError::new(403, "Forbidden", b"secret"));
    for (error, why) in [
        (closed, "the connection is closed: the connection failed"),
        (CallError::Refused(secret()), "access was refused"),
        (
            CallError::UnexpectedResponse(secret()),
            "the response is not a JSON-RPC answer",
        ),
        (CallError::Timeout, "no answer came in time"),
        (
            unknown,
            "the call failed: Method not found: name (code -32601)",
        ),
        (full, "the call failed: Server overloaded (code -32000)"),
        (
            nowhere,
            "the message came alone (a single POST, or `Router::handle`), so there is no \
             connection to call back on",
        ),
    ] {
        let reason = format!("a call that the handler made failed: {why}");
        let answer = JsonRpcError::from(error);
        assert_eq!(answer.code, ErrorCode::INTERNAL_ERROR);
        assert_eq!(answer.data.unwrap()["reason"], reason);
    }
    let answer = JsonRpcError::from(EncodeError::BlankMethod);
    assert_eq!(answer.code, ErrorCode::INTERNAL_ERROR);
}

#[test]
fn a_reason_may_say_more_whoever_closed() {
    let exit = || io::Error::other("exit status: 3");
    let (local, remote) = (
        CloseReason::local_with(exit()),
        CloseReason::remote_with(exit()),
    );
    assert!(local.is_local() && !local.is_remote());
    assert!(remote.is_remote() && !remote.is_local());
    assert_eq!(chain(&local), ["closed by this side", "exit status: 3"]);
    assert_eq!(
        chain(&remote),
        ["closed by the other side", "exit status: 3"]
    );
    assert!(CloseReason::local().source().is_none() && CloseReason::remote().source().is_none());
}

/// One line is enough to know what went wrong.
#[test]
fn what_the_other_side_said_is_shown_with_its_data() {
    let shown = |error: JsonRpcError| CallError::from(error).to_string();
    assert_eq!(
        shown(JsonRpcError::invalid_params().and_data("expected 2 params, found 3")),
        "the call failed: Invalid params (code -32602): expected 2 params, found 3"
    );
    let incident = Incident::new("a");
    assert!(shown(incident.to_wire()).contains(&incident.correlation().to_string()));
    for told in [
        serde_json::Value::Null,
        7.into(),
        serde_json::json!({ "byte": 7, "reason": "no" }),
    ] {
        let error = JsonRpcError::with_data(1, "no at byte 7", told);
        assert_eq!(error.to_string(), "no at byte 7 (code 1)");
    }
    for (data, text) in [
        (serde_json::json!({ "a": {} }), r#"no (code 1): {"a":{}}"#),
        (serde_json::json!({ "a": "b" }), r#"no (code 1): {"a":"b"}"#),
        (true.into(), "no (code 1): true"),
    ] {
        assert_eq!(JsonRpcError::with_data(1, "no", data).to_string(), text);
    }
    assert_eq!(
        JsonRpcError::with_data(1, "no", "a\nb\u{1b}").to_string(),
        "no (code 1): a\\nb\\u{1b}"
    );
    for (length, end) in [(200, "é"), (201, "…")] {
        let text = JsonRpcError::with_data(1, "no", "é".repeat(length)).to_string();
        assert!(text.ends_with(end) && text.matches('é').count() == 200);
    }
    let long = JsonRpcError::with_data(1, "no", vec![1; 500]).to_string();
    assert_eq!(long.chars().count(), "no (code 1): ".len() + 201);
}

/// The reason is one that the sender understands.
#[test]
fn wrong_params_are_explained() {
    #[derive(Debug, serde::Deserialize)]
    struct Rename {
        #[expect(dead_code, reason = "only read")]
        from: String,
        #[expect(dead_code, reason = "only read")]
        to: Option<String>,
    }
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Pair(i64, i64);
    #[derive(Debug, serde::Deserialize)]
    struct In<T>(T);
    type In3<T> = In<In<In<T>>>;
    /// Reads one member and no more.
    #[derive(Debug)]
    struct First;
    impl<'de> serde::Deserialize<'de> for First {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct One;
            impl<'de> serde::de::Visitor<'de> for One {
                type Value = First;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<First, A::Error> {
                    map.next_entry::<String, i64>()?;
                    Ok(First)
                }
            }
            from.deserialize_map(One)
        }
    }
    fn why<'a, T: serde::Deserialize<'a> + std::fmt::Debug>(text: &'a str) -> String {
        let params = caudal_core::RawJson::parse(text).unwrap();
        let error = params.read::<T>().unwrap_err();
        let answer = JsonRpcError::wrong_params::<T>(Some(params), &error);
        assert_eq!(answer.code, ErrorCode::INVALID_PARAMS);
        answer.data.unwrap().as_str().unwrap().to_owned()
    }
    let pair = "expected 2 params, found 3";
    assert_eq!(why::<(i64, i64)>("[1,2,3]"), pair);
    assert_eq!(why::<Pair>("[1,2,3]"), pair);
    assert_eq!(why::<In<Option<(i64, i64)>>>("[1,2,3]"), pair);
    assert_eq!(why::<(i64,)>("[]"), "expected 1 param, found 0");
    let object = "expected an array of 2, found an object";
    assert_eq!(why::<(i64, i64)>(r#"{"a":1}"#), object);
    assert_eq!(
        why::<Rename>("[\"a\",null,1]"),
        "expected an object, or an array of at most 2, found 3"
    );
    assert_eq!(why::<Rename>("{}"), "missing field `from`");
    assert_eq!(
        why::<(i64,)>("[\"a\"]"),
        "invalid type: string \"a\", expected i64"
    );
    assert_eq!(
        why::<((i64, i64),)>("[[1,2,3]]"),
        "an array has more elements than expected"
    );
    assert_eq!(
        why::<First>(r#"{"a":1,"b":2}"#),
        "an object has more members than expected"
    );
    assert_eq!(why::<u32>("[1]"), "invalid type: sequence, expected u32");
    assert_eq!(
        why::<In3<In3<In3<Pair>>>>("[1,2,3]"),
        "an array has more elements than expected"
    );
}

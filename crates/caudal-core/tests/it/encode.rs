//! Writing messages straight into a buffer.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::collections::HashMap;

use bytes::BytesMut;
use caudal_core::encode::Output;
use caudal_core::{
    EncodeError, Framing, Id, IdFormat, JsonRpcError, Message, Pending, Policy, RawJson, RequestId,
    decode, encode,
};
use proptest::prelude::*;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::json;

/// Writes a part of itself, then fails.
struct Broken;

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&"half of it is written")?;
        Err(S::Error::custom("the rest is missing"))
    }
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// Proves: A5, A6, A7, A8, C34
#[test]
fn a_reply_echoes_the_id_to_the_letter() {
    for id in ["1", "1.0", "1e400", r#""a\u0062""#, "null"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        let Message::Request(request) = decode(text.as_bytes(), &Policy::default()) else {
            panic!("a request");
        };
        assert_eq!(
            written(|out| encode::reply(out, request.id, &json!({"a": [1]})).unwrap()),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":[1]}}}}"#)
        );
        assert_eq!(
            written(|out| encode::error(out, request.id, &JsonRpcError::unknown_method("m"))),
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"Method not found: m","data":{{"method":"m"}}}}}}"#
            )
        );
    }
}

/// Proves: A21, A22, A23
#[test]
fn method_not_found_names_the_method_and_keeps_the_id() {
    let text = br#"{"jsonrpc":"2.0","method":"foobar","id":"1"}"#;
    let Message::Request(request) = decode(text, &Policy::default()) else {
        panic!("a request");
    };
    let answer = written(|out| {
        encode::error(
            out,
            request.id,
            &JsonRpcError::unknown_method(&request.method),
        );
    });
    let Message::Response(response) = decode(answer.as_bytes(), &Policy::default()) else {
        panic!("a response");
    };
    assert_eq!(response.id.as_str(), r#""1""#);
    let error = response.outcome.unwrap_err();
    assert_eq!(error.code, -32601);
    assert_eq!(error.message, "Method not found: foobar");
}

/// Proves: C2, C7
#[test]
fn calls_and_notifications_are_written_with_or_without_params() {
    let id = RequestId::from("a\n");
    assert_eq!(
        written(|out| encode::call(out, &id, "m\"", &("x", 1)).unwrap()),
        r#"{"jsonrpc":"2.0","id":"a\n","method":"m\"","params":["x",1]}"#
    );
    assert_eq!(
        written(|out| encode::call(out, &RequestId::from(-3), "m", &()).unwrap()),
        r#"{"jsonrpc":"2.0","id":-3,"method":"m"}"#
    );
    let none: Option<[u8; 1]> = None;
    assert_eq!(
        written(|out| encode::notification(out, "m", &none).unwrap()),
        r#"{"jsonrpc":"2.0","method":"m"}"#
    );
    assert_eq!(
        written(|out| encode::notification(out, "m", &HashMap::from([("a", 1)])).unwrap()),
        r#"{"jsonrpc":"2.0","method":"m","params":{"a":1}}"#
    );
}

/// Proves: A69
#[test]
fn json_that_is_text_already_is_written_as_it_is() {
    let raw = RawJson::parse(r#"{"exact": 0.10000000000000000555, "big":1e400}"#).unwrap();
    assert_eq!(
        written(|out| encode::reply_raw(out, Id::NULL, raw)),
        format!(r#"{{"jsonrpc":"2.0","id":null,"result":{raw}}}"#)
    );
    assert_eq!(
        written(|out| encode::call_raw(out, &RequestId::from(1), "m", raw).unwrap()),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{raw}}}"#)
    );
    assert_eq!(
        written(|out| encode::notification_raw(out, "m", raw).unwrap()),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{raw}}}"#)
    );
}

fn failures<B: Output>(out: &mut B, id: &RequestId) -> Vec<EncodeError> {
    let scalar = RawJson::parse("7").unwrap();
    vec![
        encode::reply(out, id, &Broken).unwrap_err(),
        encode::call(out, id, "m", &Broken).unwrap_err(),
        encode::notification(out, "m", &Broken).unwrap_err(),
        // A map whose keys are no strings is not JSON.
        encode::reply(out, id, &HashMap::from([((1, 2), 3)])).unwrap_err(),
        encode::call(out, id, " ", &()).unwrap_err(),
        encode::call_raw(out, id, "", RawJson::NULL).unwrap_err(),
        encode::notification(out, "\u{2003}", &()).unwrap_err(),
        encode::call(out, id, "m", &7).unwrap_err(),
        encode::call_raw(out, id, "m", scalar).unwrap_err(),
        encode::notification(out, "m", "text").unwrap_err(),
        encode::notification_raw(out, "m", scalar).unwrap_err(),
    ]
}

/// Proves: A69
#[test]
fn a_failed_message_leaves_the_buffer_as_it_was() {
    let id = RequestId::from(1);
    let mut vec = b"before".to_vec();
    let mut bytes = BytesMut::from(&b"before"[..]);
    let errors = failures(&mut vec, &id);
    assert_eq!(failures(&mut bytes, &id).len(), errors.len());
    assert_eq!((&vec[..], &bytes[..]), (&b"before"[..], &b"before"[..]));
    for error in &errors[..4] {
        assert_eq!(error.to_string(), "the value could not be serialised");
        assert!(
            std::error::Error::source(error).is_some(),
            "the cause is kept"
        );
    }
    for error in &errors[4..7] {
        assert_eq!(error.to_string(), "`method` must not be blank");
    }
    for error in &errors[7..] {
        assert!(
            error
                .to_string()
                .starts_with("`params` must be an array, an object or nothing")
        );
    }
    encode::reply(&mut vec, &id, &1).unwrap();
    assert_eq!(vec, br#"before{"jsonrpc":"2.0","id":1,"result":1}"#);
}

/// Panics when it is half written.
struct Panics;

impl Serialize for Panics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        seq.serialize_element(&1)?;
        panic!("in somebody's Serialize")
    }
}

/// Proves: A69
#[test]
fn a_panic_leaves_the_buffer_as_it_was_too() {
    let mut out = b"before".to_vec();
    for framing in [Framing::Line, Framing::Header, Framing::Concatenated] {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            framing.write(&mut out, |out| encode::reply(out, Id::NULL, &Panics))
        }));
        assert!(panicked.is_err());
        assert_eq!(out, b"before");
    }
}

/// Proves: J11
#[test]
fn a_batch_is_an_array_of_what_is_answered() {
    let batch = |entries: &[&str]| {
        written(|out| {
            encode::batch(out, entries, |out, entry| {
                out.extend_from_slice(entry.as_bytes());
            });
        })
    };
    assert_eq!(batch(&["1", "", "2"]), "[1,2]");
    assert_eq!(batch(&["", "1"]), "[1]");
    assert_eq!(batch(&["1", ""]), "[1]");
    assert_eq!(batch(&["", ""]), "");
    assert_eq!(batch(&[]), "");
}

#[test]
fn an_error_is_passed_on_to_the_letter() {
    for error in [
        r#"{"code":-32601,"message":"no \"m\"","data":[1e400,0.10]}"#,
        r#"{"code":7,"message":""}"#,
        r#"{"code":7,"message":"é","data":null}"#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1.0,"error":{error}}}"#);
        let Message::Response(response) = decode(text.as_bytes(), &Policy::default()) else {
            panic!("a response");
        };
        let object = response.outcome.unwrap_err();
        assert_eq!(
            written(|out| encode::error_raw(out, response.id, &object)),
            text
        );
        let owned = JsonRpcError::from(object.clone());
        assert_eq!(
            (owned.code, owned.message.as_str()),
            (object.code, &*object.message)
        );
        assert_eq!(owned.data.is_some(), object.data.is_some());
    }
    let text = br#"{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"m","data":1e400}}"#;
    let Message::Response(response) = decode(text, &Policy::default()) else {
        panic!("a response");
    };
    let owned = JsonRpcError::from(response.outcome.unwrap_err());
    assert_eq!(owned.data, Some(json!("1e400")), "kept as text");
}

/// Proves: A24, A41, A43
#[test]
fn an_outgoing_call_carries_an_id_of_the_chosen_format() {
    let mut integers = Pending::new(8, IdFormat::Integer);
    let id = integers.insert((), None).unwrap();
    assert_eq!(
        written(|out| encode::call(out, id, "m", &()).unwrap()),
        r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#
    );
    let mut uuids = Pending::new(8, IdFormat::Uuid);
    let id = uuids.insert((), None).unwrap();
    assert_eq!(
        written(|out| encode::call(out, id, "m", &()).unwrap()),
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#)
    );
}

#[test]
fn what_is_prepared_can_be_written_under_many_ids() {
    let add = encode::prepare(b"old".to_vec(), "add", &(1, 2)).unwrap();
    for id in [1, 2] {
        let same = written(|out| encode::call(out, &RequestId::from(id), "add", &(1, 2)).unwrap());
        assert_eq!(written(|out| add.call(out, &RequestId::from(id))), same);
    }
    let same = written(|out| encode::notification(out, "add", &(1, 2)).unwrap());
    assert_eq!(written(|out| add.notification(out)), same);
    assert!(encode::prepare(Vec::new(), " ", &()).is_err());
    assert!(encode::prepare(Vec::new(), "sum", &7).is_err());
    assert!(encode::prepare(Vec::new(), "sum", &Broken).is_err());
}

proptest! {
    /// Proves: C31
    #[test]
    fn what_is_written_reads_back(id in any::<i64>(), method in "\\PC*[a-z]", a in any::<f64>(), b in ".*") {
        prop_assume!(a.is_finite());
        let id = RequestId::from(id);
        let mut out = BytesMut::new();
        encode::call(&mut out, &id, &method, &(a, &b)).unwrap();
        let policy = Policy::default();
        let Message::Request(request) = decode(&out, &policy) else { panic!("a request") };
        prop_assert_eq!(&request.method, &method);
        prop_assert_eq!(request.id.to_request_id().unwrap(), Some(id));
        prop_assert_eq!(request.params.unwrap().read::<(f64, String)>().unwrap(), (a, b));
    }
}

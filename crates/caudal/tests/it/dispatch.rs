//! Message to reply without a connection: the rules of requests, notifications
//! and batches.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::Log;
use caudal::middleware::{self, IncomingCall, Next};
use caudal::{Context, JsonRpcError, Method, RawValue, RegisterError, Router, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Difference {
    minuend: i64,
    subtrahend: i64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Subtract {
    Positional(i64, i64),
    Named(Difference),
}

fn router() -> Router {
    Router::new()
        .method("subtract", |params: Subtract| {
            let (Subtract::Positional(a, b)
            | Subtract::Named(Difference {
                minuend: a,
                subtrahend: b,
            })) = params;
            Ok(a - b)
        })
        .method("sum", |numbers: Vec<i64>| async move {
            Ok(numbers.iter().sum::<i64>())
        })
        .method("notify_hello", |_: (i64,)| ())
        .method("get_data", || Ok(("hello", 5)))
        .method("later", |(n,): (u64,)| async move {
            // The first is answered last.
            tokio::time::sleep(Duration::from_millis(10 - n)).await;
            Ok(n)
        })
}

async fn handle(router: &Router, message: &str) -> Option<Value> {
    let answer = router.handle(message.as_bytes()).await?;
    Some(serde_json::from_slice(&answer).unwrap())
}

/// Proves: J5, J9, J13, J22, J23, A20
#[tokio::test(start_paused = true)]
async fn the_specifications_transcript_is_answered() {
    let transcript = r#"
--> {"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}
<-- {"jsonrpc": "2.0", "result": 19, "id": 1}
--> {"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}
<-- {"jsonrpc": "2.0", "result": 19, "id": 3}
--> {"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}
--> {"jsonrpc": "2.0", "method": "foobar"}
--> {"jsonrpc": "2.0", "method": "foobar", "id": "1"}
<-- {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}
--> {"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]
<-- {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}
--> {"jsonrpc": "2.0", "method": 1, "params": "bar"}
<-- {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
--> []
<-- {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}
--> [1]
<-- [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}]
--> [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}, {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}, {"foo": "boo"}, {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"}, {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]
<-- [{"jsonrpc": "2.0", "result": 7, "id": "1"}, {"jsonrpc": "2.0", "result": 19, "id": "2"}, {"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}, {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"}, {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}]
--> [{"jsonrpc": "2.0", "method": "notify_hello", "params": [1]}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]
"#;
    let router = router();
    let mut lines = transcript.lines().skip(1).peekable();
    while let Some(line) = lines.next() {
        let sent = line.strip_prefix("--> ").unwrap();
        let expected: Option<Value> = lines
            .next_if(|line| line.starts_with("<-- "))
            .map(|line| serde_json::from_str(&line[4..]).unwrap());
        let mut answer = handle(&router, sent).await;
        plain(answer.as_mut());
        assert_eq!(answer, expected, "{sent}");
    }
}

/// Cuts what our errors say beyond the specification's text.
fn plain(answer: Option<&mut Value>) {
    match answer {
        Some(Value::Array(answers)) => answers.iter_mut().for_each(|answer| plain(Some(answer))),
        Some(answer) => {
            if let Some(error) = answer.get_mut("error") {
                error.as_object_mut().unwrap().remove("data");
                let text = error["message"].as_str().unwrap();
                error["message"] = text.split(':').next().unwrap().into();
            }
        }
        None => {}
    }
}

/// Proves: J23, A28
#[tokio::test(start_paused = true)]
async fn a_batch_runs_at_once_and_is_answered_in_order() {
    let calls: Vec<_> = (0..8)
        .map(|n| json!({"jsonrpc": "2.0", "id": n, "method": "later", "params": [n]}))
        .collect();
    let begun = tokio::time::Instant::now();
    let answer = handle(&router(), &json!(calls).to_string()).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_millis(12),
        "they ran one after another"
    );
    let results: Vec<_> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["result"].as_u64().unwrap())
        .collect();
    assert_eq!(results, [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// Proves: J10, J30
#[tokio::test]
async fn whatever_goes_wrong_inside_is_answered_and_not_told() {
    struct Broken;
    impl Serialize for Broken {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("secret-1"))
        }
    }
    struct Panicking;
    impl Serialize for Panicking {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("secret-2")
        }
    }
    let router = Router::new()
        .method("broken", || Ok(Broken))
        .method("panicking", || async { Ok(Panicking) })
        .method("panics", |(): ()| -> Result<(), JsonRpcError> {
            panic!("secret-3")
        })
        .method("panics_async", || async {
            tokio::task::yield_now().await;
            if true {
                panic!("secret-4");
            }
            Ok(())
        })
        .method(
            "panics_blocking",
            Method::blocking(|| -> Result<(), JsonRpcError> { panic!("secret-5") }),
        )
        .method("fine", || Ok(1));
    for method in [
        "broken",
        "panicking",
        "panics",
        "panics_async",
        "panics_blocking",
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method}).to_string();
        let answer = router.handle(call.as_bytes()).await.unwrap();
        let text = std::str::from_utf8(&answer).unwrap();
        assert!(!text.contains("secret"), "{method}: {text}");
        let answer: Value = serde_json::from_str(text).unwrap();
        assert_eq!(answer["error"]["code"], -32603, "{method}");
        assert_eq!(answer["error"]["message"], "Internal error");
        assert_eq!(
            answer["error"]["data"]["correlation"]
                .as_str()
                .unwrap()
                .len(),
            16
        );
        assert_eq!(answer["id"], 7);
        // As a notification it is not answered, and neither is it in a batch.
        let notification = json!({"jsonrpc": "2.0", "method": method}).to_string();
        assert_eq!(handle(&router, &notification).await, None, "{method}");
        let batch =
            format!(r#"[{call},{{"jsonrpc":"2.0","id":8,"method":"fine"}},{notification}]"#);
        let answer = handle(&router, &batch).await.unwrap();
        assert_eq!(answer[0]["error"]["code"], -32603);
        assert_eq!(answer[1]["result"], 1);
        assert_eq!(answer.as_array().unwrap().len(), 2);
    }
}

/// Proves: J15
#[tokio::test(start_paused = true)]
async fn syntax_comes_before_shape_shape_before_method_method_before_params() {
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let router = Router::new().method("m", move |(n,): (i64,)| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(n)
    });
    for (message, code) in [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1]} x"#,
            -32700,
        ),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"nope","params":[1]}"#,
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1],"method":"m"}"#,
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"nope","params":["x"]}"#,
            -32601,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":["x"]}"#,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1,2]}"#,
            -32602,
        ),
    ] {
        let answer = handle(&router, message).await.unwrap();
        assert_eq!(answer["error"]["code"], code, "{message}");
    }
    assert_eq!(
        ran.load(Ordering::SeqCst),
        0,
        "a handler ran for a message that is not valid"
    );
    let answer = handle(
        &router,
        r#"{"params":[5],"method":"m","id":1,"jsonrpc":"2.0"}"#,
    )
    .await;
    assert_eq!(answer.unwrap()["result"], 5);
}

#[tokio::test(start_paused = true)]
async fn wrong_params_are_explained_to_their_sender() {
    let plain = Router::new()
        .method("add", |(a, b): (i64, i64)| Ok(a + b))
        .method("none", || Ok(()));
    let layered = plain
        .clone()
        .layer(middleware::from_fn(|call, next: Next| next.run(call)));
    for (method, params, reason) in [
        ("add", "[1,2,3]", "expected 2 params, found 3"),
        ("add", "[1]", "expected 2 params, found 1"),
        ("add", "{}", "expected an array of 2, found an object"),
        ("add", "null", "`params` is missing"),
        (
            "add",
            "[1, 1.5]",
            "invalid type: floating point `1.5`, expected i64",
        ),
        ("none", "[1]", "this method takes no params"),
    ] {
        for (router, before) in [(&plain, true), (&plain, false), (&layered, true)] {
            let call = match before {
                true => {
                    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1}}"#)
                }
                false => {
                    format!(r#"{{"jsonrpc":"2.0","params":{params},"id":1,"method":"{method}"}}"#)
                }
            };
            let answer = handle(router, &call).await.unwrap();
            assert_eq!(answer["error"]["code"], -32602, "{call}");
            assert_eq!(answer["error"]["data"], reason, "{call}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_without_params_takes_none_in_any_spelling() {
    let router = Router::new().method("none", || Ok(1));
    for params in [
        "",
        r#","params":null"#,
        r#","params":[]"#,
        r#","params":{}"#,
    ] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"none"{params}}}"#);
        assert_eq!(
            handle(&router, &call).await.unwrap()["result"],
            1,
            "{params}"
        );
    }
    for params in [r#","params":[1]"#, r#","params":{"a":1}"#] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"none"{params}}}"#);
        assert_eq!(
            handle(&router, &call).await.unwrap()["error"]["code"],
            -32602,
            "{params}"
        );
    }
}

/// Proves: J24
#[test]
fn what_cannot_be_registered_is_refused_and_says_why() {
    let mut router = Router::new().method("a", || Ok(()));
    let long = "x".repeat(257);
    for (name, error) in [
        ("a", RegisterError::Twice("a".into())),
        ("rpc.a", RegisterError::Reserved("rpc.a".into())),
        ("", RegisterError::Blank),
        (" \t", RegisterError::Blank),
        (&long, RegisterError::TooLong(257)),
    ] {
        assert_eq!(router.try_method(name, || Ok(())), Err(error));
    }
    assert!(router.try_method(&long[..256], || Ok(())).is_ok());
    for build in [
        (|| Router::new().method("rpc.x", || Ok(()))) as fn() -> Router,
        || Router::new().method("a", || Ok(())).method("a", || Ok(())),
        || {
            Router::new()
                .method("a", || Ok(()))
                .merge(Router::new().method("a", || Ok(())))
        },
        || Router::new().namespace("rpc.", Router::new().method("a", || Ok(()))),
        || {
            Router::new()
                .fallback(|| Ok(()))
                .merge(Router::new().fallback(|| Ok(())))
        },
        || Router::new().namespace("a.", Router::new().fallback(|| Ok(()))),
    ] {
        assert!(std::panic::catch_unwind(build).is_err());
    }
}

#[test]
fn routers_that_clash_name_every_method_in_order() {
    let names = ["d", "b", "a", "c"];
    let register = |names: &[&str]| {
        let mut router = Router::new();
        for name in names {
            router.try_method(name, || Ok(())).unwrap();
        }
        router
    };
    let clash = std::panic::catch_unwind(|| register(&names).merge(register(&names[..3])));
    let text = clash.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(
        *text,
        "both routers have `a`, `b`, `d`; rename them, or use another namespace"
    );
    let error = register(&["a"]).try_method("a", || Ok(())).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[tokio::test(start_paused = true)]
async fn routers_are_merged_named_and_replaced() {
    let calc = Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b));
    let router = Router::new()
        .method("version", || Ok(1))
        .merge(Router::new().method("ping", || Ok("pong")))
        .namespace("calc.", calc)
        .replace("version", || Ok(2))
        .fallback(|cx: Context, params: Option<Box<RawValue>>| {
            Ok(format!(
                "{} {}",
                cx.method(),
                params.map_or("-".to_owned(), |p| p.to_string())
            ))
        });
    for (method, params, result) in [
        ("version", "[]", json!(2)),
        ("ping", "[]", json!("pong")),
        ("calc.add", "[1,2]", json!(3)),
        ("any thing", "[1.50]", json!("any thing [1.50]")),
    ] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        assert_eq!(handle(&router, &call).await.unwrap()["result"], result);
    }
    // Nobody serves what belongs to the specification, or is too long for a name.
    for name in ["rpc.any".to_owned(), "x".repeat(257)] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}"}}"#);
        assert_eq!(
            handle(&router, &call).await.unwrap()["error"]["code"],
            -32601
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_has_a_time_of_its_own_without_a_connection_too() {
    let slow = || async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    };
    let slow = Method::new(slow).timeout(Duration::from_millis(50));
    let router = Router::new().method("slow", slow);
    let answer = handle(&router, r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#).await;
    assert_eq!(answer.unwrap()["error"]["code"], -32001);
}

#[tokio::test(start_paused = true)]
async fn json_that_is_text_already_is_passed_on_to_the_letter() {
    let router = Router::new().method("echo", |params: Box<RawValue>| Ok(params));
    let params = r#"{"b":1.50,"a":[1e400,0.1000000000000000055],"a":"\u0041"}"#;
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{params}}}"#);
    let answer = router.handle(call.as_bytes()).await.unwrap();
    let expected = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params}}}"#);
    assert_eq!(std::str::from_utf8(&answer).unwrap(), expected);
}

/// Without a connection nobody can be called, and that is said at once.
#[tokio::test(start_paused = true)]
async fn a_handler_without_a_connection_is_told_so() {
    let router = Router::new().method("back", |cx: Context| async move {
        let error = cx.peer().call::<()>("x", ()).await.unwrap_err();
        Ok(std::error::Error::source(&error).unwrap().to_string())
    });
    let answer = handle(&router, r#"{"jsonrpc":"2.0","id":1,"method":"back"}"#)
        .await
        .unwrap();
    assert!(
        answer["result"]
            .as_str()
            .unwrap()
            .contains("no connection to call back on"),
        "{answer}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_each_call_of_a_batch_and_unknown_methods_too() {
    let log = Log::default();
    let seen = log.clone();
    let watch = middleware::from_fn(move |call: IncomingCall, next: Next| {
        let seen = seen.clone();
        async move {
            let what = format!(
                "{} {}",
                call.method(),
                call.params().map_or("-", RawValue::get)
            );
            let id = call.context().id().map(|id| id.to_string());
            let result = next.run(call).await;
            let outcome = match &result {
                Ok(value) => value.get().to_owned(),
                Err(error) => error.code.to_string(),
            };
            seen.add(format!("{what} {id:?} = {outcome}"));
            result
        }
    });
    let deny = middleware::from_fn(|call: IncomingCall, next: Next| async move {
        match call.method() {
            "secret" => Err(JsonRpcError::new(-32_003, "Forbidden")),
            _ => next.run(call).await,
        }
    });
    let router = Router::new()
        .method("add", |(a, b): (i64, i64)| async move { Ok(a + b) })
        .method("secret", || Ok("treasure"))
        .layer(deny)
        .layer(watch);
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]},
        {"jsonrpc":"2.0","method":"add","params":[3,4]},
        {"jsonrpc":"2.0","id":"s","method":"secret"},
        {"jsonrpc":"2.0","id":2,"method":"nope"},
        {"jsonrpc":"2.0","id":3,"method":"add","params":["x"]}]"#;
    let answer = handle(&router, batch).await.unwrap();
    assert_eq!(
        log.take(),
        [
            r#"add [1,2] Some("1") = 3"#,
            "add [3,4] None = 7",
            r#"secret - Some("\"s\"") = -32003"#,
            r#"nope - Some("2") = -32601"#,
            r#"add ["x"] Some("3") = -32602"#,
        ]
    );
    assert_eq!(answer.as_array().unwrap().len(), 4);
    assert_eq!(answer[0]["result"], 3);
    assert_eq!(answer[1]["error"]["code"], -32003);
}

/// A layer around one router does not reach the methods of another.
#[tokio::test(start_paused = true)]
async fn layers_belong_to_the_methods_they_were_put_around() {
    let double = middleware::from_fn(|call: IncomingCall, next: Next| async move {
        call.context().extensions().insert(2_i64);
        next.run(call).await
    });
    let seen = |cx: Context| Ok(cx.extensions().get::<i64>().map(|n| *n));
    let inner = Router::new().method("in", seen).layer(double);
    let router = Router::new().method("out", seen).merge(inner);
    for (method, result) in [("in", json!(2)), ("out", Value::Null)] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
        assert_eq!(handle(&router, &call).await.unwrap()["result"], result);
    }
}

/// A counter that methods share.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn add(&self, n: usize) -> usize {
        self.0.fetch_add(n, Ordering::SeqCst) + n
    }
}

#[tokio::test]
async fn methods_of_all_shapes_share_the_state_of_their_router() {
    let router = Router::with_state(Counter::default())
        .method("plain", |counter: State<Counter>, (n,): (usize,)| {
            Ok(counter.add(n))
        })
        .method("async", |counter: State<Counter>| async move {
            Ok(counter.add(1))
        })
        .method(
            "all",
            |counter: State<Counter>, cx: Context, (n,): (usize,)| async move {
                Ok((cx.method().to_owned(), counter.add(n)))
            },
        )
        .method("other order", |cx: Context, counter: State<Counter>| {
            Ok((cx.method().len(), counter.add(0)))
        })
        .method(
            "blocking",
            Method::blocking(|counter: State<Counter>, (n,): (usize,)| Ok(counter.add(n))),
        )
        .method("none", || Ok(0));
    let router = Router::new()
        .namespace("one ", router.clone())
        .merge(router);
    for (method, params, result) in [
        ("plain", json!([2]), json!(2)),
        ("async", json!([]), json!(3)),
        ("one all", json!([4]), json!(["one all", 7])),
        ("blocking", json!([5]), json!(12)),
        ("other order", json!({}), json!([11, 12])),
        ("none", json!([]), json!(0)),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply = handle(&router, &request.to_string()).await.unwrap();
        assert_eq!(reply["result"], result, "{method}: {reply}");
    }
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"async","params":[1]}"#;
    let reply = handle(&router, request).await.unwrap();
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
}

/// The errors of an application.
#[derive(Debug)]
enum AppError {
    NotFound(u64),
    Number(std::num::ParseIntError),
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Number(error)
    }
}

impl From<AppError> for JsonRpcError {
    fn from(error: AppError) -> Self {
        match error {
            AppError::NotFound(id) => Self::new(1, "not found").and_data(id),
            AppError::Number(error) => Self::new(2, error.to_string()),
        }
    }
}

#[tokio::test]
async fn errors_of_an_application_are_converted() {
    let router = Router::new()
        .error_type::<AppError>()
        .method("find", |(id,): (u64,)| match id {
            0 => Err(AppError::NotFound(id)),
            _ => Ok(id),
        })
        .method("parse", |(text,): (String,)| async move {
            Ok(text.parse::<u8>()?)
        })
        .method(
            "parse blocking",
            Method::blocking(|(text,): (String,)| Ok(text.parse::<u8>()?)),
        );
    let layered = router.clone().layer(middleware::from_fn(
        |call: IncomingCall, next: Next| async move { next.run(call).await },
    ));
    let plain = Router::new().method("plain", || Err::<(), _>(JsonRpcError::new(3, "plain")));
    let router = plain.namespace("layered ", layered).merge(router);
    let found = |code: i32, message: &str| json!({"code": code, "message": message});
    let number = found(2, "invalid digit found in string");
    for (method, params, error) in [
        (
            "find",
            json!([0]),
            json!({"code": 1, "message": "not found", "data": 0}),
        ),
        ("parse", json!(["x"]), number.clone()),
        ("layered parse", json!(["x"]), number.clone()),
        ("parse blocking", json!(["x"]), number.clone()),
        ("layered parse blocking", json!(["x"]), number),
        ("plain", json!([]), found(3, "plain")),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let reply = handle(&router, &request.to_string()).await.unwrap();
        assert_eq!(reply["error"], error, "{method}: {reply}");
    }
}

//! Trace contexts: where they are read and written, and where they are not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::sync::Arc;

use crate::support::{Log, Raw};
use caudal::middleware::{self, IncomingCall, Next};
use caudal::{
    CallError, Config, Context, ExtraMembers, Method, Peer, RawValue, Router, TraceContext,
    TracePlace,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const A: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const B: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

fn at(place: TracePlace) -> Config {
    let mut config = Config::default();
    config.trace = place;
    config
}

fn trace() -> TraceContext {
    TraceContext::new(A).unwrap().with_state("vendor=\"1\"")
}

/// The result of an answer, which must have one.
fn result(answer: &Value) -> &Value {
    answer
        .get("result")
        .unwrap_or_else(|| panic!("no result: {answer}"))
}

/// What a handler sees: `[parent, state]`, or null.
fn seen(cx: &Context) -> Value {
    match cx.trace() {
        Some(trace) => json!([trace.parent(), trace.state()]),
        None => Value::Null,
    }
}

/// Handlers that say what they see, at once, later, and to the log; `slow` is a
/// notification that takes a permit, and `wait` a request that does.
fn router(log: &Log, gate: &Arc<Semaphore>) -> Router {
    let (log, slow, wait) = (log.clone(), Arc::clone(gate), Arc::clone(gate));
    Router::new()
        .method("see", |cx: Context, _: Box<RawValue>| Ok(seen(&cx)))
        .method("bare", |cx: Context| Ok(seen(&cx)))
        .method("later", |cx: Context, _: Box<RawValue>| async move {
            tokio::task::yield_now().await;
            Ok(seen(&cx))
        })
        .method(
            "blocking",
            Method::blocking(|cx: Context, _: Box<RawValue>| Ok(seen(&cx))),
        )
        .method("params", |params: Option<Box<RawValue>>| Ok(params))
        .method("wait", move || {
            let gate = Arc::clone(&wait);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
        })
        .method("slow", move || {
            let gate = Arc::clone(&slow);
            async move { gate.acquire().await.unwrap().forget() }
        })
        .method("note", move |cx: Context, _: Box<RawValue>| {
            log.add(seen(&cx).to_string());
        })
}

struct World {
    peer: Peer,
    raw: Raw,
    log: Log,
    gate: Arc<Semaphore>,
}

fn world(config: Config) -> World {
    let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let (peer, raw) = Raw::serve(router(&log, &gate), config);
    World {
        peer,
        raw,
        log,
        gate,
    }
}

/// A message with a context in this place; without an id if it is 0.
fn message(place: TracePlace, id: u64, method: &str, parent: &str) -> String {
    let members = format!(r#""traceparent":"{parent}","tracestate":"s={id}""#);
    let id = match id {
        0 => String::new(),
        id => format!(r#""id":{id},"#),
    };
    match place {
        TracePlace::Meta => format!(
            r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{{"x":1,"_meta":{{"p":[],{members}}}}}}}"#
        ),
        _ => format!(
            r#"{{{members},"jsonrpc":"2.0",{id}"method":"{method}","params":{{"x":1,"_meta":{{}}}}}}"#
        ),
    }
}

const BOTH: [TracePlace; 2] = [TracePlace::TopLevel, TracePlace::Meta];

#[tokio::test(start_paused = true)]
async fn it_is_neither_read_nor_written_by_default() {
    let mut world = world(Config::default());
    for place in BOTH {
        world.raw.send(&message(place, 1, "see", A)).await;
        assert_eq!(result(&world.raw.json().await), &Value::Null);
        world
            .raw
            .send(&format!("[{}]", message(place, 1, "see", A)))
            .await;
        assert_eq!(result(&world.raw.json().await[0]), &Value::Null);
    }
    let trace = trace();
    let call = world.peer.call::<()>("m", json!({"a": 1}));
    let (called, line) = tokio::join!(call.trace(&trace), async {
        let line = world.raw.line().await;
        world
            .raw
            .send(r#"{"jsonrpc":"2.0","id":1,"result":null}"#)
            .await;
        line
    });
    called.unwrap();
    assert_eq!(
        line,
        r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#
    );
}

#[tokio::test]
async fn requests_and_notifications_have_theirs() {
    for place in BOTH {
        let mut world = world(at(place));
        for method in ["see", "later", "blocking"] {
            world.raw.send(&message(place, 7, method, A)).await;
            assert_eq!(result(&world.raw.json().await), &json!([A, "s=7"]));
        }
        world.raw.send(&message(place, 0, "note", B)).await;
        // The next has none, and does not get that of the last.
        world
            .raw
            .send(r#" {"jsonrpc":"2.0","id":1,"method":"see","params":[]}"#)
            .await;
        assert_eq!(result(&world.raw.json().await), &Value::Null);
        assert_eq!(world.log.take(), [json!([B, "s=0"]).to_string()]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_not_looked_for_in_the_other_place() {
    for (place, other) in [
        (TracePlace::TopLevel, TracePlace::Meta),
        (TracePlace::Meta, TracePlace::TopLevel),
    ] {
        let mut world = world(at(place));
        world.raw.send(&message(other, 1, "see", A)).await;
        assert_eq!(result(&world.raw.json().await), &Value::Null);
    }
}

/// Responses, and what is not valid, stand between them.
fn batch(place: TracePlace) -> String {
    format!(
        r#"[{{"jsonrpc":"2.0","id":99,"result":0}},7,{},{{"traceparent":"{A}"}},{},
        {{"jsonrpc":"2.0","id":3,"method":"see","params":[]}},{},{{"jsonrpc":"2.0","id":98,"result":0}},{}]"#,
        message(place, 1, "see", A),
        message(place, 0, "note", B),
        message(place, 4, "later", B),
        message(place, 5, "see", A),
    )
    .replace('\n', " ")
}

fn check_batch(answer: &Value, log: &Log) {
    let answers = answer.as_array().unwrap();
    let results: Vec<_> = answers
        .iter()
        .filter(|answer| !answer["id"].is_null())
        .map(|answer| json!([answer["id"], result(answer)]))
        .collect();
    let expected = json!([[1, [A, "s=1"]], [3, null], [4, [B, "s=4"]], [5, [A, "s=5"]]]);
    assert_eq!(Value::from(results), expected);
    assert_eq!(log.take(), [json!([B, "s=0"]).to_string()]);
}

#[tokio::test(start_paused = true)]
async fn each_entry_of_a_batch_has_its_own() {
    for place in BOTH {
        let mut world = world(at(place));
        world.raw.send(&batch(place)).await;
        check_batch(&world.raw.json().await, &world.log);
    }
}

#[tokio::test(start_paused = true)]
async fn it_waits_in_the_queue_with_its_message() {
    for place in BOTH {
        let mut world = world(at(place));
        world.raw.send(r#"{"jsonrpc":"2.0","method":"slow"}"#).await;
        world.raw.send(&message(place, 7, "see", A)).await;
        world.raw.send(&batch(place)).await;
        world.raw.silence().await;
        world.gate.add_permits(1);
        assert_eq!(result(&world.raw.json().await), &json!([A, "s=7"]));
        check_batch(&world.raw.json().await, &world.log);
    }
}

/// A request that is refused takes its context with it.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_partly_refused_keeps_them_apart() {
    for place in BOTH {
        let mut config = at(place);
        config.in_flight = 1;
        let mut world = world(config);
        world
            .raw
            .send(r#"{"jsonrpc":"2.0","id":1,"method":"wait"}"#)
            .await;
        let response = r#"{"jsonrpc":"2.0","id":99,"result":0}"#;
        let refused = message(place, 2, "see", A);
        let note = message(place, 0, "note", B);
        world
            .raw
            .send(&format!("[{response},{refused},{note}]"))
            .await;
        assert_eq!(world.raw.json().await[0]["error"]["code"], -32_000);
        assert_eq!(world.log.take(), [json!([B, "s=0"]).to_string()]);
        world.gate.add_permits(1);
        assert_eq!(world.raw.json().await["id"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn layers_and_routers_without_a_connection_see_it() {
    for place in BOTH {
        let log = Log::default();
        let seen_by_layer = log.clone();
        let layer = middleware::from_fn(move |call: IncomingCall, next: Next| {
            seen_by_layer.add(seen(call.context()).to_string());
            next.run(call)
        });
        let router = Router::new()
            .method("see", |cx: Context, _: Box<RawValue>| Ok(seen(&cx)))
            .layer(layer)
            .handle_config(at(place));
        let answer = router.handle(message(place, 7, "see", A).as_bytes()).await;
        let answer: Value = serde_json::from_slice(&answer.unwrap()).unwrap();
        assert_eq!(result(&answer), &json!([A, "s=7"]));
        assert_eq!(log.take(), [json!([A, "s=7"]).to_string()]);
    }
}

#[test]
fn only_what_the_w3c_describes_is_a_context() {
    let later = format!("01{}-more", &A[2..]);
    for right in [A, B, &later, &format!("cc{}", &A[2..])] {
        assert_eq!(TraceContext::new(right).unwrap().parent(), right);
    }
    let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
    let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
    for wrong in [
        "",
        "00-1-2-01",
        &A[..54],
        &format!("{A}0"),
        &format!("{A}-more"),
        &format!("01{}more", &A[2..]),
        &format!("01{}-{}", &A[2..], "x".repeat(512)),
        &format!("01{}-é", &A[2..]),
        &format!("ff{}", &A[2..]),
        &format!(" {A}"),
        &A.to_uppercase(),
        &A.replace('-', "_"),
        &zero_trace,
        &zero_span,
    ] {
        assert_eq!(TraceContext::new(wrong), None, "{wrong}");
    }
    let state = |state: &str| TraceContext::new(A).unwrap().with_state(state);
    assert_eq!(state("a=1,b=2").state(), Some("a=1,b=2"));
    let longest = "x".repeat(512);
    assert_eq!(state(&longest).state(), Some(&*longest));
    for dropped in ["", "a=é", "a=\u{7f}", "a=\n", &"x".repeat(513)] {
        assert_eq!(state(dropped).state(), None, "{dropped}");
        assert_eq!(state(dropped).parent(), A);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_counts_as_none() {
    let right = format!(r#""traceparent":"{A}""#);
    let cases = [
        (r#""traceparent":"00-1-2-01""#.to_owned(), Value::Null),
        (r#""traceparent":7"#.to_owned(), Value::Null),
        (r#""traceparent":null"#.to_owned(), Value::Null),
        (r#""tracestate":"a=1""#.to_owned(), Value::Null),
        (format!(r#""traceparent":["{A}"]"#), Value::Null),
        (format!("{right},{right}"), Value::Null),
        // What is wrong with the one does no harm to the other.
        (format!(r#"{right},"tracestate":7"#), json!([A, null])),
        (format!(r#"{right},"tracestate":null"#), json!([A, null])),
        (format!(r#"{right},"tracestate":"\n""#), json!([A, null])),
        (
            format!(r#"{right},"tracestate":"{}""#, "x".repeat(513)),
            json!([A, null]),
        ),
        // Spelled otherwise, it is the same.
        (
            format!(r#""\u0074raceparent" : "\u0030{}""#, &A[1..]),
            json!([A, null]),
        ),
        (right.clone(), json!([A, null])),
    ];
    for place in BOTH {
        let mut world = world(at(place));
        for (members, expected) in &cases {
            let (top, params) = match place {
                TracePlace::Meta => ("", format!(r#"{{"x":1,"_meta":{{{members}}}}}"#)),
                _ => (&**members, "[]".to_owned()),
            };
            let comma = if top.is_empty() { "" } else { "," };
            world
                .raw
                .send(&format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"see","params":{params}{comma}{top}}}"#
                ))
                .await;
            let answer = world.raw.json().await;
            assert_eq!(result(&answer), expected, "{members}");
        }
    }
}

/// Serde would read an array as a struct, member by member.
#[tokio::test(start_paused = true)]
async fn an_array_is_no_meta() {
    let mut world = world(at(TracePlace::Meta));
    for params in [
        format!(r#"[{{"traceparent":"{A}"}}]"#),
        format!(r#"{{"_meta":["{A}","a=1"]}}"#),
        format!(r#"{{"_meta":"{A}"}}"#),
        format!(r#"{{"_meta":{{"traceparent":"{A}"}},"_meta":{{}}}}"#),
    ] {
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"see","params":{params}}}"#);
        world.raw.send(&request).await;
        let answer = world.raw.json().await;
        assert_eq!(result(&answer), &Value::Null, "{params}");
    }
}

#[tokio::test(start_paused = true)]
async fn params_that_hold_nothing_else_count_as_none() {
    let mut world = world(at(TracePlace::Meta));
    let both = format!(r#"{{"traceparent":"{A}","tracestate":"a=1"}}"#);
    let one = format!(r#"{{"traceparent":"{A}"}}"#);
    let more = format!(r#"{{"traceparent":"{A}","token":1}}"#);
    for (meta, method, expected) in [
        (&both, "bare", json!([A, "a=1"])),
        (&one, "bare", json!([A, null])),
        (&both, "params", Value::Null),
        (
            &more,
            "params",
            json!({"_meta": {"traceparent": A, "token": 1}}),
        ),
    ] {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{meta}}}}}"#
        );
        world.raw.send(&request).await;
        let answer = world.raw.json().await;
        assert_eq!(result(&answer), &expected, "{request}");
    }
}

/// Makes a call with a context and returns what is sent after its method.
async fn sent(world: &mut World, params: &str) -> String {
    let trace = trace();
    let params = RawValue::from_string(params.to_owned()).unwrap();
    let call = world.peer.call_raw("m", Some(&params)).trace(&trace);
    let answered = async {
        let line = world.raw.line().await;
        let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": null});
        world.raw.send(&answer.to_string()).await;
        line
    };
    let (called, line) = tokio::join!(call, answered);
    called.unwrap();
    line.split_once(r#""method":"m","#).unwrap().1.to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_call_writes_it_at_the_top_level() {
    let mut world = world(at(TracePlace::TopLevel));
    let members = format!(r#""traceparent":"{A}","tracestate":"vendor=\"1\""}}"#);
    for params in ["[1]", r#"{"a":1.50}"#, "{}"] {
        assert_eq!(
            sent(&mut world, params).await,
            format!(r#""params":{params},{members}"#)
        );
    }
    assert_eq!(sent(&mut world, "null").await, members);
}

#[tokio::test(start_paused = true)]
async fn a_call_writes_it_into_meta() {
    let mut world = world(at(TracePlace::Meta));
    let members = format!(r#""traceparent":"{A}","tracestate":"vendor=\"1\"""#);
    for (params, expected) in [
        ("null", format!(r#"{{"_meta":{{{members}}}}}"#)),
        ("{ }", format!(r#"{{"_meta":{{{members}}} }}"#)),
        (
            r#"{"b":1.50,"a":"_meta"}"#,
            format!(r#"{{"_meta":{{{members}}},"b":1.50,"a":"_meta"}}"#),
        ),
        (
            r#"{"a":{"t":1},"_meta":{"t":1},"z":0}"#,
            format!(r#"{{"a":{{"t":1}},"_meta":{{{members},"t":1}},"z":0}}"#),
        ),
        (
            r#"{"\u005fmeta" : null}"#,
            format!(r#"{{"\u005fmeta" : {{{members}}}}}"#),
        ),
    ] {
        assert_eq!(
            sent(&mut world, params).await,
            format!(r#""params":{expected}}}"#)
        );
    }
    // There is no room for it, or the caller has said otherwise.
    for params in [
        "[]",
        r#"[{"_meta":{}}]"#,
        r#"{"_meta":7}"#,
        r#"{"_meta":[]}"#,
        r#"{"_meta":{"traceparent":"mine"}}"#,
        r#"{"_meta":{"traceparent":null}}"#,
        r#"{"_meta":{"tracestate":"mine"}}"#,
    ] {
        assert_eq!(
            sent(&mut world, params).await,
            format!(r#""params":{params}}}"#)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_cannot_send_is_an_error_all_the_same() {
    for place in BOTH {
        let (peer, _other) = Peer::pair_with(Router::new(), Router::new(), &at(place));
        let trace = trace();
        let scalar = peer.call::<()>("m", 7).trace(&trace).await.unwrap_err();
        assert!(matches!(scalar, CallError::Encode(_)), "{scalar:?}");
        let map = std::collections::HashMap::from([((1, 2), 3)]);
        let keys = peer.call::<()>("m", map).trace(&trace).await.unwrap_err();
        assert!(matches!(keys, CallError::Encode(_)), "{keys:?}");
    }
}

/// There, back, and there again.
#[tokio::test(start_paused = true)]
async fn a_handler_passes_it_on() {
    for place in BOTH {
        let relay = Router::new().method("relay", |cx: Context| async move {
            Ok(cx
                .peer()
                .call::<Value>("name", ())
                .trace(cx.trace())
                .await?)
        });
        let named = Router::new().method("name", |cx: Context| async move { Ok(seen(&cx)) });
        let (peer, _other) = Peer::pair_with(named, relay, &at(place));
        let trace = trace();
        let answer: Value = peer.call("relay", ()).trace(&trace).await.unwrap();
        assert_eq!(answer, json!([A, "vendor=\"1\""]));
        // Without one there is none to pass on.
        let answer: Value = peer.call("relay", ()).await.unwrap();
        assert_eq!(answer, Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn who_rejects_unknown_members_rejects_it_at_the_top_level() {
    for (place, code) in [
        (TracePlace::TopLevel, json!(-32_600)),
        (TracePlace::Meta, Value::Null),
    ] {
        let mut config = at(place);
        config.policy.extra_members = ExtraMembers::Reject;
        let mut world = world(config);
        world.raw.send(&message(place, 1, "see", A)).await;
        let answer = world.raw.json().await;
        assert_eq!(answer["error"]["code"], code);
        if code.is_null() {
            assert_eq!(result(&answer), &json!([A, "s=1"]));
        }
    }
}
